#include "passes/tile_loop.h"

#include <utility>
#include <vector>

#include "passes/copier.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

Op& wrap(ir::Graph& graph, Builder& b, Op& loop, Value* length) {
  ir::Loop control;
  control.annotated = loop.loop->annotated;
  control.carried = loop.loop->carried;
  const std::vector<Value*> inits(loop.operands.begin() + 3, loop.operands.end());
  Op* tiles = b.for_loop(loop.operands[0], loop.operands[1], length, inits, std::move(control));
  std::vector<Value*> to(graph.value_count());
  for (size_t k = 0; k < loop.results.size(); ++k) {
    to[loop.results[k]->id] = tiles->results[k];
    tiles->results[k]->name = loop.results[k]->name;
    body_of(*tiles).args[1 + k]->name = body_of(loop).args[1 + k]->name;
  }
  ir::replace_uses(graph, to);
  induction(*tiles)->name = induction(loop)->name;
  loop.parent->remove(&loop);
  return *tiles;
}

Value* end_of(Builder& b, Value* from, Value* length, const Op& loop) {
  return b.op(Opcode::pymin_, {b.op(Opcode::add_, {from, length}), loop.operands[1]});
}

void put_into(Op& outer, Op& loop, Value* from, Value* until) {
  loop.operands[0] = from;
  loop.operands[1] = until;
  for (size_t k = 0; k < loop.results.size(); ++k) loop.operands[3 + k] = body_of(outer).args[1 + k];
  body_of(outer).append(&loop);
}

Op* poll_at_start(ir::Graph& graph, const Op& loop, const Op& tiles) {
  const Op* poll = body_of(loop).first;
  if (poll->code != Opcode::poll_) return nullptr;
  Copier copier(graph);
  for (size_t k = 0; k < loop.results.size(); ++k) copier.map(body_of(loop).args[1 + k], body_of(tiles).args[1 + k]);
  Op* copy = copier.copy(*poll);
  for (const Value* v : copy->operands) {
    if (!ir::defined_outside(*v, body_of(loop))) return nullptr;
  }
  return copy;
}

}  // namespace appy::passes
