// Marks nests of which tiles may be computed from tiles of what they need: each element of the factors of a matrix
// product is then loaded once for a tile and not once for each row or column (product.h). Whether it pays is known with
// the sizes.
//
// It runs before `fuse`, which leaves such nests as they are, and once more when `distribute` has said who runs what.

#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/product.h"
#include "passes/subscripts.h"

namespace appy::passes {

namespace {

/// Neighbouring rows store to neighbours in memory, neighbouring columns do not.
bool runs_down(const Product& p) {
  bool down = false, across = false;
  ir::walk(body_of(p.columns()), [&](const ir::Op& op) {
    if (op.code != ir::Opcode::store_ || op.view()->type.rank == 0) return;
    const size_t unit = op.view()->type.layout == ir::Layout::f ? 0 : op.access->offset.size() - 1;
    const Affine subscript = row(op, unit);
    down |= subscript.coef(*induction(p.rows())) != 0;
    across |= subscript.coef(*induction(p.columns())) != 0;
  });
  return down && !across;
}

/// Threads side by side have columns: those are to be neighbours in memory.
bool put_columns_along(const Product& p) {
  ir::Op &rows = const_cast<ir::Op&>(p.rows()), &columns = const_cast<ir::Op&>(p.columns());
  if (!p.rectangular || !has_permission(rows) || !has_permission(columns) || !runs_down(p)) return false;
  rows.loop->tiles = columns.loop->tiles = false;
  return swap_loops(rows, columns);
}

bool mark(ir::Block& block) {
  bool changed = false;
  for (ir::Op* op = block.first; op; op = op->next) {
    if (is_for(*op)) {
      const auto product = has_permission(*op) && ir::can_reorder(*op) ? product_of(*op) : std::nullopt;
      const bool tiles = product.has_value();
      if (tiles) changed |= put_columns_along(*product);
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
