// Scalar floating-point arithmetic, selects, casts, and loads and stores of every type.
#include "cpu/function.h"
#include "cpu/math_calls.h"
#include "passes/comparisons.h"
#include "support/check.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;
namespace Id = x86::Inst;

namespace {

constexpr uint64_t kSign64 = 0x8000000000000000;
constexpr uint32_t kSign32 = 0x80000000;

}  // namespace

void Function::real_arithmetic(Opcode code, DType t, x86::Xmm to, x86::Xmm a, const asmjit::Operand& b) {
  const bool wide = t == DType::f64_;
  auto pick = [&](uint32_t d, uint32_t f) { return wide ? d : f; };
  uint32_t id = 0;
  switch (code) {
    case Opcode::add_:
      id = pick(Id::kIdVaddsd, Id::kIdVaddss);
      break;
    case Opcode::sub_:
      id = pick(Id::kIdVsubsd, Id::kIdVsubss);
      break;
    case Opcode::mul_:
      id = pick(Id::kIdVmulsd, Id::kIdVmulss);
      break;
    case Opcode::div_:
      id = pick(Id::kIdVdivsd, Id::kIdVdivss);
      break;
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_: {
      // minsd(b, a) is b < a ? b : a, which is pymin(a, b).
      const bool least = code == Opcode::pymin_ || code == Opcode::minimum_;
      x86::Xmm right = b.isReg() ? b.as<x86::Xmm>() : new_reg(t).as<x86::Xmm>();
      if (!b.isReg()) load_scalar(t, right, b.as<x86::Mem>());
      const uint32_t op = least ? pick(Id::kIdVminsd, Id::kIdVminss) : pick(Id::kIdVmaxsd, Id::kIdVmaxss);
      if (code == Opcode::pymin_ || code == Opcode::pymax_) {
        cc_.emit(op, to, right, a);
        return;
      }
      x86::Xmm r = new_reg(t).as<x86::Xmm>();
      // minsd(a, b) is a < b ? a : b: only a NaN in a is lost.
      cc_.emit(op, r, a, right);
      if (avx512()) {
        x86::KReg k = cc_.newKq();
        cc_.emit(pick(Id::kIdVcmpsd, Id::kIdVcmpss), k, a, a, asmjit::Imm(3));
        cc_.k(k).emit(pick(Id::kIdVmovsd, Id::kIdVmovss), r, a, a);
      } else {
        x86::Xmm unordered = new_reg(t).as<x86::Xmm>();
        cc_.emit(pick(Id::kIdVcmpsd, Id::kIdVcmpss), unordered, a, a, asmjit::Imm(3));
        cc_.emit(pick(Id::kIdVblendvpd, Id::kIdVblendvps), r, r, a, unordered);
      }
      move(to, r);
      return;
    }
    default: {
      const void* f = scalar_function(code, t);
      APPY_CHECK(f, "no scalar code for this float operation");
      x86::Xmm right = b.isReg() ? b.as<x86::Xmm>() : new_reg(t).as<x86::Xmm>();
      if (!b.isReg()) load_scalar(t, right, b.as<x86::Mem>());
      const x86::Reg arguments[] = {a, right};
      call(f, to, arguments);
      return;
    }
  }
  cc_.emit(id, to, a, b);
}

void Function::arithmetic(Opcode code, DType t, x86::Reg to, x86::Reg a, x86::Reg b) {
  if (is_float(t)) {
    real_arithmetic(code, t, to.as<x86::Xmm>(), a.as<x86::Xmm>(), b);
  } else {
    if (t == DType::bool_) {
      code = code == Opcode::add_ || code == Opcode::pymax_ || code == Opcode::maximum_   ? Opcode::or_
             : code == Opcode::mul_ || code == Opcode::pymin_ || code == Opcode::minimum_ ? Opcode::and_
                                                                                          : code;
    }
    int_arithmetic(code, t, to.as<x86::Gp>(), a.as<x86::Gp>(), b.as<x86::Gp>());
  }
}

