#include <math.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "ir/eval.h"
#include "ir/half.h"
#include "ir/typing.h"

namespace appy::ir {

namespace {

using Wide = __int128;

[[noreturn]] void undefined(Opcode code, DType t) {
  throw std::logic_error("evaluate_op: " + std::string(info(code).name) + " of " + std::string(name_of(t)));
}

template <class T>
T real_of(Word w) {
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<float>(static_cast<uint32_t>(w));
  } else {
    return std::bit_cast<double>(w);
  }
}

Word word_of(float v) { return std::bit_cast<uint32_t>(v); }
Word word_of(double v) { return std::bit_cast<Word>(v); }

double double_of(DType t, Word w) {
  if (is_half(t)) return half_value(t, w);
  return t == DType::f32_ ? static_cast<double>(real_of<float>(w)) : real_of<double>(w);
}

Word word_of(DType t, double v) {
  if (is_half(t)) return half_word(t, v);
  return t == DType::f32_ ? word_of(static_cast<float>(v)) : word_of(v);
}

/// The remainder with the divisor's sign, as CPython's float_rem and NumPy's npy_remainder.
template <class T>
T python_mod(T a, T b) {
  const T m = std::fmod(a, b);
  if (b == 0) return m;
  if (m == 0) return std::copysign(T(0), b);
  return (b < 0) != (m < 0) ? m + b : m;
}

template <class T>
T python_floordiv(T a, T b) {
  if (b == 0) return a / b;
  T m = std::fmod(a, b);
  T quotient = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(T(0), a / b);
  const T floored = std::floor(quotient);
  return quotient - floored > T(0.5) ? floored + 1 : floored;
}

/// Elementary functions: in f64, so that f32 results are rounded once more from the exact value's neighbourhood.
double elementary(Opcode code, double x) {
  int sign = 0;
  switch (code) {
    case Opcode::cbrt_:
      return std::cbrt(x);
    case Opcode::exp_:
      return std::exp(x);
    case Opcode::exp2_:
      return std::exp2(x);
    case Opcode::expm1_:
      return std::expm1(x);
    case Opcode::log_:
      return std::log(x);
    case Opcode::log2_:
      return std::log2(x);
    case Opcode::log10_:
      return std::log10(x);
    case Opcode::log1p_:
      return std::log1p(x);
    case Opcode::sin_:
      return std::sin(x);
    case Opcode::cos_:
      return std::cos(x);
    case Opcode::tan_:
      return std::tan(x);
    case Opcode::asin_:
      return std::asin(x);
    case Opcode::acos_:
      return std::acos(x);
    case Opcode::atan_:
      return std::atan(x);
    case Opcode::sinh_:
      return std::sinh(x);
    case Opcode::cosh_:
      return std::cosh(x);
    case Opcode::tanh_:
      return std::tanh(x);
    case Opcode::asinh_:
      return std::asinh(x);
    case Opcode::acosh_:
      return std::acosh(x);
    case Opcode::atanh_:
      return std::atanh(x);
    case Opcode::erf_:
      return std::erf(x);
    case Opcode::erfc_:
      return std::erfc(x);
    case Opcode::gamma_:
      return std::tgamma(x);
    case Opcode::lgamma_:
      return ::lgamma_r(x, &sign);  // std::lgamma writes a global
    default:
      undefined(code, DType::f64_);
  }
}

/// Comparisons, alike for every type. False where the op is none.
template <class T>
bool compare(Opcode code, T a, T b, Word& out) {
  switch (code) {
    case Opcode::eq_:
      return out = a == b, true;
    case Opcode::ne_:
      return out = a != b, true;
    case Opcode::lt_:
      return out = a < b, true;
    case Opcode::le_:
      return out = a <= b, true;
    case Opcode::gt_:
      return out = a > b, true;
    case Opcode::ge_:
      return out = a >= b, true;
    default:
      return false;
  }
}

template <class T>
T real_arithmetic(Opcode code, T a, T b, T c) {
  switch (code) {
    case Opcode::add_:
      return a + b;
    case Opcode::sub_:
      return a - b;
    case Opcode::mul_:
      return a * b;
    case Opcode::div_:
      return a / b;
    case Opcode::floordiv_:
      return python_floordiv(a, b);
    case Opcode::mod_:
      return python_mod(a, b);
    case Opcode::rem_:
      return std::fmod(a, b);
    case Opcode::neg_:
      return -a;
    case Opcode::abs_:
      return std::fabs(a);
    case Opcode::pow_:
      return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case Opcode::fma_:
      return std::fma(a, b, c);
    case Opcode::mantissa_:
    case Opcode::exponent_: {
      int k = 0;
      T mantissa = std::frexp(a, &k);  // in [1/2, 1)
      if (mantissa < T(0.75)) mantissa *= 2, --k;
      if (!(a >= 0)) return std::numeric_limits<T>::quiet_NaN();
      const bool ordinary = a != 0 && !std::isinf(a);
      if (code == Opcode::mantissa_) return ordinary ? mantissa : T(1);
      return ordinary ? static_cast<T>(k) : a == 0 ? -std::numeric_limits<T>::infinity() : a;
    }
    case Opcode::scale_:
      return std::isnan(b) ? b : std::ldexp(a, static_cast<int>(std::clamp(b, T(-5000), T(5000))));
    case Opcode::pymin_:
      return b < a ? b : a;
    case Opcode::pymax_:
      return b > a ? b : a;
    case Opcode::minimum_:
      return a < b || std::isnan(a) ? a : b;
    case Opcode::maximum_:
      return a > b || std::isnan(a) ? a : b;
    case Opcode::sqrt_:
      return std::sqrt(a);
    case Opcode::floor_:
      return std::floor(a);
    case Opcode::ceil_:
      return std::ceil(a);
    case Opcode::trunc_:
      return std::trunc(a);
    case Opcode::rint_:
      return std::nearbyint(a);
    case Opcode::atan2_:
      return static_cast<T>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
    case Opcode::hypot_:
      return static_cast<T>(std::hypot(static_cast<double>(a), static_cast<double>(b)));
    case Opcode::copysign_:
      return std::copysign(a, b);
    case Opcode::nextafter_:
      return std::nextafter(a, b);
    default:
      return static_cast<T>(elementary(code, static_cast<double>(a)));
  }
}

template <class T>
Word real_op(Opcode code, std::span<const Word> w) {
  const T a = real_of<T>(w[0]);
  const T b = w.size() > 1 ? real_of<T>(w[1]) : a;
  const T c = w.size() > 2 ? real_of<T>(w[2]) : a;
  Word out = 0;
  if (w.size() == 2 && compare(code, a, b, out)) return out;
  switch (code) {
    case Opcode::isnan_:
      return std::isnan(a);
    case Opcode::isinf_:
      return std::isinf(a);
    case Opcode::isfinite_:
      return std::isfinite(a);
    case Opcode::signbit_:
      return std::signbit(a);
    default:
      return word_of(real_arithmetic(code, a, b, c));
  }
}

/// In f32, and rounded once more.
Word half_op(Opcode code, DType t, std::span<const Word> w) {
  std::vector<Word> wide;
  for (Word v : w) wide.push_back(word_of(static_cast<float>(half_value(t, v))));
  const Word result = real_op<float>(code, wide);
  return info(code).rule == Rule::boolean ? result : half_word(t, static_cast<double>(real_of<float>(result)));
}

Word wrapping_pow(Word base, Word exponent) {
  Word result = 1;
  for (; exponent; exponent >>= 1, base *= base) {
    if (exponent & 1) result *= base;
  }
  return result;
}

/// T is int64_t or uint64_t; narrower types compute in it and are truncated by the caller.
template <class T>
Word int_op(Opcode code, DType t, std::span<const Word> w) {
  const T a = static_cast<T>(w[0]);
  const T b = w.size() > 1 ? static_cast<T>(w[1]) : a;
  constexpr bool kSigned = std::is_signed_v<T>;
  const Word ua = w[0], ub = static_cast<Word>(b);
  const Word width = static_cast<Word>(size_of(t)) * 8;
  Word out = 0;
  if (w.size() == 2 && compare(code, a, b, out)) return out;
  const auto left_range = [&](Wide exact) {
    const Wide truncated = kSigned ? Wide(static_cast<int64_t>(canonical(t, static_cast<Word>(exact))))
                                   : Wide(canonical(t, static_cast<Word>(exact)));
    return Word(truncated != exact);
  };
  const bool minus_one = kSigned && ub == ~Word(0);
  const auto remainder = [&] { return b == 0 || minus_one ? T(0) : static_cast<T>(a % b); };
  switch (code) {
    case Opcode::add_:
      return ua + ub;
    case Opcode::sub_:
      return ua - ub;
    case Opcode::mul_:
      return ua * ub;
    case Opcode::rem_:
      return static_cast<Word>(remainder());
    case Opcode::mod_: {
      const T m = remainder();
      return static_cast<Word>(m != 0 && (m < 0) != (b < 0) ? m + b : m);
    }
    case Opcode::floordiv_: {
      if (b == 0) return 0;
      if (minus_one) return -ua;
      const T m = a % b;
      return static_cast<Word>(a / b) - (m != 0 && (m < 0) != (b < 0) ? 1 : 0);
    }
    case Opcode::neg_:
      return -ua;
    case Opcode::abs_:
      return a < 0 ? -ua : ua;
    case Opcode::pow_:
      return b < 0 ? 0 : wrapping_pow(ua, ub);
    case Opcode::pymin_:
    case Opcode::minimum_:
      return b < a ? ub : ua;
    case Opcode::pymax_:
    case Opcode::maximum_:
      return b > a ? ub : ua;
    case Opcode::and_:
      return ua & ub;
    case Opcode::or_:
      return ua | ub;
    case Opcode::xor_:
      return ua ^ ub;
    case Opcode::not_:
      return ~ua;
    case Opcode::shl_:
      return ub >= width ? 0 : ua << ub;
    case Opcode::shr_:
      if (ub >= width) return a < 0 ? ~Word(0) : 0;
      return static_cast<Word>(a >> ub);
    case Opcode::popcount_:
      return static_cast<Word>(std::popcount(a < 0 ? -ua : ua));
    case Opcode::ovf_add_:
      return left_range(Wide(a) + Wide(b));
    case Opcode::ovf_sub_:
      return left_range(Wide(a) - Wide(b));
    case Opcode::ovf_mul_: {
      T product = 0;
      return Word(__builtin_mul_overflow(a, b, &product)) | left_range(Wide(product));
    }
    case Opcode::wrap_:
      return a < 0 ? ua + ub : ua;
    default:
      undefined(code, t);
  }
}

Word bool_op(Opcode code, std::span<const Word> w) {
  const Word a = w[0];
  const Word b = w.size() > 1 ? w[1] : a;
  Word out = 0;
  if (w.size() == 2 && compare(code, a, b, out)) return out;
  switch (code) {
    case Opcode::and_:
    case Opcode::pymin_:
    case Opcode::minimum_:
      return a & b;
    case Opcode::or_:
    case Opcode::pymax_:
    case Opcode::maximum_:
      return a | b;
    case Opcode::xor_:
      return a ^ b;
    case Opcode::not_:
      return !a;
    default:
      undefined(code, DType::bool_);
  }
}

/// Truncation; what does not fit gives the word that x86's conversions give.
Word int_of_real(double x) {
  constexpr double k63 = 9223372036854775808.0;
  if (x >= -k63 && x < k63) return static_cast<Word>(static_cast<int64_t>(x));
  if (x >= k63 && x < 2 * k63) return static_cast<Word>(x);
  return Word(1) << 63;
}

Word cast(DType to, DType from, Word w) {
  if (to == DType::bool_) {
    return is_real(from) ? double_of(from, w) != 0 : w != 0;
  }
  if (is_real(from)) {
    if (from == to) return w;
    const double x = double_of(from, w);
    if (is_real(to)) return word_of(to, x);
    return canonical(to, int_of_real(x));
  }
  if (to == DType::f64_) return word_of(is_signed(from) ? double(static_cast<int64_t>(w)) : double(w));
  if (to == DType::f32_) return word_of(is_signed(from) ? float(static_cast<int64_t>(w)) : float(w));
  // What doubles do not hold is beyond the largest f16.
  if (to == DType::f16_) return word_of(to, is_signed(from) ? double(static_cast<int64_t>(w)) : double(w));
  if (to == DType::bf16_) return half_word(to, is_signed(from) ? float(static_cast<int64_t>(w)) : float(w));
  return canonical(to, w);
}

}  // namespace

