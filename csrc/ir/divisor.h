// Powers of two that divide integers of a graph, whatever its arguments are.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::ir {

/// The largest power of two up to 4096 that is known to divide the integer, which may be negative or have wrapped.
int64_t divisor_of(const Value&);

/// The same of the number of iterations of a `for`, which may be 0.
int64_t divisor_of_trips(const Op& loop);

}  // namespace appy::ir
