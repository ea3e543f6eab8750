// Simplification in one walk: constants and identities (simplify.h), what ranges decide, control flow that is known or
// not needed. Ops that update a recognized reduction keep their form.
#include <algorithm>

#include "passes/loops.h"
#include "passes/range.h"
#include "passes/simplify.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Builder;
using ir::DType;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

class Fold {
 public:
  explicit Fold(ir::Graph& graph) : graph_(graph), ranges_(graph), builder_(graph), to_(graph.value_count()) {}

  bool run() {
    block(*graph_.body);
    if (arguments_replaced_) ir::replace_uses(graph_, to_);
    if (proved_ > 0) {
      remark(graph_, ir::Severity::note, "fold", 0,
             "proved " + std::to_string(proved_) + (proved_ == 1 ? " check" : " checks") + " that Python would make");
    }
    return changed_;
  }

 private:
  Value* resolve(Value* v) const {
    while (v->id < to_.size() && to_[v->id]) v = to_[v->id];
    return v;
  }

  void replace(Value* from, Value* to) {
    if (to_.size() <= from->id) to_.resize(std::max<size_t>(graph_.value_count(), from->id + 1));
    to_[from->id] = to;
    if (to->name.empty() && to->op) to->name = from->name;
    changed_ = true;
  }

  void remove(Op& op) {
    op.parent->remove(&op);
    changed_ = true;
  }

  void block(Block& b) {
    for (Op* op = b.first; op;) {
      for (Value*& operand : op->operands) operand = resolve(operand);
      op = visit(*op);
    }
  }

  /// Returns the op to go on with.
  Op* visit(Op& op) {
    Op* next = op.next;
    switch (ir::info(op.code).effect) {
      case Effect::pure:
        pure(op);
        break;
      case Effect::guard:
        if (op.code == Opcode::check_ && ranges_.decide(*op.operands[0], op) == true) {
          remove(op);
          ++proved_;
        }
        break;
      case Effect::control:
        if (op.code == Opcode::if_) return conditional(op);
        if (is_loop(op)) return loop(op);
        break;
      default:
        break;
    }
    return next;
  }

  static bool updates_reduction(const Op& op) {
    return std::any_of(op.operands.begin(), op.operands.end(), [](const Value* v) {
      if (!v->block || v->index == 0 || !v->block->owner || !is_for(*v->block->owner)) return false;
      return v->block->owner->loop->carried[v->index - 1].combiner != ir::Combiner::recur_;
    });
  }

  void pure(Op& op) {
    if (op.code == Opcode::const_ || updates_reduction(op)) return;
    if (op.code == Opcode::dim_ && op.operands[0]->op) {
      replace(op.result(), op.operands[0]->op->operands[static_cast<size_t>(op.dim)]);
      return remove(op);
    }
    const Value* first = op.operands[0];
    Value* found = simplify(op, builder_);
    if (op.operands[0] != first) changed_ = true;
    if (!found) found = by_range(op);
    if (!found) return;
    replace(op.result(), found);
    remove(op);
  }

