// Marks nests of which tiles may be computed from tiles of what they need: each element of the factors of a matrix
// product is then loaded once for a tile and not once for each row or column (product.h). Whether it pays is known with
// the sizes.
//
// It runs before `fuse`, which leaves such nests as they are, and once more when `distribute` has said who runs what.

#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/product.h"

namespace appy::passes {

namespace {

bool mark(ir::Block& block) {
  bool changed = false;
  for (ir::Op* op = block.first; op; op = op->next) {
    if (is_for(*op)) {
      const bool tiles = has_permission(*op) && ir::can_reorder(*op) && product_of(*op).has_value();
      changed |= tiles != op->loop->tiles;
      op->loop->tiles = tiles;
      // What runs inside a worker has no threads of its own.
      if (tiles || has_permission(*op)) continue;
    }
    for (ir::Block* inner : op->blocks) changed |= mark(*inner);
  }
  return changed;
}

}  // namespace

bool tiles(ir::Graph& graph) { return mark(*graph.body); }

}  // namespace appy::passes
