// Conflicts between the iterations of a parallel or simd loop that can be proven take the loop's permission: its
// promise is false. What cannot be proven is believed: a symbolic distance may be harmless (Floyd-Warshall's row k).

#include "passes/dependence.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "dependence";

/// The value is the same in every iteration of `loop` at one point of the loops inside: outside of `loop`, or the
/// variable of an inner loop whose bounds are.
bool same_in_all(const Value& v, const Op& loop) {
  if (ir::defined_outside(v, body_of(loop))) return true;
  const Op* owner = v.op ? nullptr : v.block->owner;
  if (!owner || !is_for(*owner) || v.index != 0) return false;
  for (int k = 0; k < 3; ++k) {
    if (!same_in_all(*owner->operands[static_cast<size_t>(k)], loop)) return false;
  }
  return true;
}

/// The value is the same wherever the loop computes it: what it is made of is, loads from arrays that the loop leaves
/// as they are among it.
bool is_steady(const Value& v, const Op& loop, std::set<const Value*>& seen) {
  if (ir::defined_outside(v, body_of(loop)) || !seen.insert(&v).second) return true;
  const Op* op = v.op;
  if (!op || !op->blocks.empty() || !(ir::is_pure(op->code) || op->code == Opcode::load_)) return false;
  if (op->code == Opcode::load_ && writes_to(body_of(loop), *op->view())) return false;
  return std::all_of(op->operands.begin(), op->operands.end(),
                     [&](const Value* operand) { return is_steady(*operand, loop, seen); });
}

/// Do all iterations store to one element?
bool stores_to_one(const Op& store, const Op& loop) {
  std::set<const Value*> seen;
  return std::all_of(store.operands.begin() + 1, store.operands.end(),
                     [&](const Value* operand) { return is_steady(*operand, loop, seen); });
}

/// Executed in every iteration of `loop` in which the loops between run.
bool is_unconditional(const Op& op, const Op& loop) {
  for (const Op* at = &op; at != &loop; at = at->parent->owner) {
    const Op* owner = at->parent->owner;
    if (owner->code != Opcode::for_) return false;
    const Exits exits = exits_of(*owner);
    if (exits.next.size() != 1 || !exits.breaks.empty()) return false;
  }
  return true;
}

std::string text(Distance d) {
  if (d.kind == Distance::Kind::every) return "every iteration writes one element";
  const int64_t n = d.iterations < 0 ? -d.iterations : d.iterations;
  return n == 1 ? "an iteration uses what the next one writes or the other way round"
                : "iterations " + std::to_string(n) + " apart use one element";
}

/// The conflict that a store proves with another access, if any.
std::optional<Distance> conflict(Ranges& ranges, const Op& loop, const Op& store, const Op& other) {
  if (!is_unconditional(store, loop) || !is_unconditional(other, loop)) return std::nullopt;
  if (store.code == Opcode::atomic_ && other.code == Opcode::atomic_) return std::nullopt;
  const Distance d = distance(store, other, loop);
  const int64_t trips = ranges.most_trips(loop);
  if (d.kind == Distance::Kind::every) {
    // A value that does not vary leaves the element as it is from the second store on.
    const bool same_value = store.code == Opcode::store_ && ir::defined_outside(*store.operands[0], body_of(loop));
    return same_value || trips < 2 ? std::nullopt : std::optional(d);
  }
  if (d.kind != Distance::Kind::constant || d.iterations == 0) return std::nullopt;
  const int64_t n = d.iterations < 0 ? -d.iterations : d.iterations;
  return trips <= n ? std::nullopt : std::optional(d);
}

void run_in_order(ir::Graph& graph, Op& loop, ir::Severity severity, const std::string& why) {
  loop.loop->parallel = loop.loop->simd = false;
  for (ir::Carried& c : loop.loop->carried) c = {};
  remark(graph, severity, kStage, loop.loc, "the loop at " + line_of(graph, loop.loc) + " runs in order: " + why);
}

/// Is the value computed from what the store's element was before?
bool updates(const Value& v, const Op& store, const Op& loop, std::set<const Value*>& seen) {
  const Op* op = v.op;
  if (!op || !seen.insert(&v).second || ir::defined_outside(v, body_of(loop))) return false;
  if (op->code == Opcode::load_ && same_element(*op, store)) return true;
  const auto any = [&](const std::vector<Value*>& values) {
    return std::any_of(values.begin(), values.end(), [&](const Value* x) { return updates(*x, store, loop, seen); });
  };
  if (any(op->operands)) return true;
  return op->code == Opcode::if_ &&
         std::any_of(op->blocks.begin(), op->blocks.end(), [&](const ir::Block* b) { return any(b->last->operands); });
}

/// In some dimension one of the subscripts of a view is the same in all iterations, and never the other one.
bool never_meet(Ranges& ranges, const Op& a, const Op& b, const Op& loop) {
  const auto varies_by = [&](const Affine& sum, const Value* variable) {
    return std::ranges::all_of(sum.terms, [&](const auto& term) {
      return term.first == variable || ir::defined_outside(*term.first, body_of(loop));
    });
  };
  const Value* iv = induction(loop);
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    const Affine ra = row(a, d), rb = row(b, d);
    const bool one_is_fixed =
        (varies_by(ra, nullptr) && varies_by(rb, iv)) || (varies_by(ra, iv) && varies_by(rb, nullptr));
    if (one_is_fixed && differ_in(ranges, a, b, d, *body_of(loop).first)) return true;
  }
  return false;
}

