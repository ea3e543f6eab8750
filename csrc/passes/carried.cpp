#include "passes/carried.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Every value of `narrow` is one of `wide`, and comes back from there unchanged.
bool comes_back(DType narrow, DType wide) {
  if (ir::is_real(wide)) return ir::is_real(narrow) && ir::size_of(narrow) < ir::size_of(wide);
  return wide == DType::i64_ && ir::is_int(narrow) && ir::size_of(narrow) < 8;
}

class Carrier {
 public:
  Carrier(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), exits_(exits_of(loop)) {}

  bool run(bool (Carrier::*step)(size_t)) {
    bool changed = false;
    const size_t count = carried_count(loop_);
    for (size_t k = 0; k < count; ++k) changed |= (this->*step)(k);
    return changed;
  }

  bool close(size_t k) {
    Value* next = decides(k) ? nullptr : common_next(k);
    if (!next) return false;
    const bool fixed = is_fixed(*next), varies = !fixed && is_fixed(*next, true);
    if (!fixed && !varies && !settles(*next, *arg(k))) return false;
    for (const Op* leave : exits_.breaks) {
      if (!fixed || !is_same_value(*leave->operands[k], *next)) return false;
    }
    if (varies && !constant(*loop_.operands[2])) return false;
    if (count_uses(body_of(loop_), *arg(k)) != (fixed || varies ? 0 : 1)) return false;
    if (count_uses(*loop_.parent, *loop_.results[k]) == 0) return false;
    Builder b = builder(loop_.next);
    if (fixed || varies) {
      leave(k, outside(*next, varies ? last_place(b) : Place(), b), b);
    } else {
      leave(k, settled(*next, k, b), b);
    }
    forget(k);
    return true;
  }

  bool tell(size_t k) {
    if (has_permission(loop_)) return false;
    Value* next = common_next(k);
    if (!next || !is_state(*arg(k))) return false;
    const bool computed = is_fixed(*next, true);
    if (!computed && (!exits_.breaks.empty() || !settles(*next, *arg(k)))) return false;
    if (!uses_) uses_.emplace(graph_);
    if (!is_only_told(*arg(k), computed ? nullptr : next)) return false;
    if (!start_) start_ = body_of(loop_).first;
    Builder b = builder(start_);
    Value* iv = induction(loop_);
    if (!first_) first_ = b.op(Opcode::eq_, {iv, loop_.operands[0]});
    const Place before{computed && !is_fixed(*next) ? b.op(Opcode::sub_, {iv, loop_.operands[2]}) : nullptr, iv};
    Value* told = b.select(first_, init(k), computed ? outside(*next, before, b) : settled(*next, k, b));
    if (!computed) {
      Builder after = builder(loop_.next);
      leave(k, settled(*next, k, after), after);
    }
    for (const Use& use : uses_->of(*arg(k))) use.op->operands[use.operand] = told;
    return true;
  }

  bool narrow(size_t k) {
    if (!exits_.breaks.empty()) return false;
    const ir::Combiner combiner = loop_.loop->carried[k].combiner;
    if (combiner != ir::Combiner::recur_ && combiner != ir::Combiner::last_) return false;
    if (exits_.next.size() != 1) return false;
    Op* next = exits_.next[0]->operands[k]->op;
    if (!next || next->code != Opcode::cast_) return false;
    Value* made = next->operands[0];
    const DType type = made->type.dtype;
    if (!comes_back(type, arg(k)->type.dtype)) return false;
    const Uses uses(graph_);
    if (uses.of(*loop_.results[k]).empty() || uses.of(*next->result()).size() != 1) return false;
    // The state of a check or poll would need the wide value.
    const auto found = uses.of(*arg(k));
    for (const Use& use : found) {
      if (use.op->code != Opcode::cast_ || use.op->result()->type.dtype != type) return false;
    }
    if (found.empty()) return false;
    Builder b = builder(&loop_);
    const NewCarried narrowed = append_carried(loop_, b.cast(init(k), type), {}, arg(k)->name);
    exits_.next[0]->operands.push_back(made);
    for (const Use& use : found) {
      ir::replace_uses(graph_, use.op->result(), narrowed.arg);
      use.op->parent->remove(use.op);
    }
    Builder after = builder(loop_.next);
    leave(k, after.cast(narrowed.result, arg(k)->type.dtype), after);
    exits_.next[0]->operands[k] = init(k);
    next->parent->remove(next);
    return true;
  }

 private:
  Value* arg(size_t k) { return body_of(loop_).args[1 + k]; }
  Value* init(size_t k) { return loop_.operands[3 + k]; }

  /// What every iteration that is not left by a `break` makes of it; null: several values.
  Value* common_next(size_t k) const {
    Value* next = exits_.next.empty() ? nullptr : exits_.next[0]->operands[k];
    for (const Op* exit : exits_.next) {
      if (!is_same_value(*exit->operands[k], *next)) return nullptr;
    }
    return next;
  }

  /// Is it part of a check's or poll's state?
  bool is_state(const Value& v) {
    if (!states_) {
      states_.emplace();
      ir::walk(body_of(loop_), [&](const Op& op) {
        for (size_t i = ir::first_state(op); i < op.operands.size(); ++i) states_->insert(op.operands[i]);
      });
    }
    return states_->contains(&v);
  }

  /// Nothing but states needs it, apart from what makes `next` of it.
  bool is_only_told(const Value& v, const Value* next) const {
    return std::ranges::all_of(uses_->of(v), [&](const Use& use) {
      if (use.operand >= ir::first_state(*use.op) || (next && makes(*next, *use.op))) return true;
      return ir::is_pure(use.op->code) && use.op->result() && is_only_told(*use.op->result(), next);
    });
  }

