// Rows behind a tile of a recurrence.
//
//   for j in tile: ...; for i in range(j + 1, n): what rows of the tile and columns up to j give row i
//
// Of the inner loop only the rows of the tile are needed in the tile. Those behind it are computed when the tile is
// done, each with all of the tile's iterations: `for i in range(end of tile, n): for j in tile: ...`.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

struct Tile {
  ir::Op* loop = nullptr;  // over the tile's iterations
  ir::Value *from = nullptr, *until = nullptr;
  ir::Value* height = nullptr;  // iterations of a tile, at most; known before `tiles`
  ir::Op* tiles = nullptr;      // the loop over the tiles
};

/// Moves the rows of `rows`, a loop of the tile's body, behind the tile: the loop over the tile's iterations in a row
/// there. Null, with nothing changed, where rows of the tile and those behind it may need each other. The sums of those
/// that stay are each one lane's.
ir::Op* move_behind(ir::Graph&, const Tile&, ir::Op& rows);

}  // namespace appy::passes
