// Conditions: booleans, comparisons in the flags, tests of indices, jumps.
#include <algorithm>

#include "cpu/function.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;
using Parity = Flags::Parity;

void Function::emit_bool(const ir::Op& op, x86::Gp to) {
  switch (op.code) {
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::add_:
    case Opcode::mul_:
    case Opcode::sub_:
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_: {
      x86::Gp a = gp(op.operands[0]), b = gp(op.operands[1]);
      // min/max of 0 and 1 are and/or; sum and product of bools are or/and.
      const Opcode code =
          op.code == Opcode::sub_                                                               ? Opcode::xor_
          : op.code == Opcode::add_ || op.code == Opcode::pymax_ || op.code == Opcode::maximum_ ? Opcode::or_
          : op.code == Opcode::mul_ || op.code == Opcode::pymin_ || op.code == Opcode::minimum_ ? Opcode::and_
                                                                                                : op.code;
      return int_binary(code, DType::bool_, to, a, b);
    }
    case Opcode::not_: {
      const ir::Value* v = op.operands[0];
      move(to, gp(v));
      cc_.xor_(to.r32(), 1);
      return;
    }
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_:
      return set_bool(to, overflow(op));
    case Opcode::signbit_: {
      const bool wide = op.operands[0]->type.dtype == DType::f64_;
      wide ? cc_.vpextrq(to, xmm(op.operands[0]), 0) : cc_.vpextrd(to.r32(), xmm(op.operands[0]), 0);
      wide ? cc_.shr(to, 63) : cc_.shr(to.r32(), 31);
      return;
    }
    default:
      return set_bool(to, compare(op));
  }
}

void Function::set_bool(x86::Gp to, Flags flags) {
  // mov leaves the flags alone and makes the byte writes below complete definitions.
  x86::Gp r = cc_.newGpq();
  cc_.mov(r.r32(), 0);
  cc_.set(flags.code, r.r8());
  if (flags.parity != Parity::ignored) {
    x86::Gp p = cc_.newGpq();
    cc_.mov(p.r32(), 0);
    if (flags.parity == Parity::and_ordered) {
      cc_.setnp(p.r8());
      cc_.and_(r.r32(), p.r32());
    } else {
      cc_.setp(p.r8());
      cc_.or_(r.r32(), p.r32());
    }
  }
  cc_.mov(to.r32(), r.r32());
}

Flags Function::classify(const ir::Op& op) {
  const ir::Value* x = op.operands[0];
  const bool wide = x->type.dtype == DType::f64_;
  const x86::Xmm a = xmm(x);
  if (op.code == Opcode::isnan_) {
    wide ? cc_.vucomisd(a, a) : cc_.vucomiss(a, a);
    return {x86::CondCode::kP};
  }
  x86::Gp bits = cc_.newGpq(), inf = cc_.newGpq();
  wide ? cc_.vpextrq(bits, a, 0) : cc_.vpextrd(bits.r32(), a, 0);
  load_imm(inf, wide ? 0x7ff0000000000000 : 0x7f800000);
  wide ? cc_.add(bits, bits) : cc_.add(bits.r32(), bits.r32());
  wide ? cc_.shr(bits, 1) : cc_.shr(bits.r32(), 1);
  cc_.cmp(bits, inf);
  return {op.code == Opcode::isinf_ ? x86::CondCode::kE : x86::CondCode::kB};
}

Flags Function::compare(const ir::Op& op) {
  if (op.operands.size() == 1) return classify(op);
  const ir::Value *a = op.operands[0], *b = op.operands[1];
  const DType t = a->type.dtype;
  using CC = x86::CondCode;
  if (is_float(t)) {
    // Swapped so that "above" conditions, false when unordered, do.
    const bool swap = op.code == Opcode::lt_ || op.code == Opcode::le_;
    const ir::Value *x = swap ? b : a, *y = swap ? a : b;
    x86::Xmm left = xmm(x);
    cc_.emit(t == DType::f64_ ? x86::Inst::kIdVucomisd : x86::Inst::kIdVucomiss, left, xmm_or_mem(y));
    switch (op.code) {
      case Opcode::eq_:
        return {CC::kE, Parity::and_ordered};
      case Opcode::ne_:
        return {CC::kNE, Parity::or_unordered};
      case Opcode::lt_:
      case Opcode::gt_:
        return {CC::kA};
      default:
        return {CC::kAE};
    }
  }
  x86::Gp left = gp(a);
  asmjit::Operand right = gp_or_imm(b);
  if (right.isImm() && right.as<asmjit::Imm>().value() == 0 && (op.code == Opcode::eq_ || op.code == Opcode::ne_)) {
    cc_.test(left, left);
  } else {
    cc_.emit(x86::Inst::kIdCmp, left, right);
  }
  const bool sign = ir::is_signed(t);
  switch (op.code) {
    case Opcode::eq_:
      return {CC::kE};
    case Opcode::ne_:
      return {CC::kNE};
    case Opcode::lt_:
      return {sign ? CC::kL : CC::kB};
    case Opcode::le_:
      return {sign ? CC::kLE : CC::kBE};
    case Opcode::gt_:
      return {sign ? CC::kG : CC::kA};
    default:
      return {sign ? CC::kGE : CC::kAE};
  }
}

bool Function::is_extent(const ir::Value* v) const {
  return is_const(v) ? const_int(v) >= 0 : v->op && v->op->code == Opcode::dim_;
}

