// Code for the sizes of one entry: what arguments alone decide is decided once, and other entries decline.
#pragma once

#include <optional>
#include <span>

#include "ir/formula.h"
#include "ir/ir.h"

namespace appy::ir {

/// How arguments decide a condition: whether it holds, and what does, itself or that it does not. Of the latter there
/// is a check at the start of the region, where nothing was written yet.
struct Settled {
  bool holds = false;
  Formula condition;
};
/// Settles a condition as these arguments have it, and makes the check; nothing where it takes more than arguments.
/// `args` as in runtime/kernel.h; addresses, strides and real numbers may be anything.
std::optional<Settled> settle(Graph&, const Value& condition, std::span<const Word> args);

}  // namespace appy::ir
