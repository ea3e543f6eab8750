// Time tiling of stencils: `for t` around phases, each of which goes over all rows, takes several t at a time, block by
// block of rows, so that a block stays in a core's cache. Split tiling (Grosser and others, "Split tiling for GPUs:
// automatic parallelization using trapezoidal tiles", 2013; the same idea without the name in Krishnamoorthy and
// others, "Effective automatic parallelization of stencil computations", 2007): first all blocks, each phase on the
// points that need nothing of other blocks, which get fewer with each phase; then, between each two blocks and behind
// the last one, what was left out. Both kinds start with all workers at once. Within a tile the points are skewed (Wolf
// and Lam, 1991): a strip of rows goes through all phases, each some rows behind the one before, so that what is live
// are a few rows a phase. Of rows that are planes a strip is skewed once more: a few lines at a time go through all
// phases, so that what is live of one fits into a first-level cache. Where both sides of a point are alike, every other
// group of steps goes through the rows backward: it finds in the worker's cache what the one before went through last.
//
// Rules for editors:
// 1. With R(t, p) = right + t * slope_right of phase p and L likewise, a point needs points of phases before as the
//    header stencil.h says. Block [low, high) computes [low + L, high - R), the tile between two blocks [bound - R,
//    bound + L), the one behind the last block [bound - R, end): together each point once. A block needs (steps - 1) *
//    (slopes) + the greatest starts + the reach in rows for tiles between blocks to be independent of each other; the
//    first one, which has such a tile on one side only, may have less.
// 2. Point x of (t, p) stands in the strip of x + R(t, p), so that what it needs stands in that strip or one before;
//    line y of it likewise in the strip of lines of y + its own R(t, p).
// 3. A group that goes backward counts the rows from their end: x of rules 1 and 2 is first + end - 1 - row there. They
//    hold if L and R are the same for each phase. A worker's blocks are the same rows either way.
// 4. The order of a phase's points is free: no two of them touch a row that one of them writes, but for its own. The
//    lines of one row stay in order.

#include "passes/time_tiles.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "passes/arithmetic.h"
#include "passes/copier.h"
#include "passes/final_values.h"
#include "passes/loops.h"
#include "passes/stencil.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "time_tiles";

// Bytes: of a second-level cache that is not known or smaller (what is too much for it comes from the next one, and
// costs little), of a first-level one, and what a tile has at least for its loops to be long enough, and where there
// would not be one for each worker.
constexpr int64_t kCache = int64_t{768} << 10;
constexpr int64_t kStrip = int64_t{16} << 10;
constexpr int64_t kTile = int64_t{64} << 10;
constexpr int64_t kShortTile = int64_t{8} << 10;
// Bytes of a last-level cache; operations for each byte of an element's operands and results that take as long as its
// way from there.
constexpr int64_t kLastCache = int64_t{16} << 20;
constexpr double kOpsForByte = 0.5;
// Registers of a target whose vectors have 64 bytes.
constexpr int kLongVectors = 32;
// Bytes of rows that are single elements of a few arrays.
constexpr int64_t kElements = 64;
// Blocks that each worker gets, where there are rows enough, and workers where nobody said how many.
constexpr int64_t kBlocks = 4;
constexpr int64_t kWorkers = 4;
// Iterations of the loop around the phases: so few are worth blocks half as long, so many more only save barriers.
constexpr int64_t kFewSteps = 8;
constexpr int64_t kMostSteps = 64;
// Rows of a strip of short ones, at most; of long ones, which run together (`jam`); that a cache has room for where
// twice as many make a strip.
constexpr int64_t kMostRows = 4096;
constexpr int64_t kTogether = 2;
constexpr int64_t kMuchRoom = 32;
// Planes of a strip that is taken by lines, and bytes of the lines of one that are taken at a time.
constexpr int64_t kPlanes = 4;
constexpr int64_t kLines = int64_t{7} << 10;
constexpr int64_t kFar = int64_t{1} << 50;  // beyond any row

class Tiler : Arithmetic {
 public:
  Tiler(ir::Graph& graph, const Stencil& stencil, std::optional<TileSizes> sizes)
      : Arithmetic(graph),
        graph_(graph),
        stencil_(stencil),
        loop_(*stencil.loop),
        sizes_(sizes),
        values_(*stencil.loop) {}

