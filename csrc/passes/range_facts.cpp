// What holds at a place: the conditions of checks passed, arms entered and loops run, as sums that are not positive.
#include "passes/range_impl.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

Ranges::Impl::BlockFacts& Ranges::Impl::facts_of(const ir::Block& block) {
  auto [at, fresh] = facts_.try_emplace(&block);
  BlockFacts& facts = at->second;
  if (!fresh) return facts;
  if (const ir::Op* owner = block.owner; owner && owner->code != Opcode::while_) {
    facts.entry.op = owner;
    facts.entry.truth = owner->blocks[0] == &block;
  }
  size_t ops = 0;
  for (const ir::Op* op = block.first; op; op = op->next, ++ops) {
    FactOp fact;
    fact.op = op;
    bool states = op->code == Opcode::check_;
    if (op->code == Opcode::if_ && falls_through(*op->blocks[0]) != falls_through(*op->blocks[1])) {
      states = true;
      fact.truth = falls_through(*op->blocks[0]);
    }
    if (states) facts.ops.push_back(std::move(fact));
  }
  if (block.owner) facts.around = scope_of(*block.owner);
  uint32_t count = 0;
  if (!facts.ops.empty()) facts.before.reserve(ops);
  for (const ir::Op* op = block.first; op && !facts.ops.empty(); op = op->next) {
    facts.before.emplace_back(op, count);
    if (count < facts.ops.size() && facts.ops[count].op == op) ++count;
  }
  std::sort(facts.before.begin(), facts.before.end());
  return facts;
}

Ranges::Impl::Scope Ranges::Impl::scope_of(const ir::Op& where) {
  if (scoped_ == &where) return scope_;
  Scope scope;
  if (!where.parent) return scope;
  scope.facts = &facts_of(*where.parent);
  const auto& ops = scope.facts->ops;
  // The client may have put ops in that stand in no list.
  for (const ir::Op* p = ops.empty() ? nullptr : &where; p; p = p->prev) {
    const auto& before = scope.facts->before;
    const auto found = std::lower_bound(before.begin(), before.end(), std::pair(p, uint32_t{0}));
    if (found == before.end() || found->first != p) continue;
    scope.count = found->second;
    if (p != &where && scope.count < ops.size() && ops[scope.count].op == p) ++scope.count;
    break;
  }
  scoped_ = &where;
  return scope_ = scope;
}

std::vector<Affine> Ranges::Impl::sums_of(const FactOp& fact) {
  std::vector<Affine> out;
  const auto& operands = fact.op->operands;
  if (fact.op->code != Opcode::for_) {
    condition_sums(*operands[0], fact.truth, out, 8);
    return out;
  }
  const Interval step = base(*operands[2]);  // in the body there is an iteration
  if (step.lo > 0) tested_unless_empty(*fact.op, out);
  if (step.lo > 0) out.push_back(difference(affine(*operands[0], nullptr), affine(*operands[1], nullptr), 1));
  if (step.hi < 0) out.push_back(difference(affine(*operands[1], nullptr), affine(*operands[0], nullptr), 1));
  return out;
}

void Ranges::Impl::tested_unless_empty(const ir::Op& loop, std::vector<Affine>& out) {
  const auto is_empty = [&](const Value& v) {
    const ir::Op* op = v.op;
    const bool negated = op && op->code == Opcode::not_;
    if (negated) op = op->operands[0]->op;
    return op && op->code == (negated ? Opcode::lt_ : Opcode::ge_) && op->operands[0] == loop.operands[0] &&
           op->operands[1] == loop.operands[1];
  };
  for (const ir::Op* op = loop.prev; op && (op->code == Opcode::check_ || ir::is_pure(op->code)); op = op->prev) {
    const ir::Op* either = op->code == Opcode::check_ ? op->operands[0]->op : nullptr;
    if (!either || either->code != Opcode::or_) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (is_empty(*either->operands[i])) condition_sums(*either->operands[1 - i], true, out, 8);
    }
  }
}

