// Loops that each group of workers may run for itself, so that none has to wait for the others (Mapping::repeated).
#pragma once

#include <functional>

#include "ir/ir.h"

namespace appy::passes {

/// Repeats loops for threads as long as all wait less often then, and no more often where the loops are too long for
/// it. They stand inside a loop that runs in order, compute values, and store, in arrays that they do not read, what
/// comes out alike for whoever does it. `insert_barriers` is tried on copies of the graph. Was any repeated?
bool repeat_loops(ir::Graph&, const std::function<bool(ir::Graph&)>& insert_barriers);

}  // namespace appy::passes