bool Function::fused(const ir::Op& op, x86::Xmm to) {
  const bool wide = op.result()->type.dtype == DType::f64_;
  const ir::Value *x = nullptr, *y = nullptr, *z = nullptr;
  bool negate_product = false, negate_addend = false;
  if (op.code == Opcode::fma_) {
    x = op.operands[0], y = op.operands[1], z = op.operands[2];
  } else {
    auto product = [&](const ir::Value* v) {
      return v->op && v->op->code == Opcode::mul_ && !bound(v) && deferred(*v->op);
    };
    const int which = product(op.operands[0]) ? 0 : product(op.operands[1]) ? 1 : -1;
    if (which < 0) return false;
    const ir::Op& mul = *op.operands[static_cast<size_t>(which)]->op;
    x = mul.operands[0], y = mul.operands[1], z = op.operands[static_cast<size_t>(1 - which)];
    if (op.code == Opcode::sub_) (which == 0 ? negate_addend : negate_product) = true;
  }
  auto pick = [&](uint32_t d, uint32_t f) { return wide ? d : f; };
  x86::Xmm a = xmm(x), c = xmm(z);
  if (a.id() == to.id() && c.id() != to.id()) {
    const uint32_t id = negate_product  ? pick(Id::kIdVfnmadd213sd, Id::kIdVfnmadd213ss)
                        : negate_addend ? pick(Id::kIdVfmsub213sd, Id::kIdVfmsub213ss)
                                        : pick(Id::kIdVfmadd213sd, Id::kIdVfmadd213ss);
    cc_.emit(id, to, xmm(y), c);
    return true;
  }
  asmjit::Operand b = xmm_or_mem(y);
  const uint32_t id = negate_product  ? pick(Id::kIdVfnmadd231sd, Id::kIdVfnmadd231ss)
                      : negate_addend ? pick(Id::kIdVfmsub231sd, Id::kIdVfmsub231ss)
                                      : pick(Id::kIdVfmadd231sd, Id::kIdVfmadd231ss);
  if (c.id() == to.id() || (b.isReg() && b.as<x86::Reg>().id() == to.id())) {
    x86::Xmm r = c.id() == to.id() ? to : new_reg(op.result()->type.dtype).as<x86::Xmm>();
    move(r, c);
    cc_.emit(id, r, a, b);
    move(to, r);
  } else {
    move(to, c);
    cc_.emit(id, to, a, b);
  }
  return true;
}

void Function::emit_real(const ir::Op& op, x86::Xmm to) {
  const DType t = op.result()->type.dtype;
  const bool wide = t == DType::f64_;
  auto sign_bits = [&](bool inverted) {
    const uint64_t s = inverted ? ~kSign64 : kSign64;
    const uint64_t both[2] = {s, s};
    const uint32_t n = inverted ? ~kSign32 : kSign32;
    const uint32_t all[4] = {n, n, n, n};
    return wide ? constant(both, 16) : constant(all, 16);
  };
  auto round = [&](int mode) {
    x86::Xmm a = xmm(op.operands[0]);
    const uint32_t id =
        avx512() ? (wide ? Id::kIdVrndscalesd : Id::kIdVrndscaless) : (wide ? Id::kIdVroundsd : Id::kIdVroundss);
    cc_.emit(id, to, a, a, asmjit::Imm(mode | 8));
  };
  switch (op.code) {
    case Opcode::add_:
    case Opcode::sub_:
      if (fused(op, to)) return;
      break;
    case Opcode::fma_:
      fused(op, to);
      return;
    case Opcode::neg_:
      cc_.vxorps(to, xmm(op.operands[0]), sign_bits(false));
      return;
    case Opcode::abs_:
      cc_.vandps(to, xmm(op.operands[0]), sign_bits(true));
      return;
    case Opcode::mantissa_:
    case Opcode::exponent_: {
      if (!avx512()) break;
      x86::Xmm a = xmm(op.operands[0]);
      const bool both = op.code == Opcode::exponent_;
      x86::Xmm mantissa = both ? cc_.newXmm() : to;
      cc_.emit(wide ? Id::kIdVgetmantsd : Id::kIdVgetmantss, mantissa, a, a, asmjit::Imm(kMantissaForm));
      if (!both) return;
      cc_.emit(wide ? Id::kIdVgetexpsd : Id::kIdVgetexpss, mantissa, mantissa, mantissa);
      cc_.emit(wide ? Id::kIdVgetexpsd : Id::kIdVgetexpss, to, a, a);
      cc_.emit(wide ? Id::kIdVsubsd : Id::kIdVsubss, to, to, mantissa);
      return;
    }
    case Opcode::scale_:
      if (!avx512()) break;
      cc_.emit(wide ? Id::kIdVscalefsd : Id::kIdVscalefss, to, xmm(op.operands[0]), xmm(op.operands[1]));
      return;
    case Opcode::copysign_: {
      x86::Xmm sign = cc_.newXmm(), size = cc_.newXmm();
      cc_.vandps(size, xmm(op.operands[0]), sign_bits(true));
      cc_.vandps(sign, xmm(op.operands[1]), sign_bits(false));
      cc_.vorps(to, size, sign);
      return;
    }
    case Opcode::sqrt_: {
      x86::Xmm a = xmm(op.operands[0]);
      cc_.emit(wide ? Id::kIdVsqrtsd : Id::kIdVsqrtss, to, a, a);
      return;
    }
    case Opcode::floor_:
      return round(1);
    case Opcode::ceil_:
      return round(2);
    case Opcode::trunc_:
      return round(3);
    case Opcode::rint_:
      return round(0);
    default:
      break;
  }
  if (op.operands.size() == 1) {
    const void* f = m_.graph.exact ? nullptr : accurate_function(op.code, t);
    if (!f) f = scalar_function(op.code, t);
    APPY_CHECK(f, "no scalar code for this function");
    const x86::Reg arguments[] = {xmm(op.operands[0])};
    call(f, to, arguments);
    return;
  }
  x86::Xmm a = xmm(op.operands[0]);
  real_arithmetic(op.code, t, to, a, xmm_or_mem(op.operands[1]));
}

