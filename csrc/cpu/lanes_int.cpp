// Integer arithmetic on vector registers, with substitutes for what AVX2 lacks.
#include "cpu/lanes.h"
#include "cpu/reciprocal.h"
#include "cpu/vector_regs.h"
#include "support/check.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

InstId by_size(int size, InstId b, InstId w, InstId d, InstId q) {
  return size == 1 ? b : size == 2 ? w : size == 4 ? d : q;
}

}  // namespace

x86::Reg Lanes::int_op(Opcode code, DType t, x86::Reg a, x86::Reg b, x86::Reg to) {
  const int size = ir::size_of(t);
  const bool sign = ir::is_signed(t);
  if (!to.isValid()) to = fresh1(t);
  auto direct = [&](InstId id) { cc_.emit(id, to, a, b); };
  switch (code) {
    case Opcode::add_:
      direct(by_size(size, Id::kIdVpaddb, Id::kIdVpaddw, Id::kIdVpaddd, Id::kIdVpaddq));
      break;
    case Opcode::sub_:
      direct(by_size(size, Id::kIdVpsubb, Id::kIdVpsubw, Id::kIdVpsubd, Id::kIdVpsubq));
      break;
    case Opcode::mul_:
      if (size == 8 && !avx512_) return mul64(as_vec(a), as_vec(b), to);
      if (size == 1) return mul8(as_vec(a), as_vec(b), to, bytes(t));
      direct(by_size(size, 0, Id::kIdVpmullw, Id::kIdVpmulld, Id::kIdVpmullq));
      break;
    case Opcode::and_:
      direct(avx512_ ? Id::kIdVpandq : Id::kIdVpand);
      break;
    case Opcode::or_:
      direct(avx512_ ? Id::kIdVporq : Id::kIdVpor);
      break;
    case Opcode::xor_:
      direct(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor);
      break;
    case Opcode::neg_:
      cc_.emit(by_size(size, Id::kIdVpsubb, Id::kIdVpsubw, Id::kIdVpsubd, Id::kIdVpsubq), to,
               sized(broadcast_bits(8, 0), bytes(t)), a);
      break;
    case Opcode::not_:
      cc_.emit(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor, to, a, sized(broadcast_bits(8, ~uint64_t{0}), bytes(t)));
      break;
    case Opcode::abs_:
      if (!sign) {
        f_.move(to, a);
      } else if (size < 8 || avx512_) {
        cc_.emit(by_size(size, Id::kIdVpabsb, Id::kIdVpabsw, Id::kIdVpabsd, Id::kIdVpabsq), to, a);
      } else {
        x86::Vec s = vec(bytes(t)), x = vec(bytes(t));
        cc_.vpcmpgtq(s, sized(broadcast_bits(8, 0), bytes(t)), as_vec(a));
        cc_.vpxor(x, as_vec(a), s);
        cc_.vpsubq(as_vec(to), x, s);
      }
      break;
    case Opcode::pymin_:
    case Opcode::minimum_:
    case Opcode::pymax_:
    case Opcode::maximum_: {
      const bool least = code == Opcode::pymin_ || code == Opcode::minimum_;
      if (size == 8 && !avx512_) {
        x86::Reg first = compare_int(least ? Opcode::lt_ : Opcode::gt_, t, as_vec(a), as_vec(b));
        f_.move(to, blend(t, first, a, b));
        break;
      }
      const InstId s = least ? by_size(size, Id::kIdVpminsb, Id::kIdVpminsw, Id::kIdVpminsd, Id::kIdVpminsq)
                             : by_size(size, Id::kIdVpmaxsb, Id::kIdVpmaxsw, Id::kIdVpmaxsd, Id::kIdVpmaxsq);
      const InstId u = least ? by_size(size, Id::kIdVpminub, Id::kIdVpminuw, Id::kIdVpminud, Id::kIdVpminuq)
                             : by_size(size, Id::kIdVpmaxub, Id::kIdVpmaxuw, Id::kIdVpmaxud, Id::kIdVpmaxuq);
      direct(sign ? s : u);
      break;
    }
    default:
      APPY_CHECK(false, "no vector code for this integer operation");
  }
  return to;
}

