// Right-looking recurrences by tiles. A loop runs in order because each iteration updates everything behind it:
//
//   for k: what is k's own; parallel for j in range(k + 1, n): what k gives j
//
// It is cut into tiles of iterations. In a tile the iterations give each other what they need; what is behind the tile
// gets all that the tile has to give at once: `parallel for j in range(end of tile, n): for k in tile: what k gives j`.
// So all workers wait for each other once a tile, and what is behind the tile is gone over once a tile from memory, not
// once an iteration. It is what LAPACK's blocked algorithms do by hand; an LU factorization, Gram and Schmidt's method
// and a triangular solve by columns have this form.
//
// Rules for editors:
// 1. Whether rows may wait for the end of the tile is `trailing.cpp`'s question. Nothing is changed where they may not:
//    it is asked of a copy of the graph.
// 2. Each j gets what it gets in the order of k, so no bit changes.
// 3. An interrupt leaves the variables of a tile's first iteration, and some rows further than others (rule 8 of the
//    language).

#include "passes/right_looking.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/carried.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/tile_loop.h"
#include "passes/trailing.h"

namespace appy::passes {

bool dce(ir::Graph&);

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "right_looking";
/// Iterations of a tile: what one worker does while the others wait is to be an eighth of what it does with them at
/// most. They are whole vectors, and columns of so many go from one cache to the next.
constexpr int64_t kLeast = 8, kMost = 32, kShare = 8;
constexpr int64_t kWorkers = 4;  // where nobody said how many

/// The loop inside over what is behind the iteration, if there is just one, and nothing but loads and stores says what
/// has to come before what.
Op* rows_of(Ranges& ranges, const Op& loop) {
  bool plain = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    const ir::Effect effect = ir::info(op.code).effect;
    plain &= op.code != Opcode::alloc_ && op.code != Opcode::atomic_ && op.code != Opcode::while_ &&
             op.code != Opcode::barrier_ && (effect != ir::Effect::guard || op.code == Opcode::poll_);
    if (is_for(op)) plain &= left_by_yield_only(op);
  });
  if (!plain) return nullptr;
  Op* found = nullptr;
  for (Op* op = body_of(loop).first; op; op = op->next) {
    if (!is_for(*op) || !op->loop->parallel || !writes(body_of(*op))) continue;
    const Affine low = ranges.affine(*op->operands[0], *op);
    if (low.coef(*induction(loop)) != 1) continue;
    if (found) return nullptr;
    found = op;
  }
  return found;
}

class Tiler {
 public:
  Tiler(ir::Graph& graph, int64_t length) : graph_(graph), length_(length) {}

  bool run() {
    std::set<const Op*> seen;
    bool changed = false;
    while (divide_one(seen)) changed = true;
    return changed;
  }

 private:
  /// The first loop that was not seen before and can be divided. Then the graph is another one.
  bool divide_one(std::set<const Op*>& seen) {
    const std::vector<Op*> loops = for_loops(graph_);
    for (size_t n = 0; n < loops.size(); ++n) {
      if (seen.insert(loops[n]).second && divide(*loops[n], n)) return true;
    }
    return false;
  }

  /// `number` is the loop's among all.
  bool divide(Op& loop, size_t number) {
    if (interruptible_anywhere(loop) || constant(*loop.operands[2]) != 1 || !left_by_yield_only(loop)) return false;
    Ranges ranges(graph_);
    if (ranges.most_trips(loop) <= std::max(length_, kLeast) || !rows_of(ranges, loop)) return false;
    const auto trial = ir::clone(graph_);
    if (!Tiler(*trial, length_).tile(*for_loops(*trial)[number])) return false;
    tile(loop);
    if (graph_.factorization) graph_.factorization->blocked = true;  // it is the region's only loop over columns
    remark(graph_, ir::Severity::note, kStage, loop.loc,
           "the loop at " + line_of(graph_, loop.loc) +
               " runs in tiles of iterations: what is behind a tile gets what the tile has to give at once");
    return true;
  }

  bool tile(Op& loop) {
    Ranges ranges(graph_);
    Op& rows = *rows_of(ranges, loop);
    Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(&loop);
    Value *low = loop.operands[0], *high = loop.operands[1];
    Value* length = length_of(b, emit_distance(b, low, high));
    Op& tiles = wrap(graph_, b, loop, length);
    Op* const poll = poll_at_start(graph_, loop, tiles);
    if (!poll && contains(body_of(loop), ir::Effect::guard)) return false;
    b.set_block(&body_of(tiles));
    Value* from = induction(tiles);
    Value* until = end_of(b, from, length, loop);
    put_into(tiles, loop, from, until);
    b.yield(loop.results);
    remove_polls(body_of(loop));
    if (poll) body_of(loop).insert_before(body_of(loop).first, poll);
    close(body_of(loop));
    dce(graph_);
    b.set_before(&tiles);
    Value* height = b.op(Opcode::pymin_, {emit_distance(b, low, high), length});
    const Op* iterations = move_behind(graph_, {&loop, from, until, height, &tiles}, rows);
    if (!iterations) return false;
    rows.loop->parallel = false;
    if (poll) {
      Block& behind = *iterations->parent;
      behind.insert_before(behind.first, Copier(graph_).copy(*poll));
    }
    return true;
  }

  Value* length_of(Builder& b, Value* trips) const {
    if (length_ > 0) return b.i64(length_);
    const int64_t workers = graph_.workers > 0 ? graph_.workers : kWorkers;
    Value* share = b.op(Opcode::floordiv_, {trips, b.i64(kShare * workers * kLeast)});
    Value* vectors = b.op(Opcode::add_, {share, b.i64(1)});
    return b.op(Opcode::pymin_, {b.op(Opcode::mul_, {vectors, b.i64(kLeast)}), b.i64(kMost)});
  }

  /// Variables that the loops leave are said after them, the innermost first.
  void close(Block& block) {
    for (Op* op = block.first; op; op = op->next) {
      for (Block* inner : op->blocks) close(*inner);
      if (is_for(*op)) close_carried(graph_, *op);
    }
  }

  ir::Graph& graph_;
  const int64_t length_;
};

}  // namespace

bool tile_right_looking(ir::Graph& graph, int64_t length) { return Tiler(graph, length).run(); }

bool right_looking(ir::Graph& graph) { return !graph.may_alias && tile_right_looking(graph, 0); }

}  // namespace appy::passes
