#include "passes/chain.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/comparisons.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Combiner;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

Combiner combiner_of(Opcode code) {
  switch (code) {
    case Opcode::add_:
    case Opcode::sub_:
      return Combiner::sum_;
    case Opcode::mul_:
      return Combiner::prod_;
    case Opcode::pymin_:
      return Combiner::pymin_;
    case Opcode::pymax_:
      return Combiner::pymax_;
    case Opcode::minimum_:
      return Combiner::minimum_;
    case Opcode::maximum_:
      return Combiner::maximum_;
    case Opcode::and_:
      return Combiner::and_;
    case Opcode::or_:
      return Combiner::or_;
    case Opcode::xor_:
      return Combiner::xor_;
    default:
      return Combiner::recur_;
  }
}

bool is_extremum_with_nan(Opcode code) { return code == Opcode::minimum_ || code == Opcode::maximum_; }

/// minimum and maximum replace the old value where the update is beyond it or the first NaN, which is where it is not
/// `le` (for maximum) than a number: not (update <= old) and not isnan(old).
Opcode stays(Opcode extremum) { return extremum == Opcode::maximum_ ? Opcode::le_ : Opcode::ge_; }

/// `v` where v is not(v), null for others.
const Value* negated(const Value* v) { return v->op && v->op->code == Opcode::not_ ? v->op->operands[0] : nullptr; }

/// Is the condition the one under which minimum(old, update), or maximum, is the update?
bool replaces(const Op& extremum, const Value& old, const Value& update, const Value& condition) {
  const Op* c = condition.op;
  if (!c || c->code != Opcode::and_) return false;
  const Value *left = negated(c->operands[0]), *right = negated(c->operands[1]);
  if (!left || !right || !left->op || !right->op) return false;
  if (left->op->code == Opcode::isnan_) std::swap(left, right);
  const Op *order = left->op, *nan = right->op;
  if (nan->code != Opcode::isnan_ || nan->operands[0] != &old) return false;
  const Opcode code = stays(extremum.code);
  return (order->code == code && order->operands[0] == &update && order->operands[1] == &old) ||
         (order->code == mirrored(code) && order->operands[0] == &old && order->operands[1] == &update);
}

/// The loop whose next iteration, or exit, the terminator leads to.
Op* target_of(const Op& terminator) { return ir::enclosing_loop(*terminator.parent); }

}  // namespace

Chain::Chain(const Uses& uses, Op& loop, size_t k)
    : uses_(uses), loop_(loop), k_(k), arg_(body_of(loop).args[first_carried(loop) + k]) {
  member_.resize(loop.graph->value_count());
  push(arg_);
  for (size_t i = 0; i < members_.size() && valid_; ++i) {
    for (const Use& use : uses_.of(*members_[i])) {
      if (is_inside(*use.op, body_of(loop_))) follow(use);
    }
  }
  if (valid_) close();
}

void Chain::push(Value* v) {
  if (has(*v)) return;
  member_[v->id] = true;
  members_.push_back(v);
}

void Chain::combine(Combiner combiner, const Use& use) {
  if (combiner_ != Combiner::recur_ && combiner_ != combiner) valid_ = false;
  combiner_ = combiner;
  updates_.emplace_back(use.op, use.operand);
  push(use.op->result());
}

