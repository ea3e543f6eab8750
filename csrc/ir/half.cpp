#include "ir/half.h"

#include <bit>
#include <cmath>

namespace appy::ir {

Half::Half(double x) {
  const auto word = std::bit_cast<uint64_t>(x);
  const auto sign = static_cast<uint16_t>(word >> 48 & 0x8000);
  const double magnitude = std::fabs(x);
  if (std::isnan(x)) {
    bits = static_cast<uint16_t>(sign | 0x7e00 | (word >> 42 & 0x1ff));
  } else if (magnitude >= 65520) {
    bits = sign | 0x7c00;
  } else if (magnitude < 0x1p-14) {
    bits = static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24)));
  } else {
    int exponent = 0;
    const double significand = std::nearbyint(std::frexp(magnitude, &exponent) * 2048);
    bits = static_cast<uint16_t>(sign | (((exponent + 13) << 10) + static_cast<int>(significand)));
  }
}

Half::operator double() const {
  const bool negative = bits >> 15;
  const int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
  if (exponent == 31 && fraction) {
    return std::bit_cast<double>(uint64_t{negative} << 63 | 0x7ff8000000000000 | static_cast<uint64_t>(fraction) << 42);
  }
  const double magnitude = exponent == 31 ? HUGE_VAL
                           : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                                          : std::ldexp(fraction, -24);
  return negative ? -magnitude : magnitude;
}

}  // namespace appy::ir