x86::Reg Lanes::mul64(x86::Vec a, x86::Vec b, x86::Reg to) {
  if (!to.isValid()) to = fresh1(DType::i64_);
  if (avx512_) {
    cc_.vpmullq(as_vec(to), a, b);
    return to;
  }
  // low*low + ((low*high + high*low) << 32)
  x86::Vec swapped = vec(bytes(DType::i64_)), cross = vec(bytes(DType::i64_)), low = vec(bytes(DType::i64_));
  cc_.vpshufd(swapped, b, 0xb1);
  cc_.vpmulld(swapped, swapped, a);
  cc_.vpsrlq(cross, swapped, 32);
  cc_.vpaddd(cross, cross, swapped);
  cc_.vpsllq(cross, cross, 32);
  cc_.vpmuludq(low, a, b);
  cc_.vpaddq(as_vec(to), low, cross);
  return to;
}

x86::Reg Lanes::mul8(x86::Vec a, x86::Vec b, x86::Reg to, int bytes) {
  x86::Vec even = vec(bytes), odd = vec(bytes), other = vec(bytes);
  cc_.vpmullw(even, a, b);
  cc_.vpsrlw(odd, a, 8);
  cc_.vpsrlw(other, b, 8);
  cc_.vpmullw(odd, odd, other);
  cc_.vpsllw(odd, odd, 8);
  const x86::Vec low = sized(broadcast_bits(2, 0x00ff), bytes);
  cc_.emit(avx512_ ? Id::kIdVpandq : Id::kIdVpand, even, even, low);
  cc_.emit(avx512_ ? Id::kIdVporq : Id::kIdVpor, to, even, odd);
  return to;
}

x86::Reg Lanes::shift_imm(Opcode code, DType t, x86::Reg a, int count, x86::Reg to) {
  const int size = ir::size_of(t), width = 8 * size;
  if (!to.isValid()) to = fresh1(t);
  const bool sign = ir::is_signed(t);
  const asmjit::Imm n(count);
  if (code == Opcode::shr_ && sign) {
    const asmjit::Imm m(std::min(count, width - 1));
    if (size == 4 || size == 2) {
      cc_.emit(size == 4 ? Id::kIdVpsrad : Id::kIdVpsraw, to, a, m);
    } else if (size == 8 && avx512_) {
      cc_.emit(Id::kIdVpsraq, to, a, m);
    } else if (size == 8) {
      x86::Vec s = vec(bytes(t)), x = vec(bytes(t));
      cc_.vpcmpgtq(s, sized(broadcast_bits(8, 0), bytes(t)), as_vec(a));
      cc_.vpxor(x, as_vec(a), s);
      cc_.emit(Id::kIdVpsrlq, x, x, m);
      cc_.vpxor(as_vec(to), x, s);
    } else {
      // Bytes: shift the words, then extend the byte's sign: (x ^ s) - s with s the sign bit's new place.
      const int c = std::min(count, 7);
      x86::Vec x = vec(bytes(t));
      const x86::Vec keep = sized(broadcast_bits(1, 0xffu >> c), bytes(t));
      const x86::Vec s = sized(broadcast_bits(1, 0x80u >> c), bytes(t));
      cc_.emit(Id::kIdVpsrlw, x, a, asmjit::Imm(c));
      cc_.emit(avx512_ ? Id::kIdVpandq : Id::kIdVpand, x, x, keep);
      cc_.emit(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor, x, x, s);
      cc_.emit(Id::kIdVpsubb, to, x, s);
    }
    return to;
  }
  if (count >= width) {
    f_.move(to, sized(broadcast_bits(8, 0), bytes(t)));
    return to;
  }
  const bool left = code == Opcode::shl_;
  if (size == 1) {
    x86::Vec x = vec(bytes(t));
    const x86::Vec keep = sized(broadcast_bits(1, left ? 0xffu << count : 0xffu >> count), bytes(t));
    cc_.emit(left ? Id::kIdVpsllw : Id::kIdVpsrlw, x, a, n);
    cc_.emit(avx512_ ? Id::kIdVpandq : Id::kIdVpand, to, x, keep);
    return to;
  }
  cc_.emit(left ? by_size(size, 0, Id::kIdVpsllw, Id::kIdVpslld, Id::kIdVpsllq)
                : by_size(size, 0, Id::kIdVpsrlw, Id::kIdVpsrld, Id::kIdVpsrlq),
           to, a, n);
  return to;
}