  Value* by_range(Op& op) {
    const DType type = op.result()->type.dtype;
    builder_.set_before(&op);
    builder_.set_loc(op.loc);
    if (type == DType::bool_) {
      if (ir::is_real(op.operands[0]->type.dtype) && op.code != Opcode::select_) return nullptr;
      const auto known = ranges_.decide(*op.result(), op);
      return known ? builder_.boolean(*known) : nullptr;
    }
    if (!ir::is_int(type) || op.code == Opcode::dim_) return nullptr;
    const auto in = [&](size_t i) { return ranges_.at(*op.operands[i], op); };
    switch (op.code) {
      case Opcode::wrap_:
        if (in(0).lo >= 0) return op.operands[0];
        if (in(0).hi < 0) return builder_.op(Opcode::add_, {op.operands[0], op.operands[1]});
        return nullptr;
      case Opcode::abs_:
        return in(0).lo >= 0 ? op.operands[0] : nullptr;
      case Opcode::pymin_:
      case Opcode::minimum_:
        if (ranges_.sees_le(*op.operands[0], *op.operands[1], op)) return op.operands[0];
        return ranges_.sees_le(*op.operands[1], *op.operands[0], op) ? op.operands[1] : nullptr;
      case Opcode::pymax_:
      case Opcode::maximum_:
        if (ranges_.sees_le(*op.operands[1], *op.operands[0], op)) return op.operands[0];
        return ranges_.sees_le(*op.operands[0], *op.operands[1], op) ? op.operands[1] : nullptr;
      case Opcode::mod_:
      case Opcode::rem_:
        if (in(0).lo >= 0 && ranges_.proves_lt(*op.operands[0], *op.operands[1], op)) return op.operands[0];
        return nullptr;
      case Opcode::select_:
        if (const auto known = ranges_.decide(*op.operands[0], op)) return op.operands[*known ? 1 : 2];
        return nullptr;
      default:
        return nullptr;
    }
  }

  // Control flow.

  Op* conditional(Op& op) {
    if (const auto known = ranges_.decide(*op.operands[0], op)) {
      if (Op* next = inline_arm(op, *op.blocks[*known ? 0 : 1])) return next;
    }
    for (Block* arm : op.blocks) block(*arm);
    Op* next = op.next;
    if (!to_select(op)) merge_equal(op);
    return next;
  }

  /// Moves the ops of the arm that is taken in front of the `if`. Returns the op to go on with, or null where the arm
  /// leaves and this block could not end so.
  Op* inline_arm(Op& op, Block& arm) {
    Op* end = arm.last;
    const bool falls_through = end->code == Opcode::yield_;
    Block& around = *op.parent;
    const bool in_arm = around.owner && around.owner->code == Opcode::if_;
    const bool ends_iteration = end->code == Opcode::continue_ && around.owner && is_loop(*around.owner);
    if (!falls_through && !in_arm && !ends_iteration) return nullptr;
    Op* first = move_before(arm, op);
    Op* next = op.next;
    if (falls_through) {
      for (size_t i = 0; i < op.results.size(); ++i) replace(op.results[i], resolve(end->operands[i]));
      remove(op);
      return first ? first : next;
    }
    arm.remove(end);
    around.insert_before(&op, end);
    if (ends_iteration) end->code = Opcode::yield_;
    while (around.last != end) around.remove(around.last);
    changed_ = true;
    return first ? first : end;
  }

  /// if c {yield a} else {yield b} -> select(c, a, b); inside simd loops also when cheap pure ops come first, elsewhere
  /// what counts, `if c: n += 1` and `n += 1 if c else -1`: what a jump costs that nobody can foresee is more.
  bool to_select(Op& op) {
    int count = 0, counting = 0;
    for (Block* arm : op.blocks) {
      if (arm->last->code != Opcode::yield_) return false;
      for (const Op* at = arm->first; at != arm->last; at = at->next) {
        if (!ir::is_pure(at->code) || !is_cheap(*at)) return false;
        ++count;
        counting += (at->code == Opcode::add_ || at->code == Opcode::sub_) && ir::is_int(at->result()->type.dtype);
      }
    }
    if (op.results.empty()) {
      remove(op);
      return true;
    }
    const bool counts = count <= 2 && counting == count && op.results.size() == 1;
    if (count > 0 && !counts && (count > kSpeculated || !in_lanes(op))) return false;
    for (Block* arm : op.blocks) move_before(*arm, op);
    for (size_t i = 0; i < op.results.size(); ++i) {
      Value *a = resolve(op.blocks[0]->last->operands[i]), *b = resolve(op.blocks[1]->last->operands[i]);
      if (a == b) {
        replace(op.results[i], a);
        continue;
      }
      builder_.set_before(&op);
      builder_.set_loc(op.loc);
      Value* chosen = builder_.select(op.operands[0], a, b);
      replace(op.results[i], chosen);
      pure(*chosen->op);
    }
    remove(op);
    return true;
  }