std::optional<ir::IndexTest> Function::index_test(const ir::Value* condition) const {
  const auto test = ir::index_test(*condition);
  const auto unused_yet = [&](const ir::Op* op) { return !bound(op->result()) && deferred(*op); };
  const bool one_comparison = test && unused_yet(condition->op) && unused_yet(test->low) && unused_yet(test->high) &&
                              ir::is_signed(test->index->type.dtype) && is_extent(test->extent);
  return one_comparison ? test : std::nullopt;
}

const ir::Op* Function::tested_wrap(const ir::Op& check) const {
  if (vector_) return nullptr;  // there checks are the lanes' business
  const auto test = index_test(check.operands[0]);
  const ir::Op* wrap = test ? test->index->op : nullptr;
  if (!wrap || wrap->code != Opcode::wrap_ || wrap->parent != check.parent || wrap->operands[1] != test->extent)
    return nullptr;
  const auto uses_it = [&](const ir::Value* v) { return v == test->index; };
  if (std::any_of(check.operands.begin(), check.operands.end(), uses_it)) return nullptr;
  for (const ir::Op* op = wrap->next; op != &check; op = op->next) {
    if (!op || !ir::is_pure(op->code)) return nullptr;
    if (std::any_of(op->operands.begin(), op->operands.end(), uses_it) && !deferred(*op)) return nullptr;
  }
  return wrap;
}

bool Function::is_wrapped_by_its_test(const ir::Op& wrap) const {
  const ir::Op* op = wrap.next;
  while (op && op->code != Opcode::check_ && ir::is_pure(op->code)) op = op->next;
  return op && op->code == Opcode::check_ && tested_wrap(*op) == &wrap;
}

bool Function::may_wrap_in_place(const ir::Op& wrap, const ir::Op& check) const {
  const ir::Value* index = wrap.operands[0];
  const auto in_check = std::count(check.operands.begin(), check.operands.end(), index);
  const ir::Op* op = index->op;
  if (!op || op->parent != wrap.parent || static_cast<int64_t>(m_.uses[index->id]) != in_check + 1) return false;
  return op->code == Opcode::load_ || (op->code == Opcode::cast_ && is_float(op->operands[0]->type.dtype));
}

void Function::wrap_or_jump(const ir::Op& wrap, const ir::Op& check, asmjit::Label failed) {
  // One comparison of unsigned words finds what is negative and what is too large.
  const asmjit::Operand n = gp_or_imm(wrap.operands[1]);
  const bool in_place = may_wrap_in_place(wrap, check);
  x86::Gp to = in_place ? gp(wrap.operands[0]) : cc_.newGpq();
  if (!in_place) cc_.mov(to, gp(wrap.operands[0]));
  asmjit::Label back = cc_.newLabel();
  asmjit::Label outside = cold([this, to, n, back, failed, in_place] {
    asmjit::Label wrong = cc_.newLabel();
    cc_.emit(x86::Inst::kIdAdd, to, n);
    cc_.emit(x86::Inst::kIdCmp, to, n);
    cc_.jae(in_place ? wrong : failed);
    cc_.jmp(back);
    if (!in_place) return;
    cc_.bind(wrong);
    cc_.emit(x86::Inst::kIdSub, to, n);  // who is told wants the index as it was
    cc_.jmp(failed);
  });
  cc_.emit(x86::Inst::kIdCmp, to, n);
  cc_.jae(outside);
  cc_.bind(back);
  bind(wrap.result(), to);
}

void Function::jump(Flags flags, bool when, asmjit::Label to) {
  const auto taken = when ? flags.code : x86::negateCond(flags.code);
  const bool both_needed = (flags.parity == Parity::and_ordered) == when;
  if (flags.parity == Parity::ignored) {
    cc_.j(taken, to);
  } else if (both_needed) {
    // eq taken when true / ne taken when false: equal and ordered.
    asmjit::Label skip = cc_.newLabel();
    cc_.jp(skip);
    cc_.j(taken, to);
    cc_.bind(skip);
  } else {
    cc_.jp(to);
    cc_.j(taken, to);
  }
}

void Function::jump_if(const ir::Value* condition, bool when, asmjit::Label to) {
  if (is_const(condition)) {
    if ((const_int(condition) != 0) == when) cc_.jmp(to);
    return;
  }
  if (!bound(condition) && condition->op && deferred(*condition->op)) {
    const ir::Op& op = *condition->op;
    switch (op.code) {
      case Opcode::not_:
        return jump_if(op.operands[0], !when, to);
      case Opcode::and_:
      case Opcode::or_: {
        if (const auto test = index_test(condition)) {
          cc_.emit(x86::Inst::kIdCmp, gp(test->index), gp_or_imm(test->extent));
          return jump({x86::CondCode::kB}, when, to);
        }
        asmjit::Label skip = cc_.newLabel();
        const bool decides = op.code == Opcode::or_;  // what one operand alone settles
        jump_if(op.operands[0], decides, when == decides ? to : skip);
        const auto sums_before = sums_;
        jump_if(op.operands[1], when, to);
        sums_ = sums_before;
        cc_.bind(skip);
        return;
      }
      case Opcode::ovf_add_:
      case Opcode::ovf_sub_:
      case Opcode::ovf_mul_:
        return jump(overflow(op), when, to);
      default:
        return jump(compare(op), when, to);
    }
  }
  x86::Gp c = gp(condition);
  cc_.test(c.r32(), c.r32());
  when ? cc_.jnz(to) : cc_.jz(to);
}

}  // namespace appy::cpu
