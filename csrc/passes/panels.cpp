// Triangular recurrences by tiles. A loop runs in order because each iteration sums over what the earlier ones wrote:
//
//   for i: for j: s = sum of a[i, j, k] over k < i, which iteration k wrote; ...
//
// It is cut into tiles of iterations. What the sums of a tile need of iterations before the tile is known when the tile
// begins: these panels are computed for all of the tile, in parallel, and the tile's sums go on from there, each in its
// own order. A tile's iterations wait for each other only, and what they read stays near.
//
// Rules for editors:
// 1. A panel loads what the iterations of its tile load, earlier: nothing that they, or those behind them, write
//    (recurrence.h). It stores to an array of its own, so who leaves the region in between finds what Python would.
// 2. No sum changes its order.

#include "passes/panels.h"

#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "passes/carried.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/panel_sums.h"
#include "passes/range.h"
#include "passes/recurrence.h"
#include "passes/tile_loop.h"
#include "passes/trailing.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Iterations of a tile.
constexpr int64_t kBlock = 32;
/// Carried values of a sum: a panel has an array for each that somebody reads.
constexpr size_t kMostCarried = 6;

bool is_wanted(const Recurrence& r) {
  return r.steps->results.size() <= kMostCarried && r.between.size() <= 1 &&
         std::all_of(r.between.begin(), r.between.end(),
                     [](const Op* loop) { return constant(*loop->operands[2]) == 1; });
}

class Divider {
 public:
  Divider(ir::Graph& graph, const Panels& how) : graph_(graph), how_(how) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      if (is_for(*op) && divide(*op)) {
        changed = true;
        continue;
      }
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  bool divide(Op& loop) {
    const Op* around = ir::enclosing_loop(*loop.parent);
    if (in_lanes(loop) || (how_.device && around && interruptible_anywhere(*around))) return false;
    Ranges ranges(graph_);
    if (ranges.most_trips(loop) <= how_.block) return false;
    std::vector<Recurrence> wanted = recurrences_of(ranges, loop);
    std::erase_if(wanted, [&](const Recurrence& r) { return !is_wanted(r) || !Panel::fits(ranges, loop, r); });
    if (wanted.empty()) return false;
    for (const Recurrence& r : wanted) {
      // Few steps are left to each iteration. Nobody asks in between how far they have come.
      remove_polls(body_of(*r.steps));
      close_carried(graph_, *r.steps);
    }
    Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(&loop);
    const bool running = how_.device && std::all_of(wanted.begin(), wanted.end(), RunningSums::fits);
    const int64_t iterations = running && how_.running > 0 ? how_.running : how_.block;
    Value *low = loop.operands[0], *high = loop.operands[1], *block = b.i64(iterations);
    Value* trips = emit_distance(b, low, high);
    Value* height = b.op(Opcode::pymin_, {trips, block});
    std::vector<Panel> panels;
    std::vector<RunningSums> sums;
    for (const Recurrence& r : wanted) {
      b.set_loc(r.steps->loc);
      if (running) {
        sums.emplace_back(graph_, b, loop, r);
      } else {
        panels.emplace_back(graph_, ranges, b, loop, r, height, how_.device);
      }
    }
    b.set_loc(loop.loc);
    Op* const groups = running && how_.group > 0 ? &wrap_in_groups(b, loop) : nullptr;
    Op& tiles = wrap(graph_, b, loop, block);
    b.set_block(&body_of(tiles));
    Value* from = induction(tiles);
    Value* until = end_of(b, from, block, loop);
    Op* poll = poll_at_start(graph_, loop, tiles);
    if (poll && !runs_in_parallel(loop)) {
      // Workers that are interrupted cannot tell how far the loop had come.
      body_of(tiles).append(std::exchange(poll, nullptr));
    }
    for (Panel& panel : panels) panel.emit(b, from, until, poll);
    put_into(tiles, loop, from, until);
    for (const RunningSums& each : sums) each.add(b, from, until, groups ? tiles.operands[1] : high);
    b.yield(loop.results);
    if (groups) {
      b.set_block(&body_of(*groups));
      for (const RunningSums& each : sums) each.add(b, induction(*groups), tiles.operands[1], high);
      b.yield(tiles.results);
    }
    for (Panel& panel : panels) panel.enter(from);
    for (RunningSums& each : sums) each.enter(from, until);
    if (how_.device && (running || keeps_few_rows({&loop, from, until, height, &tiles}, panels))) {
      loop.loop->threads = 1;
      for (const Panel& panel : panels) panel.take_turns(loop);
    }
    remark(graph_, ir::Severity::note, "panels", loop.loc,
           "the loop at " + line_of(graph_, loop.loc) + " runs in tiles of " + std::to_string(iterations) +
               " iterations: what its sums need of earlier tiles is computed before each tile");
    return true;
  }

  /// The loop inside a loop over groups of tiles; `b` stands before it.
  Op& wrap_in_groups(Builder& b, Op& loop) {
    Value* group = b.i64(how_.group);
    Op& groups = wrap(graph_, b, loop, group);
    b.set_block(&body_of(groups));
    Value* from = induction(groups);
    put_into(groups, loop, from, end_of(b, from, group, loop));
    b.set_before(&loop);
    return groups;
  }

  static bool runs_in_parallel(const Op& loop) {
    bool any = false;
    ir::walk(body_of(loop), [&](const Op& op) { any |= is_for(op) && op.loop->parallel; });
    return any;
  }

  /// Only rows of the tile are left in it: one worker runs it.
  bool keeps_few_rows(const Tile& tile, const std::vector<Panel>& panels) {
    std::vector<Op*> rows;
    for (Op* op = body_of(*tile.loop).first; op; op = op->next) {
      if (is_for(*op) && has_permission(*op) && contains(body_of(*op), ir::Effect::store)) rows.push_back(op);
    }
    bool all = !rows.empty();
    for (Op* each : rows) {
      Op* const iterations = move_behind(graph_, tile, *each);
      all &= iterations != nullptr;
      for (const Panel& panel : panels) {
        if (iterations) panel.take_turns(*iterations);
      }
    }
    return all;
  }

  ir::Graph& graph_;
  const Panels& how_;
};

}  // namespace

bool make_panels(ir::Graph& graph, const Panels& how) { return Divider(graph, how).run(*graph.body); }

bool panels(ir::Graph& graph) { return make_panels(graph, {.block = kBlock}); }

}  // namespace appy::passes