void Chain::follow(const Use& use) {
  Op& op = *use.op;
  const bool integer = !ir::is_real(op.operands[use.operand]->type.dtype);
  switch (op.code) {
    case Opcode::check_:
    case Opcode::poll_:
      if (use.operand < ir::first_state(op)) valid_ = false;
      return;
    case Opcode::sub_:
      if (use.operand != 0) {
        valid_ = false;
        return;
      }
      return combine(Combiner::sum_, use);
    case Opcode::pymin_:
    case Opcode::pymax_:
      // With the running value second, a NaN restarts Python's min and max: no reduction.
      if (use.operand != 0 && !integer) {
        valid_ = false;
        return;
      }
      return combine(combiner_of(op.code), use);
    case Opcode::add_:
    case Opcode::mul_:
    case Opcode::minimum_:
    case Opcode::maximum_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      return combine(combiner_of(op.code), use);
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_:
    case Opcode::isnan_:
      if (std::find(compares_.begin(), compares_.end(), &op) == compares_.end()) compares_.push_back(&op);
      return;
    case Opcode::select_:
      if (use.operand == 0) {
        // s or e, s and e: select(s, s, e), select(s, true, e), select(s, e, s), select(s, e, false).
        const Value *s = op.operands[0], *a = op.operands[1], *b = op.operands[2];
        if (a->type.dtype != DType::bool_) {
          valid_ = false;
        } else if (a == s || constant(*a) == 1) {
          combine(Combiner::or_, use);
        } else if (b == s || constant(*b) == 0) {
          combine(Combiner::and_, use);
        } else {
          valid_ = false;
        }
        return;
      }
      push(op.result());
      return;
    case Opcode::for_:
    case Opcode::while_: {
      if (use.operand < first_init(op)) {
        valid_ = false;
        return;
      }
      const size_t k = use.operand - first_init(op);
      push(body_of(op).args[first_carried(op) + k]);
      push(op.results[k]);
      return;
    }
    case Opcode::yield_:
      if (op.parent->owner->code == Opcode::if_) {
        push(op.parent->owner->results[use.operand]);
        return;
      }
      [[fallthrough]];
    case Opcode::continue_:
    case Opcode::break_: {
      Op* target = target_of(op);
      if (target == &loop_) {
        if (use.operand != k_) valid_ = false;
        return;
      }
      // The inner loop's argument must be the variable too, which its init shows: close() looks.
      push(target->results[use.operand]);
      push(body_of(*target).args[first_carried(*target) + use.operand]);
      return;
    }
    default:
      valid_ = false;
  }
}

void Chain::merge_at_exits(const Op& loop, size_t k) {
  const Exits exits = exits_of(loop);
  for (const auto* list : {&exits.next, &exits.breaks}) {
    for (Op* exit : *list) {
      if (!has(*exit->operands[k])) merges_.push_back({exit, nullptr, true, exit->operands[k], nullptr});
    }
  }
}

void Chain::close() {
  for (const auto& [op, operand] : updates_) {
    if (op->code == Opcode::select_) {
      const Value *s = op->operands[0], *a = op->operands[1], *b = op->operands[2];
      const Value* other = a == s || constant(*a) == 1 ? b : a;
      if (has(*other)) valid_ = false;
      continue;
    }
    if (has(*op->operands[1 - operand])) valid_ = false;
  }
  for (const Op* op : compares_) {
    if (op->code == Opcode::isnan_) {
      // Only where NaN is an extremum can partial results tell what this says of the whole.
      valid_ &= combiner_ == Combiner::minimum_ || combiner_ == Combiner::maximum_;
    } else if (has(*op->operands[0]) && has(*op->operands[1])) {
      valid_ = false;
    }
  }
  for (Value* v : members_) {
    if (!v->op) {
      if (v != arg_) {
        const Op& inner = *v->block->owner;
        if (!has(*inner.operands[first_init(inner) + v->index - first_carried(inner)])) valid_ = false;
      }
      continue;
    }
    Op& op = *v->op;
    if (op.code == Opcode::select_ && !has(*op.operands[0])) {
      Value *cond = op.operands[0], *a = op.operands[1], *b = op.operands[2];
      if (!has(*a)) merges_.push_back({&op, cond, true, a, b});
      if (!has(*b)) merges_.push_back({&op, cond, false, b, a});
    } else if (op.code == Opcode::if_) {
      Op* ends[2] = {op.blocks[0]->last, op.blocks[1]->last};
      Value* values[2] = {};
      for (int arm = 0; arm < 2; ++arm) {
        if (ends[arm]->code == Opcode::yield_) values[arm] = ends[arm]->operands[v->index];
      }
      for (int arm = 0; arm < 2; ++arm) {
        if (values[arm] && !has(*values[arm])) {
          merges_.push_back({&op, op.operands[0], arm == 0, values[arm], values[1 - arm]});
        }
      }
    } else if (is_loop(op)) {
      if (!has(*op.operands[first_init(op) + v->index])) valid_ = false;
      merge_at_exits(op, v->index);
    }
  }
  merge_at_exits(loop_, k_);
}

namespace {

class Shadow {
 public:
  Shadow(ir::Graph& graph, const Chain& chain, Value* key, std::string name)
      : graph_(graph), chain_(chain), key_(key), name_(std::move(name)) {}

