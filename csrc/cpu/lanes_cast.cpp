// Conversions between the scalar types on vector registers.
#include <bit>

#include "cpu/lanes.h"
#include "cpu/vector_regs.h"
#include "support/check.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

bool Lanes::cast_by_lane(DType to, DType from) const {
  if (avx512_) return false;
  const bool wide_from = from == DType::i64_ || from == DType::u64_, wide_to = to == DType::i64_ || to == DType::u64_;
  return (wide_from && to == DType::f32_) || (wide_to && is_float(from));
}

Regs Lanes::cast(DType to, DType from, const Regs& a) {
  Regs r;
  for (const x86::Reg& x : a) r.push_back(cast1(to, from, x));
  return r;
}

x86::Vec Lanes::convert_int(x86::Vec a, int from, bool sign, int to) {
  if (from == to) return a;
  x86::Vec r = vec(lanes_ * to);
  InstId id;
  if (from == 4) {
    id = sign ? Id::kIdVpmovsxdq : Id::kIdVpmovzxdq;
  } else if (from == 2) {
    id = to == 8 ? (sign ? Id::kIdVpmovsxwq : Id::kIdVpmovzxwq) : (sign ? Id::kIdVpmovsxwd : Id::kIdVpmovzxwd);
  } else {
    id = to == 8   ? (sign ? Id::kIdVpmovsxbq : Id::kIdVpmovzxbq)
         : to == 4 ? (sign ? Id::kIdVpmovsxbd : Id::kIdVpmovzxbd)
                   : (sign ? Id::kIdVpmovsxbw : Id::kIdVpmovzxbw);
  }
  cc_.emit(id, r, a);
  return r;
}

x86::Vec Lanes::truncate_int(x86::Vec a, int from, int to) {
  if (avx512_) {
    x86::Vec r = vec(lanes_ * to);
    InstId id;
    if (from == 8) {
      id = to == 4 ? Id::kIdVpmovqd : to == 2 ? Id::kIdVpmovqw : Id::kIdVpmovqb;
    } else {
      id = from == 4 ? (to == 2 ? Id::kIdVpmovdw : Id::kIdVpmovdb) : Id::kIdVpmovwb;
    }
    cc_.emit(id, r, a);
    return r;
  }
  for (int size = from; size > to; size /= 2) {
    x86::Vec kept = a;
    if (size < 8) {
      kept = vec(lanes_ * size);
      cc_.vpand(kept, a, sized(broadcast_bits(size, size == 4 ? 0xffff : 0xff), lanes_ * size));
    }
    x86::Xmm low = kept.xmm(), high = low;
    if (kept.isYmm()) {
      high = cc_.newXmm();
      cc_.vextracti128(high, kept.ymm(), 1);
    }
    x86::Xmm r = cc_.newXmm();
    if (size == 8) {
      cc_.vshufps(r, low, high, 0x88);
    } else if (size == 4) {
      cc_.vpackusdw(r, low, high);
    } else {
      cc_.vpackuswb(r, low, high);
    }
    a = r;
  }
  return a;
}

x86::Vec Lanes::i64_to_f64(x86::Vec a, bool sign) {
  const int size = bytes(DType::f64_);
  x86::Vec r = vec(size);
  if (avx512_) {
    cc_.emit(sign ? Id::kIdVcvtqq2pd : Id::kIdVcvtuqq2pd, r, a);
    return r;
  }
  // The halves become doubles by pasting exponents; one rounding addition joins them.
  auto bits = [&](double v) { return sized(broadcast_bits(8, std::bit_cast<uint64_t>(v)), size); };
  x86::Vec high = vec(size), low = vec(size);
  if (sign) {
    cc_.vpsrad(high, a, 16);
    cc_.vpblendw(high, high, sized(broadcast_bits(8, 0), size), 0x33);
    cc_.vpaddq(high, high, bits(0x3p67));
    cc_.vpblendw(low, a, bits(0x1p52), 0x88);
    cc_.vsubpd(high, high, bits(0x3p67 + 0x1p52));
  } else {
    cc_.vpsrlq(high, a, 32);
    cc_.vpor(high, high, bits(0x1p84));
    cc_.vpblendw(low, a, bits(0x1p52), 0xcc);
    cc_.vsubpd(high, high, bits(0x1p84 + 0x1p52));
  }
  cc_.vaddpd(r, high, low);
  return r;
}

