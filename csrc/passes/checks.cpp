// Checks: proven and removed; or tested once, before the loops, on the extremes of what they test; or kept in place.
//
// Rules for editors:
// 1. A test before the loops only ever declines, and only stands where nothing was written yet: the interpreter then
//    does the whole statement, so a test that fails too easily costs speed, never an answer.
// 2. A test that Python's own run might not fail must not be hoisted where it can be avoided: bounds that are not
//    exact, and conditions that the bounds do not follow, keep the check in place, unless the entry that the graph is
//    given rules out that it fails: then others decline; a condition either of whose arms makes the same check is
//    none. Not so where it stands in the way of a reduction (`if c[i]: d[k] += x[i]`) and the conditions have nothing
//    to do with what it tests; nor where they decide whether a host loop is entered or goes on.
// 3. Where something was written before the loops, a test of nothing but the region's scalars and extents goes in front
//    of the first write.
// 4. Bounds computed before the loops are trusted only together with the overflow conditions of their computation.
// 5. A loop that is cheaper with its test than with another loop that finds the extremes of an array keeps it, and so
//    do sums of rows.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/footprint.h"
#include "ir/formula.h"
#include "ir/ir.h"
#include "passes/extremes.h"
#include "passes/host_loops.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/range.h"
#include "passes/requirement.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::CheckKind;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Checks {
 public:
  explicit Checks(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    changed_ = lift_sizes(graph_);
    // Wraps first: an index that is not negative has a simpler check.
    for (Op* wrap : all(Opcode::wrap_)) {
      if (ir::enclosing_loop(*wrap->parent)) unwrap(*wrap);
    }
    for (Op* check : all(Opcode::check_)) one(*check);
    if (hoisted_) {
      for (Op* check : all(Opcode::check_)) {
        if (ir::enclosing_loop(*check->parent)) remove_proven(*check);
      }
    }
    return changed_;
  }

 private:
  std::vector<Op*> all(Opcode code) {
    std::vector<Op*> found;
    ir::walk(*graph_.body, [&](Op& op) {
      if (op.code == code) found.push_back(&op);
    });
    return found;
  }

  /// Sees the tests that emit() put in.
  Ranges& ranges() {
    if (!ranges_) ranges_.emplace(graph_);
    return *ranges_;
  }

  bool remove_proven(Op& check) {
    if (ranges().decide(*check.operands[0], check) != true) return false;
    check.parent->remove(&check);
    return changed_ = true;
  }

  void one(Op& check) {
    if (remove_proven(check)) return;
    if (ir::enclosing_loop(*check.parent) && hoist(check)) return;
    if (check.check->declines) return;
    if (!ir::nothing_written_before(check)) {
      if (check.parent != graph_.body || !may_move(*check.operands[0])) return;
      Op& write = first_write();
      move(*check.operands[0], write);
      // Who declines needs no words for a message; they may be computed later only.
      check.check->ninfo = 0;
      graph_.body->remove(&check);
      graph_.body->insert_before(&write, &check);
      check.operands.resize(1);
      ranges_.reset();
    }
    check.check->declines = true;
    check.check->has_state = false;
    check.operands.resize(ir::first_state(check));
    changed_ = true;
  }

  /// The region's first op that writes; there is one.
  Op& first_write() {
    Op* op = graph_.body->first;
    while (!ir::writes_to_parameter(*op)) op = op->next;
    return *op;
  }

  /// Is it computed from the region's scalars and extents alone?
  bool may_move(const Value& v) const {
    if (!v.op) return v.block == graph_.body;
    if (v.op->parent != graph_.body || !ir::is_pure(v.op->code)) return false;
    return std::all_of(v.op->operands.begin(), v.op->operands.end(),
                       [&](const Value* operand) { return operand->type.is_view() || may_move(*operand); });
  }

  /// Puts what computes the value in front of an op, where it stands behind it.
  void move(const Value& v, Op& front) {
    Op* op = v.op;
    if (!op || v.type.is_view()) return;
    for (const Op* at = op; at; at = at->prev) {
      if (at == &front) break;
      if (!at->prev) return;  // it stands before
    }
    for (const Value* operand : op->operands) move(*operand, front);
    graph_.body->remove(op);
    graph_.body->insert_before(&front, op);
  }

  bool hoist(Op& check) {
    Op& outer = *ancestor_in(*graph_.body, check);
    const size_t inspected = inspected_[&outer].size();
    Extremes extremes(graph_, ranges(), outer, inspected_[&outer]);
    extremes.builder().set_loc(check.loc);
    const Op* mark = outer.prev;
    Requirement requirement(extremes, ranges(), check);
    bool in_the_way = false;
    const bool implied = requirement.add(*check.operands[0], true);
    const bool reads = extremes.inspected().size() > inspected;
    if (!implied || !requirement.exact() ||
        (check.check->kind != CheckKind::overflow_ && !extremes.cuts_exactly(path_to(check, outer), check) &&
         !(in_the_way = keeps_from_reduction(extremes, check))) ||
        (reads && (tests_in_place(mark, outer) || tests_in_sums(check, outer)))) {
      const bool holds = implied && !reads && holds_for_given(extremes.builder(), requirement.needed());
      drop_after(mark, outer);
      if (!holds) return false;
      check.parent->remove(&check);
      ranges_.reset();
      return hoisted_ = changed_ = true;
    }
    std::vector<Value*> needed = requirement.needed();
    for (Value*& condition : needed) {
      if (in_the_way) condition = unless_skipped(extremes, *condition, check, outer);
    }
    if (!ir::nothing_written_before(outer)) {
      bool may = !is_for(outer) ||
                 (may_move(*outer.operands[0]) && may_move(*outer.operands[1]) && may_move(*outer.operands[2]));
      for (const Value* condition : needed) may = may && may_move(*condition);
      if (!may) {
        drop_after(mark, outer);
        return false;
      }
    }
    // A reduction loads the element before the loop: the plain test proves that it may. A loop that does not run costs
    // the interpreter nothing.
    emit(extremes.builder(), needed, outer, check.loc, !in_the_way);
    inspected_[&outer] = extremes.inspected();
    check.parent->remove(&check);
    return hoisted_ = changed_ = true;
  }

  /// Conditions of which the entry that the graph is given fulfils all: others decline, and have code of their own.
  bool holds_for_given(Builder& b, const std::vector<Value*>& needed) {
    Value* all = b.boolean(true);
    for (Value* condition : needed) all = b.op(Opcode::and_, {all, condition});
    const auto formula = ir::Formula::of(all, graph_);
    return formula && !graph_.given.empty() && (*formula)(graph_.given.data()) != 0 && settle(graph_, *all) == true;
  }

  /// Without lanes a test takes two instructions an iteration, and a loop before this one would read the array a second
  /// time, as a rule from memory: not worth it for this loop alone. One that follows another may become one with it,
  /// and sums in one element are in the way. What is emitted for the loop stands behind `mark`.
  bool tests_in_place(const Op* mark, const Op& outer) const {
    if (!is_for(outer) || !outer.loop->parallel || outer.loop->simd || has_inner_loop(outer)) return false;
    bool alone = true;
    ir::walk(body_of(outer),
             [&](const Op& op) { alone &= op.code != Opcode::store_ || !is_invariant(op, body_of(outer)); });
    const Op* op = graph_.body->first;
    for (; op && op != mark; op = op->next) alone &= op->blocks.empty();
    for (op = outer.next; op; op = op->next) alone &= op->blocks.empty();
    return alone && (!mark || mark->blocks.empty());
  }

  /// Sums in lanes, one for each iteration of a parallel loop, over elements of arrays that are theirs alone: what the
  /// test asks of a vector of indices costs less than to read all of them from memory twice. Not so where the test
  /// would make the indices wider than what is summed up.
  static bool tests_in_sums(const Op& check, const Op& outer) {
    const Op* sums = ir::enclosing_loop(*check.parent);
    if (!sums || sums == &outer || check.parent != &body_of(*sums) || ir::enclosing_loop(*sums->parent) != &outer)
      return false;
    if (!is_for(outer) || !outer.loop->parallel || outer.loop->simd) return false;
    if (!is_for(*sums) || !sums->loop->simd || has_inner_loop(*sums) || sums->results.empty()) return false;
    const bool wide = std::all_of(sums->results.begin(), sums->results.end(), [](const Value* v) {
      return v->type.dtype == DType::bool_ || ir::size_of(v->type.dtype) == sizeof(int64_t);
    });
    bool loads = false, own = true;
    std::set<const Value*> tested, seen;
    origins(*check.operands[0], tested, seen);
    for (const Value* v : tested) {
      if (!v->op || v->op->code != Opcode::load_ || v->op->parent != &body_of(*sums)) continue;
      loads = true;
      own &= moves_access(*v->op, outer) || moves(*sums->operands[0], outer);
    }
    return wide && loads && own && !writes(body_of(*sums));
  }

  /// Is it what keeps an update of one element in all iterations from being a reduction, while the conditions around it
  /// tell nothing of what it tests?
  static bool keeps_from_reduction(const Extremes& extremes, const Op& check) {
    const Op* loop = ir::enclosing_loop(*check.parent);
    while (loop && !has_permission(*loop)) loop = ir::enclosing_loop(*loop->parent);
    if (!loop) return false;
    bool updates = false;
    for (const Op* op = check.next; op; op = op->next) {
      updates |= op->code == Opcode::store_ && is_invariant(*op, body_of(*loop));
    }
    if (!updates) return false;
    std::set<const Value*> tested, asked, seen;
    origins(*check.operands[0], tested, seen);
    seen.clear();
    // An index out of an array may be one that is not meant to be used.
    if (std::any_of(tested.begin(), tested.end(), [&](const Value* v) { return v->op && !extremes.is_before(*v); })) {
      return false;
    }
    for (const Op* owner = check.parent->owner; owner != loop; owner = owner->parent->owner) {
      const bool asks = owner->code == Opcode::if_ && !extremes.is_before(*owner->operands[0]);
      if (asks) origins(*owner->operands[0], asked, seen);
    }
    return std::none_of(asked.begin(), asked.end(), [&](const Value* v) { return tested.contains(v); });
  }

  /// What a value is computed from: loads, variables of loops, what varies. Extents and constants tell nothing.
  static void origins(const Value& v, std::set<const Value*>& found, std::set<const Value*>& seen) {
    if (!seen.insert(&v).second || v.type.is_view() || (v.op && v.op->code == Opcode::const_)) return;
    if (!v.op || !ir::is_pure(v.op->code)) {
      found.insert(&v);
      return;
    }
    for (const Value* operand : v.op->operands) origins(*operand, found, seen);
  }

  /// The condition, or that a conditional around the check is known to skip it before the loops.
  static Value* unless_skipped(Extremes& extremes, Value& condition, const Op& check, const Op& outer) {
    Value* result = &condition;
    Builder& b = extremes.builder();
    for (const Op* at = &check; at != &outer; at = at->parent->owner) {
      const Op* owner = at->parent->owner;
      if (owner->code != Opcode::if_ || !extremes.is_before(*owner->operands[0])) continue;
      Value* taken = owner->operands[0];
      result = b.op(Opcode::or_, {result, at->parent == owner->blocks[0] ? b.op(Opcode::not_, {taken}) : taken});
    }
    return result;
  }

  /// Takes back what was emitted for nothing.
  void drop_after(const Op* mark, Op& outer) {
    while (outer.prev != mark) outer.parent->remove(outer.prev);
  }

  void emit(Builder& b, const std::vector<Value*>& needed, Op& outer, ir::LocId loc, bool unless_empty = true) {
    for (Value* condition : needed) {
      if (ranges().decide(*condition, outer) == true) continue;
      b.set_loc(loc);
      if (unless_empty && is_for(outer) && !holds_when_empty(ranges(), *condition, outer)) {
        condition = b.op(Opcode::or_, {condition, b.op(Opcode::not_, {emit_runs(b, outer)})});
      }
      ir::Check test;
      test.kind = CheckKind::decline_;
      test.declines = true;
      Op* made = b.check(std::move(test), condition, {}, {});
      if (!ir::nothing_written_before(outer)) {
        Op& write = first_write();
        move(*condition, write);
        graph_.body->remove(made);
        graph_.body->insert_before(&write, made);
      }
    }
    ranges_.reset();
  }

  /// The condition needs no exception for a loop that does not run: `upper <= n` where lower <= n is known.
  static bool holds_when_empty(Ranges& ranges, const Value& condition, const Op& outer) {
    const Op* op = condition.op;
    if (!op || op->code != Opcode::le_ || op->operands[0] != outer.operands[1]) return false;
    const auto lower = constant(*outer.operands[0]), step = constant(*outer.operands[2]);
    return lower && step && *step > 0 && ranges.of(*op->operands[1]).lo >= *lower;
  }

  /// wrap(i, n) where i's least value is known before the loops and not negative there.
  void unwrap(Op& wrap) {
    Value* index = wrap.operands[0];
    if (ranges().proves_ge(*index, 0, wrap)) {
      replace(wrap, index);
      return;
    }
    Op& outer = *ancestor_in(*graph_.body, wrap);
    if (!ir::nothing_written_before(outer) || !is_forward(ranges().affine(*index, wrap), outer)) return;
    Extremes extremes(graph_, ranges(), outer, inspected_[&outer]);
    const Op* mark = outer.prev;
    const auto bounds = extremes.of(*index, wrap);
    if (!bounds || !bounds->exact || ranges().of(*bounds->lo).hi < 0 ||
        !extremes.cuts_exactly(path_to(wrap, outer), wrap)) {
      drop_after(mark, outer);
      return;
    }
    Builder& b = extremes.builder();
    std::vector<Value*> needed = {b.op(Opcode::ge_, {bounds->lo, b.i64(0)})};
    for (Value* overflow : extremes.take_overflows()) needed.push_back(b.op(Opcode::not_, {overflow}));
    emit(b, needed, outer, wrap.loc);
    inspected_[&outer] = extremes.inspected();
    replace(wrap, index);
  }

  /// The index is a loop variable that runs between bounds of its own (the rows of `range(ptr[i], ptr[i + 1])`) plus
  /// things that are added: negative only by mistake. Other wraps are split.cpp's.
  static bool is_forward(const Affine& index, const Op& outer) {
    bool variable = false;
    for (const auto& [value, coef] : index.terms) {
      const Op* owner = value->op ? nullptr : value->block->owner;
      const bool iv = owner && is_for(*owner) && value->index == 0;
      if (!iv && !visible_before(*value, outer)) return false;
      if (coef < 0) return false;
      variable |= iv && !visible_before(*owner->operands[0], outer);
    }
    return variable && index.constant >= 0;
  }

  void replace(Op& wrap, Value* index) {
    ir::replace_uses(graph_, wrap.result(), index);
    wrap.parent->remove(&wrap);
    ranges_.reset();  // what it knows, it knows of the wrapped index
    changed_ = true;
  }

  ir::Graph& graph_;
  std::map<const Op*, Extremes::Inspected> inspected_;  // by outermost loop
  std::optional<Ranges> ranges_;
  bool changed_ = false;
  bool hoisted_ = false;  // tests that may prove others
};

}  // namespace

bool checks(ir::Graph& graph) { return Checks(graph).run(); }

}  // namespace appy::passes
