#include "passes/box.h"

#include <algorithm>
#include <set>
#include <vector>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

/// The least or the greatest of values, many of which are the same or known.
Value* outermost(ir::Builder& b, Opcode code, const std::vector<Value*>& of) {
  Value* found = nullptr;
  std::optional<int64_t> known;
  std::set<const Value*> seen;
  for (Value* v : of) {
    if (!seen.insert(v).second) continue;
    if (const auto n = constant(*v)) {
      known = !known ? *n : code == Opcode::pymin_ ? std::min(*known, *n) : std::max(*known, *n);
    } else {
      found = found ? b.op(code, {found, v}) : v;
    }
  }
  if (!known) return found;
  return found ? b.op(code, {found, b.i64(*known)}) : b.i64(*known);
}

}  // namespace

std::optional<Span> span_of(Ranges& ranges, Extremes& extremes, std::span<const ir::Op* const> accesses, size_t d) {
  ir::Builder& b = extremes.builder();
  std::vector<Value*> lows, highs;
  for (const ir::Op* access : accesses) {
    const auto bounds = extremes.of(row_at(ranges, *access, d, *access), *access);
    if (!bounds) return {};
    lows.push_back(bounds->lo);
    highs.push_back(bounds->hi);
  }
  Value* low = outermost(b, Opcode::pymin_, lows);
  Value* high = outermost(b, Opcode::pymax_, highs);
  const std::vector<Value*> overflows = extremes.take_overflows();
  Value* dim = b.dim(accesses.front()->view(), static_cast<int>(d));
  Value *zero = b.i64(0), *last = b.op(Opcode::sub_, {dim, b.i64(1)});
  const bool at_start = constant(*low) == 0 && overflows.empty();
  low = b.op(Opcode::pymax_, {low, zero});
  high = b.op(Opcode::pymin_, {high, last});
  for (Value* overflow : overflows) {
    low = b.select(overflow, zero, low);
    high = b.select(overflow, last, high);
  }
  Value* length = b.op(Opcode::add_, {at_start ? high : b.op(Opcode::sub_, {high, low}), b.i64(1)});
  return Span{at_start ? nullptr : low, b.op(Opcode::pymax_, {length, zero})};
}

}  // namespace appy::passes
