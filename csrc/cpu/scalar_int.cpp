// Scalar integer arithmetic.
#include <bit>

#include "cpu/function.h"
#include "cpu/math_calls.h"
#include "cpu/reciprocal.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;

void Function::canonicalize(x86::Gp r, DType t) {
  switch (t) {
    case DType::i8_:
      cc_.movsx(r, r.r8());
      break;
    case DType::i16_:
      cc_.movsx(r, r.r16());
      break;
    case DType::i32_:
      cc_.movsxd(r, r.r32());
      break;
    case DType::u8_:
      cc_.movzx(r.r32(), r.r8());
      break;
    case DType::u16_:
    case DType::f16_:
    case DType::bf16_:
      cc_.movzx(r.r32(), r.r16());
      break;
    case DType::u32_:
      cc_.mov(r.r32(), r.r32());
      break;
    default:
      break;
  }
}

void Function::int_binary(Opcode code, DType t, x86::Gp to, x86::Gp a, const asmjit::Operand& operand_b) {
  asmjit::Operand b = operand_b;
  const bool aliased = b.isReg() && b.as<x86::Gp>().id() == to.id() && a.id() != to.id();
  x86::Gp d = to;
  if (aliased) {
    if (code == Opcode::sub_) {
      d = cc_.newGpq();
      cc_.mov(d, a);
    } else {
      b = a;
    }
  } else if (code == Opcode::add_ && b.isImm() && a.id() != to.id()) {
    cc_.lea(to, x86::ptr(a, b.as<asmjit::Imm>().valueAs<int32_t>()));
    canonicalize(to, t);
    return;
  } else if (code == Opcode::mul_ && b.isImm()) {
    const int64_t c = b.as<asmjit::Imm>().valueAs<int64_t>();
    if (c > 0 && std::has_single_bit(static_cast<uint64_t>(c))) {
      move(to, a);
      if (c > 1) cc_.shl(to, std::countr_zero(static_cast<uint64_t>(c)));
    } else {
      cc_.emit(x86::Inst::kIdImul, to, a, b);
    }
    canonicalize(to, t);
    return;
  } else {
    move(to, a);
  }
  uint32_t id = x86::Inst::kIdAdd;
  switch (code) {
    case Opcode::sub_:
      id = x86::Inst::kIdSub;
      break;
    case Opcode::mul_:
      id = x86::Inst::kIdImul;
      break;
    case Opcode::and_:
      id = x86::Inst::kIdAnd;
      break;
    case Opcode::or_:
      id = x86::Inst::kIdOr;
      break;
    case Opcode::xor_:
      id = x86::Inst::kIdXor;
      break;
    default:
      break;
  }
  cc_.emit(id, d, b);
  if (d.id() != to.id()) cc_.mov(to, d);
  // Bitwise operations of canonical words are canonical.
  if (code == Opcode::add_ || code == Opcode::sub_ || code == Opcode::mul_) canonicalize(to, t);
}

void Function::int_arithmetic(Opcode code, DType t, x86::Gp to, x86::Gp a, x86::Gp b) {
  switch (code) {
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_: {
      const bool least = code == Opcode::pymin_ || code == Opcode::minimum_;
      const bool sign = ir::is_signed(t);
      x86::Gp r = cc_.newGpq();
      cc_.mov(r, a);
      cc_.cmp(b, a);
      if (least) {
        sign ? cc_.cmovl(r, b) : cc_.cmovb(r, b);
      } else {
        sign ? cc_.cmovg(r, b) : cc_.cmova(r, b);
      }
      cc_.mov(to, r);
      return;
    }
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::rem_:
      return int_divide(code, t, to, a, b);
    case Opcode::pow_: {
      const x86::Reg arguments[] = {a, b};
      call(ir::is_signed(t) ? reinterpret_cast<const void*>(&power_signed)
                            : reinterpret_cast<const void*>(&power_unsigned),
           to, arguments);
      canonicalize(to, t);
      return;
    }
    default:
      return int_binary(code, t, to, a, b);
  }
}