  /// Can the scalars be had that the loop leaves, and those that polls tell?
  bool has_scalars() {
    for (size_t k = 0; k < carried_count(loop_); ++k) {
      if (!values_.last_counts(k)) return false;
    }
    bool found = may_tell(loop_, values_);
    for (const Value* v : handed_to_phases(stencil_)) found &= values_.may_emit(*v);
    return found;
  }

  /// False where the entry that the graph is given has sizes for which the loop as written is better.
  bool run() {
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    choose_sizes();
    return with_versions(b_, loop_, pays_, [&](Op& choice) {
      b_.set_block(choice.blocks[0]);
      const std::vector<Value*> results = groups();
      b_.set_block(choice.blocks[0]);
      b_.yield(results);
    });
  }

 private:
  /// Bytes of a row of everything that the phases go through.
  Value* row_bytes() {
    std::unordered_map<const Value*, size_t> dimension = stencil_.dimension;
    std::vector<const Value*> views;
    for (const Phase& phase : stencil_.phases) {
      if (!phase.loop) continue;
      ir::walk(body_of(*phase.loop), [&](const Op& op) {
        if (!is_access(op) || std::find(views.begin(), views.end(), op.view()) != views.end()) return;
        if (!ir::defined_outside(*op.view(), body_of(loop_))) return;
        for (size_t d = 0; d < op.access->offset.size() && !dimension.contains(op.view()); ++d) {
          if (row(op, d).coef(*induction(*phase.loop)) != 0) dimension[op.view()] = d;
        }
        if (dimension.contains(op.view())) views.push_back(op.view());
      });
    }
    Value* total = nullptr;
    for (const Value* view : views) {
      Value* bytes = i64(ir::size_of(view->type.dtype));
      for (int d = 0; d < view->type.rank; ++d) {
        if (static_cast<size_t>(d) != dimension.at(view)) bytes = mul(bytes, b_.dim(const_cast<Value*>(view), d));
      }
      total = total ? add(total, bytes) : bytes;
    }
    return most(total, i64(1));
  }

  /// Do the phases' elements take longer to compute than to come from a cache that all workers share?
  bool computes_more() const {
    int64_t ops = 0, bytes = 0;
    for (const Phase& phase : stencil_.phases) {
      std::set<const Value*> views;
      const auto count = [&](const Op& op) {
        if (is_access(op) && views.insert(op.view()).second) bytes += ir::size_of(op.view()->type.dtype);
        ops += ir::is_pure(op.code) && op.code != Opcode::const_ && op.result() && ir::is_real(op.result()->type.dtype);
      };
      for (const Op* op : phase.ops) {
        count(*op);
        for (Block* block : op->blocks) ir::walk(*block, [&](const Op& inner) { count(inner); });
      }
    }
    return static_cast<double>(ops) >= kOpsForByte * static_cast<double>(bytes);
  }

  /// Bytes of a worker's own cache for what a tile goes over again, and of all that it has there.
  int64_t cache() const { return std::max(kCache, graph_.cache / 4 * 3); }
  int64_t own_cache() const { return std::max(2 * kCache, graph_.cache); }

  /// What a phase stores the next one finds in the first-level cache, where strips are no longer than they have to be.
  /// Of rows that it has no room for a longer strip reads fewer twice. `live`: how many rows a worker's cache has room
  /// for, and `two_steps` how many two steps need.
  Value* rows_of_strip(Value* row, Value* live, int64_t two_steps) {
    Value* room = b_.op(Opcode::ge_, {live, i64(two_steps + kTogether)});
    Value* much = b_.op(Opcode::ge_, {live, i64(kMuchRoom)});
    Value* twice = b_.op(Opcode::and_, {b_.op(Opcode::gt_, {row, i64(kStrip)}), much});
    Value* of_long = b_.select(twice, i64(2 * kTogether), b_.select(room, i64(kTogether), i64(1)));
    Value* pairs = least(over(over(i64(kStrip), row), i64(kTogether)), i64(kMostRows / kTogether));
    return most(times(pairs, kTogether), of_long);
  }

