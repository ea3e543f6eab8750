// Right-looking recurrences by tiles.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

/// The pass with tiles of so many iterations; 0: as many as leave each worker enough behind them, known on entry. True
/// if it changed the graph.
bool tile_right_looking(ir::Graph&, int64_t length);

}  // namespace appy::passes
