#include "passes/block_nest.h"

#include <algorithm>
#include <set>

#include "ir/builder.h"
#include "passes/dependence.h"
#include "passes/jam_order.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_plain_loop(const Op& op) { return is_simple_for(op) && op.results.empty(); }

bool depends(const Value& v, const Value& on, std::set<const Value*>& seen) {
  if (&v == &on) return true;
  if (!v.op || !seen.insert(&v).second) return false;
  return std::any_of(v.op->operands.begin(), v.op->operands.end(),
                     [&](const Value* operand) { return depends(*operand, on, seen); });
}

/// Does the element depend on which iteration of the loop it is?
bool follows(const Op& access, const Op& loop) {
  std::set<const Value*> seen;
  return std::any_of(access.terms().begin(), access.terms().end(),
                     [&](const Value* term) { return depends(*term, *induction(loop), seen); });
}

/// Each column has nothing but its steps, which store to one element that is the column's own, and what it computes
/// for them does not change with that.
bool updates(const BlockNest& nest) {
  if (nest.steps->loop->simd || !left_by_yield_only(*nest.steps)) return false;
  bool plain = true;
  for (const Op* op = body_of(*nest.columns).first; op; op = op->next) {
    const bool load = op->code == Opcode::load_ && !writes_to(body_of(*nest.columns), *op->view());
    plain &=
        op == nest.steps || ir::is_pure(op->code) || load || op->code == Opcode::yield_ || op->code == Opcode::poll_;
  }
  int stores = 0;
  ir::walk(body_of(*nest.columns), [&](const Op& op) {
    if (op.code == Opcode::if_) plain = false;
    if (op.code != Opcode::store_) return;
    ++stores;
    plain &= runs_along(op, *induction(*nest.columns)) && !follows(op, *nest.steps);
  });
  return plain && stores == 1;
}

/// Steps read of a matrix what the column and the step say, and each row the same.
bool reads_again(BlockNest& nest) {
  ir::walk(body_of(*nest.steps), [&](const Op& op) {
    if (op.code != Opcode::load_ || !follows(op, *nest.steps)) return;
    const bool of_row = follows(op, *nest.rows), of_column = follows(op, *nest.columns);
    if (of_row != of_column) (of_row ? nest.row_bytes : nest.bytes) += ir::size_of(op.result()->type.dtype);
  });
  return nest.bytes > 0;
}

/// Steps are lanes along lines of matrices, and columns may be: their sums are values, and what becomes of these lies
/// along memory.
bool is_dots(const BlockNest& nest) {
  const Op &columns = *nest.columns, &steps = *nest.steps;
  if (nest.in_lanes || !steps.loop->simd || columns.loop->simd) return false;
  const Value *column = induction(columns), *step = induction(steps);
  bool along = true;
  ir::walk(body_of(columns), [&](const Op& op) {
    if (op.code == Opcode::store_) along &= runs_along(op, *column);
    if (op.code != Opcode::load_ || !is_inside(op, body_of(steps)) || !follows(op, columns)) return;
    along &= runs_along(op, *step);
    for (const Value* term : op.terms()) along &= term == column || term == step || visible_before(*term, *nest.rows);
  });
  return along && (has_permission(columns) || independent(columns));
}

bool is_nest(BlockNest& nest) {
  if (!is_plain_loop(*nest.columns)) return false;
  for (Op* op = body_of(*nest.columns).first; op; op = op->next) {
    if (!is_for(*op)) continue;
    if (nest.steps) return false;
    nest.steps = op;
  }
  if (!nest.steps || has_inner_loop(*nest.steps) || constant(*nest.steps->operands[2]) != 1) return false;
  const Op& rows = *nest.rows;
  for (size_t k = 0; k < 2; ++k) {
    if (!visible_before(*nest.steps->operands[k], rows)) return false;
  }
  nest.in_lanes = nest.columns->loop->simd && nest.steps->results.empty() && updates(nest);
  const bool one_sum = nest.steps->results.size() == 1 && adds_up(*nest.steps);
  if (!(nest.in_lanes || one_sum) || !reads_again(nest)) return false;
  nest.dots = is_dots(nest);
  return true;
}

}  // namespace

std::optional<BlockNest> find_block_nest(Op& rows) {
  if (!is_plain_loop(rows) || !rows.loop->parallel || rows.loop->simd || rows.loop->chunk != 0 || !has_plain_body(rows))
    return {};
  for (Op* op = body_of(rows).first; op; op = op->next) {
    BlockNest nest{&rows, op};
    if (is_nest(nest)) return nest;
  }
  return {};
}

Op* loop_inside(Op& columns) {
  Op* op = body_of(columns).first;
  while (op && !is_for(*op)) op = op->next;
  return op;
}

bool may_add_up_for_others(const BlockNest& nest) {
  const Op& columns = *nest.columns;
  if (nest.in_lanes) return false;
  bool may = true;
  for (const Op* op = body_of(columns).first; op != nest.steps; op = op->next) {
    may &= ir::is_pure(op->code) || op->code == Opcode::poll_;
  }
  // What is loaded for a row, or for a column, others load, too.
  ir::walk(body_of(*nest.steps), [&](const Op& op) {
    const bool load = op.code == Opcode::load_ && !(follows(op, *nest.rows) && follows(op, columns));
    may &= load || ir::is_pure(op.code) || op.code == Opcode::poll_ || op.code == Opcode::yield_;
  });
  return may;
}

void end_before(ir::Graph& graph, Op& columns, Value& bound) {
  ir::Builder b(graph);
  b.set_loc(columns.loc);
  b.set_before(loop_inside(columns)->next);
  Op* choice = b.if_op(b.op(Opcode::lt_, {induction(columns), &bound}), {});
  for (Op *op = choice->next, *next; op != body_of(columns).last; op = next) {
    next = op->next;
    if (op->code == Opcode::poll_) continue;
    op->parent->remove(op);
    choice->blocks[0]->append(op);
  }
  for (ir::Block* arm : choice->blocks) {
    b.set_block(arm);
    b.yield({});
  }
}

}  // namespace appy::passes