void Function::emit_select(const ir::Op& op, x86::Reg to) {
  const DType t = op.result()->type.dtype;
  x86::Reg a = reg(op.operands[1]), b = reg(op.operands[2]);
  x86::Reg r = new_reg(t);
  const ir::Value* condition = op.operands[0];
  if (!is_float(t)) {
    const bool lazy = !bound(condition) && condition->op && !is_const(condition) && deferred(*condition->op);
    const auto compares = [](const ir::Op& c) {  // in one flag
      return !is_float(c.operands[0]->type.dtype) || passes::is_order(c.code);
    };
    if (lazy && condition->op->code != Opcode::not_ && compares(*condition->op)) {
      const ir::Op& c = *condition->op;
      const bool ovf = c.code == Opcode::ovf_add_ || c.code == Opcode::ovf_sub_ || c.code == Opcode::ovf_mul_;
      Flags flags = ovf ? overflow(c) : compare(c);
      move(r, b);
      cc_.emit(Id::cmovccFromCond(flags.code), r, a);
    } else {
      x86::Gp c = gp(condition);
      move(r, b);
      cc_.test(c.r32(), c.r32());
      cc_.cmovnz(r.as<x86::Gp>(), a.as<x86::Gp>());
    }
    move(to, r);
    return;
  }
  const bool wide = t == DType::f64_;
  x86::Gp c = cc_.newGpq();
  x86::Gp value = gp(condition);
  if (avx512()) {
    x86::KReg k = cc_.newKq();
    cc_.kmovd(k, value.r32());
    move(r, b);
    cc_.k(k).emit(wide ? Id::kIdVmovsd : Id::kIdVmovss, r, a, a);
  } else {
    x86::Xmm mask = cc_.newXmm();
    cc_.mov(c, value);
    cc_.neg(c);
    cc_.vmovq(mask, c);
    cc_.emit(wide ? Id::kIdVblendvpd : Id::kIdVblendvps, r, b, a, mask);
  }
  move(to, r);
}

void Function::half_to_float(DType half, x86::Xmm to, x86::Gp from) {
  if (half == DType::f16_) {
    cc_.vmovd(to, from.r32());
    cc_.vcvtph2ps(to, to);
    return;
  }
  x86::Gp bits = cc_.newGpq();
  cc_.mov(bits.r32(), from.r32());
  cc_.shl(bits.r32(), 16);
  cc_.vmovd(to, bits.r32());
}

void Function::float_to_bfloat(x86::Gp to, x86::Xmm from) {
  x86::Gp bits = cc_.newGpq(), odd = cc_.newGpq(), nan = cc_.newGpq();
  cc_.vmovd(bits.r32(), from);
  cc_.mov(nan.r32(), bits.r32());
  cc_.or_(nan.r32(), 0x400000);
  cc_.mov(odd.r32(), bits.r32());
  cc_.shr(odd.r32(), 16);
  cc_.and_(odd.r32(), 1);
  cc_.lea(bits.r32(), x86::ptr(bits, odd, 0, 0x7fff));
  cc_.vucomiss(from, from);
  cc_.cmovp(bits.r32(), nan.r32());
  cc_.shr(bits.r32(), 16);
  cc_.mov(to.r32(), bits.r32());
}