  /// Where a strip would be two planes that are no small ones: strips of more planes, of which some lines at a time go
  /// through all phases of so many steps that what is live of them, both ways skewed, is in a worker's cache.
  /// Returns how many steps, of so many that whole rows leave room for.
  Value* take_by_lines(Value* row, Value* steps_of_rows) {
    Value* by_lines = b_.op(Opcode::gt_, {row, i64(kStrip)});
    Value* line = most(over(row, most(sub(end_line_, first_line_), i64(1))), i64(1));
    Value* lines = most(times(over(over(i64(kLines), line), i64(2)), 2), i64(2));
    // What is live of so many steps is a square of lines, whose side grows with each.
    Value *room = over(i64(cache()), line), *side = over(add(lines, kPlanes), i64(2)), *steps = i64(0);
    const int64_t slope = std::max({int64_t{1}, stencil_.slope_right, stencil_.line_slope});
    for (int64_t n = 0; n < kFewSteps; ++n) {
      side = add(side, slope);
      steps = add(steps, b_.cast(b_.op(Opcode::le_, {mul(side, side), room}), DType::i64_));
    }
    strip_ = b_.select(by_lines, i64(kPlanes), strip_);
    line_strip_ = b_.select(by_lines, lines, i64(kFar));
    return b_.select(by_lines, most(steps, steps_of_rows), steps_of_rows);
  }

  using Range = std::pair<Value*, Value*>;
  /// A phase's range, which that of all phases includes.
  void include(std::vector<Range>& ranges, Value*& first, Value*& end, Range range) {
    ranges.push_back(range);
    first = first ? least(first, range.first) : range.first;
    end = end ? most(end, range.second) : range.second;
  }

  void choose_sizes() {
    trips_ = emit_trips(b_, loop_);
    for (const Phase& phase : stencil_.phases) {
      Value *first = nullptr, *end = nullptr;
      if (phase.loop) {
        first = add(phase.loop->operands[0], -phase.shift), end = add(phase.loop->operands[1], -phase.shift);
      } else {
        first = emit(b_, phase.row), end = add(first, 1);
      }
      include(rows_, first_, end_, {first, end});
    }
    count_ = most(sub(end_, first_), i64(0));
    for (const Phase& phase : stencil_.phases) {
      if (!stencil_.planes) break;
      Value* first = add(phase.lines->operands[0], -phase.line_shift);
      include(lines_, first_line_, end_line_, {first, add(phase.lines->operands[1], -phase.line_shift)});
    }
    const int64_t slopes = stencil_.slope_left + stencil_.slope_right;
    const int64_t starts = stencil_.most_left + stencil_.most_right + stencil_.reach;
    const auto block_of = [&](Value* steps) { return add(times(steps, slopes), starts); };
    if (sizes_) {
      steps_ = most(least(trips_, i64(sizes_->steps)), i64(1));
      strip_ = i64(sizes_->strip);
      if (stencil_.planes) line_strip_ = i64(sizes_->lines > 0 ? sizes_->lines : kFar);
      blocks_ = stencil_.parallel ? over(count_, most(block_of(steps_), i64(sizes_->rows))) : i64(1);
      blocks_ = most(blocks_, i64(1));
      pays_ = b_.boolean(true);
      return;
    }
    const int64_t workers = graph_.workers > 0 ? graph_.workers : kWorkers;
    const bool shared = stencil_.parallel && workers > 1;
    Value* row = row_bytes();
    // Of rows that are planes a worker's cache may not have enough for two steps, but its share of the last one.
    const int64_t share = std::max(cache(), kLastCache / (shared ? workers : 1));
    const int64_t two_steps = 2 * std::max<int64_t>(1, stencil_.slope_right) + 1;
    Value* near = b_.op(Opcode::le_, {row, i64(cache() / two_steps)});
    Value* live = over(b_.select(near, i64(cache()), i64(share)), row);
    strip_ = rows_of_strip(row, live, two_steps);
    live = sub(live, strip_);
    if (stencil_.slope_right > 1) live = over(live, i64(stencil_.slope_right));
    if (stencil_.planes) live = take_by_lines(row, live);
    steps_ = least(least(live, trips_), i64(kMostSteps));
    if (shared && slopes > 0) {
      Value* several = over(count_, i64(2 * kBlocks * workers * slopes));
      Value* one_each = over(add(over(count_, i64(workers)), -starts), i64(slopes));
      steps_ = least(steps_, most(several, least(one_each, i64(kFewSteps))));
    }
    // What stays in the workers' caches is read as fast without tiles, and so is what all of them share where elements
    // take many operations of short vectors; of rows that are elements barriers take the time.
    Value* bytes = mul(count_, row);
    const int64_t own = workers * own_cache(), all = std::max(own, kLastCache);
    const int64_t unshared = graph_.registers >= kLongVectors ? own : all;
    Value* beyond = b_.op(Opcode::gt_, {bytes, computes_more() ? i64(unshared) : b_.select(near, i64(own), i64(all))});
    Value* elements = b_.op(Opcode::le_, {row, i64(kElements)});
    pays_ = b_.op(Opcode::and_, {b_.op(Opcode::ge_, {steps_, i64(2)}), b_.op(Opcode::or_, {beyond, elements})});
    steps_ = most(steps_, i64(1));
    blocks_ = i64(1);
    if (!shared) return;
    // Loops that are somewhat short cost less than workers with nothing to do.
    Value* long_enough = least(over(i64(kTile), row), most(over(count_, i64(workers)), over(i64(kShortTile), row)));
    Value* block = most(block_of(steps_), long_enough);
    Value* long_ones = least(over(count_, times(block, 2)), i64(kBlocks * workers));
    Value* short_ones = least(over(count_, most(block, i64(1))), i64(workers));
    Value* found = most(long_ones, short_ones);
    // As many for each worker, and at least one.
    Value* even = times(over(found, i64(workers)), workers);
    Value* enough = b_.op(Opcode::ge_, {found, i64(workers)});
    blocks_ = most(b_.select(enough, even, found), i64(1));
    Value* small = b_.op(Opcode::le_, {bytes, i64(4 * kTile)});
    pays_ = b_.op(Opcode::and_, {pays_, b_.op(Opcode::or_, {enough, small})});
  }

