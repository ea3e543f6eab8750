// Arithmetic of floats on vector registers, comparisons of all types.
#include "cpu/lanes.h"
#include "cpu/vector_regs.h"
#include "support/check.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

x86::Vec Lanes::sign_mask(DType t, bool inverted) {
  const int size = ir::size_of(t);
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  return sized(broadcast_bits(size, inverted ? ~sign : sign), bytes(t));
}

x86::Reg Lanes::elementwise(Opcode code, DType t, x86::Reg a, x86::Reg b, x86::Reg to) {
  if (t == DType::bool_) {
    x86::Reg r = code == Opcode::and_ || code == Opcode::mul_ || code == Opcode::pymin_ || code == Opcode::minimum_
                     ? mask_and(a, b)
                 : code == Opcode::xor_ ? mask_xor(a, b)
                                        : mask_or(a, b);
    if (!to.isValid()) return r;
    f_.move(to, r);
    return to;
  }
  return is_float(t) ? real_op(code, t, a, b, to) : int_op(code, t, a, b, to);
}

x86::Reg Lanes::real_op(Opcode code, DType t, x86::Reg a, x86::Reg b, x86::Reg to) {
  const bool wide = t == DType::f64_;
  if (!to.isValid()) to = fresh1(t);
  auto pick = [&](InstId d, InstId f) { return wide ? d : f; };
  auto bitwise = [&](InstId v2, InstId d512, InstId f512) { return avx512_ ? pick(d512, f512) : v2; };
  const InstId and_id = bitwise(Id::kIdVandps, Id::kIdVandpd, Id::kIdVandps);
  const InstId xor_id = bitwise(Id::kIdVxorps, Id::kIdVxorpd, Id::kIdVxorps);
  const InstId or_id = bitwise(Id::kIdVorps, Id::kIdVorpd, Id::kIdVorps);
  auto round = [&](int mode) {
    cc_.emit(avx512_ ? pick(Id::kIdVrndscalepd, Id::kIdVrndscaleps) : pick(Id::kIdVroundpd, Id::kIdVroundps), to, a,
             asmjit::Imm(mode | 8));
  };
  switch (code) {
    case Opcode::add_:
      cc_.emit(pick(Id::kIdVaddpd, Id::kIdVaddps), to, a, b);
      break;
    case Opcode::sub_:
      cc_.emit(pick(Id::kIdVsubpd, Id::kIdVsubps), to, a, b);
      break;
    case Opcode::mul_:
      cc_.emit(pick(Id::kIdVmulpd, Id::kIdVmulps), to, a, b);
      break;
    case Opcode::div_:
      cc_.emit(pick(Id::kIdVdivpd, Id::kIdVdivps), to, a, b);
      break;
    case Opcode::pymin_:
      cc_.emit(pick(Id::kIdVminpd, Id::kIdVminps), to, b, a);
      break;
    case Opcode::pymax_:
      cc_.emit(pick(Id::kIdVmaxpd, Id::kIdVmaxps), to, b, a);
      break;
    case Opcode::minimum_:
    case Opcode::maximum_: {
      x86::Reg r = fresh1(t);
      cc_.emit(code == Opcode::minimum_ ? pick(Id::kIdVminpd, Id::kIdVminps) : pick(Id::kIdVmaxpd, Id::kIdVmaxps), r, a,
               b);
      x86::Reg unordered = compare_real(3, t, a, a);
      blend_into(t, r, unordered, a);
      f_.move(to, r);
      break;
    }
    case Opcode::neg_:
      cc_.emit(xor_id, to, a, sign_mask(t, false));
      break;
    case Opcode::abs_:
      cc_.emit(and_id, to, a, sign_mask(t, true));
      break;
    case Opcode::scale_: {
      if (avx512_) {
        cc_.emit(pick(Id::kIdVscalefpd, Id::kIdVscalefps), to, a, b);
        break;
      }
      // Two factors, so that the result is rounded once when it is subnormal. A whole number plus 1.5 * 2**52 has it in
      // its low bits, from where a shift moves it into the exponent.
      const int size = ir::size_of(t);
      const auto constant = [&](uint64_t d, uint32_t f) { return sized(broadcast_bits(size, wide ? d : f), bytes(t)); };
      const x86::Vec magic = constant(0x4338000000000000, 0x4b400000), one = constant(0x3ff0000000000000, 0x3f800000);
      x86::Vec half = vec(bytes(t)), rest = vec(bytes(t)), product = vec(bytes(t));
      f_.move(half, b);
      cc_.emit(pick(Id::kIdVfmadd132pd, Id::kIdVfmadd132ps), half, magic, constant(0x3fe0000000000000, 0x3f000000));
      cc_.emit(pick(Id::kIdVsubpd, Id::kIdVsubps), rest, half, magic);
      cc_.emit(pick(Id::kIdVsubpd, Id::kIdVsubps), rest, b, rest);
      cc_.emit(pick(Id::kIdVaddpd, Id::kIdVaddps), rest, rest, magic);
      f_.move(product, a);
      for (x86::Vec factor : {half, rest}) {
        cc_.emit(wide ? Id::kIdVpsllq : Id::kIdVpslld, factor, factor, asmjit::Imm(wide ? 52 : 23));
        cc_.emit(wide ? Id::kIdVpaddq : Id::kIdVpaddd, factor, factor, one);
        cc_.emit(pick(Id::kIdVmulpd, Id::kIdVmulps), product, product, factor);
      }
      f_.move(to, product);
      break;
    }
    case Opcode::copysign_: {
      x86::Reg size = fresh1(t), sign = fresh1(t);
      if (avx512_) {
        f_.move(sign, sign_mask(t, false));
        cc_.emit(wide ? Id::kIdVpternlogq : Id::kIdVpternlogd, sign, b, a, asmjit::Imm(0xca));  // sign ? b : a
        f_.move(to, sign);
        break;
      }
      cc_.emit(and_id, size, a, sign_mask(t, true));
      cc_.emit(and_id, sign, b, sign_mask(t, false));
      cc_.emit(or_id, to, size, sign);
      break;
    }
    case Opcode::sqrt_:
      cc_.emit(pick(Id::kIdVsqrtpd, Id::kIdVsqrtps), to, a);
      break;
    case Opcode::floor_:
      round(1);
      break;
    case Opcode::ceil_:
      round(2);
      break;
    case Opcode::trunc_:
      round(3);
      break;
    case Opcode::rint_:
      round(0);
      break;
    default:
      APPY_CHECK(false, "no vector code for this float operation");
  }
  return to;
}

