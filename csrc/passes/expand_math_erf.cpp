// erf(x) = -expm1(-t) with t = -log(erfc(x)) = x * p(x): t is smooth on the whole half line, keeps the relative
// accuracy near 0, and needs ever less of it as erf(x) approaches 1.
#include <vector>

#include "passes/expand_math_tables.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

Value* erf(MathBuilder& m, Value* x) {
  // From 5.95 (f32: 3.95) on the result is 1.
  Value* a = m.at_most(m.abs(x), m.pick(5.95, 3.95));
  const std::span<const double> c = m.table(k_erf_f64, k_erf_f32);
  // t = head + tail, the head's rounding error included.
  Value* head = m.mul(a, m.number(c[0]));
  Value* excess = m.fma(a, m.number(-c[0]), head);
  Value* rest = m.polynomial(a, c.subspan(1));
  Value* tail = m.sub(m.mul(m.mul(a, a), rest), excess);
  // t = r - n * log(2) with n <= 0, so that exp(-t) = 2**n * exp(-r).
  const MathBuilder::Whole whole = m.nearest(m.add(head, tail), -kLog2E);
  Value* low = m.fma(whole.n, m.number(m.pick(kLn2Low64, kLn2Low32)), tail);
  Value* r = m.add(m.fma(whole.n, m.number(m.pick(kLn2High64, kLn2High32)), head), low);
  std::vector<double> q;
  for (double v : m.table(k_expm1_f64, k_expm1_f32)) q.push_back(q.size() % 2 ? v : -v);
  Value* p = m.fma(m.polynomial(r, q), m.mul(r, r), r);  // -expm1(-r)
  Value* power = m.power_of_two(whole.shifted, 1.0);
  return m.copysign(m.fma(power, p, m.sub(m.number(1), power)), x);
}

}  // namespace

Value* expand_error_function(MathBuilder& m, Opcode code, Value* x) {
  return code == Opcode::erf_ ? erf(m, x) : nullptr;
}

}  // namespace appy::passes
