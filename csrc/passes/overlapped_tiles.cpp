// Time tiling of stencils for devices, where all workers waiting for each other is what takes the time: `for t` around
// phases, each of which goes over the elements of arrays, runs in rounds of several t. In a round each tile of points
// is copied, with what is around it, into arrays of the worker's own, which a device keeps in shared memory; all phases
// of the round run there; what is right in the end, the tile's own points, is written. Tiles overlap (Krishnamoorthy
// and others, "Effective automatic parallelization of stencil computations", 2007; Holewinski and others,
// "High-performance code generation for stencil computations on GPU architectures", 2012): points beside a tile are
// computed by two workers, who need nothing of each other until the round is over.
//
// Rules for editors:
// 1. No worker may write what another one still reads: rounds read one of two rows of a spare array and write the
//    other. The arrays themselves are read before the first round and written behind the last one.
// 2. With R(s, p) = right + s * slope_right of phase p in the round's step s, L likewise, and E the greatest R of the
//    round: the tile [low, high) needs of a phase the points [low - (E_left - L), high + (E_right - R)). What those
//    need of phases before is among that, as the header stencil.h says; of the round before at most the greatest offset
//    away.
//    Each step computes the points that the first one needs: some from what is not right any more, which nobody needs.
//    Those are points of the program, too, so that they overwrite nothing that the program would not, and they read
//    what is there. Bounds that do not change are worth more than a few points.
// 3. All extents are known before the region runs, as a device's memory is taken then.

#include "passes/overlapped_tiles.h"

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/overlapped_boxes.h"
#include "passes/overlapped_rounds.h"
#include "passes/stencil.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "overlapped_tiles";

// Bytes of a worker's own arrays, and of spare ones.
constexpr int64_t kOwn = int64_t{48} << 10;
constexpr int64_t kSpare = int64_t{2} << 30;
// Workers where nobody said how many, and tiles that each gets where there are points enough.
constexpr int64_t kWorkers = 128;
constexpr int64_t kTiles = 4;
// Points that are worth a worker of their own.
constexpr int64_t kFewPoints = 256;
// Steps of a round: with so many, meeting takes less time than the points beside the tile; a tile that is the only one
// has none, but nobody can interrupt a round.
constexpr int64_t kMostSteps = 64;
constexpr int64_t kAlone = 1024;
// A phase in a worker's own arrays takes one part in so many of the time of all workers waiting for each other.
constexpr int64_t kPhases = 8;

class Tiler : OverlappedRounds {
 public:
  Tiler(ir::Graph& graph, const Stencil& stencil, std::optional<OverlapSizes> sizes)
      : OverlappedRounds(graph, stencil), sizes_(sizes) {}

  /// Why not; empty where nothing is in the way.
  std::string obstacle() {
    measure();
    for (const Array& array : arrays_) {
      if (array.view->type.rank != 1) return "its rows are more than elements";
    }
    if (room_ < 2 * kFewPoints) return "its tiles are too large for the memory of one worker";
    return common_obstacle();
  }

  void run() {
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    choose_sizes();
    make_spares();
    Op* choice = make_versions(b_, loop_, pays_);
    Block& tiled = *choice->blocks[0];
    b_.set_block(&tiled);
    fill_spares();
    Op* round = count_to(rounds_, control(), "round");
    tiles(*induction(*round));
    close(*round, tiled);
    empty_spares();
    b_.yield(results());
  }

 private:
  struct Array {
    Value* view;
    Value* spare = nullptr;  // two rows
    Value* own = nullptr;    // of the tile
    Value* end = nullptr;    // the first element that nobody touches, or the array's end
  };

