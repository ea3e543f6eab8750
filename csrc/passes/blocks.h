// Sums over matrices in blocks and panels.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

struct PanelSizes {
  /// Columns of a panel, panels that are copied together, for so many rows at most, and their steps where the sums are
  /// elements or, at most, where they are values.
  int64_t columns = 32, together = 4, rows = 960, steps = 512, deepest = 1 << 14;
  /// All that is read for columns, for less of which it is not copied to panels; rows for each worker, for fewer of
  /// which neither.
  int64_t worth = 4 << 20, worth_rows = 36;
  /// Dots go by panels with so many columns and steps at least, if a column's steps are so many bytes at most: a panel
  /// stays in the second cache, as do the rows of a band.
  int64_t dots_columns = 64, dots_steps = 32, dots_bytes = 16 << 10, band_bytes = 1280 << 10;
  /// Also where their number does not follow from the arguments, so that there is code for both ways?
  bool dots_unsettled = false;
  /// Rows of a triangle that add up for the same columns, and what rows of a group are a multiple of.
  int64_t ragged_rows = 6, multiple = 12;
};

/// The pass with panels of such sizes. True if it changed the graph.
bool by_panels(ir::Graph&, const PanelSizes&);

}  // namespace appy::passes