void Function::float_to_half(DType half_type, x86::Gp to, x86::Xmm from) {
  if (half_type == DType::bf16_) return float_to_bfloat(to, from);
  x86::Xmm half = cc_.newXmm();
  cc_.vcvtps2ph(half, from, 0);
  cc_.vmovd(to.r32(), half);
  canonicalize(to, DType::f16_);
}

void Function::emit_cast(DType to_type, DType from_type, x86::Reg to, const ir::Value* from) {
  const bool to_real = is_float(to_type), from_real = is_float(from_type);
  const bool wide = (to_real ? to_type : from_type) == DType::f64_;
  if (to_type == from_type) return move(to, reg(from));
  if (ir::is_half(from_type) || ir::is_half(to_type)) {
    APPY_CHECK(from_type == DType::f32_ || to_type == DType::f32_, "the pass `halves` leaves conversions by f32 only");
    return ir::is_half(to_type) ? float_to_half(to_type, to.as<x86::Gp>(), xmm(from))
                                : half_to_float(from_type, to.as<x86::Xmm>(), gp(from));
  }
  if (to_real && from_real) {
    x86::Xmm a = xmm(from);
    cc_.emit(to_type == DType::f64_ ? Id::kIdVcvtss2sd : Id::kIdVcvtsd2ss, to, a, a);
    return;
  }
  if (to_type == DType::bool_) {
    if (from_real) {
      x86::Xmm zero = cc_.newXmm();
      cc_.vxorps(zero, zero, zero);
      cc_.emit(wide ? Id::kIdVucomisd : Id::kIdVucomiss, xmm(from), zero);
      return set_bool(to.as<x86::Gp>(), {x86::CondCode::kNE, Flags::Parity::or_unordered});
    }
    x86::Gp a = gp(from);
    cc_.test(a, a);
    return set_bool(to.as<x86::Gp>(), {x86::CondCode::kNE});
  }
  if (!to_real && !from_real) {
    move(to, gp(from));
    return canonicalize(to.as<x86::Gp>(), to_type);
  }
  if (to_real) {
    x86::Gp a = gp(from);
    x86::Xmm r = cc_.newXmm();
    cc_.vxorps(r, r, r);
    const uint32_t convert = wide ? Id::kIdVcvtsi2sd : Id::kIdVcvtsi2ss;
    if (from_type != DType::u64_) {
      cc_.emit(convert, r, r, a);
    } else if (avx512()) {
      cc_.emit(wide ? Id::kIdVcvtusi2sd : Id::kIdVcvtusi2ss, r, r, a);
    } else {
      // Large values are halved, the lost bit kept sticky so that rounding is right, and doubled again.
      asmjit::Label large = cc_.newLabel(), done = cc_.newLabel();
      x86::Gp half = cc_.newGpq(), low = cc_.newGpq();
      cc_.test(a, a);
      cc_.js(large);
      cc_.emit(convert, r, r, a);
      cc_.jmp(done);
      cc_.bind(large);
      cc_.mov(half, a);
      cc_.shr(half, 1);
      cc_.mov(low, a);
      cc_.and_(low, 1);
      cc_.or_(half, low);
      cc_.emit(convert, r, r, half);
      cc_.emit(wide ? Id::kIdVaddsd : Id::kIdVaddss, r, r, r);
      cc_.bind(done);
    }
    return move(to, r);
  }
  x86::Xmm a = xmm(from);
  x86::Gp r = cc_.newGpq();
  const uint32_t convert = wide ? Id::kIdVcvttsd2si : Id::kIdVcvttss2si;
  if (to_type != DType::u64_) {
    cc_.emit(convert, r, a);
    canonicalize(r, to_type);
  } else if (avx512()) {
    // Negative values, which C leaves open, wrap as through a signed conversion.
    asmjit::Label done = cc_.newLabel();
    cc_.emit(convert, r, a);
    cc_.test(r, r);
    cc_.jns(done);
    x86::Xmm zero = cc_.newXmm();
    cc_.vxorps(zero, zero, zero);
    cc_.emit(wide ? Id::kIdVucomisd : Id::kIdVucomiss, a, zero);
    cc_.jb(done);
    cc_.emit(wide ? Id::kIdVcvttsd2usi : Id::kIdVcvttss2usi, r, a);
    cc_.bind(done);
  } else {
    asmjit::Label done = cc_.newLabel();
    x86::Mem limit = wide ? constant64(0x43e0000000000000) : constant32(0x5f000000);
    x86::Xmm rest = cc_.newXmm();
    x86::Gp top = cc_.newGpq();
    cc_.emit(convert, r, a);
    cc_.emit(wide ? Id::kIdVucomisd : Id::kIdVucomiss, a, limit);
    cc_.jb(done);
    cc_.emit(wide ? Id::kIdVsubsd : Id::kIdVsubss, rest, a, limit);
    cc_.emit(convert, r, rest);
    load_imm(top, INT64_MIN);
    cc_.xor_(r, top);
    cc_.bind(done);
  }
  move(to, r);
}