x86::Vec Lanes::f64_to_i64(x86::Vec a) {
  const int size = bytes(DType::f64_);
  x86::Vec r = vec(size);
  if (avx512_) {
    cc_.vcvttpd2qq(r, a);
    return r;
  }
  // Whole numbers below 2^51 only.
  const x86::Vec magic = sized(broadcast_bits(8, std::bit_cast<uint64_t>(0x1.8p52)), size);
  cc_.vaddpd(r, a, magic);
  cc_.vpsubq(r, r, magic);
  return r;
}

x86::Reg Lanes::real_to_int(DType to, DType from, x86::Vec a) {
  const bool wide = from == DType::f64_;
  const int size = ir::size_of(to);
  if (size < 4) {
    x86::Vec words = as_vec(real_to_int(DType::i32_, from, a));
    return truncate_int(words, 4, size);
  }
  x86::Vec r = vec(bytes(to));
  // Where the value does not fit the signed type the unsigned conversion takes over.
  auto unsigned_part = [&](InstId convert, uint64_t limit64, uint32_t limit32) {
    x86::Vec limit = sized(broadcast_bits(wide ? 8 : 4, wide ? limit64 : limit32), bytes(from));
    x86::Reg large = compare_real(0x1d, from, a, limit);
    if (avx512_) {
      cc_.k(large.as<x86::KReg>()).emit(convert, r, a);
      return;
    }
    x86::Reg rest = real_op(Opcode::sub_, from, a, limit, {});
    x86::Vec other = vec(bytes(to));
    cc_.emit(convert, other, rest);
    cc_.vpxor(other, other, sign_mask(to, false));
    blend_into(to, r, large, other);
  };
  switch (to) {
    case DType::i64_:
      cc_.emit(wide ? Id::kIdVcvttpd2qq : Id::kIdVcvttps2qq, r, a);
      break;
    case DType::u64_:
      cc_.emit(wide ? Id::kIdVcvttpd2qq : Id::kIdVcvttps2qq, r, a);
      unsigned_part(wide ? Id::kIdVcvttpd2uqq : Id::kIdVcvttps2uqq, 0x43e0000000000000, 0x5f000000);
      break;
    case DType::i32_:
      cc_.emit(wide ? Id::kIdVcvttpd2dq : Id::kIdVcvttps2dq, r, a);
      break;
    default:
      cc_.emit(wide ? Id::kIdVcvttpd2dq : Id::kIdVcvttps2dq, r, a);
      unsigned_part(
          avx512_ ? (wide ? Id::kIdVcvttpd2udq : Id::kIdVcvttps2udq) : (wide ? Id::kIdVcvttpd2dq : Id::kIdVcvttps2dq),
          0x41e0000000000000, 0x4f000000);
  }
  return r;
}

x86::Reg Lanes::int_to_real(DType to, DType from, x86::Vec a) {
  const bool wide = to == DType::f64_, sign = ir::is_signed(from);
  const int size = ir::size_of(from);
  if (size == 8) {
    if (wide) return i64_to_f64(a, sign);
    x86::Vec r = vec(bytes(to));
    cc_.emit(sign ? Id::kIdVcvtqq2ps : Id::kIdVcvtuqq2ps, r, a);
    return r;
  }
  if (size < 4) a = convert_int(a, size, sign, 4);
  x86::Vec r = vec(bytes(to));
  if (size < 4 || sign) {
    cc_.emit(wide ? Id::kIdVcvtdq2pd : Id::kIdVcvtdq2ps, r, a);
  } else if (avx512_) {
    cc_.emit(wide ? Id::kIdVcvtudq2pd : Id::kIdVcvtudq2ps, r, a);
  } else if (wide) {
    return i64_to_f64(convert_int(a, 4, false, 8), false);
  } else {
    // Both halves are exact, their sum is rounded once.
    const int n = bytes(to);
    x86::Vec high = vec(n), low = vec(n);
    cc_.vpsrld(high, a, 16);
    cc_.vcvtdq2ps(high, high);
    cc_.vmulps(high, high, sized(broadcast_bits(4, 0x47800000), n));
    cc_.vpand(low, a, sized(broadcast_bits(4, 0xffff), n));
    cc_.vcvtdq2ps(low, low);
    cc_.vaddps(r, high, low);
  }
  return r;
}

