// Overlapping tiles of two dimensions, for the pass `overlapped_tiles`.
#pragma once

#include <optional>
#include <string>

#include "passes/overlapped_tiles.h"
#include "passes/stencil.h"

namespace appy::passes {

/// Tiles the stencil, whose arrays have rows of elements, or says why not. Sizes count for both dimensions.
std::string overlap_boxes(ir::Graph&, const Stencil&, std::optional<OverlapSizes> sizes);

}  // namespace appy::passes
