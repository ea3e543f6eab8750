// Division of unsigned integers by a constant through the upper half of a product.
// Granlund, Montgomery: Division by Invariant Integers using Multiplication (PLDI 1994).
#pragma once

#include <bit>
#include <cstdint>

#include "ir/ir.h"

namespace appy::cpu {

/// floor(n / divisor) for a divisor of at least 3 that is no power of two.
///
/// With `high` the upper 64 bits of n * multiplier: `high >> shift` where n < 2^63, and for each n of 64 bits, if the
/// multiplier was made for those, `(high + ((n - high) >> 1)) >> shift`.
struct Reciprocal {
  uint64_t multiplier;
  int shift;
};

inline Reciprocal reciprocal(uint64_t divisor, int bits) {
  using Wide = unsigned __int128;
  const int log = std::bit_width(divisor - 1);
  // For 64 bits the multiplier has 65, whose highest is left out.
  const Wide power = bits == 64 ? ((Wide{1} << log) - divisor) << 64 : Wide{1} << (63 + log);
  return {static_cast<uint64_t>(power / divisor) + 1, log - 1};
}

/// Whether a quotient or remainder by a constant of the type is found so; else it takes a shift or a division.
inline bool by_reciprocal(ir::Opcode code, ir::DType type, int64_t divisor) {
  if (ir::is_signed(type) && (divisor < 0 || code == ir::Opcode::rem_)) return false;
  return divisor != 0 && !std::has_single_bit(static_cast<uint64_t>(divisor));
}

}  // namespace appy::cpu
