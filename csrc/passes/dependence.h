// Dependences between iterations of a loop, as far as affine subscripts tell.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"
#include "passes/range.h"

namespace appy::passes {

/// How two accesses of one view in a `for` conflict between its iterations.
struct Distance {
  enum class Kind : uint8_t {
    none,      // proven: no two different iterations touch one element through them
    constant,  // iteration t of `a` and iteration t + iterations of `b` touch one element; 0: the same iteration only
    every,     // every iteration touches the same element
    unknown,
  } kind = Kind::unknown;
  int64_t iterations = 0;
};

/// Both accesses stand in the loop. Accesses of different views never conflict (but see Graph::may_alias).
Distance distance(const ir::Op& a, const ir::Op& b, const ir::Op& loop);

/// Proven: no iteration touches what another one writes, and none checks or leaves early; with ranges also where one
/// access stays in a row or column that the other one is proven not to be in.
bool independent_accesses(const ir::Op& loop, Ranges* = nullptr);
/// Proven: iterations may run in any order, as nothing is carried from one to the next either.
bool independent(const ir::Op& loop);

}  // namespace appy::passes