void Function::emit_pure(const ir::Op& op, x86::Reg to) {
  const DType t = op.result()->type.dtype;
  switch (op.code) {
    case Opcode::select_:
      return emit_select(op, to);
    case Opcode::cast_:
      return emit_cast(t, op.operands[0]->type.dtype, to, op.operands[0]);
    case Opcode::bitcast_: {
      const ir::Value* a = op.operands[0];
      const bool from_real = is_float(a->type.dtype);
      if (from_real == is_float(t)) {
        move(to, reg(a));
      } else if (from_real) {
        t == DType::i64_ || t == DType::u64_ ? cc_.vpextrq(to.as<x86::Gp>(), xmm(a), 0)
                                             : cc_.vpextrd(to.as<x86::Gp>().r32(), xmm(a), 0);
      } else {
        t == DType::f64_ ? cc_.vmovq(to.as<x86::Xmm>(), gp(a)) : cc_.vmovd(to.as<x86::Xmm>(), gp(a).r32());
      }
      if (!is_float(t)) canonicalize(to.as<x86::Gp>(), t);
      return;
    }
    default:
      break;
  }
  if (t == DType::bool_) return emit_bool(op, to.as<x86::Gp>());
  if (is_float(t)) return emit_real(op, to.as<x86::Xmm>());
  emit_int(op, to.as<x86::Gp>());
}

void Function::load_scalar(DType t, x86::Reg to, const x86::Mem& from) {
  x86::Mem m = from;
  m.setSize(static_cast<uint32_t>(ir::size_of(t)));
  switch (t) {
    case DType::f64_:
      cc_.vmovsd(to.as<x86::Xmm>(), m);
      return;
    case DType::f32_:
      cc_.vmovss(to.as<x86::Xmm>(), m);
      return;
    case DType::i64_:
    case DType::u64_:
      cc_.mov(to.as<x86::Gp>(), m);
      return;
    case DType::i32_:
      cc_.movsxd(to.as<x86::Gp>(), m);
      return;
    case DType::u32_:
      cc_.mov(to.as<x86::Gp>().r32(), m);
      return;
    case DType::i16_:
    case DType::i8_:
      cc_.movsx(to.as<x86::Gp>(), m);
      return;
    default:
      cc_.movzx(to.as<x86::Gp>().r32(), m);
      return;
  }
}

void Function::store_scalar(DType t, const x86::Mem& to, x86::Reg from) {
  x86::Mem m = to;
  m.setSize(static_cast<uint32_t>(ir::size_of(t)));
  switch (ir::size_of(t)) {
    case 8:
      t == DType::f64_ ? cc_.vmovsd(m, from.as<x86::Xmm>()) : cc_.mov(m, from.as<x86::Gp>());
      return;
    case 4:
      t == DType::f32_ ? cc_.vmovss(m, from.as<x86::Xmm>()) : cc_.mov(m, from.as<x86::Gp>().r32());
      return;
    case 2:
      cc_.mov(m, from.as<x86::Gp>().r16());
      return;
    default:
      cc_.mov(m, from.as<x86::Gp>().r8());
  }
}