x86::Reg Lanes::shift(Opcode code, DType t, x86::Reg a, x86::Reg count, x86::Reg to) {
  const int size = ir::size_of(t);
  if (!to.isValid()) to = fresh1(t);
  if (code == Opcode::shl_) {
    cc_.emit(size == 8 ? Id::kIdVpsllvq : Id::kIdVpsllvd, to, a, count);
  } else if (!ir::is_signed(t)) {
    cc_.emit(size == 8 ? Id::kIdVpsrlvq : Id::kIdVpsrlvd, to, a, count);
  } else if (size == 4 || avx512_) {
    cc_.emit(size == 8 ? Id::kIdVpsravq : Id::kIdVpsravd, to, a, count);
  } else {
    x86::Vec s = vec(bytes(t)), x = vec(bytes(t));
    cc_.vpcmpgtq(s, sized(broadcast_bits(8, 0), bytes(t)), as_vec(a));
    cc_.vpxor(x, as_vec(a), s);
    cc_.vpsrlvq(x, x, as_vec(count));
    cc_.vpxor(as_vec(to), x, s);
  }
  return to;
}

x86::Reg Lanes::int_divide(Opcode code, DType t, x86::Reg a, x86::Reg b) {
  // Exact in double: the quotient of two integers below 2^32 is off by less than the distance to the next integer.
  const DType real = DType::f64_;
  x86::Reg x = cast1(real, t, a), y = cast1(real, t, b);
  x86::Reg q = real_op(Opcode::div_, real, x, y, {});
  q = real_op(code == Opcode::rem_ ? Opcode::trunc_ : Opcode::floor_, real, q, q, {});
  x86::Vec zero = sized(broadcast_bits(8, 0), bytes(t));
  x86::Reg nothing = compare_int(Opcode::eq_, t, as_vec(b), zero);
  x86::Reg r;
  if (code == Opcode::floordiv_) {
    // Through 64 bits, so that INT_MIN / -1 wraps.
    r = convert_result(t, q);
  } else {
    x86::Reg product = real_op(Opcode::mul_, real, q, y, {});
    r = convert_result(t, real_op(Opcode::sub_, real, x, product, {}));
  }
  return blend(t, nothing, zero, r);
}

x86::Reg Lanes::wide_divide(Opcode code, x86::Reg a, x86::Reg b) {
  // The quotient in double is off by less than 2^13, or by one where the divisor exceeds 2^50. So what it leaves of the
  // dividend fits 64 bits, and the quotient of that, rounded to nearest, is off by one at most, and then too large.
  // A quotient past 64 bits is 2^63, whose bits the conversion gives; the sums wrap as they should.
  const DType t = DType::i64_, real = DType::f64_;
  const auto quotient = [&](x86::Reg of) {
    x86::Reg x = real_op(Opcode::div_, real, cast1(real, t, of), cast1(real, t, b), {});
    x86::Vec q = vec(bytes(t));
    cc_.vcvtpd2qq(q, as_vec(x));
    return q;
  };
  const auto left = [&](x86::Reg of, x86::Reg q) {
    return int_op(Opcode::sub_, t, of, int_op(Opcode::mul_, t, q, b, {}), {});
  };
  x86::Reg q = quotient(a);
  x86::Reg r = left(a, q);
  x86::Reg more = quotient(r);
  r = left(r, more);
  x86::Vec zero = sized(broadcast_bits(8, 0), bytes(t));
  // Python rounds down: what is left has the divisor's sign.
  x86::Reg opposite = negative(t, as_vec(int_op(Opcode::xor_, t, r, b, {})));
  x86::Reg adjust = mask_and(opposite, compare_int(Opcode::ne_, t, as_vec(r), zero));
  x86::Reg result;
  if (code == Opcode::floordiv_) {
    q = int_op(Opcode::add_, t, q, more, {});
    x86::Vec one = sized(broadcast_bits(8, 1), bytes(t));
    result = blend(t, adjust, int_op(Opcode::sub_, t, q, one, {}), q);
  } else {
    result = blend(t, adjust, int_op(Opcode::add_, t, r, b, {}), r);
  }
  return blend(t, compare_int(Opcode::eq_, t, as_vec(b), zero), zero, result);
}

