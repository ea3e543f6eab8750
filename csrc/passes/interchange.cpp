// A loop that runs in order around one that may run in lanes changes places with it, where each lane has elements of
// its own: `for k: C[i, :] += a[i, k] * B[k, :]` goes over the row once, with the row's elements in registers
// (promote), and not once for each k, with the lanes waiting for each other.
//
// Where the inner loop begins or ends at the outer one, `for i: for k < i`, the outer one begins or ends at the inner
// one then, `for k: for i > k`. There each iteration of the inner loop has rows of its own.

#include "passes/interchange.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/order.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// A poll says nothing of where the loops are that somebody could rely on (may_interchange).
bool is_plain(const Op& op) {
  if (op.code != Opcode::if_) return ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::poll_;
  return std::all_of(op.blocks.begin(), op.blocks.end(), [](const Block* arm) {
    const Op* at = arm->first;
    while (at != arm->last && is_plain(*at)) at = at->next;
    return at == arm->last && at->code == Opcode::yield_;
  });
}

/// The loop that the body consists of, beside what computes for it.
Op* only_loop(const Op& outer) {
  Op* found = nullptr;
  for (Op* op = body_of(outer).first; op != body_of(outer).last; op = op->next) {
    if (is_for(*op) ? found != nullptr : !is_plain(*op)) return nullptr;
    if (is_for(*op)) found = op;
  }
  return found;
}

/// Each iteration of the inner loop touches elements of its own, of those that it writes: the same ones in every
/// iteration of the outer loop.
bool touch_their_own(const Op& outer, const Op& inner) {
  bool fits = true;
  std::vector<const Op*> accesses, stores;
  ir::walk(body_of(outer), [&](const Op& op) {
    fits &= is_plain(op) || op.code == Opcode::store_ || op.code == Opcode::if_ || op.code == Opcode::yield_ ||
            &op == &inner;
    if (is_access(op)) accesses.push_back(&op);
    if (op.code == Opcode::store_) stores.push_back(&op);
  });
  if (!fits || stores.empty()) return false;
  for (const Op* store : stores) {
    bool own = false;
    for (size_t d = 0; d < store->access->offset.size(); ++d) {
      const Affine subscript = row(*store, d);
      own |= subscript.coef(*induction(inner)) != 0;
      for (const auto& [term, coef] : subscript.terms) {
        if (term != induction(inner) && !ir::defined_outside(*term, body_of(outer))) return false;
      }
    }
    if (!own) return false;
    for (const Op* access : accesses) {
      if (access->view() != store->view()) continue;
      if (!is_inside(*access, body_of(inner)) || !same_element(*access, *store)) return false;
    }
  }
  return true;
}

bool has_poll(const Op& loop) {
  bool found = false;
  ir::walk(body_of(loop), [&](const Op& op) { found |= op.code == Opcode::poll_; });
  return found;
}

/// What an iteration of the inner loop stores to, and all that it loads of that, no other one touches, whichever
/// iteration of the outer loop it belongs to.
bool have_their_own(const Op& outer, const Op& inner) {
  bool fits = true;
  std::vector<const Op*> accesses, stores;
  ir::walk(body_of(outer), [&](const Op& op) {
    fits &= is_plain(op) || op.code == Opcode::store_ || op.code == Opcode::if_ || op.code == Opcode::yield_ ||
            op.code == Opcode::for_;
    if (is_access(op)) accesses.push_back(&op);
    if (op.code == Opcode::store_) stores.push_back(&op);
  });
  for (const Op* store : stores) {
    for (const Op* access : accesses) {
      if (access->view() != store->view()) continue;
      fits = fits && is_inside(*access, body_of(inner)) && pinned(*store, *access, inner, body_of(outer));
    }
  }
  return fits && !stores.empty();
}

/// A loop that runs in order around one that may run in any order.
bool is_in_order_around(const Op& outer, Op*& inner) {
  if (!is_for(outer) || has_permission(outer) || !outer.results.empty() || !left_by_yield_only(outer)) return false;
  if (has_poll(outer) && !interruptible_anywhere(outer)) return false;
  inner = only_loop(outer);
  return inner && has_permission(*inner) && inner->results.empty() && left_by_yield_only(*inner);
}

