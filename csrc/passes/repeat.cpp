#include "passes/repeat.h"

#include <algorithm>

#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;

namespace {

bool is_repeatable(const Op& loop) {
  if (!is_for(loop) || loop.mapping != ir::Mapping::threads || loop.loop->tiles) return false;
  for (const ir::Carried& c : loop.loop->carried) {
    if (c.combiner == ir::Combiner::last_) return false;
  }
  const Op* around = ir::enclosing_loop(*loop.parent);
  if (!around) return false;
  for (const Op* at = around; at; at = ir::enclosing_loop(*at->parent)) {
    if (at->mapping != ir::Mapping::none) return false;
  }
  bool fits = true;
  std::vector<const ir::Value*> loaded, stored;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (op.code == Opcode::load_) {
      loaded.push_back(op.view());
    } else if (op.code == Opcode::store_) {
      stored.push_back(op.view());
    } else {
      fits &= ir::is_pure(op.code) || op.code == Opcode::if_ || op.code == Opcode::yield_;
    }
  });
  return fits && std::none_of(stored.begin(), stored.end(), [&](const ir::Value* view) {
           return std::find(loaded.begin(), loaded.end(), view) != loaded.end();
         });
}

}  // namespace

std::vector<Op*> repeatable(const ir::Graph& graph) {
  std::vector<Op*> found;
  if (graph.may_alias) return found;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_repeatable(op)) found.push_back(&op);
  });
  return found;
}

}  // namespace appy::passes
