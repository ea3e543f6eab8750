// What the region's scalars are when a check or poll inside a parallel or simd loop leaves the region: the values from
// before the loop, as the language page says. In the loop itself no iteration knows the running values.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// Rewrites the state of every check and poll in the loop (which keeps its permission) to values from before the loop.
/// False, with nothing changed, where one of them is not known; `changed` is set where anything was rewritten.
bool settle_state(ir::Graph&, ir::Op& loop, bool& changed);

}  // namespace appy::passes
