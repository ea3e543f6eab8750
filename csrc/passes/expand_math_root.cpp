// The cube root: x = 2**(3 * q) * m with m in [3/8, 3]. A polynomial gives z, nearly 1 / cbrt(m), and one step without
// divisions leads from m * z * z to cbrt(m).
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

/// ((1 - e)**(-2/3) - 1) / e
constexpr double kStep[] = {2.0 / 3, 5.0 / 9, 40.0 / 81, 110.0 / 243, 308.0 / 729, 2618.0 / 6561};

Value* cbrt(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  const Split at = split(m, a);
  const MathBuilder::Whole q = m.nearest(at.k, 1.0 / 3.0);
  Value* rest = m.fma(q.n, m.number(-3), at.k);
  Value* mantissa = times_power(m, at.mantissa, m.add(rest, m.number(m.pick(0x1.8p52, 0x1.8p23))));
  Value* z = m.polynomial(mantissa, m.table(k_cbrt_f64, k_cbrt_f32));
  // With e = 1 - m * z**3: cbrt(m) = m * z**2 * (1 - e)**(-2/3), and |e| < 0.004 (f32: 0.022). As e is formed with the
  // rounded m * z**2, the step takes two thirds of that rounding back.
  Value* start = m.mul(mantissa, m.mul(z, z));
  Value* e = m.fma(m.neg(start), z, m.number(1));
  Value* series = m.polynomial(e, std::span(kStep).first(m.pick<size_t>(6, 4)));
  Value* root = m.fma(m.mul(start, e), series, start);
  Value* v = m.copysign(times_power(m, root, q.shifted), x);
  // Zeros, infinities and NaN, whose exponents are not finite, are their own roots.
  return m.select(m.lt(m.abs(at.k), m.infinity()), v, x);
}

}  // namespace

Value* expand_root(MathBuilder& m, Opcode code, Value* x) { return code == Opcode::cbrt_ ? cbrt(m, x) : nullptr; }

}  // namespace appy::passes
