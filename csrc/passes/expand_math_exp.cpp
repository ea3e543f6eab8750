// exp and its kin, after Cody and Waite: x = n * log(2) + r with |r| <= log(2) / 2, and a polynomial in r.
#include "passes/expand_math_tables.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

/// x - n * log(2). The first difference is exact: both terms are multiples of the last bit of log(2)'s high part.
Value* reduced(MathBuilder& m, Value* x, Value* n) {
  Value* r = m.fma(n, m.number(m.pick(-kLn2High64, -kLn2High32)), x);
  return m.fma(n, m.number(m.pick(-kLn2Low64, -kLn2Low32)), r);
}

/// factor * exp(x), the factor 1 or 1/2.
Value* exp(MathBuilder& m, Value* x, double factor) {
  // Far enough out for results to overflow and to vanish, near enough for n to be exact.
  const double limit = m.pick(800.0, 130.0);
  x = m.at_most(m.at_least(x, -limit), limit);
  Value* n = m.nearest(x, kLog2E).n;
  Value* r = reduced(m, x, n);
  Value* q = m.polynomial(r, m.table(k_exp_f64, k_exp_f32));
  if (factor != 1) n = m.sub(n, m.number(1));
  return m.scale(m.add(m.fma(q, m.mul(r, r), r), m.number(1)), n);
}

Value* exp2(MathBuilder& m, Value* x) {
  const double limit = m.pick(1200.0, 200.0);
  x = m.at_most(m.at_least(x, -limit), limit);
  Value* n = m.nearest(x, 1.0).n;
  Value* r = m.sub(x, n);
  return m.scale(m.fma(m.polynomial(r, m.table(k_exp2_f64, k_exp2_f32)), r, m.number(1)), n);
}

struct Expm1 {
  Value* shifted;  // n, see MathBuilder::nearest
  Value* head;     // exact
  Value* tail;     // expm1(r) = head + tail
};

Expm1 expm1_parts(MathBuilder& m, Value* x) {
  const auto [shifted, n] = m.nearest(x, kLog2E);
  Value* head = m.fma(n, m.number(m.pick(-kLn2High64, -kLn2High32)), x);
  Value* low = m.mul(n, m.number(m.pick(kLn2Low64, kLn2Low32)));
  Value* r = m.sub(head, low);
  Value* q = m.polynomial(r, m.table(k_expm1_f64, k_expm1_f32));
  return {shifted, head, m.sub(m.mul(q, m.mul(r, r)), low)};
}

/// 2**n * (1 + expm1(r)) - 1, all times `factor`.
Value* expm1_value(MathBuilder& m, const Expm1& e, double factor) {
  Value* power = m.power_of_two(e.shifted, factor);
  return m.fma(power, e.tail, m.fma(power, e.head, m.sub(power, m.number(factor))));
}

Value* expm1(MathBuilder& m, Value* x) {
  // Both halves of the sum are finite at the upper limit, and their sum is infinite.
  Value* y = m.at_most(m.at_least(x, m.pick(-40.0, -20.0)), m.pick(710.1, 89.0));
  Value* half = expm1_value(m, expm1_parts(m, y), 0.5);
  return m.select(m.lt(m.abs(x), m.number(m.pick(0x1p-54, 0x1p-25))), x, m.add(half, half));
}

Value* sinh(MathBuilder& m, Value* x) {
  // (t + t / (t + 1)) / 2 with t = expm1(|x|), a quarter at a time: t overflows before the result does.
  Value* a = m.abs(x);
  Value* quarter = expm1_value(m, expm1_parts(m, m.at_most(a, m.pick(710.7, 89.62))), 0.25);
  Value* half = m.add(quarter, m.div(quarter, m.fma(quarter, m.number(4), m.number(1))));
  return m.select(m.lt(a, m.number(m.pick(0x1p-28, 0x1p-14))), x, m.copysign(m.add(half, half), x));
}

Value* cosh(MathBuilder& m, Value* x) {
  Value* half = exp(m, m.abs(x), 0.5);
  return m.add(half, m.div(m.number(0.25), half));
}

Value* tanh(MathBuilder& m, Value* x) {
  Value* y = m.at_most(m.abs(x), m.pick(20.0, 10.0));
  Value* t = expm1_value(m, expm1_parts(m, m.add(y, y)), 1.0);
  return m.copysign(m.div(t, m.add(t, m.number(2))), x);
}

}  // namespace

Value* expand_exponential(MathBuilder& m, Opcode code, Value* x) {
  switch (code) {
    case Opcode::exp_:
      return exp(m, x, 1);
    case Opcode::exp2_:
      return exp2(m, x);
    case Opcode::expm1_:
      return expm1(m, x);
    case Opcode::sinh_:
      return sinh(m, x);
    case Opcode::cosh_:
      return cosh(m, x);
    case Opcode::tanh_:
      return tanh(m, x);
    default:
      return nullptr;
  }
}

}  // namespace appy::passes
