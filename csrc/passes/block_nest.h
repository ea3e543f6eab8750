// The nests that blocks.cpp divides: sums over matrices, rows around columns around steps.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"

namespace appy::passes {

/// Rows around columns around steps that add up: into a value, or, column by column, into an element.
struct BlockNest {
  ir::Op *rows = nullptr, *columns = nullptr, *steps = nullptr;
  bool in_lanes = false;  // columns are lanes, and each step stores
  bool dots = false;      // steps are lanes, and columns, which know nothing of each other, may be
  int64_t bytes = 0;      // read for a column and a step
  int64_t row_bytes = 0;  // the same for a row
};

/// The nest of these rows, if there is one.
std::optional<BlockNest> find_block_nest(ir::Op& rows);

/// The only loop in a loop of columns.
ir::Op* loop_inside(ir::Op& columns);

/// May columns that a row does not have, but others do, be added up for it, as long as nothing is stored?
bool may_add_up_for_others(const BlockNest&);
/// What follows a column's sums becomes that of columns before `bound` alone.
void end_before(ir::Graph&, ir::Op& columns, ir::Value& bound);

}  // namespace appy::passes
