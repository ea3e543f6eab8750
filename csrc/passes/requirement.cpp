#include "passes/requirement.h"

#include <set>
#include <utility>

#include "passes/loops.h"

namespace appy::passes {

using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool starts_false(const Value& v) {
  const Op* owner = v.op ? nullptr : v.block->owner;
  return owner && is_for(*owner) && v.index > 0 && constant(*owner->operands[3 + v.index - 1]) == 0;
}

bool is_whole(const Value& v) { return ir::is_int(v.type.dtype) && v.type.dtype != DType::u64_; }

}  // namespace

bool Requirement::add(Value& condition, bool holds) {
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

std::vector<Value*> Requirement::needed() {
  std::vector<Value*> all = needed_;
  for (Value* overflow : extremes_.take_overflows()) all.push_back(negate(*overflow));
  return all;
}

bool Requirement::less(const Value& a, const Value& b, bool strict) {
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
bool Requirement::equal(Value& a, Value& b) {
  if (&a == &b) return true;
  if (!is_whole(a) || !is_whole(b)) return false;
  if (extremes_.is_before(a) && extremes_.is_before(b)) {
    needed_.push_back(builder().op(Opcode::eq_, {&a, &b}));
    return true;
  }
  // The lesser of two is one of them: the other is no less.
  for (const auto& [cut, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (!cut->op || cut->op->code != Opcode::pymin_) continue;
    for (size_t side = 0; side < 2; ++side) {
      if (cut->op->operands[side] == other) return less(*other, *cut->op->operands[1 - side], false);
    }
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

bool Requirement::nonzero(const Op& op) {
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

bool Requirement::fits(const Op& op) {
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

}  // namespace appy::passes
