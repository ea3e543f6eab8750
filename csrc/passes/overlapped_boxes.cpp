// Overlapping tiles of two dimensions: boxes of points that are in shared memory go through several iterations of the
// loop around the phases for one reading and writing of the arrays, and all workers wait once for these.
//
// Rules for editors:
// 1. A box is one row after the other, and its points are counted through: what is around a point is at constants from
//    it. Points in the box's margin read what is not around them, or are not computed; nobody needs them.
// 2. Each phase's touches reach so far up, down, left and right. A phase is right where what it touches is: what all
//    phases of a round reach, added up, is what a box has around the points that it writes.
// 3. A point is computed if the program computes it; what it computes elsewhere is what the array has, all the time.
// 4. An array is `fresh` if one phase writes it, in all of its points, before anyone in the iteration reads them: a box
//    needs of it what that phase does not write, and only the last round writes it.
// 5. The arrays themselves are written by the last round alone, which nothing interrupts; rounds before it go from one
//    half of a spare array to the other. What no phase writes stands in both halves.

#include "passes/overlapped_boxes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/overlapped_rounds.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

// Bytes of a box, of all arrays: six fit in a multiprocessor. Larger ones have fewer points beside their own, and fewer
// of them load while others compute: H200, Jacobi's iteration written by hand, 40 x 40 points 56.9 ms, 72 x 72 64.9,
// each half step by itself 81.7.
constexpr int64_t kBox = int64_t{36} << 10;
// Of many arrays boxes are larger, up to two in a multiprocessor, so that they have some rows of their own.
constexpr int64_t kLargest = int64_t{96} << 10;
constexpr int64_t kRows = 24;
constexpr int64_t kSpare = int64_t{2} << 30;
constexpr int64_t kWidth = 64;
// Rows and columns that a box may have beside its own points, and columns of its own that are worth a box.
constexpr int64_t kMargin = 8;
constexpr int64_t kLeast = 16;
constexpr int64_t kMostSteps = 8;
// Bytes of all arrays for each multiprocessor that are worth it. What the device's cache holds is, too, as workers wait
// once for all phases of some steps: H200, 500 steps of fdtd_2d over 200 x 200 points 0.9 instead of 2.6 ms, over
// 600 x 600 2.9 instead of 6.7; 1000 of Jacobi's over 200 x 200 2.3 instead of 4.5, 400 x 400 3.7 instead of 8.6,
// 1000 x 1000 11.4 instead of 16.7.
constexpr int64_t kWorth = int64_t{4} << 10;
constexpr int64_t kWorkers = 128;
// Boxes for each multiprocessor that boxes become lower for, and rows of its own that a box has then. H200, 1000 steps
// of Jacobi's iteration over 200 x 200, 300 x 300 and 400 x 400 points, in blocks of 512 threads: 2.3, 2.7 and 3.7 ms,
// in boxes of full height 3.6, 5.1 and 5.0, with two boxes for each 2.3, 4.1 and 4.4.
constexpr int64_t kBoxes = 1;
constexpr int64_t kLow = 8;

class BoxTiler : OverlappedRounds {
 public:
  BoxTiler(ir::Graph& graph, const Stencil& stencil, std::optional<OverlapSizes> sizes)
      : OverlappedRounds(graph, stencil), sizes_(sizes) {}

  std::string obstacle() {
    for (const Phase& phase : stencil_.phases) {
      std::string why = read(phase);
      if (!why.empty()) return why;
    }
    std::string why = common_obstacle();
    if (!why.empty()) return why;
    for (Array& array : arrays_) array.fresh = is_fresh(*array.view);
    choose_shape();
    if (sizes_) return "";
    if (!fits_ || own_[1] < kLeast) return "its tiles are too large for the memory of one worker";
    return saves_memory() ? "" : "it reads and writes little that is in tiles";
  }

