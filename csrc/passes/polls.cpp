// Polls: none in loops that are provably short, one for many iterations in long innermost loops (strip-mining). Loops
// that an interrupt may leave at any point keep theirs: there the backend polls once for many iterations.

#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kShort = int64_t{1} << 14;  // op executions that need no poll
constexpr int64_t kStrip = int64_t{1} << 14;  // iterations between polls
constexpr int64_t kEndless = INT64_MAX / 2;

/// An upper bound of the ops that the block executes.
int64_t work(Ranges& ranges, const Block& block) {
  int64_t total = 0;
  for (const Op* op = block.first; op && total < kEndless; op = op->next) {
    int64_t inner = 1;
    for (const Block* nested : op->blocks) inner += work(ranges, *nested);
    if (op->code == Opcode::while_) return kEndless;
    if (is_for(*op)) {
      const int64_t trips = ranges.most_trips(*op);
      if (trips > kEndless / inner) return kEndless;
      inner *= trips;
    }
    total += inner;
  }
  return total;
}

/// Position of v among the values, or nothing.
std::optional<size_t> position(const std::vector<Value*>& values, size_t first, const Value* v) {
  for (size_t k = first; k < values.size(); ++k) {
    if (values[k] == v) return k - first;
  }
  return std::nullopt;
}

/// The poll goes to the iteration's end, where it keeps nothing from moving out of the loop.
bool defer(Op& loop, Op& poll) {
  Op* last = body_of(loop).last;
  if (poll.next == last || exits_of(loop).next.size() != 1) return false;
  for (const Value* v : poll.operands) {
    if (!ir::defined_outside(*v, body_of(loop))) return false;
  }
  body_of(loop).remove(&poll);
  body_of(loop).insert_before(last, &poll);
  return true;
}

/// The poll moves out of the loop into a new loop around it that takes kStrip iterations at a time.
bool strip(ir::Graph& graph, Op& loop, Op& poll) {
  const auto step = constant(*loop.operands[2]);
  const Exits exits = exits_of(loop);
  if (!step || *step == 0 || *step > kStrip || *step < -kStrip || !exits.breaks.empty()) return false;
  Block& body = body_of(loop);
  // The scalars at the poll are those at an iteration's start, or those at its end.
  bool at_start = true, at_end = exits.next.size() == 1;
  for (const Value* v : poll.operands) {
    const bool outside = ir::defined_outside(*v, body);
    at_start &= outside || position(body.args, 1, v).has_value();
    at_end &= outside || position(body.last->operands, 0, v).has_value();
  }
  if (!at_start && !at_end) return false;

  Builder b(graph);
  b.set_loc(loop.loc);
  b.set_before(&loop);
  ir::Loop control;
  control.annotated = loop.loop->annotated;
  const std::vector<Value*> inits(loop.operands.begin() + 3, loop.operands.end());
  const int64_t stride = *step * kStrip;
  Op* strips = b.for_loop(loop.operands[0], loop.operands[1], b.i64(stride), inits, control);
  Block& outer = body_of(*strips);
  std::vector<Value*> to(graph.value_count() + 4);
  for (size_t k = 0; k < loop.results.size(); ++k) {
    to[loop.results[k]->id] = strips->results[k];
    strips->results[k]->name = loop.results[k]->name;
    outer.args[k + 1]->name = body.args[k + 1]->name;
  }
  ir::replace_uses(graph, to);
  body.remove(&poll);
  loop.parent->remove(&loop);
  b.set_block(&outer);
  Value *from = outer.args[0], *upper = loop.operands[1];
  Value* left = b.op(Opcode::sub_, {upper, from});
  Value* last = b.op(*step > 0 ? Opcode::lt_ : Opcode::gt_, {left, b.i64(stride)});
  Value* until = b.select(last, upper, b.op(Opcode::add_, {from, b.i64(stride)}));
  outer.append(&loop);
  loop.operands[0] = from;
  loop.operands[1] = until;
  for (size_t k = 0; k < loop.results.size(); ++k) loop.operands[3 + k] = outer.args[k + 1];
  for (Value*& v : poll.operands) {
    if (ir::defined_outside(*v, body)) continue;
    v = at_start ? outer.args[1 + *position(body.args, 1, v)] : loop.results[*position(body.last->operands, 0, v)];
  }
  if (at_start) {
    outer.insert_before(&loop, &poll);
  } else {
    outer.append(&poll);
  }
  b.yield(loop.results);
  return true;
}

}  // namespace

bool polls(ir::Graph& graph) {
  bool changed = false;
  std::optional<Ranges> ranges;  // as the loops are
  for (Op* loop : for_loops(graph)) {
    std::vector<Op*> found;
    for (Op* op = body_of(*loop).first; op; op = op->next) {
      if (op->code == Opcode::poll_) found.push_back(op);
    }
    if (found.empty()) continue;
    if (!ranges) ranges.emplace(graph);
    const int64_t trips = ranges->trips(*loop).hi, once = work(*ranges, body_of(*loop));
    if (once < kEndless && trips <= kShort / (once > 0 ? once : 1)) {
      for (Op* poll : found) poll->parent->remove(poll);
      changed = true;
    } else if (found.size() == 1 && interruptible_anywhere(*loop)) {
      changed |= defer(*loop, *found[0]);
    } else if (found.size() == 1 && trips > kStrip && !has_inner_loop(*loop) && strip(graph, *loop, *found[0])) {
      ranges.reset();
      changed = true;
    }
  }
  return changed;
}

}  // namespace appy::passes