  ir::Loop control() const {
    ir::Loop made;
    made.annotated = loop_.loop->annotated;
    return made;
  }

  /// Opens a loop from 0 on; the builder stands in its body.
  Op* count_to(Value* end, ir::Loop kind, const char* name, std::span<Value* const> inits = {}) {
    Op* made = b_.for_loop(i64(0), end, i64(1), inits, std::move(kind));
    induction(*made)->name = name;
    b_.set_block(&body_of(*made));
    return made;
  }

  /// The loop by groups of its iterations; the results.
  std::vector<Value*> groups() {
    Value* zero = i64(0);
    Value* groups = over(add(trips_, add(steps_, -1)), steps_);
    const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
    Op* group = b_.for_loop(zero, groups, i64(1), inits, control());
    Block& body = body_of(*group);
    induction(*group)->name = "group";
    std::vector<Value*> carried(body.args.begin() + 1, body.args.end());
    for (size_t k = 0; k < carried.size(); ++k) carried[k]->name = body_of(loop_).args[1 + k]->name;
    b_.set_block(&body);
    begin_ = mul(induction(*group), steps_);
    here_ = least(steps_, sub(trips_, begin_));
    if (is_symmetric()) {
      Value* odd = b_.op(Opcode::mod_, {induction(*group), i64(2)});
      backward_ = b_.op(Opcode::gt_, {odd, i64(0)});
    }
    values_.at(iteration(begin_), carried);
    for (const Op* op = body_of(loop_).first; op; op = op->next) {
      if (op->code != Opcode::poll_) continue;
      std::vector<Value*> state;
      for (Value* v : op->operands) state.push_back(values_.emit(b_, v));
      b_.poll(state);
    }
    // An interrupt finds the scalars of the group's first iteration: others may be under way.
    for (Value* v : handed_to_phases(stencil_)) handed_[v] = values_.emit(b_, v);
    state_ = told_at(b_, loop_, values_);
    tiles();
    b_.set_block(&body);
    values_.at(iteration(add(begin_, add(here_, -1))), carried);
    std::vector<Value*> next;
    for (Value* v : body_of(loop_).last->operands) next.push_back(values_.emit(b_, v));
    b_.yield(next);
    return {group->results.begin(), group->results.end()};
  }

  /// The loop's variable in its n-th iteration.
  Value* iteration(Value* n) { return emit_iteration(b_, loop_, n); }

  /// Is all that is said of a point's left side true of its right side, and the other way round?
  bool is_symmetric() const {
    return stencil_.slope_left == stencil_.slope_right &&
           std::ranges::all_of(stencil_.phases, [](const Phase& p) { return p.left == p.right; });
  }