  void run() {
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    choose_sizes();
    for (Array& array : arrays_) {
      if (!array.fresh) make_spare(array);
    }
    Op* choice = make_versions(b_, loop_, pays_);
    Block& tiled = *choice->blocks[0];
    b_.set_block(&tiled);
    fill_spares();
    Op* round = count_to(rounds_, control(), "round");
    tiles(*induction(*round));
    close(*round, tiled);
    b_.yield(results());
  }

 private:
  using Pair = std::array<int64_t, 2>;
  using Values = std::array<Value*, 2>;

  struct Array {
    Value* view;
    bool fresh = false;
    Value* spare = nullptr;  // two of them, one after the other; of what is fresh, none
    Value* own = nullptr;    // the box
  };

  /// An access of what is written: how far from the point, and which array.
  struct Touch {
    const Op* access;
    Pair offset;
    size_t array;
  };

  struct Nest {
    const Phase* phase;
    const Op *rows, *columns;  // one of them null: a single row or column
    Affine column;             // the single one
    Pair shift;                // of the loops' variables from the point
    std::vector<Touch> touches;
    std::set<const Op*> needed;  // by what it stores
    Pair before = {}, after = {};
    Values low = {}, end = {};  // its points
    const Op& innermost() const { return columns ? *columns : *rows; }
  };

  size_t array_of(Value* view) {
    for (size_t k = 0; k < arrays_.size(); ++k) {
      if (arrays_[k].view == view) return k;
    }
    arrays_.push_back({view});
    return arrays_.size() - 1;
  }

  /// The phase as loops over rows and columns, or over either, around accesses of elements next to a point.
  std::string read(const Phase& phase) {
    constexpr const char* no_box = "a loop in it is not one over rows around one over columns";
    Nest nest = {&phase, phase.loop, nullptr, {}, {phase.shift, 0}, {}, {}};
    if (!phase.loop) {
      if (!is_for(*phase.ops.back())) return "it has a single element";
      nest.columns = phase.ops.back();
    } else {
      bool more = false;
      for (const Op* op = body_of(*nest.rows).first; op != body_of(*nest.rows).last; op = op->next) {
        if (is_for(*op)) {
          if (nest.columns) return no_box;
          nest.columns = op;
        } else {
          more |= op->code != Opcode::load_ && !ir::is_pure(op->code);
        }
      }
      if (nest.columns && more) return no_box;
    }
    if (nest.columns) {
      const Op& columns = *nest.columns;
      if (constant(*columns.operands[2]) != int64_t{1}) return no_box;
      if (!is_known(*columns.operands[0]) || !is_known(*columns.operands[1]))
        return "how far it runs is not known before";
    }
    bool inner = false;
    ir::walk(body_of(nest.innermost()), [&](const Op& op) {
      inner |=
          is_loop(op) || op.code == Opcode::continue_ || (op.code == Opcode::if_ && !op.results.empty() && writes(op));
    });
    if (inner) return no_box;
    std::string why = read_touches(phase, nest);
    if (!why.empty()) return why;
    find_needed(nest);
    bool handed_on = false;
    for (const Op* op : nest.needed) {
      const auto note = [&](const Op& in) {
        for (const Value* v : in.operands) handed_on |= stencil_.handed_on.contains(v);
      };
      note(*op);
      for (Block* block : op->blocks) ir::walk(*block, note);
    }
    if (handed_on) return "a scalar is computed in it";
    nests_.push_back(std::move(nest));
    return "";
  }

