// Leaves a region's results in the frame, with the types and the boundness that Python would have left.
#pragma once

#include <Python.h>

#include "ir/ir.h"
#include "runtime/arrays.h"
#include "runtime/signature.h"

namespace appy::runtime {

/// Writes every output from the result words, the entry's input objects and the arrays that were made. `exit` says how
/// the statement was left: the return value of that exit, where it has one, goes to `*returned` as a new reference.
/// False with a Python exception set.
bool write_outputs(const Signature&, const Scope&, const ir::Word* results, PyObject* const* objects,
                   const MadeArrays& arrays, int64_t exit, PyObject** returned);

}  // namespace appy::runtime