Word evaluate_op(Opcode code, DType result, DType operand, std::span<const Word> w) {
  if (!is_pure(code) || w.empty() || w.size() != static_cast<size_t>(info(code).arity) || code == Opcode::dim_) {
    undefined(code, operand);
  }
  switch (code) {
    case Opcode::select_:
      return w[0] ? w[1] : w[2];
    case Opcode::cast_:
      return cast(result, operand, w[0]);
    case Opcode::bitcast_:
      return canonical(result, w[0]);
    default:
      break;
  }
  if (!accepts(code, operand)) undefined(code, operand);
  switch (class_of(operand)) {
    case TypeClass::boolean:
      return bool_op(code, w);
    case TypeClass::sint:
      return canonical(result, int_op<int64_t>(code, operand, w));
    case TypeClass::uint:
      return canonical(result, int_op<uint64_t>(code, operand, w));
    case TypeClass::real:
      break;
  }
  if (is_half(operand)) return half_op(code, operand, w);
  return operand == DType::f32_ ? real_op<float>(code, w) : real_op<double>(code, w);
}

std::optional<double> known_real(const Value& v) {
  if (!v.op || v.op->code != Opcode::const_ || !is_real(v.type.dtype)) return std::nullopt;
  const Word word[] = {v.op->imm};
  return std::bit_cast<double>(evaluate_op(Opcode::cast_, DType::f64_, v.type.dtype, word));
}

}  // namespace appy::ir
