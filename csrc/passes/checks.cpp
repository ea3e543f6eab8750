// Checks: proven and removed; or tested once, before the loops, on the extremes of what they test; or kept in place.
//
// Rules for editors:
// 1. A test before the loops only ever declines, and only stands where nothing was written yet: the interpreter then
//    does the whole statement, so a test that fails too easily costs speed, never an answer.
// 2. A test that Python's own run might not fail must not be hoisted where it can be avoided: bounds that are not
//    exact, and conditions that the bounds do not follow, keep the check in place. Not so where it stands in the way of
//    a reduction (`if c[i]: d[k] += x[i]`) and the conditions have nothing to do with what it tests; nor where they
//    decide whether a host loop is entered, or goes on.
// 3. Where something was written before the loops, a test of nothing but the region's scalars and extents goes in front
//    of the first write.
// 4. Bounds computed before the loops are trusted only together with the overflow conditions of their computation.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/footprint.h"
#include "ir/ir.h"
#include "passes/extremes.h"
#include "passes/host_loops.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::CheckKind;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Conditions, all of them needed, that imply a check's condition in every iteration.
class Requirement {
 public:
  Requirement(Extremes& extremes, Ranges& ranges, const Op& where)
      : extremes_(extremes), ranges_(ranges), where_(where) {}

  bool add(Value& condition, bool holds) {
    if (extremes_.is_before(condition)) {
      needed_.push_back(holds ? &condition : negate(condition));
      return true;
    }
    const Op* op = condition.op;
    if (!op) return false;
    switch (op->code) {
      case Opcode::not_:
        return add(*op->operands[0], !holds);
      case Opcode::and_:
      case Opcode::or_:
        if ((op->code == Opcode::and_) == holds) return add(*op->operands[0], holds) && add(*op->operands[1], holds);
        // `ok or seen` with a flag that is false in the first iteration.
        for (size_t side = 0; side < 2 && holds; ++side) {
          if (starts_false(*op->operands[side])) return add(*op->operands[1 - side], true);
        }
        // `never reached or ok`: what the one does not settle before the loops, the other has to.
        for (size_t side = 0; side < 2 && holds; ++side) {
          if (!extremes_.is_before(*op->operands[side])) continue;
          const size_t mark = needed_.size();
          if (!add(*op->operands[1 - side], true)) return false;
          for (size_t k = mark; k < needed_.size(); ++k) {
            needed_[k] = builder().op(Opcode::or_, {op->operands[side], needed_[k]});
          }
          return true;
        }
        return false;
      case Opcode::lt_:
        return holds ? less(*op->operands[0], *op->operands[1], true) : less(*op->operands[1], *op->operands[0], false);
      case Opcode::le_:
        return holds ? less(*op->operands[0], *op->operands[1], false) : less(*op->operands[1], *op->operands[0], true);
      case Opcode::gt_:
        return holds ? less(*op->operands[1], *op->operands[0], true) : less(*op->operands[0], *op->operands[1], false);
      case Opcode::ge_:
        return holds ? less(*op->operands[1], *op->operands[0], false) : less(*op->operands[0], *op->operands[1], true);
      case Opcode::ne_:
        return holds && nonzero(*op);
      case Opcode::eq_:
        return holds && equal(*op->operands[0], *op->operands[1]);
      case Opcode::ovf_add_:
      case Opcode::ovf_sub_:
      case Opcode::ovf_mul_:
        return !holds && fits(*op);
      default:
        return false;
    }
  }

  bool exact() const { return exact_; }
  std::vector<Value*> needed() {
    std::vector<Value*> all = needed_;
    for (Value* overflow : extremes_.take_overflows()) all.push_back(negate(*overflow));
    return all;
  }

 private:
  Builder& builder() { return extremes_.builder(); }
  Value* negate(Value& v) { return builder().op(Opcode::not_, {&v}); }

  static bool starts_false(const Value& v) {
    const Op* owner = v.op ? nullptr : v.block->owner;
    return owner && is_for(*owner) && v.index > 0 && constant(*owner->operands[3 + v.index - 1]) == 0;
  }

  static bool is_whole(const Value& v) { return ir::is_int(v.type.dtype) && v.type.dtype != DType::u64_; }

