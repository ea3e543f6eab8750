// Sizes of the tiles that the pass `time_tiles` makes. It chooses them itself; tests set them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"

namespace appy::passes {

struct TileSizes {
  int64_t steps = 1;  // iterations of the loop around the phases
  int64_t rows = 1;   // of a block, at least
  int64_t strip = 1;  // rows at a time
  int64_t lines = 0;  // lines of them at a time, where they are planes; 0: all
};

/// The pass, or the same with these sizes wherever it is legal.
bool tile_time(ir::Graph&, std::optional<TileSizes> sizes);

}  // namespace appy::passes
