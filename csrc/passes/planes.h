// Stencils over planes by strips of lines.
#pragma once

#include <cstdint>

#include "ir/ir.h"

namespace appy::passes {

struct StripSizes {
  /// Bytes of the lines that neighbours read, which are to stay in a worker's share of the last cache beside what is
  /// read and written once; and of those of whole planes, which for less are not worth strips.
  int64_t bytes = 1 << 20, worth = 4 << 20;
  /// Lines of a strip at least; or lanes, where planes are lines, and what their number is a multiple of.
  int64_t lines = 8, lanes = 1024, multiple = 16;
};

/// The pass with strips of such sizes. True if it changed the graph.
bool by_strips(ir::Graph&, const StripSizes&);

}  // namespace appy::passes
