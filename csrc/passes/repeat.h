// Loops that each group of workers may run for itself, so that none has to wait for the others (Mapping::repeated).
#pragma once

#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// Loops for threads that may be repeated, in walk order: inside a loop that runs in order, they compute values and
/// store, in arrays that they do not read, what comes out alike for whoever does it.
std::vector<ir::Op*> repeatable(const ir::Graph&);

}  // namespace appy::passes