void Function::int_divide(Opcode code, DType t, x86::Gp to, x86::Gp a, x86::Gp b) {
  const bool sign = ir::is_signed(t);
  const bool narrow = ir::size_of(t) <= 4;
  x86::Gp lo = cc_.newGpq(), hi = cc_.newGpq(), r = cc_.newGpq();
  asmjit::Label done = cc_.newLabel(), special = cc_.newLabel();
  cc_.xor_(r.r32(), r.r32());
  if (sign) {
    // -1, 0 in one test; both leave the divide unit alone.
    cc_.lea(lo, x86::ptr(b, 1));
    cc_.cmp(lo, 1);
    cc_.jbe(special);
  } else {
    cc_.test(b, b);
    cc_.jz(done);
  }
  cc_.mov(lo, a);
  if (narrow) {
    if (sign) {
      cc_.cdq(hi.r32(), lo.r32());
      cc_.idiv(hi.r32(), lo.r32(), b.r32());
    } else {
      cc_.xor_(hi.r32(), hi.r32());
      cc_.div(hi.r32(), lo.r32(), b.r32());
    }
  } else if (sign) {
    cc_.cqo(hi, lo);
    cc_.idiv(hi, lo, b);
  } else {
    cc_.xor_(hi.r32(), hi.r32());
    cc_.div(hi, lo, b);
  }
  if (sign && narrow) {
    cc_.movsxd(lo, lo.r32());
    cc_.movsxd(hi, hi.r32());
  }
  if (!sign || code == Opcode::rem_) {
    cc_.mov(r, code == Opcode::floordiv_ ? lo : hi);
  } else {
    // Truncated to floored: adjust where the remainder is non-zero and its sign differs from the divisor's.
    x86::Gp differs = cc_.newGpq();
    cc_.mov(r, code == Opcode::floordiv_ ? lo : hi);
    cc_.test(hi, hi);
    cc_.jz(done);
    cc_.mov(differs, hi);
    cc_.xor_(differs, b);
    cc_.jns(done);
    if (code == Opcode::floordiv_) {
      cc_.sub(r, 1);
    } else {
      cc_.add(r, b);
    }
  }
  if (sign) {
    cc_.jmp(done);
    cc_.bind(special);
    if (code == Opcode::floordiv_) {
      // a * b is 0 for b == 0 and the wrapped -a for b == -1.
      cc_.mov(r, a);
      cc_.imul(r, b);
    } else {
      cc_.xor_(r.r32(), r.r32());
    }
  }
  cc_.bind(done);
  cc_.mov(to, r);
  canonicalize(to, t);
}

void Function::divide_by_constant(Opcode code, DType t, x86::Gp to, x86::Gp a, int64_t divisor) {
  const bool sign = ir::is_signed(t), whole = !sign && ir::size_of(t) == 8;
  const Reciprocal by = reciprocal(static_cast<uint64_t>(divisor), whole ? 64 : 63);
  x86::Gp high = cc_.newGpq(), low = cc_.newGpq(), factor = cc_.newGpq(), s = cc_.newGpq();
  cc_.mov(low, a);
  if (sign) {
    // Rounded down: of a negative number the complement is divided, and the quotient complemented.
    cc_.mov(s, a);
    cc_.sar(s, 63);
    cc_.xor_(low, s);
  }
  load_imm(factor, static_cast<int64_t>(by.multiplier));
  cc_.mul(high, low, factor);
  if (whole) {
    x86::Gp rest = cc_.newGpq();
    cc_.mov(rest, a);
    cc_.sub(rest, high);
    cc_.shr(rest, 1);
    cc_.add(high, rest);
  }
  cc_.shr(high, by.shift);
  if (sign) cc_.xor_(high, s);
  if (code == Opcode::floordiv_) {
    cc_.mov(to, high);
    return;
  }
  x86::Gp rest = cc_.newGpq();
  cc_.mov(rest, a);
  load_imm(factor, divisor);
  cc_.imul(high, factor);
  cc_.sub(rest, high);
  cc_.mov(to, rest);
}

void Function::shift(Opcode code, DType t, x86::Gp to, x86::Gp a, const ir::Value* count) {
  const int width = 8 * ir::size_of(t);
  const bool sign = ir::is_signed(t);
  if (is_const(count)) {
    const uint64_t n = static_cast<uint64_t>(const_int(count));
    if (n >= static_cast<uint64_t>(width)) {
      if (code == Opcode::shr_ && sign) {
        move(to, a);
        cc_.sar(to, 63);
      } else {
        load_imm(to, 0);
      }
      return;
    }
    move(to, a);
    if (code == Opcode::shl_) {
      cc_.shl(to, static_cast<int>(n));
    } else if (sign) {
      cc_.sar(to, static_cast<int>(n));
    } else {
      cc_.shr(to, static_cast<int>(n));
    }
  } else {
    x86::Gp n = gp(count), r = cc_.newGpq();
    if (code == Opcode::shr_ && sign) {
      x86::Gp limit = cc_.newGpq();
      cc_.mov(limit.r32(), 63);
      cc_.cmp(n, limit);
      cc_.cmovb(limit, n);
      cc_.sarx(r, a, limit);
    } else {
      x86::Gp zero = cc_.newGpq();
      cc_.xor_(zero.r32(), zero.r32());
      code == Opcode::shl_ ? cc_.shlx(r, a, n) : cc_.shrx(r, a, n);
      cc_.cmp(n, width);
      cc_.cmovae(r, zero);
    }
    cc_.mov(to, r);
  }
  canonicalize(to, t);
}

