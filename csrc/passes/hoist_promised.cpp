// `hoist` once `dependence` has seen the loops: a load in front of the stores of its view moves out of a loop with
// permission although the loop writes that view (Floyd-Warshall's path[i, k], which the loop over j writes where j is
// k).
#include "passes/hoist.h"

namespace appy::passes {

bool hoist_promised(ir::Graph& graph) { return hoist_invariants(graph, Promises::believed); }

}  // namespace appy::passes
