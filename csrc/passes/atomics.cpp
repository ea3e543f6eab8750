// Atomic updates where iterations run in order become a load, an operation and a store, which other passes understand.

#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Combiner;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool in_order(const Op& op) {
  for (const Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (is_private(*op.view(), *loop)) return true;
    if (has_permission(*loop)) return false;
  }
  return true;
}

}  // namespace

bool atomics(ir::Graph& graph) {
  std::vector<Op*> found;
  ir::walk(*graph.body, [&](Op& op) {
    if (op.code == Opcode::atomic_ && in_order(op)) found.push_back(&op);
  });
  for (Op* atomic : found) {
    Op* load = graph.new_op(Opcode::load_, atomic->loc);
    load->access = std::make_unique<ir::Access>(*atomic->access);
    load->operands.assign(atomic->operands.begin() + 1, atomic->operands.end());
    Value* old = ir::add_result(*load, atomic->operands[0]->type);
    atomic->parent->insert_before(atomic, load);
    Builder b(graph);
    b.set_loc(atomic->loc);
    b.set_before(atomic);
    Op* store = graph.new_op(Opcode::store_, atomic->loc);
    store->access = std::move(atomic->access);
    store->operands = atomic->operands;
    store->operands[0] = b.op(opcode_of(atomic->combiner), {old, atomic->operands[0]});
    atomic->parent->insert_before(atomic, store);
    atomic->parent->remove(atomic);
  }
  return !found.empty();
}

}  // namespace appy::passes