void Function::emit_int(const ir::Op& op, x86::Gp to) {
  const DType t = op.result()->type.dtype;
  auto operand = [&](size_t i) { return op.operands[i]; };
  switch (op.code) {
    case Opcode::add_:
    case Opcode::mul_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      if (is_const(operand(0)) && !is_const(operand(1))) {
        return int_binary(op.code, t, to, gp(operand(1)), gp_or_imm(operand(0)));
      }
      [[fallthrough]];
    case Opcode::sub_:
      return int_binary(op.code, t, to, gp(operand(0)), gp_or_imm(operand(1)));
    case Opcode::neg_:
      move(to, gp(operand(0)));
      cc_.neg(to);
      return canonicalize(to, t);
    case Opcode::not_:
      move(to, gp(operand(0)));
      cc_.not_(to);
      return canonicalize(to, t);
    case Opcode::abs_: {
      x86::Gp a = gp(operand(0));
      if (!ir::is_signed(t)) return move(to, a);
      x86::Gp r = cc_.newGpq();
      cc_.mov(r, a);
      cc_.neg(r);
      cc_.cmovs(r, a);
      cc_.mov(to, r);
      return canonicalize(to, t);
    }
    case Opcode::popcount_: {
      x86::Gp a = gp(operand(0));
      if (ir::is_signed(t)) {
        x86::Gp r = cc_.newGpq();
        cc_.mov(r, a);
        cc_.neg(r);
        cc_.cmovs(r, a);
        a = r;
      }
      cc_.popcnt(to, a);
      return;
    }
    case Opcode::shl_:
    case Opcode::shr_:
      return shift(op.code, t, to, gp(operand(0)), operand(1));
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::rem_:
      if (is_const(operand(1))) {
        const int64_t c = const_int(operand(1));
        if (c > 0 && std::has_single_bit(static_cast<uint64_t>(c)) && (op.code != Opcode::rem_ || !ir::is_signed(t))) {
          move(to, gp(operand(0)));
          const int n = std::countr_zero(static_cast<uint64_t>(c));
          if (op.code == Opcode::floordiv_) {
            ir::is_signed(t) ? cc_.sar(to, n) : cc_.shr(to, n);
          } else if (n < 31) {
            cc_.and_(to, static_cast<int32_t>(c - 1));
          } else {
            x86::Gp mask = cc_.newGpq();
            load_imm(mask, c - 1);
            cc_.and_(to, mask);
          }
          return;
        }
        if (by_reciprocal(op.code, t, c)) return divide_by_constant(op.code, t, to, gp(operand(0)), c);
      }
      return int_divide(op.code, t, to, gp(operand(0)), gp(operand(1)));
    case Opcode::wrap_: {
      // Few indices are negative: a jump that is not taken costs less than choosing every time.
      x86::Gp i = gp(operand(0)), n = gp(operand(1));
      if (to.id() == n.id()) {
        n = cc_.newGpq();
        cc_.mov(n, to);
      }
      asmjit::Label back = cc_.newLabel();
      asmjit::Label negative = cold([this, to, n, back] {
        cc_.add(to, n);
        cc_.jmp(back);
      });
      move(to, i);
      cc_.test(to, to);
      cc_.js(negative);
      cc_.bind(back);
      return;
    }
    case Opcode::dim_:
      cc_.mov(to, view_word(operand(0), 1 + op.dim));
      return;
    default:
      return int_arithmetic(op.code, t, to, gp(operand(0)), gp(operand(1)));
  }
}

Flags Function::overflow(const ir::Op& op, x86::Gp r) {
  using CC = x86::CondCode;
  const DType t = op.operands[0]->type.dtype;
  x86::Gp a = gp(op.operands[0]);
  const bool wide = ir::size_of(t) == 8;
  if (wide && t == DType::u64_ && op.code == Opcode::ovf_mul_) {
    x86::Gp hi = cc_.newGpq();
    cc_.mov(r, a);
    cc_.mul(hi, r, gp(op.operands[1]));
    return {CC::kO};
  }
  asmjit::Operand b = gp_or_imm(op.operands[1]);
  if (op.code == Opcode::ovf_mul_ && b.isImm()) {
    cc_.emit(x86::Inst::kIdImul, r, a, b);
  } else {
    cc_.mov(r, a);
    cc_.emit(op.code == Opcode::ovf_add_   ? x86::Inst::kIdAdd
             : op.code == Opcode::ovf_sub_ ? x86::Inst::kIdSub
                                           : x86::Inst::kIdImul,
             r, b);
  }
  if (wide) return {t == DType::i64_ ? CC::kO : CC::kC};
  // The exact result fits 64 bits (a product of u32s as an unsigned one); it must be canonical already.
  x86::Gp c = cc_.newGpq();
  cc_.mov(c, r);
  canonicalize(c, t);
  cc_.cmp(c, r);
  return {CC::kNE};
}

}  // namespace appy::cpu
