// A nest that makes a matrix element by element, to be run where its elements are used (sweep, sweep_device).
#pragma once

#include <cstdint>
#include <set>

#include "ir/ir.h"
#include "passes/range.h"

namespace appy::passes {

/// for i in [0, rows): values of the row; for j in [0, columns): values of the element; store of [i, j].
struct Producer {
  ir::Op* loop = nullptr;
  ir::Op* inner = nullptr;
  ir::Op* store = nullptr;
  int64_t row_bytes = 0;  // loaded for a row
  std::set<const ir::Value*> reads;

  const ir::Value* view() const { return store->view(); }
  ir::Value* rows() const { return loop->operands[1]; }
  ir::Value* columns() const { return inner->operands[1]; }
};

/// The loop counts one by one and carries nothing; the second: from zero on.
bool counts_by_one(const ir::Op& loop);
bool counts_all(const ir::Op& loop);
/// v == term * scale + offset in dimension d of the access.
bool is_row(const ir::Op& access, size_t d, const ir::Value& term, int64_t scale, int64_t offset);
/// Proven at `where`.
bool equal(Ranges&, const ir::Value& a, const ir::Value& b, const ir::Op& where);

bool read_producer(ir::Op& loop, Producer&);
/// The next loop of the block, if the producer can run there.
ir::Op* loop_behind(const Producer&);
/// Makes element [i, j]: what is for the row stands in front of `at_row`, the rest with its store in front of `at`.
/// What it is. Where both are one op the row has elements, and what is loaded if it has any is simply loaded.
ir::Value* copy_element(ir::Graph&, const Producer&, ir::Value& i, ir::Op& at_row, ir::Value& j, ir::Op& at);

}  // namespace appy::passes
