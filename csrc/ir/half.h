// IEEE binary16, the words of f16, and what converts to and from it.
#pragma once

#include <cstdint>

namespace appy::ir {

struct Half {
  uint16_t bits = 0;

  Half() = default;
  static Half of_bits(uint64_t word) {
    Half half;
    half.bits = static_cast<uint16_t>(word);
    return half;
  }
  /// Rounded once, to nearest even.
  explicit Half(double);
  explicit operator double() const;
  explicit operator float() const { return static_cast<float>(static_cast<double>(*this)); }
};

}  // namespace appy::ir
