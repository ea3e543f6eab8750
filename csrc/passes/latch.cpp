#include "passes/latch.h"

#include <algorithm>

#include "ir/builder.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Combiner;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// May it run where Python would not have run it?
bool unseen(const Block& block) {
  for (const Op* op = block.first; op; op = op->next) {
    const ir::Effect effect = ir::info(op->code).effect;
    const bool declines = op->code == Opcode::check_ && op->check->declines;
    const bool control = op->code == Opcode::if_ || op->code == Opcode::yield_;
    if (effect != ir::Effect::pure && effect != ir::Effect::load && !declines && !control) return false;
    for (const Block* inner : op->blocks) {
      if (!unseen(*inner)) return false;
    }
  }
  return true;
}

class Finder {
 public:
  Finder(const Uses& uses, Op& loop, size_t k) : uses_(uses), loop_(loop), body_(body_of(loop)) { latch_.k = k; }

  std::optional<Latch> find() {
    const Exits exits = exits_of(loop_);
    if (!exits.breaks.empty() || exits.next.size() != 1) return {};
    exit_ = exits.next[0];
    if (exit_ != body_.last || arg(latch_.k)->type != ir::scalar(DType::bool_)) return {};
    const Value* next = exit_->operands[latch_.k];
    latch_.test = next->op;
    if (!next->op || next->op->code != Opcode::if_ || next->op->parent != &body_) return {};
    if (!tests_itself() || !keeps_itself(next->index)) return {};
    if (latch_.test->blocks[0]->last->code != Opcode::yield_ || latch_.test->blocks[1]->last->code != Opcode::yield_) {
      return {};
    }
    latch_.update = latch_.arm->last->operands[next->index];
    if (!unseen(*latch_.test->blocks[0]) || !unseen(*latch_.test->blocks[1])) return {};
    for (size_t r = 0; r < latch_.test->results.size(); ++r) {
      if (r != next->index && !is_member(r)) return {};
    }
    return latch_;
  }

 private:
  Value* arg(size_t k) { return body_.args[first_carried(loop_) + k]; }
  Block& other() { return *latch_.test->blocks[latch_.arm == latch_.test->blocks[0]]; }

  /// The condition is the value so far, or its negation, and nothing else looks at it.
  bool tests_itself() {
    bool negated = false;
    const Value* condition = latch_.test->operands[0];
    while (condition->op && condition->op->code == Opcode::not_ && condition != arg(latch_.k)) {
      negated = !negated;
      if (!only_decides(*condition)) return false;
      condition = condition->op->operands[0];
    }
    negated_ = negated;
    return condition == arg(latch_.k) && only_decides(*condition);
  }

  bool only_decides(const Value& v) {
    for (const Use& use : uses_.of(v)) {
      if (use.operand >= ir::first_state(*use.op)) continue;
      const bool decides = use.op == latch_.test && use.operand == 0;
      const bool kept = use.op->code == Opcode::yield_ && use.op->parent->owner == latch_.test;
      if (!decides && !kept && use.op->code != Opcode::not_) return false;
      // Another negation of it would have to be followed, too.
      if (use.op->code == Opcode::not_ && !negates_for_test(*use.op)) return false;
    }
    return true;
  }

  bool negates_for_test(const Op& op) {
    const Value* v = latch_.test->operands[0];
    while (v->op && v->op->code == Opcode::not_) {
      if (v->op == &op) return true;
      v = v->op->operands[0];
    }
    return uses_.of(*op.results[0]).empty();
  }

  /// One arm leaves the Boolean as it is.
  bool keeps_itself(size_t result) {
    for (size_t a = 0; a < 2; ++a) {
      const bool value = (a == 0) != negated_;  // of the Boolean in this arm
      Op* end = latch_.test->blocks[a]->last;
      if (end->code != Opcode::yield_) return false;
      const Value* kept = end->operands[result];
      if (kept != arg(latch_.k) && constant(*kept) != int64_t{value}) continue;
      if (latch_.arm) return false;  // both do
      latch_.stop = value;
      latch_.arm = latch_.test->blocks[1 - a];
    }
    if (!latch_.arm) return false;
    // Nothing else is made of it.
    for (const Use& use : uses_.of(*arg(latch_.k))) {
      if (use.op->code == Opcode::yield_ && use.operand < ir::first_state(*use.op) &&
          !(use.op == other().last && use.operand == result)) {
        return false;
      }
    }
    return true;
  }

  /// Result r of the conditional is another carried value that the other arm keeps, or is not used.
  bool is_member(size_t r) {
    const Value& result = *latch_.test->results[r];
    if (uses_.of(result).empty()) return true;
    for (const Use& use : uses_.of(result)) {
      if (use.op != exit_ && use.operand < ir::first_state(*use.op)) return false;
    }
    const auto at = std::find(exit_->operands.begin(), exit_->operands.end(), &result);
    if (at == exit_->operands.end() || std::count(exit_->operands.begin(), exit_->operands.end(), &result) != 1) {
      return false;
    }
    const auto t = static_cast<size_t>(at - exit_->operands.begin());
    if (other().last->operands[r] != arg(t)) return false;
    for (const Use& use : uses_.of(*arg(t))) {
      const bool kept = use.op == other().last && use.operand == r;
      if (!kept && use.operand < ir::first_state(*use.op)) return false;
    }
    const Value& made = *latch_.arm->last->operands[r];
    latch_.members_are_fixed &= constant(made).has_value() || visible_before(made, loop_);
    latch_.members.push_back(t);
    return true;
  }

  const Uses& uses_;
  Op& loop_;
  Block& body_;
  Op* exit_ = nullptr;
  bool negated_ = false;
  Latch latch_;
};

}  // namespace

std::optional<Latch> find_latch(const Uses& uses, Op& loop, size_t k) { return Finder(uses, loop, k).find(); }

LatchOrder add_order(ir::Graph& graph, Op& loop, const Latch& latch, Value* key) {
  Builder b(graph);
  b.set_loc(loop.loc);
  b.set_before(&loop);
  Value* never = b.i64(INT64_MAX);
  const LatchOrder at{carried_count(loop), carried_count(loop) + 1};
  const auto leader = static_cast<int>(at.order), tie = static_cast<int>(at.tie);
  Op *taken = latch.arm->last, *kept = latch.test->blocks[latch.arm == latch.test->blocks[0]]->last;
  // What stops comes before all that does not; of that, the last comes first.
  b.set_before(taken);
  Value* later = b.op(Opcode::sub_, {b.i64(INT64_MAX - 1), key});
  Value* order = latch.stop ? b.select(latch.update, key, later) : b.select(latch.update, later, key);
  Op* exit = exits_of(loop).next[0];
  const auto carry = [&](ir::Carried how, Value* value, const char* name) {
    const NewCarried made = append_carried(loop, never, how, name);
    taken->operands.push_back(value);
    kept->operands.push_back(made.arg);
    exit->operands.push_back(ir::add_result(*latch.test, value->type));
  };
  carry({Combiner::minimum_, -1, tie}, order, "decided");
  carry({Combiner::follow_first_, leader}, key, "tie");
  return at;
}

}  // namespace appy::passes
