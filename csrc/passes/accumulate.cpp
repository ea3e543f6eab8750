// Row updates become sums: in a nest `for i: for k: C[i, :] += a[i, k] * B[k, :]` whose rows may run in any order, the
// loop over k goes inside the one over the row's elements, whose lanes then keep them in registers (promote) instead of
// loading and storing the row for each k, and the rows share what they load of B (jam).
//
// Only where the rows read the same B, or rows of B wherever they lie, `B[col[j], :]`: to read down the columns of a
// matrix whose rows follow each other and are used once would cost more than the row's loads and stores.

#include <algorithm>
#include <vector>

#include "ir/ir.h"
#include "passes/interchange.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "accumulate";

bool has_term(const Op& access, const Value& variable) {
  return std::find(access.terms().begin(), access.terms().end(), &variable) != access.terms().end();
}

/// Nothing keeps rows from running together.
bool is_plain(const Op& rows) {
  bool plain = is_simple_for(rows);
  ir::walk(body_of(rows), [&](const Op& op) {
    plain &= op.code != Opcode::check_ && op.code != Opcode::atomic_ && op.code != Opcode::alloc_ &&
             op.code != Opcode::while_;
  });
  return plain;
}

/// Rows in any order, their elements in lanes along memory, which the elements' loop stores to; `fits` each access of
/// them.
template <class F>
bool updates_rows(const Op& rows, const Op& elements, F&& fits) {
  if (!has_permission(rows) || rows.loop->simd || !elements.loop->simd || !is_plain(rows)) return false;
  bool all = true, updates = false;
  ir::walk(body_of(elements), [&](const Op& op) {
    if (!is_access(op) || !has_term(op, *induction(elements))) return;
    all = all && runs_along(op, *induction(elements)) && fits(op);
    updates |= op.code == Opcode::store_;
  });
  return all && updates;
}

/// Rows read the same elements.
bool share_rows(const Op& rows, const Op& steps, const Op& elements) {
  bool shared = false;
  const bool updates = updates_rows(rows, elements, [&](const Op& op) {
    if (op.code != Opcode::load_ || !has_term(op, *induction(steps))) return true;
    shared = true;
    return std::all_of(op.terms().begin(), op.terms().end(), [&](const Value* term) {
      return term == induction(elements) || term == induction(steps) || ir::defined_outside(*term, body_of(rows));
    });
  });
  if (!updates || !shared) return false;
  Ranges ranges(*rows.graph);
  return have_most_in_common(ranges, steps, rows) && have_most_in_common(ranges, elements, rows);
}

/// Each step reads a row that was looked up, as a product of a sparse matrix does: in pieces or whole, it is anywhere.
bool looks_rows_up(const Op& rows, const Op& steps, const Op& elements) {
  bool looked_up = false;
  const bool updates = updates_rows(rows, elements, [&](const Op& op) {
    looked_up |= std::any_of(op.terms().begin(), op.terms().end(), [&](const Value* term) {
      return term != induction(elements) && !ir::defined_outside(*term, body_of(steps));
    });
    return !has_term(op, *induction(steps));
  });
  return updates && looked_up;
}

/// What was loaded for the elements if there are any: inside their loop there are. Only upwards is it `begin < end`.
void drop_tests_for_elements(ir::Graph& graph, Op& elements) {
  const auto step = constant(*elements.operands[2]);
  if (!step || *step <= 0) return;
  std::vector<Op*> tests;
  ir::walk(body_of(elements), [&](Op& op) {
    const Op* test = op.code == Opcode::if_ ? op.operands[0]->op : nullptr;
    if (test && test->code == Opcode::lt_ && test->operands[0] == elements.operands[0] &&
        test->operands[1] == elements.operands[1] && op.blocks[0]->last->code == Opcode::yield_) {
      tests.push_back(&op);
    }
  });
  for (Op* op : tests) {
    Block& arm = *op->blocks[0];
    move_before(arm, *op);
    for (size_t k = 0; k < op->results.size(); ++k) ir::replace_uses(graph, op->results[k], arm.last->operands[k]);
    op->parent->remove(op);
  }
}

/// One poll for an element's sum is enough, and it stands behind it.
void keep_one_poll(Op& elements) {
  Op* kept = nullptr;
  ir::walk(body_of(elements), [&](Op& op) {
    if (op.code != Opcode::poll_) return;
    op.parent->remove(&op);
    const bool known = std::all_of(op.operands.begin(), op.operands.end(),
                                   [&](const Value* v) { return visible_before(*v, elements); });
    if (known) kept = &op;
  });
  if (kept) body_of(elements).insert_before(body_of(elements).last, kept);
}

bool run(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    Op* inner = nullptr;
    Op* rows = ir::enclosing_loop(block);
    if (rows && &body_of(*rows) == &block && is_for(*rows) && may_interchange(*op, inner) &&
        (share_rows(*rows, *op, *inner) || looks_rows_up(*rows, *op, *inner)) && swap_loops(*op, *inner)) {
      drop_tests_for_elements(graph, *op);
      keep_one_poll(*op);
      remark(graph, ir::Severity::note, kStage, op->loc,
             "the loop at " + line_of(graph, inner->loc) + " adds up inside the one at " + line_of(graph, op->loc));
      changed = true;
    }
    for (Block* nested : op->blocks) changed |= run(graph, *nested);
  }
  return changed;
}

}  // namespace

bool accumulate(ir::Graph& graph) { return !graph.may_alias && run(graph, *graph.body); }

}  // namespace appy::passes
