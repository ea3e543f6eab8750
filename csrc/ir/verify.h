// Structural and type rules of the graph.
#pragma once

#include <string>

#include "ir/ir.h"

namespace appy::ir {

/// Empty when the graph is well formed, else one line for each fault, naming the op as printed.
std::string verify(const Graph&);

}  // namespace appy::ir
