// Perfect nests around a loop in lanes: stencils, and whatever else goes element by element.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// A loop in lanes, with none inside, that loads, computes and stores.
bool is_row_in_lanes(const ir::Op&);
/// Nothing but the loop inside, and what computes for it.
bool is_perfect(const ir::Op& loop, const ir::Op& inner);

}  // namespace appy::passes
