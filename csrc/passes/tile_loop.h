// Strip-mining of a loop that runs in order: a loop over tiles, and the loop itself inside of it over those of a tile.
#pragma once

#include "ir/builder.h"
#include "ir/ir.h"

namespace appy::passes {

/// A loop over the tiles in the place of the loop, which stands nowhere then; its body is empty.
ir::Op& wrap(ir::Graph&, ir::Builder&, ir::Op& loop, ir::Value* length);
/// Where a tile ends that begins at `from`.
ir::Value* end_of(ir::Builder&, ir::Value* from, ir::Value* length, const ir::Op& loop);
/// The loop, which stands nowhere, becomes the part [from, until) of what it was, in the body of the outer one.
void put_into(ir::Op& outer, ir::Op& loop, ir::Value* from, ir::Value* until);

/// The poll with which an iteration of the loop begins, at the start of a tile; null where there is none, or it tells
/// of values that are not known there. It stands nowhere.
ir::Op* poll_at_start(ir::Graph&, const ir::Op& loop, const ir::Op& tiles);

}  // namespace appy::passes