x86::Vec Lanes::bfloat_to_f32(x86::Vec a) {
  return as_vec(shift_imm(Opcode::shl_, DType::u32_, convert_int(a, 2, false, 4), 16, {}));
}

x86::Vec Lanes::f32_to_bfloat(x86::Vec a) {
  const int size = bytes(DType::f32_);
  const auto bits = [&](uint32_t word) { return sized(broadcast_bits(4, word), size); };
  // Half of the last place that is kept, less one where that place is even; the sum may carry into the exponent.
  x86::Reg high = shift_imm(Opcode::shr_, DType::u32_, a, 16, {});
  x86::Reg odd = int_op(Opcode::and_, DType::u32_, high, bits(1), {});
  x86::Reg half = int_op(Opcode::add_, DType::u32_, odd, bits(0x7fff), {});
  x86::Reg sum = int_op(Opcode::add_, DType::u32_, half, a, {});
  x86::Reg nan = int_op(Opcode::or_, DType::u32_, a, bits(0x400000), {});
  blend_into(DType::f32_, sum, compare_real(0x03, DType::f32_, a, a), nan);
  return truncate_int(as_vec(shift_imm(Opcode::shr_, DType::u32_, sum, 16, {})), 4, 2);
}

x86::Reg Lanes::cast1(DType to, DType from, x86::Reg a) {
  if (to == from) return a;
  if (ir::is_half(from) || ir::is_half(to)) {
    APPY_CHECK(from == DType::f32_ || to == DType::f32_, "the pass `halves` leaves conversions by f32 only");
    if (from == DType::bf16_) return bfloat_to_f32(as_vec(a));
    if (to == DType::bf16_) return f32_to_bfloat(as_vec(a));
    x86::Vec r = vec(bytes(to));
    to == DType::f16_ ? cc_.vcvtps2ph(r, as_vec(a), 0) : cc_.vcvtph2ps(r, as_vec(a));
    return r;
  }
  const bool to_real = is_float(to), from_real = is_float(from);
  const int size = ir::size_of(to);
  if (from == DType::bool_) {
    const uint64_t one = to == DType::f64_   ? std::bit_cast<uint64_t>(1.0)
                         : to == DType::f32_ ? std::bit_cast<uint32_t>(1.0f)
                                             : 1;
    x86::Vec ones = sized(broadcast_bits(size, one), bytes(to)), r = vec(bytes(to));
    if (avx512_) {
      cc_.k(a.as<x86::KReg>())
          .z()
          .emit(size == 8   ? Id::kIdVmovdqa64
                : size == 4 ? Id::kIdVmovdqa32
                : size == 2 ? Id::kIdVmovdqu16
                            : Id::kIdVmovdqu8,
                r, ones);
    } else {
      cc_.vpand(r, sized(narrow(a, size), bytes(to)), ones);
    }
    return r;
  }
  if (to == DType::bool_) {
    x86::Vec zero = sized(broadcast_bits(8, 0), bytes(from));
    return from_real ? compare_real(0x04, from, a, zero) : compare_int(Opcode::ne_, from, as_vec(a), zero);
  }
  if (to_real && from_real) {
    x86::Vec r = vec(bytes(to));
    cc_.emit(to == DType::f64_ ? Id::kIdVcvtps2pd : Id::kIdVcvtpd2ps, r, a);
    return r;
  }
  if (to_real) return int_to_real(to, from, as_vec(a));
  if (from_real) return real_to_int(to, from, as_vec(a));
  const int from_size = ir::size_of(from);
  if (from_size == size) return a;
  if (from_size < size) return convert_int(as_vec(a), from_size, ir::is_signed(from), size);
  return truncate_int(as_vec(a), from_size, size);
}

}  // namespace appy::cpu
