// The handlers that rows of functions.def name. All arguments are untagged.
#pragma once

#include "trace/functions.h"

namespace appy::trace {

/// For which arguments a function of `math` raises ValueError.
enum class Domain : uint8_t { none, infinite, negative, not_positive, beyond_one, at_one, below_one, minus_one };

Traced builtin_abs(Context&, const Function&, Args);
Traced builtin_bool(Context&, const Function&, Args);
Traced builtin_divmod(Context&, const Function&, Args);
Traced builtin_float(Context&, const Function&, Args);
Traced builtin_int(Context&, const Function&, Args);
Traced builtin_isinstance(Context&, const Function&, Args);
Traced builtin_len(Context&, const Function&, Args);
Traced builtin_max(Context&, const Function&, Args);
Traced builtin_min(Context&, const Function&, Args);
Traced builtin_pow(Context&, const Function&, Args);
Traced builtin_range(Context&, const Function&, Args);
Traced builtin_round(Context&, const Function&, Args);
Traced builtin_sum(Context&, const Function&, Args);
Traced math_binary(Context&, const Function&, Args);
Traced math_to_int(Context&, const Function&, Args);
Traced math_overflow(Context&, const Function&, Args);
Traced math_degrees(Context&, const Function&, Args);
Traced math_fma(Context&, const Function&, Args);
Traced math_fmod(Context&, const Function&, Args);
Traced math_gamma(Context&, const Function&, Args);
Traced math_gcd(Context&, const Function&, Args);
Traced math_hypot(Context&, const Function&, Args);
Traced math_isclose(Context&, const Function&, Args);
Traced math_test(Context&, const Function&, Args);
Traced math_isqrt(Context&, const Function&, Args);
Traced math_log(Context&, const Function&, Args);
Traced math_modf(Context&, const Function&, Args);
Traced math_pow(Context&, const Function&, Args);
Traced math_radians(Context&, const Function&, Args);
Traced numpy_absolute(Context&, const Function&, Args);
Traced numpy_elementary(Context&, const Function&, Args);
Traced numpy_elementary2(Context&, const Function&, Args);
Traced numpy_round(Context&, const Function&, Args);
Traced numpy_bitwise_count(Context&, const Function&, Args);
Traced numpy_integral(Context&, const Function&, Args);
Traced numpy_clip(Context&, const Function&, Args);
Traced numpy_conjugate(Context&, const Function&, Args);
Traced numpy_real(Context&, const Function&, Args);
Traced numpy_real2(Context&, const Function&, Args);
Traced numpy_radians(Context&, const Function&, Args);
Traced numpy_degrees(Context&, const Function&, Args);
Traced numpy_divmod(Context&, const Function&, Args);
Traced numpy_float_power(Context&, const Function&, Args);
Traced numpy_fmax(Context&, const Function&, Args);
Traced numpy_fmin(Context&, const Function&, Args);
Traced numpy_fmod(Context&, const Function&, Args);
Traced numpy_heaviside(Context&, const Function&, Args);
Traced numpy_test(Context&, const Function&, Args);
Traced numpy_logaddexp(Context&, const Function&, Args);
Traced numpy_logical(Context&, const Function&, Args);
Traced numpy_logical_not(Context&, const Function&, Args);
Traced numpy_extremum(Context&, const Function&, Args);
Traced numpy_power(Context&, const Function&, Args);
Traced numpy_reciprocal(Context&, const Function&, Args);
Traced numpy_sign(Context&, const Function&, Args);
Traced numpy_square(Context&, const Function&, Args);
Traced numpy_where(Context&, const Function&, Args);
Traced special_elementary(Context&, const Function&, Args);
Traced special_expit(Context&, const Function&, Args);
Traced special_gamma(Context&, const Function&, Args);

Traced math_function(Context&, const Function&, Args, Domain);
Traced operator_of_numpy(Context&, Args, BinaryOp);
Traced comparison_of_numpy(Context&, Args, CompareOp);
Traced unary_of_numpy(Context&, Args, UnaryOp);

template <Domain D>
Traced math_domain(Context& c, const Function& f, Args args) {
  return math_function(c, f, args, D);
}
template <BinaryOp Op>
Traced numpy_operator(Context& c, const Function&, Args args) {
  return operator_of_numpy(c, args, Op);
}
template <CompareOp Op>
Traced numpy_comparison(Context& c, const Function&, Args args) {
  return comparison_of_numpy(c, args, Op);
}
template <UnaryOp Op>
Traced numpy_unary(Context& c, const Function&, Args args) {
  return unary_of_numpy(c, args, Op);
}

}  // namespace appy::trace