  /// Is the op the value's, or that of one that it is made of?
  static bool makes(const Value& next, const Op& op) {
    if (!next.op || !ir::is_pure(next.op->code)) return false;
    return next.op == &op || std::ranges::any_of(next.op->operands, [&](const Value* v) { return makes(*v, op); });
  }

  /// Do others move with it where partial results are combined?
  bool decides(size_t k) const {
    const auto at = static_cast<int>(k);
    return std::ranges::any_of(loop_.loop->carried,
                               [&](const ir::Carried& c) { return c.leader == at || c.tie == at; });
  }

  /// Nobody reads the carried value any more: its init is no use of what it was, for the loops around to see.
  void forget(size_t k) {
    Builder b = builder(&loop_);
    loop_.operands[3 + k] = b.constant(arg(k)->type.dtype, 0);
  }

  /// The first iteration makes `next` of the carried value, and the others change nothing: it is what does not vary, or
  /// stays, as conditions say that do not vary, several of them in turn, too.
  bool settles(const Value& next, const Value& arg) const {
    if (!next.op) return false;
    const Op& op = *next.op;
    if (op.code != Opcode::select_ && op.code != Opcode::or_ && op.code != Opcode::and_) return false;
    size_t own = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value& v = *op.operands[i];
      if (is_fixed(v)) continue;
      if (op.code == Opcode::select_ && i == 0) return false;
      if (&v != &arg && !settles(v, arg)) return false;
      ++own;
    }
    return own == 1;
  }

  /// What the first iteration makes of the init.
  Value* settled(const Value& next, size_t k, Builder& b) {
    std::vector<Value*> operands;
    for (Value* v : next.op->operands) {
      operands.push_back(v == arg(k) ? init(k) : is_fixed(*v) ? outside(*v, {}, b) : settled(*v, k, b));
    }
    return b.op(next.op->code, operands);
  }

  /// The value can be computed after the loop, or of the loop's variable alone.
  bool is_fixed(const Value& v, bool of_variable = false, int depth = 4) const {
    if (visible_before(v, loop_) || (of_variable && &v == induction(loop_))) return true;
    if (!v.op || depth == 0 || !ir::is_pure(v.op->code)) return false;
    const Opcode code = v.op->code;
    if (code == Opcode::cast_ || code == Opcode::bitcast_ || code == Opcode::dim_) return false;
    for (const Value* operand : v.op->operands) {
      if (!is_fixed(*operand, of_variable, depth - 1)) return false;
    }
    return true;
  }

  /// An iteration: the loop's variable, and what its strip of iterations ends before, if each is one.
  struct Place {
    Value* iv = nullptr;
    Value* end = nullptr;
  };

  Value* outside(Value& v, const Place& place, Builder& b) {
    if (&v == induction(loop_)) return place.iv;
    if (visible_before(v, loop_)) return &v;
    if (v.op->code == Opcode::const_) return b.constant(v.type.dtype, v.op->imm);
    if (place.end && is_strip_end(v)) return place.end;
    std::vector<Value*> operands;
    for (Value* operand : v.op->operands) operands.push_back(outside(*operand, place, b));
    return b.op(v.op->code, operands);
  }

  /// The next iteration's variable, or the loop's end: `upper - iv < step ? upper : iv + step`.
  bool is_strip_end(const Value& v) const {
    const auto step = constant(*loop_.operands[2]);
    const Value* upper = loop_.operands[1];
    const auto made = [](const Value& of, Opcode code) { return of.op && of.op->code == code ? of.op : nullptr; };
    const auto is_step = [&](const Value& s) { return step && *step > 0 && constant(s) == step; };
    const Op* choice = made(v, Opcode::select_);
    const Op* less = choice ? made(*choice->operands[0], Opcode::lt_) : nullptr;
    const Op* left = less ? made(*less->operands[0], Opcode::sub_) : nullptr;
    const Op* sum = choice ? made(*choice->operands[2], Opcode::add_) : nullptr;
    return left && sum && choice->operands[1] == upper && left->operands[0] == upper && is_step(*less->operands[1]) &&
           left->operands[1] == induction(loop_) && sum->operands[0] == induction(loop_) && is_step(*sum->operands[1]);
  }

  /// The last iteration of a loop that runs.
  Place last_place(Builder& b) {
    Value *upper = loop_.operands[1], *one = b.i64(1);
    const bool by_one = constant(*loop_.operands[2]) == 1;
    return {by_one ? b.op(Opcode::sub_, {upper, one})
                   : emit_iteration(b, loop_, b.op(Opcode::sub_, {emit_trips(b, loop_), one})),
            upper};
  }

  Builder builder(Op* before) {
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(before);
    return b;
  }

  /// The result is `value` where the loop runs, and the init where it does not.
  void leave(size_t k, Value* value, Builder& b) {
    Value* result = loop_.results[k];
    Value* after = value == init(k) ? value : b.select(emit_runs(b, loop_), value, init(k));
    ir::replace_uses(graph_, result, after);
  }

  ir::Graph& graph_;
  Op& loop_;
  Exits exits_;
  std::optional<std::unordered_set<const Value*>> states_;  // of checks and polls in the loop, once somebody has asked
  std::optional<Uses> uses_;                                // from the first value on that is told instead
  Value* first_ = nullptr;                                  // is it the first iteration?
  Op* start_ = nullptr;  // of the body, before anything was computed there to be told
};

}  // namespace

bool narrow_carried(ir::Graph& graph, Op& loop) { return Carrier(graph, loop).run(&Carrier::narrow); }

bool close_carried(ir::Graph& graph, Op& loop) { return Carrier(graph, loop).run(&Carrier::close); }

bool tell_carried(ir::Graph& graph, Op& loop) { return Carrier(graph, loop).run(&Carrier::tell); }

}  // namespace appy::passes
