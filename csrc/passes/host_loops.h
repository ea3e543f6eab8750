// Host loops: loops in order around loops that may run in any order, as a region holds them where a loop of the host
// was captured. Sizes settle what is checked in them, whatever decides how often they run.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

bool is_host_loop(const ir::Op&);

/// Puts integers that follow from scalars and extents in front of the conditionals around host loops.
bool lift_sizes(ir::Graph&);

}  // namespace appy::passes
