// Sizes of the tiles that the pass `overlapped_tiles` makes. It chooses them itself; tests set them.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"

namespace appy::passes {

struct OverlapSizes {
  int64_t steps = 1;   // iterations of the loop around the phases, in one round
  int64_t points = 1;  // of a tile
};

/// The pass, or the same with these sizes wherever it is legal.
bool overlap_tiles(ir::Graph&, std::optional<OverlapSizes> sizes);

}  // namespace appy::passes
