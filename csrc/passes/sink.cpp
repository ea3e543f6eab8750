// Stores to one element that both arms of a conditional end with become one behind it: of
// `if c: y[i] = a` and `else: y[i] = b` the choice of a or b is left, which may become a select (if_convert), and the
// next iteration knows what y[i] is (carry_stores).

#include <vector>

#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;

namespace {

/// The store that nothing but what only computes comes behind; null: there is none, or the arm goes elsewhere.
Op* last_store(const Block& arm) {
  if (arm.last->code != Opcode::yield_) return nullptr;
  Op* op = arm.last->prev;
  while (op && ir::is_pure(op->code)) op = op->prev;
  return op && op->code == Opcode::store_ ? op : nullptr;
}

bool sink_one(Op& branch) {
  Op *store = last_store(*branch.blocks[0]), *other = last_store(*branch.blocks[1]);
  if (!store || !other || !same_element(*store, *other)) return false;
  for (const ir::Value* term : store->terms()) {
    if (!ir::defined_outside(*term, *branch.blocks[0])) return false;
  }
  const ir::Type type = store->operands[0]->type;
  if (other->operands[0]->type != type) return false;
  branch.blocks[0]->last->operands.push_back(store->operands[0]);
  branch.blocks[1]->last->operands.push_back(other->operands[0]);
  other->parent->remove(other);
  store->parent->remove(store);
  store->operands[0] = ir::add_result(branch, type);
  branch.next ? branch.parent->insert_before(branch.next, store) : branch.parent->append(store);
  return true;
}

}  // namespace

bool sink(ir::Graph& graph) {
  std::vector<Op*> branches;
  ir::walk(*graph.body, [&](Op& op) {
    if (op.code == Opcode::if_) branches.push_back(&op);
  });
  bool changed = false;
  for (size_t i = branches.size(); i-- > 0;) {  // the innermost ones first
    while (sink_one(*branches[i])) changed = true;
  }
  return changed;
}

}  // namespace appy::passes
