// Panels of triangular recurrences.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

struct Panels {
  int64_t block;        // iterations of a tile
  int64_t running = 0;  // those of one with running sums; 0: as many
  int64_t group = 0;    // running sums: iterations of a group of tiles; 0: all of them
  /// Every worker runs the code around the loop: it stands in no loop with permission.
  bool device = false;
};

/// The pass with these sizes. True if it changed the graph.
bool make_panels(ir::Graph&, const Panels&);

}  // namespace appy::passes
