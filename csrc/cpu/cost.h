// How long an iteration of a parallel loop takes, for the trip counts of the loops inside as they are at run time.
#pragma once

#include "cpu/function.h"

namespace appy::cpu {

/// Estimated time of one iteration in 1/16 ns: of the middle one, where bounds of loops inside depend on it. Code that
/// computes it goes to the cursor, which may be where depth_of_cost() tells.
x86::Gp iteration_cost(Function&, const ir::Op& loop, const Function::Bounds&);

/// The depth of the deepest value that the estimate depends on. All of them are in registers from here on.
int depth_of_cost(Function&, const ir::Op& loop);

}  // namespace appy::cpu
