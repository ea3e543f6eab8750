// Interval arithmetic on the integer and bool types of the graph.
#pragma once

#include <span>

#include "ir/ir.h"
#include "passes/affine.h"

namespace appy::passes {

/// Inclusive, lo <= hi. Wide, so that u64 and the exact result of an operation both fit.
struct Interval {
  Wide lo = 0;
  Wide hi = 0;
  bool single() const { return lo == hi; }
  bool contains(Wide v) const { return lo <= v && v <= hi; }
  bool inside(const Interval& outer) const { return outer.lo <= lo && hi <= outer.hi; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// All values of an integer or bool type.
Interval interval_of(ir::DType);
Interval hull(const Interval&, const Interval&);
/// The common part; `a` where there is none (the place is never reached).
Interval meet(const Interval& a, const Interval& b);

/// The exact result of add, sub or mul, before it wraps.
Interval exact(ir::Opcode, const Interval&, const Interval&);

/// Bounds of a pure op's integer or bool result; `operands` are meaningful where the operand is no float.
Interval transfer(const ir::Op&, std::span<const Interval> operands);

}  // namespace appy::passes
