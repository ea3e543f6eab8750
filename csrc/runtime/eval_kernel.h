// A kernel that interprets the graph: no machine code, the meaning of the ops themselves.
#pragma once

#include <memory>

#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::runtime {

/// Runs a copy of the graph on the reference evaluator.
std::unique_ptr<Kernel> make_eval_kernel(const ir::Graph&);

}  // namespace appy::runtime