  /// What follows from the program's text alone.
  void measure() {
    int64_t bytes = 0;
    for (const Phase& phase : stencil_.phases) {
      for (const Phase::Touch& touch : phase.touches) {
        reach_left_ = std::max(reach_left_, -touch.offset);
        reach_right_ = std::max(reach_right_, touch.offset);
        beyond_left_ = std::max(beyond_left_, -touch.offset - phase.left);
        beyond_right_ = std::max(beyond_right_, touch.offset - phase.right);
        Value* view = touch.access->view();
        if (std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& a) { return a.view == view; })) continue;
        arrays_.push_back({view});
        bytes += ir::size_of(view->type.dtype);
      }
    }
    element_bytes_ = bytes;
    slopes_ = stencil_.slope_left + stencil_.slope_right;
    extent_ = kOwn / bytes;
    room_ = extent_ - (stencil_.most_left + stencil_.most_right + reach_left_ + reach_right_);
  }

  void choose_sizes() {
    trips_ = emit_trips(b_, loop_);
    Value *first = nullptr, *end = nullptr;
    for (const Phase& phase : stencil_.phases) {
      Value *low = nullptr, *high = nullptr;
      if (phase.loop) {
        low = add(phase.loop->operands[0], -phase.shift), high = add(phase.loop->operands[1], -phase.shift);
      } else {
        low = emit(b_, phase.row), high = add(low, 1);
      }
      points_.push_back({low, high});
      first = first ? least(first, low) : low;
      end = end ? most(end, high) : high;
    }
    first_ = first, end_ = end;
    begin_ = most(add(first, -reach_left_), i64(0));
    Value* count = most(sub(end, first), i64(0));
    Value* steps = nullptr;
    if (sizes_) {
      tile_ = i64(sizes_->points);
      steps = i64(slopes_ > 0 ? std::min(sizes_->steps, (room_ - sizes_->points) / slopes_) : sizes_->steps);
      count_of_tiles_ = over_up(count, tile_);
      pays_ = b_.boolean(true);
    } else {
      // Two thirds for points, so that the work that is done twice is half of what is done once, at most.
      const int64_t widest = room_ * 2 / 3;
      const int64_t all = kTiles * (graph_.workers > 0 ? graph_.workers : kWorkers);
      Value* wanted = most(least(over(count, i64(kFewPoints)), i64(all)), i64(1));
      // Where these would be too long, all workers get equally many.
      Value* many = times(over_up(count, i64(widest * all)), all);
      Value* one = le(count, i64(std::min(2 * kFewPoints, widest)));
      Value* tiles = b_.select(le(count, mul(wanted, i64(widest))), wanted, many);
      tile_ = most(over_up(count, b_.select(one, i64(1), tiles)), i64(1));
      count_of_tiles_ = over_up(count, tile_);
      Value* narrow = slopes_ > 0 ? least(over(tile_, i64(2 * slopes_)), i64(kMostSteps)) : i64(kMostSteps);
      steps = b_.select(one, i64(kAlone), narrow);
    }
    steps_ = most(least(trips_, steps), i64(1));
    rounds_ = over_up(trips_, steps_);
    Value* own = add(tile_, extent_ - room_);
    if (slopes_ > 0) own = add(own, times(add(steps_, -1), slopes_));
    own_extent_ = least(own, i64(extent_));
    if (sizes_) return;
    // In what all workers waiting for each other takes: a phase of the loop as it is; the spare arrays' filling and
    // emptying and, in each round, that of the workers' own arrays; a phase there.
    const auto phases = static_cast<int64_t>(stencil_.phases.size());
    Value* plain = times(trips_, phases * (kPhases - 1));
    Value* tiled = times(add(times(rounds_, 2), 3), kPhases);
    pays_ = both(b_.op(Opcode::ge_, {steps_, i64(2)}), b_.op(Opcode::lt_, {tiled, plain}));
    for (const Array& array : arrays_) {
      pays_ = both(pays_, le(b_.dim(array.view, 0), i64(kSpare / (2 * element_bytes_))));
    }
    // What does not run needs no memory, and no workers.
    own_extent_ = b_.select(pays_, own_extent_, i64(0));
    count_of_tiles_ = b_.select(pays_, count_of_tiles_, i64(0));
  }

  void make_spares() {
    for (Array& array : arrays_) {
      Value* extent = b_.dim(array.view, 0);
      ir::Type type = array.view->type;
      type.rank = 2;
      type.layout = ir::Layout::c;
      array.spare = b_.alloc(type, std::vector<Value*>{i64(2), b_.select(pays_, extent, i64(0))});
      array.spare->name = array.view->name;
      array.end = least(extent, add(end_, reach_right_));
    }
  }

  /// Both rows, since nobody writes elements that are no points.
  void fill_spares() {
    Block& block = *b_.block();
    for (const Array& array : arrays_) {
      Op* copy = loop(begin_, array.end, any_order(), "x");
      Value* x = induction(*copy);
      Value* v = load(array.view, {x});
      for (const int64_t row : {0, 1}) store(v, array.spare, {i64(row), x});
      close(*copy, block);
    }
  }

  void empty_spares() {
    Block& block = *b_.block();
    Value* row = both(rounds_, i64(1));
    for (const Array& array : arrays_) {
      Op* copy = loop(most(first_, begin_), least(end_, array.end), any_order(), "x");
      Value* x = induction(*copy);
      store(load(array.spare, {row, x}), array.view, {x});
      close(*copy, block);
    }
  }

  /// All tiles of a round.
  void tiles(Value& round) {
    Block& around = *b_.block();
    Value* begin = mul(&round, steps_);
    Value* here = least(steps_, sub(trips_, begin));
    Value* row = both(&round, i64(1));
    Value* other = sub(i64(1), row);
    Copier copier(graph_);
    begin_round(begin, copier);
    Value* last = add(here, -1);
    Value* left = add(times(last, stencil_.slope_left), stencil_.most_left);
    Value* right = add(times(last, stencil_.slope_right), stencil_.most_right);
    Op* tile = count_to(count_of_tiles_, any_order(), "tile");
    Block& block = *b_.block();
    Value* low = add(first_, mul(induction(*tile), tile_));
    Value* high = least(add(low, tile_), end_);
    Value* from = most(sub(low, add(left, beyond_left_)), begin_);
    Value* to = add(high, add(right, beyond_right_));
    for (Array& array : arrays_) {
      ir::Type type = array.view->type;
      type.layout = ir::Layout::c;
      array.own = b_.alloc(type, std::vector<Value*>{own_extent_});
      array.own->name = array.view->name;
    }
    for (const Array& array : arrays_) {
      Op* copy = loop(i64(0), sub(least(to, array.end), from), any_order(), "x");
      Value* x = induction(*copy);
      store(load(array.spare, {row, add(from, x)}), array.own, {x});
      close(*copy, block);
    }
    bounds_.clear();
    for (size_t p = 0; p < points_.size(); ++p) {
      const Phase& phase = stencil_.phases[p];
      Value* first = most(points_[p].first, add(sub(low, left), phase.left));
      Value* end = least(points_[p].second, add(add(high, right), -phase.right));
      bounds_.push_back({sub(first, from), sub(end, from)});
    }
    Op* step = count_to(here, control(), "step");
    step_body(*induction(*step), begin, from, copier);
    close(*step, block);
    Value* own_low = sub(most(low, from), from);
    for (const Array& array : arrays_) {
      Op* copy = loop(own_low, sub(least(high, array.end), from), any_order(), "x");
      Value* x = induction(*copy);
      store(load(array.own, {x}), array.spare, {other, add(from, x)});
      close(*copy, block);
    }
    close(*tile, around);
  }

  /// All phases of one iteration, in one tile.
  void step_body(Value& step, Value* begin, Value* from, Copier& copier) {
    Block& block = *b_.block();
    copier.map(induction(loop_), iteration(add(begin, &step)));
    copy_shared(stencil_, copier, block);
    for (size_t p = 0; p < stencil_.phases.size(); ++p) {
      const Phase& phase = stencil_.phases[p];
      ir::Loop kind = control();  // of one row: it may read what it would write in another one
      if (phase.loop) {
        kind.parallel = true;
        const ir::Loop& of = *phase.loop->loop;
        kind.simd = of.simd;
        kind.annotated = of.annotated;
      }
      Op* points = loop(bounds_[p].first, bounds_[p].second, std::move(kind), "x");
      copy(phase, *induction(*points), from, copier);
      close(*points, block);
    }
  }

  /// What the phase does at point x + from, in the worker's own arrays.
  void copy(const Phase& phase, Value& x, Value* from, Copier& copier) {
    Block& into = *b_.block();
    if (!phase.loop) {
      for (const Op* op : phase.ops) into.append(copier.copy(*op));
    } else {
      const Block& body = body_of(*phase.loop);
      Value* variable = add(add(&x, from), phase.shift);
      variable->name = body.args[0]->name;
      copier.map(body.args[0], variable);
      for (size_t k = 0; k < carried_count(*phase.loop); ++k) {
        copier.map(body.args[1 + k], copier.of(phase.loop->operands[3 + k]));
      }
      for (const Op* op = body.first; op != body.last; op = op->next) into.append(copier.copy(*op));
    }
    size_t next = 0;
    ir::walk(into, [&](Op& op) {
      if (!is_access(op)) return;
      const auto array =
          std::find_if(arrays_.begin(), arrays_.end(), [&](const Array& a) { return a.view == op.view(); });
      if (array == arrays_.end()) return;
      op.operands[op.first_term() - 1] = array->own;
      op.operands.resize(op.first_term());
      op.operands.push_back(&x);
      op.access->terms = 1;
      op.access->offset = {phase.touches[next++].offset};
      op.access->coef = {{1}};
    });
  }

  std::optional<OverlapSizes> sizes_;
  std::vector<Array> arrays_;
  int64_t element_bytes_ = 0, slopes_ = 0;
  int64_t extent_ = 0, room_ = 0;  // of a worker's own array at most, and what a tile and its steps may take of it
  int64_t reach_left_ = 0, reach_right_ = 0;    // the farthest element that a point touches
  int64_t beyond_left_ = 0, beyond_right_ = 0;  // of the points of a round's first step, beyond the first phase's
  std::vector<std::pair<Value*, Value*>> points_, bounds_;  // of each phase; of a tile, in its own arrays
  Value *first_ = nullptr, *end_ = nullptr;
  Value* begin_ = nullptr;  // the first element that is touched
  Value* own_extent_ = nullptr;
  Value *tile_ = nullptr, *count_of_tiles_ = nullptr;
};

}  // namespace

bool overlap_tiles(ir::Graph& graph, std::optional<OverlapSizes> sizes) {
  return tile_stencils(graph, kStage, "by overlapping tiles", [&](const Stencil& stencil) {
    const auto has_rows = [](const auto& of) { return of.first->type.rank == 2; };
    if (std::all_of(stencil.dimension.begin(), stencil.dimension.end(), has_rows)) {
      return graph.boxes || sizes ? overlap_boxes(graph, stencil, sizes)
                                  : std::string("its rows are more than elements");
    }
    Tiler tiler(graph, stencil, sizes);
    std::string why = tiler.obstacle();
    if (why.empty()) tiler.run();
    return why;
  });
}

bool overlapped_tiles(ir::Graph& graph) { return overlap_tiles(graph, std::nullopt); }

}  // namespace appy::passes