bool inspect(ir::Graph& graph, Op& loop, Ranges& ranges) {
  std::vector<const Op*> accesses;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (is_access(op)) accesses.push_back(&op);
  });
  for (const Op* store : accesses) {
    if (store->code == Opcode::load_) continue;
    for (const Op* other : accesses) {
      if (store->view() != other->view() || is_private(*store->view(), loop)) continue;
      if (const auto found = conflict(ranges, loop, *store, *other)) {
        const std::string name = store->view()->name.empty() ? "an array" : "'" + store->view()->name + "'";
        run_in_order(graph, loop, ir::Severity::warning,
                     "its iterations depend on each other through " + name + " (" + text(*found) + ": " +
                         line_of(graph, store->loc) + " and " + line_of(graph, other->loc) + ")");
        return true;
      }
    }
    std::set<const Value*> seen;
    // A sum in an element, under a condition, that `promote` could not make a reduction.
    if (store->code == Opcode::store_ && stores_to_one(*store, loop) && !is_private(*store->view(), loop) &&
        ranges.most_trips(loop) > 1 && updates(*store->operands[0], *store, loop, seen)) {
      run_in_order(graph, loop, ir::Severity::warning,
                   "a check in it keeps the update at " + line_of(graph, store->loc) + " from being a reduction");
      return true;
    }
  }
  return false;
}

}  // namespace

Distance distance(const Op& a, const Op& b, const Op& loop) {
  using Kind = Distance::Kind;
  if (a.view() != b.view()) return {Kind::none, 0};
  const Value* iv = induction(loop);
  const auto step = constant(*loop.operands[2]);
  std::optional<Wide> found;  // in units of the variable
  bool any = false;
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    const Affine ra = row(a, d), rb = row(b, d);
    Affine difference = ra;
    difference.add(rb, -1);
    for (const Affine* r : {&ra, &rb}) {
      for (const auto& term : r->terms) {
        if (term.first != iv && !same_in_all(*term.first, loop)) return {Kind::unknown, 0};
      }
    }
    // ra(i) = rb(i + x) with equal other terms: difference.constant = c * x.
    if (!difference.is_constant()) return {Kind::unknown, 0};
    const Wide c = ra.coef(*iv);
    bool inner = false;
    for (const auto& term : ra.terms) inner |= term.first != iv && !ir::defined_outside(*term.first, body_of(loop));
    // a[i + j] and a[j + 1] meet at other points of the inner loop too.
    if (inner && (c != 0 || difference.constant != 0)) return {Kind::unknown, 0};
    if (c == 0) {
      if (difference.constant != 0) return {Kind::none, 0};
      continue;
    }
    any = true;
    if (difference.constant % c != 0) return {Kind::none, 0};
    const Wide x = difference.constant / c;
    if (found && *found != x) return {Kind::none, 0};
    found = x;
  }
  if (!any) return {Kind::every, 0};
  if (*found == 0) return {Kind::constant, 0};
  if (!step || *step == 0) return {Kind::unknown, 0};
  if (*found % *step != 0) return {Kind::none, 0};
  const Wide iterations = *found / *step;
  if (iterations > INT64_MAX / 2 || iterations < INT64_MIN / 2) return {Kind::none, 0};
  return {Kind::constant, static_cast<int64_t>(iterations)};
}

bool independent(const Op& loop) { return loop.results.empty() && independent_accesses(loop); }

bool independent_accesses(const Op& loop, Ranges* ranges) {
  if (loop.graph->may_alias || !exits_of(loop).breaks.empty()) return false;
  std::vector<const Op*> accesses;
  bool plain = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    plain &= op.code != Opcode::check_ && op.code != Opcode::atomic_ && op.code != Opcode::alloc_;
    if (is_access(op)) accesses.push_back(&op);
  });
  if (!plain) return false;
  for (const Op* store : accesses) {
    if (store->code == Opcode::load_) continue;
    for (const Op* other : accesses) {
      const Distance d = distance(*store, *other, loop);
      const bool apart = d.kind == Distance::Kind::none || (d.kind == Distance::Kind::constant && d.iterations == 0);
      if (!apart && (!ranges || !never_meet(*ranges, *store, *other, loop))) return false;
    }
  }
  return true;
}

bool dependence(ir::Graph& graph) {
  bool changed = false;
  Ranges ranges(graph);  // which permissions have no say in
  for (Op* loop : for_loops(graph)) {
    if (!has_permission(*loop)) continue;
    if (graph.may_alias) {
      run_in_order(graph, *loop, ir::Severity::note, "arrays overlap");
      changed = true;
    } else {
      changed |= inspect(graph, *loop, ranges);
    }
  }
  return changed;
}

}  // namespace appy::passes