  /// Both kinds of tiles of a group, and their strips.
  void tiles() {
    const int64_t left = stencil_.slope_left, right = stencil_.slope_right;
    Value* last = add(here_, -1);
    // Behind the last row, so that every phase has come to its end.
    Value* behind = add(end_, add(times(last, right), stencil_.most_right));
    Value* span = add(times(last, left + right), stencil_.most_left + stencil_.most_right);
    const bool both = constant(*blocks_) != int64_t{1};
    Op* kinds = nullptr;
    Value *kind = i64(0), *between = nullptr;
    Value *tiles = blocks_, *lost = i64(0), *open = i64(1);
    if (both) {
      kinds = count_to(i64(2), control(), "between");
      kind = induction(*kinds);
      between = b_.op(Opcode::gt_, {kind, i64(0)});
      // The last tile goes on to the end of the rows, so that there is one behind each block. Half of what a block
      // loses at its end makes that as large as the others. One block has all rows.
      lost = over(add(times(last, right), stencil_.most_right), i64(2));
      Value* alone = most(sub(i64(2), blocks_), i64(0));
      tiles = sub(blocks_, mul(kind, alone));
      open = most(kind, alone);
      span = mul(span, kind);
    } else {
      span = i64(0);
    }
    const auto by_kind = [&](int64_t block, int64_t gap) -> Value* {
      return between ? b_.select(between, i64(gap), i64(block)) : i64(block);
    };
    slope_low_ = by_kind(left, -right);
    slope_high_ = by_kind(-right, left);
    for (const Phase& phase : stencil_.phases) {
      starts_.push_back({by_kind(phase.left, -phase.right), by_kind(-phase.right, phase.left)});
    }
    ir::Loop across = control();
    across.parallel = stencil_.parallel;
    across.threads = stencil_.threads;
    Op* tile = count_to(tiles, across, "tile");
    Value* n = induction(*tile);
    if (backward_) n = b_.select(backward_, sub(add(tiles, -1), n), n);
    const auto bound = [&](Value* at) { return add(first_, sub(over(mul(at, count_), blocks_), lost)); };
    Value *at_low = add(n, kind), *at_high = add(n, 1);
    // The first block has no lower end, the last tile of all no upper end.
    Value* no_low = most(sub(i64(1), at_low), i64(0));
    Value* no_high = mul(most(add(sub(at_high, blocks_), 1), i64(0)), open);
    low_ = sub(bound(at_low), times(no_low, kFar));
    high_ = add(bound(at_high), times(no_high, kFar));
    Op* strips = b_.for_loop(most(low_, first_), least(add(high_, span), behind), strip_, {}, control());
    induction(*strips)->name = "strip";
    b_.set_block(&body_of(*strips));
    Op* line_strips = nullptr;
    if (line_strip_) {
      Value* behind_lines = add(end_line_, add(times(last, stencil_.line_slope), stencil_.most_line_right));
      line_strips = b_.for_loop(first_line_, behind_lines, line_strip_, {}, control());
      induction(*line_strips)->name = "lines";
      b_.set_block(&body_of(*line_strips));
    }
    Op* steps = count_to(here_, control(), "step");
    step_body(*induction(*strips), line_strips ? induction(*line_strips) : nullptr, *induction(*steps));
    for (Op* loop : {steps, line_strips, strips, tile, kinds}) {
      if (!loop) continue;
      b_.set_block(&body_of(*loop));
      b_.yield({});
    }
  }

  /// All phases of one iteration, in one strip, and there in one of lines.
  void step_body(Value& strip, Value* lines, Value& step) {
    Copier copier(graph_);
    copier.map(induction(loop_), iteration(add(begin_, &step)));
    for (const auto& [from, to] : handed_) copier.map(from, to);
    copy_shared(stencil_, copier, *b_.block());
    // The strip's rows are those that many phases ago were at this place.
    Value* low = add(low_, mul(&step, slope_low_));
    Value* high = add(high_, mul(&step, slope_high_));
    Value* from = sub(&strip, times(&step, stencil_.slope_right));
    for (size_t p = 0; p < stencil_.phases.size(); ++p) {
      const Phase& phase = stencil_.phases[p];
      Value* first = most(add(low, starts_[p].low), add(from, -phase.right));
      Value* end = least(add(high, starts_[p].high), add(add(from, strip_), -phase.right));
      if (backward_) {
        Value* ends = add(first_, end_);
        Value* mirrored = b_.select(backward_, sub(ends, end), first);
        end = b_.select(backward_, sub(ends, first), end);
        first = mirrored;
      }
      first = most(rows_[p].first, first);
      end = least(rows_[p].second, end);
      ir::Loop kind;
      if (phase.loop) {
        kind = *phase.loop->loop;
        kind.carried.clear();
        // Of one tile the rows keep the permission that a loop of tiles would have; one worker takes planes by lines,
        // so that nobody is to cut them for it once more (`planes`).
        kind.parallel = kind.parallel && constant(*blocks_) == 1 && !(lines && graph_.workers == 1);
        kind.tiles = false;
        kind.collapse = 1;
        kind.chunk = kind.le = 0;
        kind.threads = 0;
        kind.schedule = ir::Schedule::automatic;
      } else {
        kind = control();
      }
      Value *first_line = nullptr, *end_line = nullptr;
      if (lines) {
        Value* at = sub(lines, add(times(&step, stencil_.line_slope), phase.line_right));
        first_line = add(most(lines_[p].first, at), phase.line_shift);
        end_line = add(least(lines_[p].second, add(at, line_strip_)), phase.line_shift);
      }
      Op* rows = b_.for_loop(add(first, phase.shift), add(end, phase.shift), i64(1), {}, std::move(kind));
      Block* outer = b_.block();
      b_.set_block(&body_of(*rows));
      copy(phase, copier, *induction(*rows));
      if (lines) {
        Op& made = *copier.of(induction(*phase.lines))->block->owner;
        made.operands[0] = first_line;
        made.operands[1] = end_line;
        made.loop->parallel = false;  // workers have tiles
      }
      b_.yield({});
      b_.set_block(outer);
    }
  }