  size_t add(Op& loop, Value* init) {
    const size_t index = carried_count(loop);
    const NewCarried made = append_carried(loop, init, {}, name_);
    made_[chain_.arg()] = made.arg;
    finish(loop, chain_.index());
    return index;
  }

 private:
  void finish(Op& loop, size_t k) {
    const Exits exits = exits_of(loop);
    for (const auto* list : {&exits.next, &exits.breaks}) {
      for (Op* exit : *list) exit->operands.push_back(of(exit->operands[k]));
    }
  }

  Value* of(Value* v) {
    if (!chain_.has(*v)) return key_;
    if (auto known = made_.find(v); known != made_.end()) return known->second;
    if (!v->op) {
      // An inner loop's argument: making the shadow of the loop's result makes it.
      const Op& inner = *v->block->owner;
      of(inner.results[v->index - first_carried(inner)]);
      return made_.at(v);
    }
    Op& op = *v->op;
    Builder b(graph_);
    b.set_loc(op.loc);
    b.set_before(&op);
    switch (op.code) {
      case Opcode::select_: {
        Value *yes = of(op.operands[1]), *no = of(op.operands[2]);
        b.set_before(&op);
        return made_[v] = b.select(op.operands[0], yes, no);
      }
      case Opcode::pymin_:
      case Opcode::pymax_: {
        const bool second = chain_.has(*op.operands[1]);
        Value *old = op.operands[second], *update = op.operands[!second];
        const bool min = op.code == Opcode::pymin_;
        const Opcode order = min ? (second ? Opcode::le_ : Opcode::lt_) : (second ? Opcode::ge_ : Opcode::gt_);
        Value* no = of(old);
        return made_[v] = b.select(b.op(order, {update, old}), key_, no);
      }
      case Opcode::minimum_:
      case Opcode::maximum_: {
        const bool second = chain_.has(*op.operands[1]);
        Value *old = op.operands[second], *update = op.operands[!second];
        Value* no = of(old);
        Value* within = b.op(stays(op.code), {update, old});
        Value* number = b.op(Opcode::not_, {b.op(Opcode::isnan_, {old})});
        return made_[v] = b.select(b.op(Opcode::and_, {b.op(Opcode::not_, {within}), number}), key_, no);
      }
      case Opcode::if_: {
        Value* result = made_[v] = ir::add_result(op, key_->type);
        for (Block* arm : op.blocks) {
          if (arm->last->code != Opcode::yield_) continue;
          Value* value = of(arm->last->operands[v->index]);
          arm->last->operands.push_back(value);
        }
        return result;
      }
      default: {
        const NewCarried inner = append_carried(op, of(op.operands[first_init(op) + v->index]), {}, name_);
        made_[body_of(op).args[first_carried(op) + v->index]] = inner.arg;
        made_[v] = inner.result;
        finish(op, v->index);
        return inner.result;
      }
    }
  }

  ir::Graph& graph_;
  const Chain& chain_;
  Value* key_;
  std::string name_;
  std::unordered_map<const Value*, Value*> made_;
};

class Matcher {
 public:
  Matcher(const Chain& leader, const Chain& follower) : leader_(leader), follower_(follower) {}

  bool loop(const Op& loop, size_t l, size_t f) {
    pairs_.emplace_back(body_of(loop).args[first_carried(loop) + l], body_of(loop).args[first_carried(loop) + f]);
    const Exits exits = exits_of(loop);
    for (const auto* list : {&exits.next, &exits.breaks}) {
      for (const Op* exit : *list) {
        if (!same(exit->operands[l], exit->operands[f])) return false;
      }
    }
    return true;
  }

 private:
  static bool paired_compare(const Op& minmax, const Value& update, const Value& old, const Value& condition) {
    const Op* c = condition.op;
    if (!c || !is_order(c->code)) return false;
    const bool min = minmax.code == Opcode::pymin_;
    const Opcode forward = min ? Opcode::lt_ : Opcode::gt_;
    const Opcode backward = min ? Opcode::gt_ : Opcode::lt_;
    return (c->code == forward && c->operands[0] == &update && c->operands[1] == &old) ||
           (c->code == backward && c->operands[0] == &old && c->operands[1] == &update);
  }