x86::Reg Lanes::compare(Opcode code, DType t, x86::Reg a, x86::Reg b, x86::Reg under) {
  if (t == DType::bool_) {
    switch (code) {
      case Opcode::eq_:
        return mask_not(mask_xor(a, b));
      case Opcode::ne_:
        return mask_xor(a, b);
      case Opcode::lt_:
        return mask_andn(b, a);
      case Opcode::gt_:
        return mask_andn(a, b);
      case Opcode::le_:
        return mask_not(mask_andn(a, b));
      default:
        return mask_not(mask_andn(b, a));
    }
  }
  if (!is_float(t)) return compare_int(code, t, as_vec(a), as_vec(b), under);
  const bool wide = t == DType::f64_;
  switch (code) {
    case Opcode::eq_:
      return compare_real(0x00, t, a, b, under);
    case Opcode::ne_:
      return compare_real(0x04, t, a, b, under);
    case Opcode::lt_:
      return compare_real(0x11, t, a, b, under);
    case Opcode::le_:
      return compare_real(0x12, t, a, b, under);
    case Opcode::gt_:
      return compare_real(0x1e, t, a, b, under);
    case Opcode::ge_:
      return compare_real(0x1d, t, a, b, under);
    case Opcode::isnan_:
      return compare_real(0x03, t, a, a);
    case Opcode::signbit_:
      return negative(wide ? DType::i64_ : DType::i32_, as_vec(a));
    default: {
      x86::Reg size = real_op(Opcode::abs_, t, a, a, {});
      x86::Vec inf = sized(broadcast_bits(wide ? 8 : 4, wide ? 0x7ff0000000000000 : 0x7f800000), bytes(t));
      return compare_real(code == Opcode::isinf_ ? 0x00 : 0x11, t, size, inf);
    }
  }
}

x86::Reg Lanes::compare_real(int predicate, DType t, x86::Reg a, x86::Reg b, x86::Reg under) {
  const bool wide = t == DType::f64_;
  if (avx512_) {
    x86::Reg to = under.isValid() ? under : new_mask();
    if (under.isValid()) cc_.k(under.as<x86::KReg>());
    cc_.emit(wide ? Id::kIdVcmppd : Id::kIdVcmpps, to, a, b, asmjit::Imm(predicate));
    return to;
  }
  x86::Vec m = vec(bytes(t));
  cc_.emit(wide ? Id::kIdVcmppd : Id::kIdVcmpps, m, a, b, asmjit::Imm(predicate));
  return widen(m, ir::size_of(t));
}

}  // namespace appy::cpu
