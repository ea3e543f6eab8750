// What a frame's names are, by type: the memory of combinations that could not be compiled.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "runtime/signature.h"

namespace appy::runtime {

/// The exact types of all locals and cells and of the globals that the code names: arrays with dtype, rank and flags,
/// tuples by their elements; modules, functions and classes are themselves. Equal keys: a trace would most likely stop
/// at the same place. Addresses are not kept alive; one that was used again costs a trace that is not tried.
using TypeKey = std::vector<uintptr_t>;
TypeKey type_key(const Scope&);

}  // namespace appy::runtime
