// A loop whose iterations still make arrays has no lanes: those have no memory of their own. A loop that is parallel
// stays so, any other one runs in order.
#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;

bool lanes(ir::Graph& graph) {
  bool changed = false;
  ir::walk(*graph.body, [&](Op& op) {
    if (op.code != Opcode::alloc_) return;
    for (Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
      if (!is_for(*loop) || !loop->loop->simd) continue;
      loop->loop->simd = false;
      changed = true;
      if (loop->loop->parallel) continue;
      for (ir::Carried& c : loop->loop->carried) c = {};
      remark(graph, ir::Severity::note, "lanes", loop->loc,
             "the loop at " + line_of(graph, loop->loc) + " runs in order: each iteration makes an array");
    }
  });
  return changed;
}

}  // namespace appy::passes
