// Loops that run in order because sums inside them read what earlier iterations wrote: triangular solves,
// factorisations, recurrences of that form.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/range.h"

namespace appy::passes {

/// A loop with carried values inside a loop `outer` that counts by one. Steps below `first iteration of a tile +
/// delta` read nothing that this iteration of `outer` or a later one writes, and need nothing else from them.
struct Recurrence {
  ir::Op* steps = nullptr;
  std::vector<ir::Op*> between;  // loops from `outer` to `steps`, outermost first; each point of them runs the steps
  int64_t delta = 0;
  /// Each iteration of a tile has all of these steps: its upper bound is never below.
  bool complete = false;
  /// What iteration i needs of iteration t is step t + delta, and it needs that of each one before it.
  bool in_turn = false;
};

/// Loops of which `outer`'s tiles leave at most so many steps to the tile itself, as it has iterations, or a constant
/// more.
std::vector<Recurrence> recurrences_of(Ranges&, const ir::Op& outer);

/// Iterations of a loop with step 1 at most: it ends a constant behind its start, or there or before.
std::optional<int64_t> most_trips(Ranges&, const ir::Op& loop);

/// The least or greatest value of the sum while `loop` runs, in its variable and what is defined outside of it.
std::optional<Affine> extreme(Ranges&, Affine sum, bool least, const ir::Op& loop);

}  // namespace appy::passes