  static bool are_opposite(const Value& a, const Value& b) {
    if (!a.op || !b.op) return false;
    if (a.op->code == Opcode::not_ && a.op->operands[0] == &b) return true;
    if (b.op->code == Opcode::not_ && b.op->operands[0] == &a) return true;
    if (a.op->operands != b.op->operands || !is_order(a.op->code) || !is_order(b.op->code)) return false;
    if (ir::is_real(a.op->operands[0]->type.dtype)) return false;
    const auto less = [](Opcode code) { return code == Opcode::lt_ || code == Opcode::le_; };
    const auto strict = [](Opcode code) { return code == Opcode::lt_ || code == Opcode::gt_; };
    return less(a.op->code) != less(b.op->code) && strict(a.op->code) != strict(b.op->code);
  }

  /// The two sides of a merge, or nulls.
  struct Sides {
    Value* condition = nullptr;
    Value* yes = nullptr;
    Value* no = nullptr;
  };
  Sides sides(const Value& v) const {
    const Op& op = *v.op;
    if (op.code == Opcode::or_) {
      // A flag: or(c, flag) is select(c, true, flag).
      const bool second = follower_.has(*op.operands[1]);
      Value* condition = op.operands[!second];
      return {condition, condition, op.operands[second]};
    }
    if (op.code == Opcode::select_) return {op.operands[0], op.operands[1], op.operands[2]};
    if (op.code == Opcode::if_ && op.blocks[0]->last->code == Opcode::yield_ &&
        op.blocks[1]->last->code == Opcode::yield_) {
      return {op.operands[0], op.blocks[0]->last->operands[v.index], op.blocks[1]->last->operands[v.index]};
    }
    return {};
  }

  bool same(const Value* l, const Value* f) {
    if (leader_.has(*l) != follower_.has(*f)) return false;
    if (!leader_.has(*l)) return true;
    if (std::find(pairs_.begin(), pairs_.end(), std::pair(l, f)) != pairs_.end()) return true;
    if (!l->op || !f->op) return false;
    if (is_loop(*l->op)) {
      const size_t init = first_init(*l->op);
      if (f->op != l->op || !same(l->op->operands[init + l->index], f->op->operands[init + f->index])) return false;
      pairs_.emplace_back(l, f);
      return loop(*l->op, l->index, f->index);
    }
    const Sides right = sides(*f);
    if (l->op->code == Opcode::if_ && f->op == l->op && !right.condition) {
      // An arm leaves: the other one decides, the exits are matched with their loop.
      for (const Block* arm : l->op->blocks) {
        if (arm->last->code == Opcode::yield_ && !same(arm->last->operands[l->index], arm->last->operands[f->index])) {
          return false;
        }
      }
      return true;
    }
    if (!right.condition) return false;
    if (l->op->code == Opcode::pymin_ || l->op->code == Opcode::pymax_) {
      if (!leader_.has(*l->op->operands[0])) return false;
      const Value *old = l->op->operands[0], *update = l->op->operands[1];
      return paired_compare(*l->op, *update, *old, *right.condition) && same(update, right.yes) && same(old, right.no);
    }
    if (is_extremum_with_nan(l->op->code)) {
      const bool second = leader_.has(*l->op->operands[1]);
      const Value *old = l->op->operands[second], *update = l->op->operands[!second];
      return replaces(*l->op, *old, *update, *right.condition) && same(update, right.yes) && same(old, right.no);
    }
    const Sides left = sides(*l);
    if (!left.condition) return false;
    if (left.condition == right.condition) return same(left.yes, right.yes) && same(left.no, right.no);
    return are_opposite(*left.condition, *right.condition) && same(left.yes, right.no) && same(left.no, right.yes);
  }

  const Chain& leader_;
  const Chain& follower_;
  std::vector<std::pair<const Value*, const Value*>> pairs_;
};

}  // namespace

size_t add_shadow(ir::Graph& graph, Op& loop, const Chain& chain, Value* key, Value* init, std::string name) {
  return Shadow(graph, chain, key, std::move(name)).add(loop, init);
}

bool moves_with(const Chain& leader, const Chain& follower, const Op& loop) {
  return Matcher(leader, follower).loop(loop, leader.index(), follower.index());
}

}  // namespace appy::passes