  bool less(const Value& a, const Value& b, bool strict) {
    if (!is_whole(a) || !is_whole(b)) return false;
    const auto x = extremes_.of(a, where_), y = extremes_.of(b, where_);
    if (!x || !y) return false;
    exact_ &= x->exact && y->exact;
    for (const Op* loop : x->loops) exact_ &= !y->loops.count(loop);
    // i - 1 < n reads as i <= n: no subtraction is left over.
    Value* left = x->hi;
    if (strict && left->op && left->op->code == Opcode::sub_ && constant(*left->op->operands[1]) == 1) {
      left = left->op->operands[0];
      strict = false;
    }
    needed_.push_back(builder().op(strict ? Opcode::lt_ : Opcode::le_, {left, y->lo}));
    return true;
  }

  /// Two extents are the same function of the loops' variables and of values that do not vary, in pairs: those have to
  /// be equal.
  bool equal(Value& a, Value& b) {
    if (&a == &b) return true;
    if (!is_whole(a) || !is_whole(b)) return false;
    if (extremes_.is_before(a) && extremes_.is_before(b)) {
      needed_.push_back(builder().op(Opcode::eq_, {&a, &b}));
      return true;
    }
    if (!a.op || !b.op) return false;
    const bool alike = a.op->code == b.op->code && ir::is_pure(a.op->code) && !a.op->operands.empty();
    if (alike && a.op->operands.size() == b.op->operands.size() && a.op->dim == b.op->dim) {
      for (size_t k = 0; k < a.op->operands.size(); ++k) {
        if (!equal(*a.op->operands[k], *b.op->operands[k])) return false;
      }
      return true;
    }
    // An extent that is not cut off at 0, because it is known not to be negative.
    for (const auto& [cut, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
      if (cut->op->code != Opcode::pymax_ || constant(*cut->op->operands[1]) != 0) continue;
      if (ranges_.proves_ge(*other, 0, where_)) return equal(*cut->op->operands[0], *other);
    }
    return false;
  }

  bool nonzero(const Op& op) {
    if (!is_whole(*op.operands[0])) return false;
    const auto x = extremes_.of(*op.operands[0], where_), y = extremes_.of(*op.operands[1], where_);
    if (!x || !y) return false;
    if (!x->varies() && !y->varies()) {
      exact_ &= x->exact && y->exact;
      needed_.push_back(builder().op(Opcode::ne_, {x->lo, y->lo}));
      return true;
    }
    exact_ = false;
    needed_.push_back(builder().op(
        Opcode::or_, {builder().op(Opcode::lt_, {x->hi, y->lo}), builder().op(Opcode::gt_, {x->lo, y->hi})}));
    return true;
  }

  bool fits(const Op& op) {
    if (op.operands[0]->type != ir::scalar(DType::i64_)) return false;
    const auto x = extremes_.of(*op.operands[0], where_), y = extremes_.of(*op.operands[1], where_);
    if (!x || !y) return false;
    // Bounds that are not reached matter only next to the end of 64 bits.
    std::set<std::pair<Value*, Value*>> corners;
    if (op.code == Opcode::ovf_add_) corners = {{x->lo, y->lo}, {x->hi, y->hi}};
    if (op.code == Opcode::ovf_sub_) corners = {{x->lo, y->hi}, {x->hi, y->lo}};
    if (op.code == Opcode::ovf_mul_) corners = {{x->lo, y->lo}, {x->lo, y->hi}, {x->hi, y->lo}, {x->hi, y->hi}};
    for (const auto& [a, b] : corners) needed_.push_back(negate(*builder().op(op.code, {a, b})));
    return true;
  }

  Extremes& extremes_;
  Ranges& ranges_;
  const Op& where_;
  bool exact_ = true;
  std::vector<Value*> needed_;
};

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

  void one(Op& check) {
    if (ranges().decide(*check.operands[0], check) == true) {
      check.parent->remove(&check);
      changed_ = true;
      return;
    }
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
    check.operands.resize(first_state(check));
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
    Extremes extremes(graph_, ranges(), outer, inspected_[&outer]);
    extremes.builder().set_loc(check.loc);
    const Op* mark = outer.prev;
    Requirement requirement(extremes, ranges(), check);
    bool in_the_way = false;
    if (!requirement.add(*check.operands[0], true) || !requirement.exact() ||
        (check.check->kind != CheckKind::overflow_ && !extremes.cuts_exactly(path_to(check, outer), check) &&
         !(in_the_way = keeps_from_reduction(extremes, check)))) {
      drop_after(mark, outer);
      return false;
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
    changed_ = true;
    return true;
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
};

}  // namespace

bool checks(ir::Graph& graph) { return Checks(graph).run(); }

}  // namespace appy::passes
