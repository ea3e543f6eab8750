// Floating-point numbers of 16 bits, the words of f16 and bf16, and what converts to and from them.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::ir {

/// A sign, `kExponent` bits and `kFraction` bits, as IEEE 754 arranges them.
template <int kExponent, int kFraction>
struct ShortReal {
  uint16_t bits = 0;

  ShortReal() = default;
  static ShortReal of_bits(uint64_t word) {
    ShortReal real;
    real.bits = static_cast<uint16_t>(word);
    return real;
  }
  /// Rounded once, to nearest even.
  explicit ShortReal(double);
  explicit operator double() const;
  explicit operator float() const { return static_cast<float>(static_cast<double>(*this)); }
};

using Half = ShortReal<5, 10>;
using BFloat = ShortReal<8, 7>;

/// The word of an f16 or bf16, and its value. What becomes a bf16 is rounded to f32 first, as torch does it.
Word half_word(DType, double);
double half_value(DType, Word);

}  // namespace appy::ir
