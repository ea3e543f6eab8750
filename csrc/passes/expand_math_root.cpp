// The cube root: x = 2**(3 * q) * m with m in [2**-1.5, 2**1.5]. A polynomial starts z = 1 / cbrt(m), one step of an
// iteration without divisions and one of Newton's on m * z * z follow.
#include "passes/expand_math_tables.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

/// real * 2**n for n in the low bits of `shifted`, where no exponent leaves its range.
Value* times_power(MathBuilder& m, Value* real, Value* shifted) {
  return m.real(m.add(m.bits(real), m.shl(m.bits(shifted), m.mantissa_bits())));
}

Value* cbrt(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  const Split at = split(m, a, true);
  const MathBuilder::Whole q = m.nearest(at.k, 1.0 / 3.0);
  Value* rest = m.fma(q.n, m.number(-3), at.k);
  Value* mantissa = times_power(m, at.mantissa, m.nearest(rest, 1.0).shifted);
  Value* z = m.polynomial(mantissa, m.table(k_cbrt_f64, k_cbrt_f32));
  // With e = 1 - m * z**3: 1 / cbrt(m) = z * (1 - e)**(-1/3), whose series begins 1 + e/3 + 2*e**2/9 + 14*e**3/81.
  Value* e = m.fma(m.neg(m.mul(mantissa, z)), m.mul(z, z), m.number(1));
  Value* series = m.number(2.0 / 9.0);
  if (m.wide()) series = m.fma(e, m.number(14.0 / 81.0), series);
  series = m.fma(e, series, m.number(1.0 / 3.0));
  z = m.fma(z, m.mul(e, series), z);
  Value* root = m.mul(m.mul(mantissa, z), z);
  Value* left = m.fma(m.neg(m.mul(root, root)), root, mantissa);
  root = m.fma(left, m.mul(m.mul(z, z), m.number(1.0 / 3.0)), root);
  Value* v = m.copysign(times_power(m, root, q.shifted), x);
  // Zeros, infinities and NaN are their own roots.
  return m.select(m.bit_and(m.gt(a, m.number(0)), m.lt(a, m.infinity())), v, x);
}

}  // namespace

Value* expand_root(MathBuilder& m, Opcode code, Value* x) { return code == Opcode::cbrt_ ? cbrt(m, x) : nullptr; }

}  // namespace appy::passes
