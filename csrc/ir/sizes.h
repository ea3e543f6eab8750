// Code for the sizes of one entry: what arguments alone decide is decided once, and other entries decline.
#pragma once

#include <optional>
#include <span>

#include "ir/formula.h"
#include "ir/ir.h"

namespace appy::ir {

/// How the arguments decide a condition, and of what the region does from then on only under that: `condition` is what
/// holds, and it is checked at the start of the region, where nothing was written yet.
struct Settled {
  bool holds = false;
  Formula condition;
};
/// Nothing where it takes more than arguments. `args` as in runtime/kernel.h; addresses, strides and real numbers may
/// be anything.
std::optional<Settled> settle(Graph&, const Value& condition, std::span<const Word> args);

}  // namespace appy::ir
