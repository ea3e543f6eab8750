// A loop that counts from where another one stands: `for k to n - i: a[i + k] * b[i + k]` becomes `for k from i to n:
// a[k] * b[k]`. Where all subscripts agree on it, what the loop reads then does not follow the other loop's variable,
// which a matrix product of a triangle has to show (product.h), and begins behind the other loop's iteration, as what
// gets something from each iteration does (right_looking.cpp). One of its bounds has to stay where it is for that. What
// keeps the length of a slice from being negative says nothing of the iterations, and goes.

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kFar = int64_t{1} << 50;
constexpr Wide kMost = 8;

/// The variable of a loop.
bool counts(const Value& v) { return !v.op && v.index == 0 && v.block->owner && is_for(*v.block->owner); }

/// What each subscript with the loop's variable adds to it, up to a constant that is not always the same; nothing where
/// they differ, or it is the same all the time.
std::optional<Affine> common_start(Ranges& ranges, const Op& loop) {
  const Value& k = *induction(loop);
  std::optional<Affine> start;
  bool fits = true, same_constant = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (!is_access(op)) return;
    for (size_t d = 0; d < op.access->offset.size(); ++d) {
      Affine at = row_at(ranges, op, d, op);
      const Wide coef = at.coef(k);
      if (coef == 0) continue;
      at.add(k, -coef);
      Affine here;
      for (const auto& [term, c] : at.terms) {
        if (!counts(*term) || !ir::defined_outside(*term, body_of(loop))) continue;
        fits &= c % coef == 0;
        here.add(*term, c / coef);
      }
      here.constant = at.constant / coef;
      same_constant &= at.constant % coef == 0 && (!start || start->constant == here.constant);
      fits &= !start || start->terms == here.terms;
      start = here;
    }
  });
  if (!fits || !start || start->terms.empty()) return {};
  if (!same_constant) start->constant = 0;
  return start;
}

/// Does the bound still go with what is added to the variable?
bool follows(const Affine& bound, const Affine& start) {
  return std::any_of(start.terms.begin(), start.terms.end(),
                     [&](const auto& term) { return bound.coef(*term.first) != 0; });
}

/// Sums of these do not leave 64 bits.
bool is_small(const ir::Range& range) { return range.lo > -kFar && range.hi < kFar; }

/// In a loop, up to the greater of two bounds, of which one is no higher than where it begins: up to the other one.
bool drop_clamp(ir::Graph& graph, Op& loop) {
  const Op* upper = loop.operands[1]->op;
  if (!upper || upper->code != Opcode::pymax_ || !ir::enclosing_loop(*upper->parent) ||
      constant(*loop.operands[2]).value_or(0) < 1)
    return false;
  Ranges ranges(graph);
  for (size_t side = 0; side < 2; ++side) {
    if (!ranges.proves_le(*upper->operands[side], *loop.operands[0], loop)) continue;
    loop.operands[1] = upper->operands[1 - side];
    return true;
  }
  return false;
}

bool move(ir::Graph& graph, Op& loop) {
  if (constant(*loop.operands[2]) != 1) return false;
  Ranges ranges(graph);
  const auto start = common_start(ranges, loop);
  if (!start || start->constant < -kFar || start->constant > kFar) return false;
  for (const auto& [term, coef] : start->terms) {
    if (coef < -kMost || coef > kMost || !is_small(ranges.of(*term))) return false;
  }
  Affine bounds[2];
  for (size_t k = 0; k < 2; ++k) {
    bounds[k] = ranges.affine(*loop.operands[k], loop);
    bounds[k].add(*start, 1);
    if (!is_small(ranges.of(*loop.operands[k]))) return false;
    for (const auto& [term, coef] : bounds[k].terms) {
      if (coef < -kMost || coef > kMost || !visible_before(*term, loop)) return false;
    }
  }
  // A window that goes with the other loop, `for k to 3: a[i + k]`, would only have bounds that do.
  if (follows(bounds[0], *start) && follows(bounds[1], *start)) return false;
  Builder b(graph);
  b.set_loc(loop.loc);
  b.set_before(&loop);
  for (size_t k = 0; k < 2; ++k) loop.operands[k] = emit(b, bounds[k]);
  // `access` takes the difference apart where it stands in subscripts.
  Value* const variable = induction(loop);
  Value* const placeholder = b.i64(0);
  ir::replace_uses(graph, variable, placeholder);
  Affine before;
  before.add(*variable, 1);
  before.add(*start, -1);
  b.set_before(body_of(loop).first);
  ir::replace_uses(graph, placeholder, emit(b, before));
  return true;
}

bool run(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    if (is_for(*op)) changed |= drop_clamp(graph, *op);
    if (is_for(*op)) changed |= move(graph, *op);
    for (Block* inner : op->blocks) changed |= run(graph, *inner);
  }
  return changed;
}

}  // namespace

bool shift(ir::Graph& graph) { return run(graph, *graph.body); }

}  // namespace appy::passes
