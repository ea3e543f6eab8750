#include "passes/overlap.h"

#include <algorithm>
#include <set>

#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// `still`: values that were found not to move.
bool moves(const Value& v, const Op& loop, std::set<const Value*>& still) {
  if (ir::defined_outside(v, body_of(loop)) || !still.insert(&v).second) return false;
  if (!v.op) return v.index != 0 || !is_for(*v.block->owner) || v.block->owner == &loop;
  const bool pure = ir::is_pure(v.op->code);
  if (!pure && (v.op->code != Opcode::load_ || writes(*loop.blocks[0]))) return true;
  return std::any_of(v.op->operands.begin(), v.op->operands.end(),
                     [&](const Value* operand) { return moves(*operand, loop, still); });
}

}  // namespace

bool moves(const Value& v, const Op& loop) {
  std::set<const Value*> still;
  return moves(v, loop, still);
}

bool moves_access(const Op& access, const Op& loop) {
  return std::any_of(access.terms().begin(), access.terms().end(),
                     [&](const Value* term) { return moves(*term, loop); });
}

std::optional<Wide> slope(Ranges& ranges, const Value& bound, const Op& loop, const Op& where) {
  if (!moves(bound, loop)) return 0;
  if (bound.op && (bound.op->code == Opcode::pymin_ || bound.op->code == Opcode::pymax_)) {
    const auto x = slope(ranges, *bound.op->operands[0], loop, where);
    const auto y = slope(ranges, *bound.op->operands[1], loop, where);
    if (!x || !y || (*x != 0 && *y != 0)) return std::nullopt;
    return *x + *y;
  }
  const Affine sum = ranges.affine(bound, where);
  for (const auto& [atom, coef] : sum.terms) {
    if (atom != induction(loop) && moves(*atom, loop)) return std::nullopt;
  }
  return sum.coef(*induction(loop));
}

bool have_most_in_common(Ranges& ranges, const Op& inner, const Op& loop) {
  const auto lower = slope(ranges, *inner.operands[0], loop, inner);
  const auto upper = slope(ranges, *inner.operands[1], loop, inner);
  return lower && upper && (*lower == 0 || *upper == 0) && Wide(-1) <= *lower && *lower <= 1 && Wide(-1) <= *upper &&
         *upper <= 1;
}

}  // namespace appy::passes