x86::Reg Lanes::mul64_high(x86::Vec a, uint64_t b) {
  // By halves: a1 b1 + the upper halves of a1 b0 and of what meets below it, which fits 64 bits.
  const int n = bytes(DType::i64_);
  const x86::Vec b0 = sized(broadcast_bits(8, b & 0xffffffff), n), b1 = sized(broadcast_bits(8, b >> 32), n);
  const x86::Vec low_half = sized(broadcast_bits(8, 0xffffffff), n);
  x86::Vec a1 = vec(n), middle = vec(n), cross = vec(n), part = vec(n), high = vec(n);
  cc_.vpsrlq(a1, a, 32);
  cc_.vpmuludq(middle, a, b0);
  cc_.vpsrlq(middle, middle, 32);
  cc_.vpmuludq(cross, a1, b0);
  cc_.emit(avx512_ ? Id::kIdVpandq : Id::kIdVpand, part, cross, low_half);
  cc_.vpaddq(middle, middle, part);
  cc_.vpmuludq(part, a, b1);
  cc_.vpaddq(middle, middle, part);
  cc_.vpsrlq(middle, middle, 32);
  cc_.vpsrlq(cross, cross, 32);
  cc_.vpmuludq(high, a1, b1);
  cc_.vpaddq(high, high, cross);
  cc_.vpaddq(high, high, middle);
  return high;
}

x86::Reg Lanes::divide_by_constant(Opcode code, DType t, x86::Reg a, int64_t divisor) {
  const bool sign = ir::is_signed(t);
  const Reciprocal by = reciprocal(static_cast<uint64_t>(divisor), sign ? 63 : 64);
  x86::Reg q;
  if (sign) {
    // Rounded down: of a negative number the complement is divided, and the quotient complemented.
    x86::Reg s = avx512_ ? shift_imm(Opcode::shr_, t, a, 63, {}) : negative(t, as_vec(a));
    q = mul64_high(as_vec(int_op(Opcode::xor_, t, a, s, {})), by.multiplier);
    cc_.vpsrlq(as_vec(q), as_vec(q), by.shift);
    q = int_op(Opcode::xor_, t, q, s, {});
  } else {
    x86::Reg high = mul64_high(as_vec(a), by.multiplier);
    x86::Reg rest = int_op(Opcode::sub_, t, a, high, {});
    cc_.vpsrlq(as_vec(rest), as_vec(rest), 1);
    q = int_op(Opcode::add_, t, high, rest, {});
    cc_.vpsrlq(as_vec(q), as_vec(q), by.shift);
  }
  if (code == Opcode::floordiv_) return q;
  x86::Vec d = sized(broadcast_bits(8, static_cast<uint64_t>(divisor)), bytes(t));
  return int_op(Opcode::sub_, t, a, int_op(Opcode::mul_, t, q, d, {}), {});
}

x86::Reg Lanes::convert_result(DType t, x86::Reg q) { return cast1(t, DType::i64_, f64_to_i64(as_vec(q))); }

x86::Reg Lanes::negative(DType t, x86::Vec a) {
  const int size = ir::size_of(t);
  if (avx512_) {
    x86::Reg to = new_mask();
    cc_.emit(by_size(size, Id::kIdVpmovb2m, Id::kIdVpmovw2m, Id::kIdVpmovd2m, Id::kIdVpmovq2m), to, a);
    if (bytes(t) < 16) cc_.kmovb(to.as<x86::KReg>(), to.as<x86::KReg>());
    return to;
  }
  x86::Vec m = vec(bytes(t));
  cc_.emit(by_size(size, Id::kIdVpcmpgtb, Id::kIdVpcmpgtw, Id::kIdVpcmpgtd, Id::kIdVpcmpgtq), m,
           sized(broadcast_bits(8, 0), bytes(t)), a);
  return widen(m, size);
}