  /// Results that are one value in both arms are that value.
  void merge_equal(Op& op) {
    const bool both = op.blocks[0]->last->code == Opcode::yield_ && op.blocks[1]->last->code == Opcode::yield_;
    for (size_t i = 0; both && i < op.results.size(); ++i) {
      Value* a = resolve(op.blocks[0]->last->operands[i]);
      if (a != resolve(op.blocks[1]->last->operands[i])) continue;
      replace(op.results[i], a);
    }
  }

  Op* loop(Op& op) {
    if (is_for(op)) {
      if (ranges_.never_runs(op)) {
        Op* next = op.next;
        for (size_t k = 0; k < op.results.size(); ++k) replace(op.results[k], op.operands[3 + k]);
        remove(op);
        return next;
      }
      if (ranges_.most_trips(op) == 1 && ranges_.always_runs(op)) {
        if (Op* next = inline_body(op)) return next;
      }
    }
    block(body_of(op));
    drop_invariants(op);
    if (!is_for(op)) drop_known_results(op);
    return op.next;
  }

  /// The body of a loop that runs once, in its place. Null where it is left from the middle.
  Op* inline_body(Op& op) {
    Block& body = body_of(op);
    if (!left_by_yield_only(op)) return nullptr;
    replace(body.args[0], op.operands[0]);
    for (size_t k = 0; k < op.results.size(); ++k) replace(body.args[k + 1], op.operands[3 + k]);
    Op* end = body.last;
    Op* first = move_before(body, op);
    Op* next = op.next;
    for (size_t k = 0; k < op.results.size(); ++k) replace(op.results[k], resolve(end->operands[k]));
    remove(op);
    return first ? first : next;
  }

  /// Carried values that no iteration changes are their initial value.
  void drop_invariants(Op& op) {
    const Exits exits = exits_of(op);
    for (size_t k = 0; k < carried_count(op); ++k) {
      Value* arg = body_of(op).args[first_carried(op) + k];
      const auto keeps = [&](const Op* end) { return resolve(end->operands[k]) == arg; };
      if (!std::all_of(exits.next.begin(), exits.next.end(), keeps)) continue;
      if (resolve(arg) != arg) continue;
      Value* init = op.operands[first_init(op) + k];
      const bool breaks_keep = std::all_of(exits.breaks.begin(), exits.breaks.end(), keeps);
      if (is_for(op) && op.loop->carried[k].combiner != ir::Combiner::recur_) continue;
      replace(arg, init);
      if (breaks_keep) replace(op.results[k], init);
      arguments_replaced_ = true;
    }
  }

  /// Only a `break` leaves a `while`: results that all of them set to one outer value, or to what another result is.
  void drop_known_results(Op& op) {
    const Exits exits = exits_of(op);
    const auto same = [&](auto&& wanted, size_t k) {
      return std::all_of(exits.breaks.begin(), exits.breaks.end(),
                         [&](const Op* end) { return resolve(end->operands[k]) == wanted(*end); });
    };
    for (size_t k = 0; k < op.results.size() && !exits.breaks.empty(); ++k) {
      Value* first = resolve(exits.breaks[0]->operands[k]);
      Value* known = nullptr;
      if (ir::defined_outside(*first, body_of(op)) && same([&](const Op&) { return first; }, k)) known = first;
      for (size_t j = 0; j < k && !known; ++j) {
        if (same([&](const Op& end) { return resolve(end.operands[j]); }, k)) known = op.results[j];
      }
      if (known && resolve(op.results[k]) == op.results[k]) replace(op.results[k], known);
    }
  }

  ir::Graph& graph_;
  Ranges ranges_;
  Builder builder_;
  std::vector<Value*> to_;
  bool arguments_replaced_ = false;
  bool changed_ = false;
  int proved_ = 0;
};

}  // namespace

bool fold(ir::Graph& graph) { return Fold(graph).run(); }

}  // namespace appy::passes