  void copy(const Phase& phase, Copier& copier, Value& iv) {
    Block& into = *b_.block();
    if (!phase.loop) {
      iv.name = "row";
      for (const Op* op : phase.ops) into.append(copy_telling(*op, copier, state_));
      rename_rows(phase, into, iv);
      return;
    }
    const Block& from = body_of(*phase.loop);
    iv.name = from.args[0]->name;
    copier.map(from.args[0], &iv);
    for (size_t k = 0; k < carried_count(*phase.loop); ++k) {
      copier.map(from.args[1 + k], copier.of(phase.loop->operands[3 + k]));
    }
    for (const Op* op = from.first; op != from.last; op = op->next) into.append(copy_telling(*op, copier, state_));
  }

  /// The one row is the variable of the loop around it, so that nothing takes its elements for those of every point.
  void rename_rows(const Phase& phase, Block& block, Value& iv) {
    size_t next = 0;
    ir::walk(block, [&](Op& op) {
      if (!is_access(op) || !stencil_.dimension.contains(op.view())) return;
      const size_t d = stencil_.dimension.at(op.view());
      ir::Access& access = *op.access;
      for (int64_t& coef : access.coef[d]) coef = 0;
      access.offset[d] = phase.touches[next++].offset;
      for (auto& coefs : access.coef) coefs.push_back(0);
      access.coef[d].back() = 1;
      ++access.terms;
      op.operands.push_back(&iv);
    });
  }

  struct Starts {
    Value *low, *high;
  };

  ir::Graph& graph_;
  const Stencil& stencil_;
  Op& loop_;
  std::optional<TileSizes> sizes_;
  FinalValues values_;
  std::unordered_map<const Value*, Value*> handed_;
  Told state_;
  std::vector<Range> rows_;  // of each phase, as points
  Value *trips_ = nullptr, *first_ = nullptr, *end_ = nullptr, *count_ = nullptr;
  Value *steps_ = nullptr, *strip_ = nullptr, *blocks_ = nullptr, *pays_ = nullptr;
  std::vector<Range> lines_;  // likewise, of planes
  Value *first_line_ = nullptr, *end_line_ = nullptr, *line_strip_ = nullptr;
  Value *begin_ = nullptr, *here_ = nullptr;  // first iteration of a group, how many it has
  Value* backward_ = nullptr;                 // does it count rows from their end? null: none does
  Value *slope_low_ = nullptr, *slope_high_ = nullptr;
  std::vector<Starts> starts_;
  Value *low_ = nullptr, *high_ = nullptr;  // of the tile in its first phase
};

}  // namespace

bool tile_time(ir::Graph& graph, std::optional<TileSizes> sizes) {
  bool settled = false;
  const auto tile = [&](const Stencil& stencil) -> std::string {
    Tiler tiler(graph, stencil, sizes);
    if (!tiler.has_scalars()) return "a scalar is computed in it";
    if (tiler.run()) return "";
    settled = true;
    return "the arrays are small, or few of its iterations would be taken at a time; other entries get their own code";
  };
  const bool tiled = tile_stencils(graph, kStage, "by blocks of rows", tile);
  return tiled || settled;
}

bool time_tiles(ir::Graph& graph) { return tile_time(graph, std::nullopt); }

}  // namespace appy::passes
