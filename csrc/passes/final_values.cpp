#include "passes/final_values.h"

#include <algorithm>
#include <vector>

#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_plain(const Value& v) { return v.op && v.op->blocks.empty() && ir::is_pure(v.op->code); }

/// A loop whose bounds say which iteration is its last.
bool is_counted(const Op& op) {
  const auto step = is_for(op) ? constant(*op.operands[2]) : std::nullopt;
  return step && *step != 0 && left_by_yield_only(op);
}

Value* next_of(const Op& loop, size_t k) { return body_of(loop).last->operands[k]; }

}  // namespace

/// Made of values from outside of the loop.
bool FinalValues::is_invariant(const Value& v) const {
  if (ir::defined_outside(v, body_of(loop_))) return true;
  return is_plain(v) && std::all_of(v.op->operands.begin(), v.op->operands.end(),
                                    [&](const Value* operand) { return is_invariant(*operand); });
}

/// Made of those and of loop variables.
bool FinalValues::is_free(const Value& v) const {
  if (ir::defined_outside(v, body_of(loop_))) return true;
  if (!v.op) return v.index == 0 && v.block->owner && is_for(*v.block->owner);
  return is_plain(v) && std::all_of(v.op->operands.begin(), v.op->operands.end(),
                                    [&](const Value* operand) { return is_free(*operand); });
}

/// Either the carried value `arg` or something new, whichever it is in all iterations of all loops.
bool FinalValues::is_handed_on(const Value& v, const Value& arg) const {
  if (&v == &arg || is_free(v)) return true;
  if (!v.op) return false;
  const auto& operands = v.op->operands;
  switch (v.op->code) {
    case Opcode::select_:
      return is_invariant(*operands[0]) && is_handed_on(*operands[1], arg) && is_handed_on(*operands[2], arg);
    case Opcode::or_:
    case Opcode::and_:
      return (is_invariant(*operands[0]) && is_handed_on(*operands[1], arg)) ||
             (is_invariant(*operands[1]) && is_handed_on(*operands[0], arg));
    case Opcode::for_:
      break;
    default:
      return false;
  }
  const Op& inner = *v.op;
  const size_t k = v.index;
  if (!is_counted(inner)) return false;
  for (size_t n = 0; n < 3; ++n) {
    if (!is_invariant(*inner.operands[n])) return false;
  }
  return is_handed_on(*inner.operands[first_init(inner) + k], arg) &&
         is_handed_on(*next_of(inner, k), *body_of(inner).args[first_carried(inner) + k]);
}

bool FinalValues::last_counts(size_t k) const {
  return left_by_yield_only(loop_) && is_handed_on(*next_of(loop_, k), *body_of(loop_).args[first_carried(loop_) + k]);
}

bool FinalValues::may_emit(const Value& v) const {
  if (ir::defined_outside(v, body_of(loop_))) return true;
  if (!v.op) return v.block == &body_of(loop_);
  if (is_for(*v.op)) return may_emit_result(v);
  return is_plain(v) && std::all_of(v.op->operands.begin(), v.op->operands.end(),
                                    [&](const Value* operand) { return may_emit(*operand); });
}

bool FinalValues::may_emit_result(const Value& v) const {
  const Op& inner = *v.op;
  if (!is_counted(inner)) return false;
  for (size_t n = 0; n < 2; ++n) {
    if (!may_emit(*inner.operands[n])) return false;
  }
  return may_emit(*inner.operands[first_init(inner) + v.index]) &&
         is_handed_on(*next_of(inner, v.index), *body_of(inner).args[first_carried(inner) + v.index]);
}

void FinalValues::at(Value* iv, const std::vector<Value*>& carried) {
  known_.clear();
  known_[induction(loop_)] = iv;
  for (size_t k = 0; k < carried.size(); ++k) known_[body_of(loop_).args[first_carried(loop_) + k]] = carried[k];
}

Value* FinalValues::emit(Builder& b, Value* v) {
  if (ir::defined_outside(*v, body_of(loop_))) return v;
  if (const auto found = known_.find(v); found != known_.end()) return found->second;
  Value* made = nullptr;
  if (is_for(*v->op)) {
    made = emit_result(b, *v->op, v->index);
  } else {
    Copier copier(b.graph());
    for (Value* operand : v->op->operands) copier.map(operand, emit(b, operand));
    Op* copy = copier.copy(*v->op);
    b.block()->append(copy);
    made = copy->result();
  }
  known_[v] = made;
  return made;
}

Value* FinalValues::emit_result(Builder& b, const Op& inner, size_t k) {
  Value *lower = emit(b, inner.operands[0]), *upper = emit(b, inner.operands[1]);
  Value* init = emit(b, inner.operands[first_init(inner) + k]);
  const int64_t step = *constant(*inner.operands[2]);
  Value* runs = b.op(step > 0 ? Opcode::lt_ : Opcode::gt_, {lower, upper});
  Value* span = b.op(Opcode::sub_, {b.op(Opcode::sub_, {upper, lower}), b.i64(step > 0 ? 1 : -1)});
  Value* steps = b.op(Opcode::floordiv_, {span, b.i64(step)});
  known_[induction(inner)] = b.op(Opcode::add_, {lower, b.op(Opcode::mul_, {steps, b.i64(step)})});
  known_[body_of(inner).args[first_carried(inner) + k]] = init;
  return b.select(runs, emit(b, next_of(inner, k)), init);
}

bool may_tell(const Op& loop, const FinalValues& values) {
  bool may = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (op.code != Opcode::poll_) return;
    for (const Value* v : op.operands) may &= values.may_emit(*v);
  });
  return may;
}

Told told_at(Builder& b, const Op& loop, FinalValues& values) {
  Told told;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (op.code != Opcode::poll_) return;
    for (Value* v : op.operands) told[v] = values.emit(b, v);
  });
  return told;
}

Op* copy_telling(const Op& op, Copier& copier, const Told& told) {
  std::vector<const Op*> polls;
  const auto note = [&](const Op& inner) {
    if (inner.code == Opcode::poll_) polls.push_back(&inner);
  };
  note(op);
  for (ir::Block* block : op.blocks) ir::walk(*block, note);
  Op* made = copier.copy(op);
  size_t next = 0;
  const auto tell = [&](Op& inner) {
    if (inner.code != Opcode::poll_) return;
    const Op& poll = *polls[next++];
    for (size_t k = 0; k < poll.operands.size(); ++k) inner.operands[k] = told.at(poll.operands[k]);
  };
  tell(*made);
  for (ir::Block* block : made->blocks) ir::walk(*block, tell);
  return made;
}

}  // namespace appy::passes
