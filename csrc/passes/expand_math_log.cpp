// Logarithms: x = 2**k * (1 + f) with 1 + f in [3/4, 3/2), and log(1 + f) as a series in s = f / (2 + f) (the form of
// fdlibm's e_log.c, whose terms are ordered so that f itself enters last and unrounded). Zeros, infinities and what has
// no logarithm need no code: k is infinite there, or f is NaN. The lower parts of constants that k is multiplied with
// are positive, so that infinities agree.
#include <limits>

#include "passes/expand_math_tables.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

/// x = 2**k * mantissa, the mantissa in [sqrt(1/2), sqrt(2)], of a positive number that is neither subnormal nor
/// infinite.
struct Parts {
  Value* k;
  Value* mantissa;
  Value* kbits;  // the exponent field that k came from
};

Parts parts_of(MathBuilder& m, Value* x) {
  const int mantissa = m.mantissa_bits();
  const uint64_t one = m.word(1.0), lowest = m.pick<uint64_t>(0x3fe6a09e667f3bcd, 0x3f3504f3);  // sqrt(1/2)
  const double bias = m.pick(1023.0, 127.0), magic = m.pick(0x1p52, 0x1p23);
  // Exponents turn over at sqrt(1/2) instead of 1.
  Value* moved = m.add(m.bits(x), m.integer(one - lowest));
  Value* exponent = m.shr(moved, mantissa);
  Value* k = m.sub(m.real(m.bit_or(exponent, m.integer(m.word(magic)))), m.number(magic + bias));
  Value* fraction = m.bit_and(moved, m.integer((uint64_t{1} << mantissa) - 1));
  return {k, m.real(m.add(fraction, m.integer(lowest))), exponent};
}

/// The f of 1 + f, exactly.
Value* above_one(MathBuilder& m, Value* mantissa) { return m.sub(mantissa, m.number(1)); }

/// log(1 + f) - f, plus `low`.
Value* correction(MathBuilder& m, Value* f, Value* low) {
  Value* s = m.div(f, m.add(f, m.number(2)));
  Value* z = m.mul(s, s);
  Value* r = m.polynomial(z, m.table(k_log_f64, k_log_f32));
  Value* half_square = m.mul(m.mul(f, m.number(0.5)), f);
  Value* sum = m.fma(z, r, half_square);
  return m.sub(low ? m.fma(s, sum, low) : m.mul(s, sum), half_square);
}

/// k * log(2) + log(1 + f)
Value* natural(MathBuilder& m, Value* k, Value* f) {
  Value* v = correction(m, f, m.mul(k, m.number(m.pick(kLn2Low64, kLn2Low32))));
  return m.fma(k, m.number(m.pick(kLn2High64, kLn2High32)), m.add(f, v));
}

/// The values at infinity and NaN (themselves), 0 (-inf) and below (NaN).
Value* with_domain(MathBuilder& m, Value* x, Value* v) {
  Value* zero = m.number(0);
  Value* outside = m.select(m.eq(x, zero), m.number(-std::numeric_limits<double>::infinity()), m.quiet_nan());
  return m.select(m.le(x, zero), outside, m.select(m.lt(x, m.infinity()), v, x));
}

Value* log1p(MathBuilder& m, Value* x) {
  Value* u = m.add(x, m.number(1));
  const Parts at = parts_of(m, u);
  // What the sum lost, scaled by 2**-k like u; in two factors, as 2**-k may be subnormal.
  Value* lost = m.mul(m.sub(x, m.sub(u, m.number(1))), m.number(0.5));
  const auto twice = m.pick<uint64_t>(2047, 255);
  Value* scale = m.real(m.shl(m.sub(m.integer(twice), at.kbits), m.mantissa_bits()));
  Value* f = m.fma(lost, scale, above_one(m, at.mantissa));
  Value* v = with_domain(m, u, natural(m, at.k, f));
  return m.select(m.eq(x, m.number(0)), x, v);
}

/// log1p(v); or where `large`, log(2 * x).
Value* log1p_or_log_twice(MathBuilder& m, Value* large, Value* v, Value* x) {
  Value* extra = m.select(large, m.number(m.pick(kLn2High64, kLn2High32)), m.number(0));
  return m.add(log1p(m, m.select(large, x, v)), extra);
}

Value* asinh(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  Value* large = m.gt(a, m.number(m.pick(0x1p100, 0x1p40)));
  Value* square = m.mul(a, a);
  Value* root = m.sqrt(m.add(square, m.number(1)));
  Value* v = m.add(a, m.div(square, m.add(root, m.number(1))));
  return m.copysign(log1p_or_log_twice(m, large, v, a), x);
}

Value* acosh(MathBuilder& m, Value* x) {
  Value* large = m.gt(x, m.number(m.pick(0x1p100, 0x1p40)));
  Value* below = m.sub(x, m.number(1));
  Value* root = m.sqrt(m.mul(below, m.add(x, m.number(1))));
  Value* v = log1p_or_log_twice(m, large, m.add(below, root), x);
  return m.select(m.lt(x, m.number(1)), m.quiet_nan(), v);
}

Value* atanh(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  Value* v = log1p(m, m.div(m.add(a, a), m.sub(m.number(1), a)));
  return m.copysign(m.mul(v, m.number(0.5)), x);
}

}  // namespace

Value* expand_logarithm(MathBuilder& m, Opcode code, Value* x) {
  switch (code) {
    case Opcode::log_: {
      const Split at = split(m, x);
      return natural(m, at.k, above_one(m, at.mantissa));
    }
    case Opcode::log2_: {
      const Split at = split(m, x);
      Value* f = above_one(m, at.mantissa);
      Value* log = m.add(f, correction(m, f, nullptr));
      // The tail of log2(e) counts: its rounding error alone would be a third of an ulp.
      Value* low = m.mul(log, m.number(m.pick(kLog2ELow64, kLog2ELow32)));
      Value* high = m.number(m.pick(kLog2E, kLog2EHigh32));
      return m.add(at.k, m.fma(log, high, low));
    }
    case Opcode::log10_: {
      const Split at = split(m, x);
      Value* f = above_one(m, at.mantissa);
      Value* log = m.add(f, correction(m, f, nullptr));
      Value* low = m.mul(at.k, m.number(m.pick(kLog10Of2Low64, kLog10Of2Low32)));
      low = m.fma(log, m.number(m.pick(kLog10ELow64, kLog10ELow32)), low);
      Value* high = m.fma(log, m.number(m.pick(kLog10E64, kLog10E32)), low);
      return m.fma(at.k, m.number(m.pick(kLog10Of264, kLog10Of232)), high);
    }
    case Opcode::log1p_:
      return log1p(m, x);
    case Opcode::asinh_:
      return asinh(m, x);
    case Opcode::acosh_:
      return acosh(m, x);
    case Opcode::atanh_:
      return atanh(m, x);
    default:
      return nullptr;
  }
}

}  // namespace appy::passes
