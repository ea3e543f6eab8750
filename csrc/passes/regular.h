// Whether the iterations of a loop do as much as each other.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

enum class Iterations : uint8_t {
  same,    // bounds of the loops inside are known before the loop
  alike,   // they depend on the iteration or on each other, but the loops run as often in each
  unlike,  // a loop is left early, or its bounds are looked up or have another distance in each iteration
};

/// As far as bounds tell. One that only the loop's ends reach, as in `for k in range(i, min(i + 8, n))`, makes no
/// difference.
Iterations compare_iterations(const ir::Op& loop);

}  // namespace appy::passes
