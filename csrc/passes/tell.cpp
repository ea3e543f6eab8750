// What a loop carries for its checks and polls to tell, and for nothing else: loop variables as they were in the
// iteration before, that a name is bound. A processor computes it where it is told, which is hardly ever, and after the
// loop, instead of keeping it in a register.
#include <vector>

#include "passes/carried.h"
#include "passes/loops.h"

namespace appy::passes {

bool tell(ir::Graph& graph) {
  bool changed = false;
  const std::vector<ir::Op*> loops = for_loops(graph);
  for (size_t i = loops.size(); i-- > 0;) {
    changed |= tell_carried(graph, *loops[i]);
    changed |= close_carried(graph, *loops[i]);
  }
  return changed;
}

}  // namespace appy::passes