/// Loops of a triangle, of which the inner one ends, or begins, at `sign` * the outer variable + `rest`.
struct Triangle {
  bool ends = false;
  Wide sign = 0;
  Affine rest;
};

std::optional<Triangle> triangle_of(Ranges& ranges, const Op& outer, const Op& inner) {
  if (constant(*outer.operands[2]) != 1 || constant(*inner.operands[2]) != 1) return {};
  const bool fixed[] = {visible_before(*inner.operands[0], outer), visible_before(*inner.operands[1], outer)};
  if (fixed[0] == fixed[1]) return {};
  Triangle t;
  t.ends = fixed[0];
  const Value& bound = *inner.operands[t.ends ? 1 : 0];
  t.rest = ranges.affine(bound, inner);
  t.sign = t.rest.coef(*induction(outer));
  t.rest.add(*induction(outer), -t.sign);
  if (t.sign != 1 && t.sign != -1) return {};
  for (const auto& [term, coef] : t.rest.terms) {
    if (!visible_before(*term, outer) || coef < -1 || coef > 1) return {};
  }
  // What is computed from the bounds stays in 64 bits.
  constexpr int64_t far = int64_t{1} << 50;
  for (const Value* v : {outer.operands[0], outer.operands[1], inner.operands[0], inner.operands[1]}) {
    const ir::Range range = ranges.of(*v);
    if (range.lo < -far || range.hi > far) return {};
  }
  return t;
}

/// With i the outer variable and k the inner one, k < sign * i + rest, or k >= that, solved for i.
void turn(ir::Graph& graph, Op& outer, Op& inner, const Triangle& t) {
  ir::Builder b(graph);
  b.set_loc(inner.loc);
  b.set_before(&outer);
  Value *low = outer.operands[0], *high = outer.operands[1], *k = induction(inner);
  // Where the inner loop reaches furthest, if the outer one runs.
  Ranges ranges(graph);
  const bool at_last = (t.sign > 0) == t.ends;
  Affine furthest = t.rest;
  furthest.add(ranges.affine(at_last ? *high : *low, outer), t.sign);
  if (at_last) furthest.constant -= t.sign;
  Value* fixed = inner.operands[t.ends ? 0 : 1];
  Value* end = b.select(b.op(Opcode::lt_, {low, high}), emit(b, furthest), fixed);
  const std::array<Value*, 2> of_inner = t.ends ? std::array{fixed, end} : std::array{end, fixed};
  // i >= k - rest + 1, i < rest - k, i < k - rest + 1 or i >= rest - k.
  Affine side;
  side.add(*k, t.sign);
  side.add(t.rest, -t.sign);
  const bool begins = (t.sign > 0) == t.ends;
  if (t.sign > 0) side.constant += 1;
  outer.operands[0] = of_inner[0];
  outer.operands[1] = of_inner[1];
  // What computes for the inner loop goes into it.
  move_into(outer, inner);
  b.set_before(&inner);
  Value* bound = emit(b, side);
  inner.operands[0] = begins ? b.op(Opcode::pymax_, {low, bound}) : low;
  inner.operands[1] = begins ? high : b.op(Opcode::pymin_, {high, bound});
  swap_roles(outer, inner);
}

bool turn_triangle(ir::Graph& graph, Op& outer) {
  Op* inner = nullptr;
  if (!is_in_order_around(outer, inner) || !have_their_own(outer, *inner)) return false;
  Ranges ranges(graph);
  const auto triangle = triangle_of(ranges, outer, *inner);
  if (triangle) turn(graph, outer, *inner, *triangle);
  return triangle.has_value();
}

bool run(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    Op* inner = nullptr;
    if (may_interchange(*op, inner)) changed |= swap_loops(*op, *inner);
    changed |= turn_triangle(graph, *op);
    for (Block* nested : op->blocks) changed |= run(graph, *nested);
  }
  return changed;
}

}  // namespace

bool may_interchange(const Op& outer, Op*& inner) {
  return is_in_order_around(outer, inner) && touch_their_own(outer, *inner);
}

bool interchange(ir::Graph& graph) { return !graph.may_alias && run(graph, *graph.body); }

}  // namespace appy::passes
