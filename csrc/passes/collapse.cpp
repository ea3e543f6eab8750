// collapse(n): the second of two perfectly nested loops is cut into pieces, and each pair of an outer iteration and a
// piece becomes an iteration of the outer loop, so that few outer iterations keep all threads busy. The inner loop
// keeps its own variable: what it addresses stays affine. Pairs follow each other as the iterations did.

#include "passes/collapse.h"

#include <algorithm>
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

constexpr std::string_view kStage = "collapse";
/// So many iterations are enough for any number of threads that share one memory.
constexpr int64_t kEnough = 64;

bool is_one(const Value& v) { return constant(v) == 1; }

/// Accumulators of the outer loop are those of the inner one, which nothing else in it sees. What else it carries is
/// updated in each pair as it was in each iteration.
bool hands_on(const Op& outer, const Op& inner) {
  const Op& end = *body_of(outer).last;
  if (end.code != Opcode::yield_) return false;
  std::vector<const Value*> private_values;
  size_t handed = 0;
  for (size_t k = 0; k < carried_count(outer); k++) {
    const Value* arg = body_of(outer).args[first_carried(outer) + k];
    const ir::Carried& carried = outer.loop->carried[k];
    const Value* next = end.operands[k];
    if (next->op != &inner) {
      if (carried.combiner == Combiner::recur_ || ir::counts_each_update(carried.combiner)) return false;
      continue;
    }
    const size_t m = next->index;
    if (inner.operands[first_init(inner) + m] != arg || !accumulates(carried)) return false;
    if (inner.loop->carried[m].combiner != carried.combiner) return false;
    private_values.push_back(arg);
    private_values.push_back(next);
    handed++;
  }
  if (handed != carried_count(inner)) return false;
  for (const Op* op = body_of(outer).first; op != &end; op = op->next) {
    for (const Value* v : op->operands) {
      const bool own = std::find(private_values.begin(), private_values.end(), v) != private_values.end();
      if (own && op != &inner) return false;
    }
  }
  return true;
}

bool fits(const Op& outer) {
  const ir::Loop& l = *outer.loop;
  if (!l.parallel || l.simd || l.collapse < 2 || l.threads == 1 || !is_one(*outer.operands[2])) return false;
  for (const Op* at = outer.parent->owner; at; at = at->parent->owner) {
    if (at->loop && at->loop->parallel) return false;  // one worker runs it in any case
  }
  const Op* inner = only_loop_in(outer);
  return inner && inner->loop->parallel && is_one(*inner->operands[2]) && hands_on(outer, *inner);
}

void divide(ir::Graph& graph, Op& outer) {
  Op* inner = only_loop_in(outer);
  Builder b(graph);
  b.set_loc(outer.loc);
  b.set_before(&outer);
  Value *low = outer.operands[0], *one = b.i64(1);
  Value* rows = emit_distance(b, low, outer.operands[1]);
  Value* wanted = b.op(Opcode::floordiv_, {b.i64(kEnough), b.op(Opcode::pymax_, {rows, one})});
  Value* pieces = b.op(Opcode::pymax_, {wanted, one});
  Value* all = b.op(Opcode::mul_, {rows, pieces});
  outer.operands[0] = b.i64(0);
  outer.operands[1] = all;
  outer.loop->collapse = 1;
  outer.loop->le = 0;

  Value* pair = induction(outer);
  b.set_before(body_of(outer).first);
  Value* row = b.op(Opcode::add_, {low, b.op(Opcode::floordiv_, {pair, pieces})});
  ir::replace_uses(graph, pair, row);
  row->op->operands[1]->op->operands[0] = pair;
  Value* piece = b.op(Opcode::mod_, {pair, pieces});
  b.set_before(inner);
  Value *first = inner->operands[0], *end = inner->operands[1];
  const bool even = ir::defined_outside(*first, body_of(outer)) && ir::defined_outside(*end, body_of(outer));
  if (even && outer.loop->schedule == ir::Schedule::automatic) outer.loop->schedule = ir::Schedule::statically;
  Value* trips = emit_distance(b, first, end);
  Value* rounded = b.op(Opcode::sub_, {b.op(Opcode::add_, {trips, pieces}), one});
  Value* size = b.op(Opcode::floordiv_, {rounded, pieces});
  Value* from = b.op(Opcode::add_, {first, b.op(Opcode::mul_, {piece, size})});
  inner->operands[0] = from;
  inner->operands[1] = b.op(Opcode::pymin_, {b.op(Opcode::add_, {from, size}), end});
  remark(graph, ir::Severity::note, kStage, outer.loc,
         "where there are few iterations, those of the loop at " + line_of(graph, inner->loc) + " are divided, too");
}

}  // namespace

bool accumulates(const ir::Carried& c) {
  return c.leader < 0 && c.tie < 0 && c.combiner != Combiner::recur_ && c.combiner != Combiner::last_;
}

Op* only_loop_in(const Op& outer) {
  Op* loop = nullptr;
  for (Op* op = body_of(outer).first; op != body_of(outer).last; op = op->next) {
    if (is_for(*op) && !loop) {
      loop = op;
    } else if (op->code != Opcode::poll_ && !ir::is_pure(op->code)) {
      return nullptr;
    }
  }
  return loop;
}

bool collapse(ir::Graph& graph) {
  std::vector<Op*> found;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_for(op) && fits(op)) found.push_back(&op);
  });
  for (Op* outer : found) divide(graph, *outer);
  return !found.empty();
}

}  // namespace appy::passes
