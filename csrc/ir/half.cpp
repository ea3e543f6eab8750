#include "ir/half.h"

#include <bit>
#include <cmath>

namespace appy::ir {

template <int kExponent, int kFraction>
ShortReal<kExponent, kFraction>::ShortReal(double x) {
  constexpr int bias = (1 << (kExponent - 1)) - 1;
  constexpr int infinity = ((1 << kExponent) - 1) << kFraction, quiet = 1 << (kFraction - 1);
  const auto word = std::bit_cast<uint64_t>(x);
  const auto sign = static_cast<uint16_t>(word >> 48 & 0x8000);
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) {
    bits = static_cast<uint16_t>(sign | infinity | quiet | (word >> (52 - kFraction) & (quiet - 1)));
  } else if (magnitude >= std::ldexp((2 << (kFraction + 1)) - 1, bias - kFraction - 1)) {
    bits = sign | infinity;
  } else if (magnitude < std::ldexp(1, 1 - bias)) {
    bits = static_cast<uint16_t>(sign |
                                 static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, bias + kFraction - 1))));
  } else {
    int exponent = 0;
    const double significand = std::nearbyint(std::ldexp(std::frexp(magnitude, &exponent), kFraction + 1));
    bits = static_cast<uint16_t>(sign | (((exponent + bias - 2) << kFraction) + static_cast<int>(significand)));
  }
}

template <int kExponent, int kFraction>
ShortReal<kExponent, kFraction>::operator double() const {
  constexpr int bias = (1 << (kExponent - 1)) - 1, last = (1 << kExponent) - 1, one = 1 << kFraction;
  const bool negative = bits >> 15;
  const int exponent = bits >> kFraction & last, fraction = bits & (one - 1);
  if (exponent == last && fraction) {
    return std::bit_cast<double>(uint64_t{negative} << 63 | 0x7ff8000000000000 |
                                 static_cast<uint64_t>(fraction) << (52 - kFraction));
  }
  const double magnitude = exponent == last ? HUGE_VAL
                           : exponent       ? std::ldexp(one + fraction, exponent - bias - kFraction)
                                            : std::ldexp(fraction, 1 - bias - kFraction);
  return negative ? -magnitude : magnitude;
}

template struct ShortReal<5, 10>;
template struct ShortReal<8, 7>;

Word half_word(DType type, double value) {
  return type == DType::f16_ ? Half(value).bits : BFloat(static_cast<double>(static_cast<float>(value))).bits;
}

double half_value(DType type, Word word) {
  return type == DType::f16_ ? static_cast<double>(Half::of_bits(word)) : static_cast<double>(BFloat::of_bits(word));
}

}  // namespace appy::ir
