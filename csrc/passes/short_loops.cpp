// Loops of a few iterations inside of others, written out: `for a in range(3): s += x[i + a]`. What is left has no
// jumps, so that in lanes several vectors go at a time, neighbours are loaded together, and what does not depend on the
// lanes is computed once. Sums keep their order.

#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Iterations, and ops of them all: those of a window of 3 x 3 elements with weights of its own.
constexpr int64_t kMostTrips = 4;
constexpr int64_t kMostOps = 96;

/// 0: nobody knows, or too many.
int64_t few_trips(const Op& loop) {
  constexpr int64_t kFar = int64_t{1} << 40;
  const auto low = constant(*loop.operands[0]), high = constant(*loop.operands[1]), step = constant(*loop.operands[2]);
  if (!low || !high || !step || *step < 1 || *low < -kFar || *high > kFar || *high <= *low) return 0;
  const int64_t trips = (*high - *low + *step - 1) / *step;
  return trips <= kMostTrips ? trips : 0;
}

int64_t ops_of(const Op& loop) {
  int64_t ops = 0;
  ir::walk(*loop.blocks[0], [&](const Op& op) { ops += op.code != Opcode::const_ && op.code != Opcode::poll_; });
  return ops;
}

bool is_short(const Op& loop) {
  const int64_t trips = few_trips(loop);
  return trips > 0 && ir::enclosing_loop(*loop.parent) && !has_permission(loop) && left_by_yield_only(loop) &&
         has_plain_body(loop, true) && !has_inner_loop(loop) && trips * ops_of(loop) <= kMostOps;
}

void write_out(ir::Graph& graph, Op& loop) {
  Builder b(graph);
  b.set_loc(loop.loc);
  b.set_before(&loop);
  // A loop around it asks as often.
  remove_polls(body_of(loop));
  const int64_t trips = few_trips(loop), low = *constant(*loop.operands[0]), step = *constant(*loop.operands[2]);
  std::vector<Value*> carried(loop.operands.begin() + static_cast<std::ptrdiff_t>(first_init(loop)),
                              loop.operands.end());
  for (int64_t n = 0; n < trips; ++n) {
    Copier copier(graph);
    copier.map(induction(loop), b.i64(low + n * step));
    for (size_t k = 0; k < carried.size(); ++k) copier.map(body_of(loop).args[first_carried(loop) + k], carried[k]);
    for (const Op* op = body_of(loop).first; op != body_of(loop).last; op = op->next) {
      loop.parent->insert_before(&loop, copier.copy(*op));
    }
    for (size_t k = 0; k < carried.size(); ++k) carried[k] = copier.of(body_of(loop).last->operands[k]);
  }
  for (size_t k = 0; k < carried.size(); ++k) ir::replace_uses(graph, loop.results[k], carried[k]);
  loop.parent->remove(&loop);
}

}  // namespace

bool short_loops(ir::Graph& graph) {
  bool changed = false;
  // Innermost first: what is around them may be short, too, then.
  const std::vector<Op*> loops = for_loops(graph);
  for (size_t k = loops.size(); k-- > 0;) {
    if (!is_short(*loops[k])) continue;
    write_out(graph, *loops[k]);
    changed = true;
  }
  return changed;
}

}  // namespace appy::passes