  std::string read_touches(const Phase& phase, Nest& nest) {
    constexpr const char* far = "columns of it are not those of its loop, or next to them";
    for (const Phase::Touch& touch : phase.touches) {
      const Value* view = touch.access->view();
      if (view->type.layout == ir::Layout::f || stencil_.dimension.at(view) != 0)
        return "arrays in it have no rows of elements";
      if (!is_inside(*touch.access, body_of(nest.innermost()))) return far;
      if (!nest.columns && touch.access->code == Opcode::store_) nest.column = row(*touch.access, 1);
    }
    for (const auto& [term, coef] : nest.column.terms) {
      if (!is_known(*term)) return far;
    }
    std::optional<int64_t> stored;
    for (const Phase::Touch& touch : phase.touches) {
      Value* view = touch.access->view();
      Affine at = row(*touch.access, 1);
      nest.columns ? at.add(*induction(*nest.columns), -1) : at.add(nest.column, -1);
      if (!at.is_constant() || at.constant > kMargin || at.constant < -kMargin) return far;
      const auto offset = static_cast<int64_t>(at.constant);
      if (touch.access->code == Opcode::store_ && stored.value_or(offset) != offset) return far;
      if (touch.access->code == Opcode::store_) stored = offset;
      nest.touches.push_back({touch.access, {touch.offset, offset}, array_of(view)});
    }
    nest.shift[1] = -*stored;
    for (Touch& touch : nest.touches) {
      touch.offset[1] -= *stored;
      for (size_t d = 0; d < 2; ++d) {
        nest.before[d] = std::max(nest.before[d], -touch.offset[d]);
        nest.after[d] = std::max(nest.after[d], touch.offset[d]);
      }
    }
    // Iterations need nothing of each other's columns. Nobody writes beside a single row or column.
    const auto others = [&](const Touch& t) {
      const bool beside = (!nest.rows && t.offset[0] != 0) || (!nest.columns && t.offset[1] != 0);
      return t.offset != Pair{0, 0} && !beside;
    };
    const bool need = std::any_of(nest.touches.begin(), nest.touches.end(), [&](const Touch& store) {
      return store.access->code == Opcode::store_ &&
             std::any_of(nest.touches.begin(), nest.touches.end(),
                         [&](const Touch& t) { return t.array == store.array && others(t); });
    });
    return need ? "iterations of a loop in it need each other's columns" : "";
  }

  static void find_needed(Nest& nest) {
    std::set<const Value*> used;
    const auto look = [&](const Block& block) {
      for (const Op* op = block.last->prev; op; op = op->prev) {
        const bool wanted = writes(*op) || std::any_of(op->results.begin(), op->results.end(),
                                                       [&](const Value* v) { return used.contains(v); });
        if (!wanted || is_for(*op)) continue;
        nest.needed.insert(op);
        used.insert(op->operands.begin(), op->operands.end());
        for (Block* arm : op->blocks)
          ir::walk(*arm, [&](const Op& in) { used.insert(in.operands.begin(), in.operands.end()); });
      }
    };
    if (nest.columns) look(body_of(*nest.columns));
    if (nest.rows) look(body_of(*nest.rows));
  }

  bool is_fresh(const Value& view) const {
    const Nest* writer = nullptr;
    for (const Nest& nest : nests_) {
      for (const Touch& touch : nest.touches) {
        if (arrays_[touch.array].view != &view) continue;
        if (touch.access->code != Opcode::store_) {
          if (!writer) return false;
        } else {
          if (writer && writer != &nest) return false;
          writer = &nest;
        }
      }
    }
    if (!writer) return false;
    bool everywhere = false, reads = false;
    for (const Touch& touch : writer->touches) {
      if (arrays_[touch.array].view != &view) continue;
      reads |= touch.access->code == Opcode::load_;
      everywhere |= touch.access->parent == &body_of(writer->innermost());
    }
    return everywhere && !reads;
  }

