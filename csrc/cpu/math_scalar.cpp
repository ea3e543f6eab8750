#include <cmath>
#include <limits>

#include "cpu/math_calls.h"

extern "C" {
double lgamma_r(double, int*);
float lgammaf_r(float, int*);
}

namespace appy::cpu {

using ir::Opcode;

namespace {

template <class T>
T floored_mod(T a, T b) {
  T r = std::fmod(a, b);
  if (r != 0) {
    if ((b < 0) != (r < 0)) r += b;
    return r;
  }
  return b == 0 ? r : std::copysign(T(0), b);
}

template <class T>
T floored_div(T a, T b) {
  if (b == 0) return a / b;
  T r = std::fmod(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(T(0), a / b);
  T f = std::floor(q);
  return q - f > T(0.5) ? f + 1 : f;
}

double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
float log_gamma_f(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}

template <class T>
T scaled(T a, T n) {
  return std::isnan(n) ? n : std::ldexp(a, static_cast<int>(n));
}

template <class T>
T mantissa_of(T a) {
  if (!(a >= 0)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0 || std::isinf(a)) return 1;
  int k;
  const T mantissa = std::frexp(a, &k);
  return mantissa < T(0.75) ? 2 * mantissa : mantissa;
}

template <class T>
T exponent_of(T a) {
  if (!(a >= 0)) return std::numeric_limits<T>::quiet_NaN();
  if (a == 0) return -std::numeric_limits<T>::infinity();
  if (std::isinf(a)) return a;
  int k;
  return static_cast<T>(std::frexp(a, &k) < T(0.75) ? k - 1 : k);
}

using Unary = double (*)(double);
using UnaryF = float (*)(float);
using Binary = double (*)(double, double);
using BinaryF = float (*)(float, float);

const void* unary(Opcode code, bool wide) {
  auto pick = [&](Unary d, UnaryF f) {
    return wide ? reinterpret_cast<const void*>(d) : reinterpret_cast<const void*>(f);
  };
  switch (code) {
#define X(name, function) \
  case Opcode::name##_:   \
    return pick(&::function, &::function##f);
    X(cbrt, cbrt)
    X(exp, exp)
    X(exp2, exp2)
    X(expm1, expm1)
    X(log, log)
    X(log2, log2)
    X(log10, log10)
    X(log1p, log1p)
    X(sin, sin)
    X(cos, cos)
    X(tan, tan)
    X(asin, asin)
    X(acos, acos)
    X(atan, atan)
    X(sinh, sinh)
    X(cosh, cosh)
    X(tanh, tanh)
    X(asinh, asinh)
    X(acosh, acosh)
    X(atanh, atanh)
    X(erf, erf)
    X(erfc, erfc)
    X(gamma, tgamma)
#undef X
    case Opcode::lgamma_:
      return pick(&log_gamma, &log_gamma_f);
    case Opcode::mantissa_:
      return pick(&mantissa_of<double>, &mantissa_of<float>);
    case Opcode::exponent_:
      return pick(&exponent_of<double>, &exponent_of<float>);
    default:
      return nullptr;
  }
}

const void* binary(Opcode code, bool wide) {
  auto pick = [&](Binary d, BinaryF f) {
    return wide ? reinterpret_cast<const void*>(d) : reinterpret_cast<const void*>(f);
  };
  switch (code) {
    case Opcode::pow_:
      return pick(&::pow, &::powf);
    case Opcode::atan2_:
      return pick(&::atan2, &::atan2f);
    case Opcode::hypot_:
      return pick(&::hypot, &::hypotf);
    case Opcode::nextafter_:
      return pick(&::nextafter, &::nextafterf);
    case Opcode::scale_:
      return pick(&scaled<double>, &scaled<float>);
    case Opcode::rem_:
      return pick(&::fmod, &::fmodf);
    case Opcode::mod_:
      return pick(&floored_mod<double>, &floored_mod<float>);
    case Opcode::floordiv_:
      return pick(&floored_div<double>, &floored_div<float>);
    default:
      return nullptr;
  }
}

}  // namespace

uint64_t power_unsigned(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result *= base;
    base *= base;
  }
  return result;
}

int64_t power_signed(int64_t base, int64_t exponent) {
  if (exponent < 0) return 0;
  return static_cast<int64_t>(power_unsigned(static_cast<uint64_t>(base), static_cast<uint64_t>(exponent)));
}

const void* scalar_function(Opcode code, ir::DType t) {
  const bool wide = t == ir::DType::f64_;
  const void* f = unary(code, wide);
  return f ? f : binary(code, wide);
}

}  // namespace appy::cpu
