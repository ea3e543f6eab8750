// What code for devices does without.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// Removes polls only; the pass `unwatched` removes the states of checks as well.
bool without_polls(ir::Graph&);

}  // namespace appy::passes