  void choose_shape() {
    int64_t bytes = 0;
    for (const Array& array : arrays_) bytes += ir::size_of(array.view->type.dtype);
    for (const Nest& nest : nests_) {
      for (size_t d = 0; d < 2; ++d) before_[d] += nest.before[d], after_[d] += nest.after[d];
    }
    const Pair reach = {before_[0] + after_[0], before_[1] + after_[1]};
    if (sizes_) {
      most_steps_ = sizes_->steps;
      height_ = sizes_->points + most_steps_ * reach[0];
      width_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(sizes_->points + most_steps_ * reach[1])));
    } else {
      const int64_t most = std::max<int64_t>({reach[0], reach[1], 1});
      most_steps_ = std::clamp<int64_t>(kMargin / most, 1, kMostSteps);
      width_ = kWidth;
      height_ = std::max(kBox / (kWidth * bytes), kRows + most_steps_ * reach[0]);
      fits_ = height_ * width_ * bytes <= kLargest;
    }
    own_ = {height_ - most_steps_ * reach[0], width_ - most_steps_ * reach[1]};
  }

  /// A quarter of what is read and written, or more, by what the program's text says.
  bool saves_memory() const {
    int64_t plain = 0, other = 0, tiled = 0;
    const auto bytes = [](const Value& view) { return ir::size_of(view.type.dtype); };
    for (const Nest& nest : nests_) {
      if (!nest.rows || !nest.columns) continue;
      std::set<const Value*> loaded, stored;
      ir::walk(body_of(*nest.columns), [&](const Op& op) {
        if (is_access(op)) (op.code == Opcode::load_ ? loaded : stored).insert(op.view());
      });
      for (const auto* views : {&loaded, &stored}) {
        for (const Value* view : *views) {
          const bool of_box =
              std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& a) { return a.view == view; });
          if (of_box || view->type.rank == 2) (of_box ? plain : other) += most_steps_ * bytes(*view);
        }
      }
    }
    for (const Array& array : arrays_) tiled += array.fresh ? 0 : 2 * bytes(*array.view);
    const int64_t own = own_[0] * own_[1], box = height_ * width_;
    return 4 * (tiled + other) * box <= 3 * (plain + other) * own;
  }

  void choose_sizes() {
    trips_ = emit_trips(b_, loop_);
    for (Nest& nest : nests_) {
      const Op* loops[] = {nest.rows, nest.columns};
      const Affine* single[] = {&nest.phase->row, &nest.column};
      for (size_t d = 0; d < 2; ++d) {
        nest.low[d] = loops[d] ? add(loops[d]->operands[0], -nest.shift[d]) : emit(b_, *single[d]);
        nest.end[d] = loops[d] ? add(loops[d]->operands[1], -nest.shift[d]) : add(nest.low[d], 1);
        first_[d] = first_[d] ? least(first_[d], nest.low[d]) : nest.low[d];
        end_[d] = end_[d] ? most(end_[d], nest.end[d]) : nest.end[d];
      }
    }
    Values points;
    for (size_t d = 0; d < 2; ++d) points[d] = most(sub(end_[d], first_[d]), i64(0));
    const int64_t workers = graph_.workers > 0 ? graph_.workers : kWorkers;
    across_ = over_up(points[1], i64(own_[1]));
    own_rows_ = i64(own_[0]);
    if (!sizes_ && own_[0] > kLow) {
      Value* down = most(over(i64(kBoxes * workers), most(across_, i64(1))), i64(1));
      own_rows_ = most(least(over_up(points[0], down), own_rows_), i64(kLow));
    }
    rows_ = add(own_rows_, height_ - own_[0]);
    count_of_tiles_ = mul(over_up(points[0], own_rows_), across_);
    steps_ = i64(most_steps_);
    rounds_ = over_up(trips_, steps_);
    pays_ = b_.op(Opcode::gt_, {trips_, i64(0)});
    if (!sizes_) {
      Value* all = i64(0);
      for (const Array& array : arrays_) {
        Value* elements = mul(b_.dim(array.view, 0), b_.dim(array.view, 1));
        all = add(all, times(elements, ir::size_of(array.view->type.dtype)));
      }
      pays_ = both(b_.op(Opcode::ge_, {trips_, i64(4 * most_steps_)}),
                   both(le(i64(workers * kWorth), all), le(all, i64(kSpare))));
    }
    // No element of an array without any is loaded.
    for (const Array& array : arrays_) {
      for (int d = 0; d < 2; ++d) pays_ = both(pays_, b_.op(Opcode::gt_, {b_.dim(array.view, d), i64(0)}));
    }
    count_of_tiles_ = b_.select(pays_, count_of_tiles_, i64(0));
    box_ = b_.select(pays_, times(rows_, width_), i64(0));
  }

  void make_spare(Array& array) {
    Value *rows = b_.select(pays_, b_.dim(array.view, 0), i64(0)), *columns = b_.dim(array.view, 1);
    ir::Type type = array.view->type;
    type.rank = 3;
    type.layout = ir::Layout::c;
    array.spare = b_.alloc(type, std::vector<Value*>{i64(2), rows, columns});
    array.spare->name = array.view->name;
  }

  /// Those that are read from memory.
  std::vector<const Array*> spared() const {
    std::vector<const Array*> found;
    for (const Array& array : arrays_) {
      if (!array.fresh) found.push_back(&array);
    }
    return found;
  }

  /// Both, since nobody writes elements that are no points. One loop for all arrays: compilers take their time for
  /// each.
  void fill_spares() {
    const std::vector<const Array*> arrays = spared();
    if (arrays.empty()) return;
    Values extent = {};
    for (int d = 0; d < 2; ++d) {
      for (const Array* array : arrays) {
        Value* dim = b_.dim(array->view, d);
        extent[d] = extent[d] ? most(extent[d], dim) : dim;
      }
    }
    Block& block = *b_.block();
    Op* rows = count_to(extent[0], any_order(), "i");
    ir::Loop kind = any_order();
    kind.simd = true;
    Op* columns = count_to(extent[1], std::move(kind), "j");
    Value *i = induction(*rows), *j = induction(*columns);
    for (const Array* array : arrays) {
      const auto fill = [&] {
        Value* v = load(array->view, {i, j});
        for (const int64_t which : {0, 1}) store(v, array->spare, {i64(which), i, j});
      };
      if (arrays.size() == 1) {
        fill();
      } else {
        where(both(b_.op(Opcode::lt_, {i, b_.dim(array->view, 0)}), b_.op(Opcode::lt_, {j, b_.dim(array->view, 1)})),
              fill);
      }
    }
    close(*columns, body_of(*rows));
    close(*rows, block);
  }

  Value* row_of(Value* x) { return b_.op(Opcode::shr_, {x, i64(std::countr_zero(static_cast<uint64_t>(width_)))}); }
  Value* column_of(Value* x) { return both(x, i64(width_ - 1)); }
  Value* within(Value* v, Value* low, Value* end) { return both(le(low, v), b_.op(Opcode::lt_, {v, end})); }

  /// What stands in an `if`.
  template <class F>
  void where(Value* condition, F&& then) {
    emit_if(b_, condition, then, [] {});
  }

  /// All tiles of a round.
  void tiles(Value& round) {
    Block& around = *b_.block();
    Value* begin = mul(&round, steps_);
    Value* here = least(steps_, sub(trips_, begin));
    Value* which = both(&round, i64(1));
    Value* is_last = b_.op(Opcode::eq_, {add(&round, 1), rounds_});
    Copier copier(graph_);
    begin_round(begin, copier);
    Op* tile = count_to(count_of_tiles_, any_order(), "tile");
    Block& block = *b_.block();
    Value* down = over(induction(*tile), across_);
    const Values number = {down, sub(induction(*tile), mul(down, across_))};
    const Values low = {add(first_[0], mul(number[0], own_rows_)), add(first_[1], times(number[1], own_[1]))};
    const Values origin = {add(low[0], -most_steps_ * before_[0]), add(low[1], -most_steps_ * before_[1])};
    for (Array& array : arrays_) {
      ir::Type type = array.view->type;
      type.rank = 1;
      type.layout = ir::Layout::c;
      array.own = b_.alloc(type, std::vector<Value*>{box_});
      array.own->name = array.view->name;
    }
    load_boxes(which, origin);
    for (const Array& array : arrays_) {
      if (array.fresh) load_around(array, origin);
    }
    Op* step = count_to(here, control(), "step");
    copier.map(induction(loop_), iteration(add(begin, induction(*step))));
    copy_shared(stencil_, copier, *b_.block());
    for (const Nest& nest : nests_) compute(nest, origin, copier);
    close(*step, block);
    store_boxes(which, is_last, low, origin);
    close(*tile, around);
  }

  Value* inside_array(const Array& array, Value* at, int d) {
    return least(most(at, i64(0)), add(b_.dim(array.view, d), -1));
  }

  /// What is beside the array is never computed with: any element stands there.
  void load_boxes(Value* which, const Values& origin) {
    const std::vector<const Array*> arrays = spared();
    if (arrays.empty()) return;
    Block& block = *b_.block();
    Op* copy = count_to(box_, any_order(), "x");
    Value* x = induction(*copy);
    Value *i = add(origin[0], row_of(x)), *j = add(origin[1], column_of(x));
    for (const Array* array : arrays)
      store(load(array->spare, {which, inside_array(*array, i, 0), inside_array(*array, j, 1)}), array->own, {x});
    close(*copy, block);
  }

  const Nest& writer_of(const Array& fresh) const {
    return *std::find_if(nests_.begin(), nests_.end(), [&](const Nest& nest) {
      return std::any_of(nest.touches.begin(), nest.touches.end(), [&](const Touch& t) {
        return arrays_[t.array].view == fresh.view && t.access->code == Opcode::store_;
      });
    });
  }

  /// Of a fresh array, what its phase does not write.
  void load_around(const Array& array, const Values& origin) {
    const Nest& writer = writer_of(array);
    Block& block = *b_.block();
    Value* none = nullptr;
    const Values extent = {rows_, i64(width_)};
    for (size_t d = 0; d < 2; ++d) {
      Value* inside = both(le(writer.low[d], origin[d]), le(add(origin[d], extent[d]), writer.end[d]));
      none = none ? both(none, inside) : inside;
    }
    Op* copy = count_to(b_.select(none, i64(0), box_), any_order(), "x");
    Value* x = induction(*copy);
    Value *i = add(origin[0], row_of(x)), *j = add(origin[1], column_of(x));
    Value* written = both(within(i, writer.low[0], writer.end[0]), within(j, writer.low[1], writer.end[1]));
    where(b_.op(Opcode::not_, {written}), [&] {
      store(load(array.view, {inside_array(array, i, 0), inside_array(array, j, 1)}), array.own, {x});
    });
    close(*copy, block);
  }

  /// A phase, in the points of the box.
  void compute(const Nest& nest, const Values& origin, Copier& copier) {
    Block& block = *b_.block();
    const Values extent = {rows_, i64(width_)};
    Values low, end;
    for (size_t d = 0; d < 2; ++d) {
      low[d] = most(sub(nest.low[d], origin[d]), i64(nest.before[d]));
      end[d] = least(sub(nest.end[d], origin[d]), add(extent[d], -nest.after[d]));
    }
    ir::Loop kind = any_order();
    kind.simd = nest.innermost().loop->simd;
    kind.annotated = nest.innermost().loop->annotated || (nest.rows && nest.rows->loop->annotated);
    Op* points = nullptr;
    Value *x = nullptr, *down = nullptr, *column = nullptr;
    if (nest.columns) {
      points = loop(times(low[0], width_), times(end[0], width_), std::move(kind), "x");
      x = induction(*points), down = row_of(x), column = column_of(x);
    } else {
      points = loop(low[0], end[0], std::move(kind), "x");
      down = induction(*points), column = low[1];
      x = add(times(down, width_), column);
    }
    where(within(column, low[1], end[1]), [&] {
      const Op* loops[] = {nest.rows, nest.columns};
      const Values at = {down, column};
      for (size_t d = 0; d < 2; ++d) {
        const Op* loop = loops[d];
        if (!loop) continue;
        copier.map(induction(*loop), add(add(origin[d], at[d]), nest.shift[d]));
        for (const Op* op = body_of(*loop).first; op != body_of(*loop).last; op = op->next) {
          if (nest.needed.contains(op)) copy(*op, nest, *x, copier);
        }
      }
    });
    close(*points, block);
  }

  /// Its accesses of arrays that are written become those of the box.
  void copy(const Op& from, const Nest& nest, Value& x, Copier& copier) {
    Op* made = copier.copy(from);
    b_.block()->append(made);
    std::vector<const Op*> accesses;
    const auto note = [&](const Op& op) {
      if (is_access(op)) accesses.push_back(&op);
    };
    note(from);
    for (Block* arm : from.blocks) ir::walk(*arm, note);
    size_t next = 0;
    const auto redirect = [&](Op& op) {
      if (!is_access(op)) return;
      const Op* original = accesses[next++];
      const auto touch =
          std::find_if(nest.touches.begin(), nest.touches.end(), [&](const Touch& t) { return t.access == original; });
      if (touch == nest.touches.end()) return;
      op.operands[op.first_term() - 1] = arrays_[touch->array].own;
      op.operands.resize(op.first_term());
      op.operands.push_back(&x);
      op.access->terms = 1;
      op.access->offset = {touch->offset[0] * width_ + touch->offset[1]};
      op.access->coef = {{1}};
    };
    redirect(*made);
    for (Block* arm : made->blocks) ir::walk(*arm, redirect);
  }

  /// The tile's own points; of a fresh array, in the last round, those that its phase writes.
  void store_boxes(Value* which, Value* is_last, const Values& low, const Values& origin) {
    Block& block = *b_.block();
    const size_t count = arrays_.size();
    Values first, limit;
    for (size_t d = 0; d < 2; ++d) {
      first[d] = sub(most(low[d], most(first_[d], i64(0))), origin[d]);
      limit[d] = add(low[d], d == 0 ? own_rows_ : i64(own_[1]));
    }
    std::vector<Values> from(count, first), to(count);
    Value *begin = first[0], *stop = nullptr;
    for (size_t k = 0; k < count; ++k) {
      const Array& array = arrays_[k];
      const Nest* const writer = array.fresh ? &writer_of(array) : nullptr;
      for (size_t d = 0; d < 2; ++d) {
        if (writer) from[k][d] = sub(most(low[d], writer->low[d]), origin[d]);
        Value* end = writer ? writer->end[d] : least(end_[d], b_.dim(array.view, static_cast<int>(d)));
        to[k][d] = sub(least(limit[d], end), origin[d]);
      }
      if (writer) to[k][0] = b_.select(is_last, to[k][0], from[k][0]);
      if (writer) begin = least(begin, from[k][0]);
      stop = stop ? most(stop, to[k][0]) : to[k][0];
    }
    Op* copy = loop(times(begin, width_), times(stop, width_), any_order(), "x");
    Value *x = induction(*copy), *row = row_of(x), *column = column_of(x);
    Value *i = add(origin[0], row), *j = add(origin[1], column);
    for (size_t k = 0; k < count; ++k) {
      const Array& array = arrays_[k];
      Value* written = within(column, from[k][1], to[k][1]);
      if (count > 1) written = both(written, within(row, from[k][0], to[k][0]));
      where(written, [&] {
        Value* v = load(array.own, {x});
        const auto to_array = [&] { store(v, array.view, {i, j}); };
        if (array.fresh) return to_array();
        emit_if(b_, is_last, to_array, [&] { store(v, array.spare, {sub(i64(1), which), i, j}); });
      });
    }
    close(*copy, block);
  }

  std::optional<OverlapSizes> sizes_;
  std::vector<Array> arrays_;
  std::vector<Nest> nests_;
  Pair before_ = {}, after_ = {};  // what the phases of one iteration reach
  int64_t most_steps_ = 1, height_ = 0, width_ = 0;
  Pair own_ = {};     // points that a box writes; rows at most
  bool fits_ = true;  // in the memory of one worker
  Values first_ = {}, end_ = {};
  Value *across_ = nullptr, *count_of_tiles_ = nullptr, *box_ = nullptr;
  Value *rows_ = nullptr, *own_rows_ = nullptr;  // of this run's boxes
};

}  // namespace

std::string overlap_boxes(ir::Graph& graph, const Stencil& stencil, std::optional<OverlapSizes> sizes) {
  BoxTiler tiler(graph, stencil, sizes);
  std::string why = tiler.obstacle();
  if (why.empty()) tiler.run();
  return why;
}

}  // namespace appy::passes
