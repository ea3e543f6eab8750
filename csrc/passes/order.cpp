#include "passes/order.h"

#include <algorithm>

#include "passes/dependence.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr size_t kMostBounds = 8;

void find_bounds(Ranges& ranges, const Affine& sum, bool least, const Op& loop, int depth, std::vector<Affine>& found) {
  const auto inner = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
    return term.first != induction(loop) && !ir::defined_outside(*term.first, body_of(loop));
  });
  if (inner == sum.terms.end()) return found.push_back(sum);
  if (depth == 0 || found.size() >= kMostBounds) return;
  const auto [v, coef] = *inner;
  const auto instead = [&](const Value& bound, int64_t more, const Op& where) {
    Affine by = ranges.affine(bound, where), rest = sum;
    by.constant += more;
    rest.add(*v, -coef);
    rest.add(by, coef);
    find_bounds(ranges, rest, least, loop, depth - 1, found);
  };
  const bool of_least = (coef > 0) == least;
  if (v->op) {
    if (v->op->code != (of_least ? Opcode::pymax_ : Opcode::pymin_)) return;
    for (const Value* each : v->op->operands) instead(*each, 0, *v->op);
    return;
  }
  const Op* owner = v->block->owner;
  if (!owner || !is_for(*owner) || v->index != 0) return;
  const int64_t step = constant(*owner->operands[2]).value_or(0);
  if (step == 0) return;
  const bool at_first = of_least == (step > 0);
  instead(*owner->operands[at_first ? 0 : 1], at_first ? 0 : step > 0 ? -1 : 1, *owner);
}

}  // namespace

std::vector<Affine> bounds_of(Ranges& ranges, const Affine& sum, bool least, const Op& loop) {
  std::vector<Affine> found;
  find_bounds(ranges, sum, least, loop, 8, found);
  return found;
}

bool pinned(const Op& a, const Op& b, const Op& loop, const Block& fixed) {
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    const Affine x = row(a, d);
    if (x.coef(*induction(loop)) == 0) continue;
    Affine difference = x;
    difference.add(row(b, d), -1);
    if (!difference.is_constant() || difference.constant != 0) continue;
    const bool outside = std::all_of(x.terms.begin(), x.terms.end(), [&](const auto& term) {
      return term.first == induction(loop) || ir::defined_outside(*term.first, fixed);
    });
    if (outside) return true;
  }
  return false;
}

bool pinned(const Op& a, const Op& b, const Op& loop) { return pinned(a, b, loop, body_of(loop)); }

bool meet_in_one_iteration(const Op& a, const Op& b, const Op& loop) {
  if (pinned(a, b, loop)) return true;
  const Distance d = distance(a, b, loop);
  return d.kind == Distance::Kind::none || (d.kind == Distance::Kind::constant && d.iterations == 0);
}

bool is_earlier(Ranges& ranges, const Op& first, const Op& second, const Op& loop, bool or_in_same) {
  const Value& i = *induction(loop);
  const auto step = constant(*loop.operands[2]);
  if (!step) return false;
  for (size_t d = 0; d < first.access->offset.size(); ++d) {
    // Both move with the loop, and the first one is ahead.
    for (const bool up : {true, false}) {
      for (const Affine& nearest : bounds_of(ranges, row_at(ranges, first, d, first), up, loop)) {
        const Wide moves = nearest.coef(i) * *step * (up ? 1 : -1);
        if (moves <= 0) continue;
        for (const Affine& furthest : bounds_of(ranges, row_at(ranges, second, d, second), !up, loop)) {
          Affine ahead = nearest;
          ahead.add(furthest, -1);
          if (!ahead.is_constant()) continue;
          if ((up ? ahead.constant : -ahead.constant) + (or_in_same ? moves : 0) > 0) return true;
        }
      }
    }
  }
  return false;
}

bool comes_before(Op& first, Op& second, const Op& loop) {
  const Block* block = &body_of(loop);
  for (;;) {
    const Op *x = ancestor_in(*block, first), *y = ancestor_in(*block, second);
    if (x != y) {
      while (x && x != y) x = x->next;
      return x == y;
    }
    if (is_for(*x)) {
      if (!pinned(first, second, *x)) return false;
      block = &body_of(*x);
    } else {
      const auto arm = std::find_if(x->blocks.begin(), x->blocks.end(),
                                    [&](const Block* at) { return is_inside(first, *at) && is_inside(second, *at); });
      if (arm == x->blocks.end()) return true;  // of two arms one is executed
      block = *arm;
    }
  }
}

}  // namespace appy::passes