bool Function::add_constant(const ir::Op& op) {
  const ir::Value* v = op.operands[0];
  const DType t = v->type.dtype;
  if (op.combiner != ir::Combiner::sum_ || !ir::is_int(t) || !is_const(v)) return false;
  const int64_t c = const_int(v);
  if (c != static_cast<int8_t>(c)) return false;
  x86::Mem at = address(op);
  at.setSize(static_cast<uint32_t>(ir::size_of(t)));
  if (!alone_) cc_.lock();
  cc_.add(at, static_cast<int32_t>(c));
  return true;
}

void Function::atomic_update(const ir::Op& op, DType t, x86::Mem at, x86::Reg value) {
  const Opcode code = ir::opcode_of(op.combiner);
  const int size = ir::size_of(t);
  at.setSize(static_cast<uint32_t>(size));
  auto sized = [&](x86::Gp r) -> x86::Gp {
    if (size == 8) return r;
    if (size == 4) return r.r32();
    if (size == 2) return r.r16();
    return r.r8();
  };
  if (code == Opcode::add_ && ir::is_int(t)) {
    if (!alone_) cc_.lock();
    cc_.add(at, sized(value.as<x86::Gp>()));
    return;
  }
  const auto update = [&](x86::Reg sum, x86::Reg old) {
    if (!ir::is_half(t)) return arithmetic(code, t, sum, old, value);
    x86::Xmm wide_old = cc_.newXmmSs(), wide_value = cc_.newXmmSs(), wide_sum = cc_.newXmmSs();
    half_to_float(t, wide_old, old.as<x86::Gp>());
    half_to_float(t, wide_value, value.as<x86::Gp>());
    arithmetic(code, DType::f32_, wide_sum, wide_old, wide_value);
    float_to_half(t, sum.as<x86::Gp>(), wide_sum);
  };
  if (alone_) {
    x86::Reg old = new_reg(t), sum = new_reg(t);
    load_scalar(t, old, at);
    update(sum, old);
    store_scalar(t, at, sum);
    return;
  }
  x86::Gp expected = cc_.newGpq(), desired = cc_.newGpq();
  asmjit::Label again = cc_.newLabel();
  size == 8 ? cc_.mov(expected, at) : size == 4 ? cc_.mov(expected.r32(), at) : cc_.movzx(expected.r32(), at);
  cc_.bind(again);
  x86::Reg old = new_reg(t), sum = new_reg(t);
  if (is_float(t)) {
    size == 8 ? cc_.vmovq(old.as<x86::Xmm>(), expected) : cc_.vmovd(old.as<x86::Xmm>(), expected.r32());
  } else {
    cc_.mov(old.as<x86::Gp>(), expected);
    canonicalize(old.as<x86::Gp>(), t);
  }
  update(sum, old);
  if (is_float(t)) {
    size == 8 ? cc_.vpextrq(desired, sum.as<x86::Xmm>(), 0) : cc_.vpextrd(desired.r32(), sum.as<x86::Xmm>(), 0);
  } else {
    cc_.mov(desired, sum.as<x86::Gp>());
  }
  cc_.lock().cmpxchg(at, sized(desired), sized(expected));
  cc_.jne(again);
}

void Function::call(const void* target, x86::Reg result, std::span<const x86::Reg> args) {
  asmjit::FuncSignatureBuilder signature;
  auto type_of = [&](const x86::Reg& r) {
    if (r.isGp()) return asmjit::TypeId::kInt64;
    if (r.isZmm()) return asmjit::TypeId::kFloat64x8;
    if (r.isYmm()) return asmjit::TypeId::kFloat64x4;
    switch (cc_.virtRegByReg(r)->typeId()) {
      case asmjit::TypeId::kFloat32x1:
        return asmjit::TypeId::kFloat32;
      case asmjit::TypeId::kFloat64x1:
        return asmjit::TypeId::kFloat64;
      default:
        return asmjit::TypeId::kFloat64x2;
    }
  };
  if (result.isValid()) signature.setRet(type_of(result));
  for (const x86::Reg& r : args) signature.addArg(type_of(r));
  x86::Gp address = cc_.newGpq();
  cc_.mov(address, reinterpret_cast<uint64_t>(target));
  asmjit::InvokeNode* node;
  cc_.invoke(&node, address, signature);
  for (size_t i = 0; i < args.size(); ++i) node->setArg(i, args[i]);
  if (result.isValid()) node->setRet(0, result);
}

}  // namespace appy::cpu
