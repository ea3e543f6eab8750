// How the pass `pad_rows` copies the arrays of loops over time. It chooses for itself where that pays; tests say it.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"

namespace appy::passes {

struct PadSizes {
  int64_t stretch = 0;  // iterations until copies go back; 0: all
};

/// The pass, or the same with these sizes wherever it is legal.
bool pad(ir::Graph&, std::optional<PadSizes> sizes);

}  // namespace appy::passes
