// For code that nobody watches while it runs: no polls, and no state of the scalars at checks, which is what the
// interpreter would find there. A check that fails then leaves the scalars as they were before the region.
#include "passes/unwatched.h"

#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;

bool without_polls(ir::Graph& graph) { return remove_polls(*graph.body); }

bool unwatched(ir::Graph& graph) {
  bool changed = without_polls(graph);
  ir::walk(*graph.body, [&](Op& op) {
    if (op.code == Opcode::check_ && op.check->has_state) {
      op.operands.resize(ir::first_state(op));
      op.check->has_state = false;
      changed = true;
    }
  });
  return changed;
}

}  // namespace appy::passes
