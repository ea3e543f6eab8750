// Code for the sizes of one entry: what arguments alone decide is decided once, and other entries decline.
#pragma once

#include <optional>
#include <span>

#include "ir/ir.h"

namespace appy::ir {

/// Settles a condition as these arguments have it: whether it holds. A check at the start of the region, where nothing
/// was written yet, declines entries for which that is otherwise. Nothing where it takes more than arguments. `args` as
/// in runtime/kernel.h; addresses, strides and real numbers may be anything.
std::optional<bool> settle(Graph&, const Value& condition, std::span<const Word> args);

}  // namespace appy::ir
