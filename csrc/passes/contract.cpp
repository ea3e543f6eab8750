// Contraction: a product that only one sum uses becomes a fused multiply-add, where a pragma speaks of a loop around
// it.

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_annotated(const Op& op) {
  for (const Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (is_for(*loop) && loop->loop->annotated) return true;
  }
  return false;
}

/// The product that defines v, if nothing else uses it and it is computed as often as `sum`.
const Op* product(const Uses& uses, const Value& v, const Op& sum) {
  const Op* mul = v.op;
  if (!mul || mul->code != Opcode::mul_ || uses.of(v).size() != 1) return nullptr;
  return ir::enclosing_loop(*mul->parent) == ir::enclosing_loop(*sum.parent) ? mul : nullptr;
}

}  // namespace

bool contract(ir::Graph& graph) {
  if (graph.exact) return false;
  const Uses uses(graph);
  std::vector<Value*> to(graph.value_count());
  bool changed = false;
  Builder b(graph);
  ir::walk(*graph.body, [&](Op& op) {
    const bool minus = op.code == Opcode::sub_;
    if ((op.code != Opcode::add_ && !minus) || !ir::is_real(op.result()->type.dtype) || !is_annotated(op)) return;
    Value *left = op.operands[0], *right = op.operands[1];
    const Op* mul = product(uses, *left, op);
    const bool first = mul != nullptr;
    if (!first) mul = product(uses, *right, op);
    if (!mul) return;
    b.set_before(&op);
    b.set_loc(op.loc);
    Value *x = mul->operands[0], *y = mul->operands[1], *addend = first ? right : left;
    if (minus && first) addend = b.op(Opcode::neg_, {addend});
    if (minus && !first) x = b.op(Opcode::neg_, {x});
    Value* fused = b.op(Opcode::fma_, {x, y, addend});
    fused->name = op.result()->name;
    to[op.result()->id] = fused;
    op.parent->remove(&op);
    // Its one use was the sum.
    mul->parent->remove(const_cast<Op*>(mul));
    changed = true;
  });
  if (changed) ir::replace_uses(graph, to);
  return changed;
}

}  // namespace appy::passes