x86::Reg Lanes::compare_int(Opcode code, DType t, x86::Vec a, x86::Vec b, x86::Reg under) {
  const int size = ir::size_of(t);
  const bool sign = ir::is_signed(t);
  if (avx512_) {
    const int predicate = code == Opcode::eq_   ? 0
                          : code == Opcode::lt_ ? 1
                          : code == Opcode::le_ ? 2
                          : code == Opcode::ne_ ? 4
                          : code == Opcode::ge_ ? 5
                                                : 6;
    x86::Reg to = under.isValid() ? under : new_mask();
    if (under.isValid()) cc_.k(under.as<x86::KReg>());
    cc_.emit(sign ? by_size(size, Id::kIdVpcmpb, Id::kIdVpcmpw, Id::kIdVpcmpd, Id::kIdVpcmpq)
                  : by_size(size, Id::kIdVpcmpub, Id::kIdVpcmpuw, Id::kIdVpcmpud, Id::kIdVpcmpuq),
             to, a, b, asmjit::Imm(predicate));
    // Eight bytes in sixteen: the other lanes are not ours.
    if (bytes(t) < 16) cc_.kmovb(to.as<x86::KReg>(), to.as<x86::KReg>());
    return to;
  }
  x86::Vec m = vec(bytes(t));
  const bool negate = code == Opcode::ne_ || code == Opcode::le_ || code == Opcode::ge_;
  if (code == Opcode::eq_ || code == Opcode::ne_) {
    cc_.emit(by_size(size, Id::kIdVpcmpeqb, Id::kIdVpcmpeqw, Id::kIdVpcmpeqd, Id::kIdVpcmpeqq), m, a, b);
  } else {
    const bool swap = code == Opcode::lt_ || code == Opcode::ge_;
    x86::Vec left = swap ? b : a, right = swap ? a : b;
    if (!sign) {
      const x86::Vec bias = sign_mask(t, false);
      x86::Vec l = vec(bytes(t)), r = vec(bytes(t));
      cc_.vpxor(l, left, bias);
      cc_.vpxor(r, right, bias);
      left = l;
      right = r;
    }
    cc_.emit(by_size(size, Id::kIdVpcmpgtb, Id::kIdVpcmpgtw, Id::kIdVpcmpgtd, Id::kIdVpcmpgtq), m, left, right);
  }
  x86::Reg to = widen(m, size);
  return negate ? mask_not(to) : to;
}

x86::Reg Lanes::overflow(Opcode code, DType t, x86::Reg a, x86::Reg b) {
  if (code == Opcode::ovf_mul_) {
    // The wrapped product differs from the exact one by a multiple of 2^64, far more than the doubles' error.
    x86::Reg wrapped = mul64(as_vec(a), as_vec(b), {});
    x86::Reg x = i64_to_f64(as_vec(a), true), y = i64_to_f64(as_vec(b), true);
    x86::Reg exact = real_op(Opcode::mul_, DType::f64_, x, y, {});
    x86::Reg low = i64_to_f64(as_vec(wrapped), true);
    x86::Reg off = real_op(Opcode::sub_, DType::f64_, exact, low, {});
    off = real_op(Opcode::abs_, DType::f64_, off, off, {});
    x86::Vec limit = sized(broadcast_bits(8, 0x43e0000000000000), bytes(t));
    return compare_real(0x1d, DType::f64_, off, limit);
  }
  x86::Reg r = int_op(code == Opcode::ovf_add_ ? Opcode::add_ : Opcode::sub_, t, a, b, {});
  // Overflow where a's sign differs from the result's and from (sub), or agrees with (add), b's.
  x86::Reg x = int_op(Opcode::xor_, t, a, r, {});
  x86::Reg y = int_op(Opcode::xor_, t, code == Opcode::ovf_add_ ? r : a, b, {});
  return negative(t, as_vec(int_op(Opcode::and_, t, x, y, {})));
}

}  // namespace appy::cpu
