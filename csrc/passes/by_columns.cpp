// A plane that is changed behind the sums of its columns goes by columns, too: `for i: for j` becomes `for j: for i`
// where a loop before it has a sum for each j. Then they may run as one loop (fuse), in which whoever has the sum of a
// column changes it, `t = Q[:, k] @ A[:, j]; A[:, j] -= Q[:, k] * t`, and nobody waits for the sums of others.
//
// Only in loops that all run in order: there each step is short, and waits are much of it. Elsewhere a plane has more
// parts than columns, and they are divided among all workers.

#include <algorithm>

#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;

namespace {

bool in_any_order(const Op& op) { return is_for(op) && has_permission(op) && left_by_yield_only(op); }

/// Each iteration has a sum.
bool has_sums(const Op& loop) {
  if (!in_any_order(loop) || !loop.results.empty()) return false;
  for (const Op* op = body_of(loop).first; op; op = op->next) {
    if (in_any_order(*op) && !op->results.empty()) return true;
  }
  return false;
}

/// The loop that the body of a plane consists of, beside what computes for it; null where it is no plane.
Op* rows_of(const Op& outer) {
  if (!in_any_order(outer) || !outer.results.empty()) return nullptr;
  Op* found = nullptr;
  for (Op* op = body_of(outer).first; op != body_of(outer).last; op = op->next) {
    if (is_for(*op) && !found) {
      found = op;
    } else if (!ir::is_pure(op->code) && op->code != ir::Opcode::load_) {
      return nullptr;
    }
  }
  return found && in_any_order(*found) && found->results.empty() && !has_inner_loop(*found) ? found : nullptr;
}

/// What the outer loop loads for the inner one is in each of its iterations what it was before.
bool may_move(const Op& outer, const Op& inner) {
  bool fits = true;
  for (const Op* op = body_of(outer).first; op; op = op->next) {
    if (op->code == ir::Opcode::load_) fits &= !writes_to(body_of(inner), *op->view());
  }
  return fits;
}

bool run_in_order(Block& block) {
  bool changed = false;
  for (Op* sums = block.first; sums; sums = sums->next) {
    if (!has_sums(*sums)) continue;
    for (Op* next = sums->next; next; next = next->next) {
      if (!is_loop(*next)) continue;
      Op* inner = rows_of(*next);
      if (!inner || !count_alike(*sums, *inner) || count_alike(*sums, *next) || !may_move(*next, *inner)) break;
      if (!swap_loops(*next, *inner)) break;
      // The outer one is for workers now as before.
      std::swap(next->loop, inner->loop);
      changed = true;
    }
  }
  return changed;
}

bool run(Block& block, bool in_order) {
  bool changed = in_order && run_in_order(block);
  for (Op* op = block.first; op; op = op->next) {
    if (op->blocks.empty() || (is_for(*op) && has_permission(*op))) continue;
    for (Block* inner : op->blocks) changed |= run(*inner, in_order || is_loop(*op));
  }
  return changed;
}

}  // namespace

bool by_columns(ir::Graph& graph) { return !graph.may_alias && run(*graph.body, false); }

}  // namespace appy::passes
