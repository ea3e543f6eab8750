// Sums of short rows that lie one behind the other, in blocks of rows (segments.cpp).
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

/// True if it changed the graph: where each worker has `learned` rows or more, blocks of them keep their terms.
bool keep_terms(ir::Graph&, int64_t learned);

}  // namespace appy::passes
