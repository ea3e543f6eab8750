#include "passes/state.h"

#include <optional>
#include <utility>
#include <vector>

#include "passes/loops.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// The carried value of an enclosing loop that `v` is an argument of, taken back to before `loop`; else null.
Value* back_through_arguments(Value* v, const Op& loop) {
  while (v && !visible_before(*v, loop)) {
    if (v->op || !v->block->owner || !is_loop(*v->block->owner)) return nullptr;
    const Op& inner = *v->block->owner;
    if (v->index < first_carried(inner)) return nullptr;
    v = inner.operands[first_init(inner) + v->index - first_carried(inner)];
  }
  return v;
}

/// The loop of `select(it runs, cast(its result), init)`: what narrow_carried() leaves of a variable.
const Op* narrowed_loop(const Op& op) {
  if (op.code != Opcode::select_) return nullptr;
  const Op* cast = op.operands[1]->op;
  const Op* made = cast && cast->code == Opcode::cast_ ? cast->operands[0]->op : nullptr;
  return made && is_for(*made) ? made : nullptr;
}

/// The value of result r of the region just before `loop`, by following the variable from the region's end inwards.
Value* before_loop(const ir::Graph& graph, Op& loop, size_t r) {
  const Block* block = graph.body;
  if (r >= block->last->operands.size()) return nullptr;
  Value* v = block->last->operands[r];
  while (true) {
    if (visible_before(*v, loop)) return v;
    if (!v->op) return nullptr;
    Op& op = *v->op;
    if (is_loop(op)) {
      const size_t k = v->index;
      if (&op == &loop || !is_inside(loop, body_of(op)))
        return back_through_arguments(op.operands[first_init(op) + k], loop);
      v = body_of(op).last->operands[k];
    } else if (op.code == Opcode::if_) {
      Block* arm = is_inside(loop, *op.blocks[0]) ? op.blocks[0] : op.blocks[1];
      if (!is_inside(loop, *arm) || arm->last->code != Opcode::yield_) return nullptr;
      v = arm->last->operands[v->index];
    } else if (const Op* narrowed = narrowed_loop(op);
               narrowed && (narrowed == &loop || is_inside(loop, body_of(*narrowed)))) {
      return back_through_arguments(op.operands[2], loop);
    } else {
      return nullptr;
    }
  }
}

}  // namespace

bool settle_state(ir::Graph& graph, Op& loop, bool& changed) {
  std::vector<Op*> leaving;
  ir::walk(body_of(loop), [&](Op& op) {
    if (ir::first_state(op) < op.operands.size()) leaving.push_back(&op);
  });
  std::vector<Value*> known;  // by position in the state
  const auto learn = [&](size_t position, Value* v) {
    if (known.size() <= position) known.resize(position + 1);
    if (!known[position]) known[position] = v;
  };
  for (const Op* op : leaving) {
    for (size_t i = ir::first_state(*op); i < op->operands.size(); ++i) {
      if (Value* v = back_through_arguments(op->operands[i], loop)) learn(i - ir::first_state(*op), v);
    }
  }
  for (const Op* op : leaving) {
    for (size_t i = ir::first_state(*op); i < op->operands.size(); ++i) {
      const size_t position = i - ir::first_state(*op);
      if (position < known.size() && known[position]) continue;
      Value* v = before_loop(graph, loop, position);
      if (!v) return false;
      learn(position, v);
    }
  }
  for (Op* op : leaving) {
    for (size_t i = ir::first_state(*op); i < op->operands.size(); ++i) {
      Value* v = known[i - ir::first_state(*op)];
      changed |= op->operands[i] != v;
      op->operands[i] = v;
    }
  }
  return true;
}

}  // namespace appy::passes