void Ranges::Impl::condition_sums(const Value& condition, bool truth, std::vector<Affine>& out, int depth) {
  Affine self;  // the condition itself, as a number
  self.add(condition, truth ? -1 : 1);
  self.constant = truth ? 1 : 0;
  out.push_back(self);
  if (!condition.op || depth == 0) return;
  const ir::Op& op = *condition.op;
  const auto operand = [&](size_t i) { return affine(*op.operands[i], nullptr); };
  const auto below = [&](const Value& a, const Value& b, Wide c) {
    out.push_back(difference(affine(a, nullptr), affine(b, nullptr), c));
  };
  const bool integers = op.operands.size() == 2 && integral(*op.operands[0]) && integral(*op.operands[1]);
  switch (op.code) {
    case Opcode::lt_:
    case Opcode::gt_:
    case Opcode::le_:
    case Opcode::ge_: {
      if (!integers) return;
      const bool swapped = op.code == Opcode::gt_ || op.code == Opcode::ge_;
      const bool strict = op.code == Opcode::lt_ || op.code == Opcode::gt_;
      const Value &a = *op.operands[swapped ? 1 : 0], &b = *op.operands[swapped ? 0 : 1];
      if (truth) {
        below(a, b, strict ? 1 : 0);
        // What is wrapped is not above an index that is not negative, nor further below zero than the extent.
        if (a.op && a.op->code == Opcode::wrap_ && base(b).lo >= 0) below(*a.op->operands[0], b, strict ? 1 : 0);
        if (b.op && b.op->code == Opcode::wrap_ && base(a).lo >= 0 && base(*b.op->operands[1]).lo >= 0) {
          Affine low = difference(number(0), affine(*b.op->operands[0], nullptr), 0);
          low.add(affine(*b.op->operands[1], nullptr), -1);
          out.push_back(low);
        }
      } else {
        below(b, a, strict ? 0 : 1);
      }
      return;
    }
    case Opcode::eq_:
    case Opcode::ne_:
      if (!integers || truth != (op.code == Opcode::eq_)) return;
      below(*op.operands[0], *op.operands[1], 0);
      below(*op.operands[1], *op.operands[0], 0);
      return;
    case Opcode::and_:
    case Opcode::or_:
      if (truth != (op.code == Opcode::and_)) return;
      condition_sums(*op.operands[0], truth, out, depth - 1);
      condition_sums(*op.operands[1], truth, out, depth - 1);
      return;
    case Opcode::not_:
      condition_sums(*op.operands[0], !truth, out, depth - 1);
      return;
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_: {
      if (truth) return;
      const Interval fits = interval_of(op.operands[0]->type.dtype);
      Affine sum = operand(0);
      sum.add(operand(1), op.code == Opcode::ovf_add_ ? 1 : -1);
      out.push_back(difference(sum, number(fits.hi), 0));
      out.push_back(difference(number(fits.lo), sum, 0));
      return;
    }
    case Opcode::ovf_mul_: {
      const size_t factor = constant_op(*op.operands[0]) ? 0 : 1;
      const Interval fits = interval_of(op.operands[0]->type.dtype);
      int64_t by;
      if (truth || !is_constant(*op.operands[factor], by) || by >= kMaxCoef || by <= -kMaxCoef) return;
      Affine product;
      product.add(operand(1 - factor), by);
      out.push_back(difference(product, number(fits.hi), 0));
      out.push_back(difference(number(fits.lo), product, 0));
      return;
    }
    case Opcode::select_:
    case Opcode::if_: {
      // Python's `a and b`: one arm is the constant that the condition is not, so the other one was taken.
      const bool select = op.code == Opcode::select_;
      for (size_t arm = 0; arm < 2; ++arm) {
        if (!select && !falls_through(*op.blocks[arm])) continue;
        const Value& value = select ? *op.operands[1 + arm] : *op.blocks[arm]->last->operands[condition.index];
        int64_t constant;
        if (!is_constant(value, constant) || (constant != 0) == truth) continue;
        condition_sums(*op.operands[0], arm == 1, out, depth - 1);
        if (!select && !falls_through(*op.blocks[1 - arm])) continue;
        const Value& other = select ? *op.operands[2 - arm] : *op.blocks[1 - arm]->last->operands[condition.index];
        condition_sums(other, truth, out, depth - 1);
        return;
      }
      return;
    }
    default:
      return;
  }
}

}  // namespace appy::passes
