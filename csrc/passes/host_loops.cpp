#include "passes/host_loops.h"

#include <algorithm>

#include "passes/loops.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool holds_host_loop(const Op& op) {
  bool found = false;
  for (Block* arm : op.blocks) {
    ir::walk(*arm, [&](const Op& inner) { found |= is_host_loop(inner); });
  }
  return found;
}

bool is_size(const Op& op, const Op& front) {
  if (!ir::is_pure(op.code) || op.results.size() != 1) return false;
  const ir::Type type = op.result()->type;
  if (!ir::is_int(type.dtype) && type.dtype != ir::DType::bool_) return false;
  return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
    return visible_before(*v, front) && (v->type.is_view() || !ir::is_real(v->type.dtype));
  });
}

/// Those in an arm of `front`, or of a conditional in it.
bool lift(Block& arm, Op& front) {
  bool changed = false;
  for (Op *op = arm.first, *next; op; op = next) {
    next = op->next;
    if (op->code == Opcode::if_) {
      for (Block* inner : op->blocks) changed |= lift(*inner, front);
    } else if (is_size(*op, front)) {
      arm.remove(op);
      front.parent->insert_before(&front, op);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

bool is_host_loop(const Op& op) {
  if (!is_loop(op) || has_permission(op)) return false;
  bool found = false;
  ir::walk(body_of(op), [&](const Op& inner) { found |= has_permission(inner); });
  return found;
}

bool lift_sizes(ir::Graph& graph) {
  bool changed = false;
  for (Op* op = graph.body->first; op; op = op->next) {
    if (op->code != Opcode::if_ || !holds_host_loop(*op)) continue;
    for (Block* arm : op->blocks) changed |= lift(*arm, *op);
  }
  return changed;
}

}  // namespace appy::passes
