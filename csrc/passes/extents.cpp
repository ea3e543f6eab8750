// Extents that a check in front of everything compares are one value behind it, so that loops over arrays of equal
// lengths count the same. Where the check lets a loop off that has no iterations, that holds inside of the loop.
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

const Op* op_of(const Value& v, Opcode code) { return v.op && v.op->code == code ? v.op : nullptr; }

/// eq of two extents that stand in front of all loops.
const Op* equality(const Value& v, const Block& body) {
  const Op* eq = op_of(v, Opcode::eq_);
  if (!eq || eq->operands[0] == eq->operands[1]) return nullptr;
  for (const Value* extent : eq->operands) {
    if (!op_of(*extent, Opcode::dim_) || extent->op->parent != &body) return nullptr;
  }
  return eq;
}

/// Is the condition true only if the loop has no iterations?
bool is_empty(const Value& condition, const Op& loop) {
  const Value *lower = loop.operands[0], *upper = loop.operands[1];
  const Op* step = op_of(*loop.operands[2], Opcode::const_);
  if (!step || static_cast<int64_t>(step->imm) <= 0) return false;
  if (const Op* ge = op_of(condition, Opcode::ge_)) return ge->operands[0] == lower && ge->operands[1] == upper;
  const Op* negated = op_of(condition, Opcode::not_);
  const Op* lt = negated ? op_of(*negated->operands[0], Opcode::lt_) : nullptr;
  return lt && lt->operands[0] == lower && lt->operands[1] == upper;
}

bool replace(Op& op, const Op& eq) {
  const bool in_order = eq.operands[0]->id < eq.operands[1]->id;
  Value *kept = eq.operands[!in_order], *other = eq.operands[in_order];
  bool changed = false;
  for (Value*& operand : op.operands) {
    if (operand != other) continue;
    operand = kept;
    changed = true;
  }
  return changed;
}

bool replace_inside(Op& op, const Op& eq) {
  bool changed = false;
  for (Block* block : op.blocks) ir::walk(*block, [&](Op& inner) { changed |= replace(inner, eq); });
  return changed;
}

}  // namespace

bool extents(ir::Graph& graph) {
  const Block& body = *graph.body;
  bool changed = false;
  for (const Op* check = body.first; check; check = check->next) {
    if (check->code != Opcode::check_) continue;
    const Value& holds = *check->operands[0];
    const Op* any = op_of(holds, Opcode::or_);
    for (size_t side = 0; side < 2; ++side) {
      const Op* eq = equality(any ? *any->operands[side] : holds, body);
      if (!eq) continue;
      for (Op* op = check->next; op; op = op->next) {
        if (!any) changed |= replace(*op, *eq);
        if (!any || (is_for(*op) && is_empty(*any->operands[1 - side], *op))) changed |= replace_inside(*op, *eq);
      }
    }
  }
  return changed;
}

}  // namespace appy::passes
