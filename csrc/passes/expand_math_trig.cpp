// Sine and cosine, after Cody and Waite: x minus the nearest multiple of pi in three steps, each exact or rounded
// relative to what is left, and an odd polynomial up to pi / 2. The inverse functions by polynomials near 0, and the
// identities that bring the rest of the range there.
#include "passes/expand_math_tables.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

constexpr double kInversePi = 0x1.45f306dc9c883p-2;

/// x - n * period, with the period in three parts.
Value* minus_multiple(MathBuilder& m, Value* x, Value* n, const double* period) {
  for (int i = 0; i < 3; ++i) x = m.fma(n, m.number(-period[i]), x);
  return x;
}

/// (-1)**n * sin(r)
Value* signed_sine(MathBuilder& m, Value* shifted, Value* r) {
  Value* sign = m.shl(m.bits(shifted), m.wide() ? 63 : 31);
  r = m.real(m.bit_xor(m.bits(r), sign));
  Value* z = m.mul(r, r);
  Value* p = m.polynomial(z, m.table(k_sin_f64, k_sin_f32));
  return m.fma(m.mul(z, r), p, r);
}

Value* sin(MathBuilder& m, Value* x) {
  const MathBuilder::Whole whole = m.nearest(x, kInversePi);
  Value* v = signed_sine(m, whole.shifted, minus_multiple(m, x, whole.n, m.pick(kPi64, kPi32)));
  return m.select(m.eq(x, m.number(0)), x, v);
}

Value* cos(MathBuilder& m, Value* x) {
  // cos(x) = (-1)**n * sin(x - (n - 1/2) * pi)
  const MathBuilder::Whole whole = m.nearest(x, kInversePi, 0.5);
  return signed_sine(m, whole.shifted, minus_multiple(m, x, m.sub(whole.n, m.number(0.5)), m.pick(kPi64, kPi32)));
}

Value* tan(MathBuilder& m, Value* x) {
  // With t = tan(y / 2) and y = x - n * pi / 2: tan(y) = 2 * t / (1 - t**2), and for odd n the negative reciprocal.
  const MathBuilder::Whole whole = m.nearest(x, 2 * kInversePi);
  Value* y = minus_multiple(m, x, whole.n, m.pick(kHalfPi64, kHalfPi32));
  Value* h = m.mul(y, m.number(0.5));
  Value* z = m.mul(h, h);
  Value* p = m.polynomial(z, m.table(k_tan_f64, k_tan_f32));
  Value* t = m.fma(m.mul(z, h), p, h);
  Value* twice = m.add(t, t);
  Value* odd = m.gt(m.shl(m.bits(whole.shifted), m.wide() ? 63 : 31), m.integer(0));
  Value* square = m.mul(t, t);
  Value* v = m.div(m.select(odd, m.sub(square, m.number(1)), twice), m.select(odd, twice, m.sub(m.number(1), square)));
  return m.select(m.eq(x, m.number(0)), x, v);
}

/// Up to 1/2 a = |x| and its arc sine; above, the square root s of (1 - |x|) / 2 and its arc sine.
struct ArcSine {
  Value* large;
  Value* v;
};

ArcSine half_arc_sine(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  Value* large = m.gt(a, m.number(0.5));
  Value* below = m.fma(a, m.number(-0.5), m.number(0.5));
  Value* z = m.select(large, below, m.mul(a, a));
  Value* s = m.select(large, m.sqrt(below), a);
  Value* p = m.polynomial(z, m.table(k_asin_f64, k_asin_f32));
  return {large, m.fma(m.mul(z, s), p, s)};
}

Value* asin(MathBuilder& m, Value* x) {
  const ArcSine h = half_arc_sine(m, x);
  Value* rest = m.sub(m.number(m.pick(kHalfPi64[1], kHalfPi32[1])), m.add(h.v, h.v));
  Value* other = m.add(m.number(m.pick(kHalfPi64[0], kHalfPi32[0])), rest);
  return m.copysign(m.select(h.large, other, h.v), x);
}

Value* acos(MathBuilder& m, Value* x) {
  const ArcSine h = half_arc_sine(m, x);
  const double* half_pi = m.pick(kHalfPi64, kHalfPi32);
  Value* negative = m.lt(x, m.number(0));
  Value* twice = m.add(h.v, h.v);
  // pi - 2 * v, 2 * v; pi / 2 -+ v in the middle.
  Value* far = m.add(m.number(2 * half_pi[0]), m.sub(m.number(2 * half_pi[1]), twice));
  Value* near = m.add(m.number(half_pi[0]), m.sub(m.number(half_pi[1]), m.copysign(h.v, x)));
  return m.select(h.large, m.select(negative, far, twice), near);
}

Value* atan(MathBuilder& m, Value* x) {
  Value* a = m.abs(x);
  Value* large = m.gt(a, m.number(1));
  Value* y = m.select(large, m.div(m.number(-1), a), a);
  Value* z = m.mul(y, y);
  Value* p = m.polynomial(z, m.table(k_atan_f64, k_atan_f32));
  Value* zero = m.number(0);
  Value* low = m.select(large, m.number(m.pick(kHalfPi64[1], kHalfPi32[1])), zero);
  Value* high = m.select(large, m.number(m.pick(kHalfPi64[0], kHalfPi32[0])), zero);
  Value* v = m.add(high, m.add(y, m.fma(m.mul(z, y), p, low)));
  return m.copysign(v, x);
}

}  // namespace

Value* expand_trigonometric(MathBuilder& m, Opcode code, Value* x) {
  switch (code) {
    case Opcode::sin_:
      return sin(m, x);
    case Opcode::cos_:
      return cos(m, x);
    case Opcode::tan_:
      return tan(m, x);
    case Opcode::asin_:
      return asin(m, x);
    case Opcode::acos_:
      return acos(m, x);
    case Opcode::atan_:
      return atan(m, x);
    default:
      return nullptr;
  }
}

double expansion_limit(Opcode code) {
  return code == Opcode::sin_ || code == Opcode::cos_ || code == Opcode::tan_ ? 1e5 : 0;
}

}  // namespace appy::passes
