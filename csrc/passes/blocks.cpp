// Sums over matrices in blocks: rows that workers share run in groups, and inside a group the loops around the sums go
// by blocks of columns, and of steps where the sums are elements, so that what a block reads of the other matrix stays
// in the cache for all rows of the group. `for i: for j: for k: C[i, j] += A[i, k] * B[k, j]` reads all of B once for
// each group, not once for every few rows.
//
// The method is strip-mining and interchange (Wolf and Lam, "A data locality optimizing algorithm", 1991).
//
// Rules for editors:
// 1. Rows may run in any order, also between each other's statements: that is what their permission says. What one row
//    does keeps its order, but for columns with a permission of their own.
// 2. Each column's steps keep their order, so sums are added up as they were.
// 3. What a row computes for its loops is computed again in each of its parts: nothing of it is read from what rows
//    write.
#include "passes/blocks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/block_nest.h"
#include "passes/column_panels.h"
#include "passes/copier.h"
#include "passes/jammer.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "blocks";
/// Of what a block reads for its columns, and a group for its rows, which are to stay in the second cache; and of all
/// that is read for columns, which is not worth blocks if it does.
constexpr int64_t kBlockBytes = 256 << 10, kGroupBytes = 512 << 10, kWorthIt = 512 << 10;
/// Steps of a block, and rows of a group at most: as many as jam in groups of four or six.
constexpr int64_t kSteps = 128, kRows = 120;
/// Bytes of the sums that a panel's columns are a number of.
constexpr int64_t kWidest = 8;
/// Iterations over steps and columns that use what a row computes for them.
constexpr int64_t kBlocksForValues = 8;
/// Groups for each worker, at least, as long as they have twice as many rows as jam, or as many where there are no
/// blocks.
constexpr int64_t kGroups = 8;
/// Rows of a group are a multiple of what jams, and columns of a block of four and six, or of the vectors that run
/// together.
constexpr int64_t kJammed = 12, kColumns = 12, kLanes = 64, kLine = 16;

class Blocker {
  enum class Part : uint8_t { before, columns, behind };

 public:
  Blocker(ir::Graph& graph, const PanelSizes& sizes) : graph_(graph), sizes_(sizes), b_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      const auto nest = find_block_nest(*op);
      if (nest && divide(*nest)) {
        changed = true;
        continue;
      }
      if (is_for(*op) && op->loop->parallel) continue;
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  bool divide(const BlockNest& nest) {
    nest_ = nest;
    if (!bounds_fit() || !find_bounds() || !may_repeat()) return false;
    Op& rows = *nest.rows;
    remark(graph_, ir::Severity::note, kStage, rows.loc,
           "the loop at " + line_of(graph_, rows.loc) + " runs in groups of rows, the one at " +
               line_of(graph_, nest.columns->loc) + " in blocks");
    b_.set_loc(rows.loc);
    b_.set_before(&rows);
    measure();
    panel_ = sizes_.columns;
    // Four vectors of 64 bytes, or of 32 and more than two.
    if (nest.dots && graph_.registers >= kRegistersBesideMasks) {
      panel_ *= kWidest / ir::size_of(nest.steps->results[0]->type.dtype);
    }
    Value* const worth = may_have_panels() ? worth_panels() : nullptr;
    std::optional<bool> panels = worth ? settle(graph_, *worth) : false;
    if (!panels && nest.dots && !sizes_.dots_unsettled) panels = false;
    if (panels) {
      in_groups(*panels);
      return true;
    }
    Op* const copy = Copier(graph_).copy(rows);
    Op& choice = *make_versions(b_, rows, worth);
    choice.blocks[0]->append(copy);
    b_.set_block(choice.blocks[0]);
    b_.yield({});
    in_groups(false);
    nest_ = *find_block_nest(*copy);
    may_repeat();
    in_groups(true);
    return true;
  }

  /// Are there loads to make panels of? Of rows that end one after the other those add up together that reach into a
  /// panel.
  bool may_have_panels() const {
    if (triangle_ && (upper_ || !may_add_up_for_others(nest_))) return false;
    return (nest_.dots || nest_.columns->loop->simd) && !ColumnPanels(graph_, nest_).empty();
  }

  /// In groups of rows; in each of them panels of columns, or blocks.
  void in_groups(bool panels) {
    Op& rows = *nest_.rows;
    b_.set_before(&rows);
    across_ = panels && nest_.dots;
    panels ? choose_panels() : choose_sizes();
    ir::Loop attributes = *rows.loop;
    Value* many = panels && triangle_ ? many_ : ceiling(count_, group_);
    Op* groups = b_.for_loop(b_.i64(0), many, b_.i64(1), {}, attributes);
    b_.set_block(&body_of(*groups));
    Value* which = induction(*groups);
    // The longest rows first: who is done early finds short ones.
    if (triangle_ && !upper_) which = sub(sub(many, b_.i64(1)), which);
    if (panels && triangle_) {
      low_ = band(which);
      high_ = band(add(which, b_.i64(1)));
    } else {
      low_ = add(rows.operands[0], mul(which, group_));
      high_ = least(add(low_, group_), rows.operands[1]);
    }
    if (has_effect(body_of(rows).first, nest_.columns)) part(Part::before, nullptr, nullptr);
    panels ? in_panels() : in_blocks();
    if (has_effect(nest_.columns->next, nullptr)) part(Part::behind, nullptr, nullptr);
    b_.yield({});
    rows.parent->remove(&rows);
  }

  static bool has_effect(const Op* first, const Op* end) {
    for (const Op* op = first; op != end; op = op->next) {
      if (op->code == Opcode::store_ || op->code == Opcode::for_ || op->code == Opcode::if_) return true;
    }
    return false;
  }

  /// There may be many columns, and what is computed from the bounds stays in 64 bits.
  bool bounds_fit() const {
    constexpr int64_t far = int64_t{1} << 50;
    Ranges ranges(graph_);
    for (const Op* loop : {nest_.rows, nest_.columns, nest_.steps}) {
      for (size_t k = 0; k < 2; ++k) {
        const ir::Range range = ranges.at(*loop->operands[k], *loop);
        if (range.lo < -far || range.hi > far) return false;
      }
    }
    return ranges.most_trips(*nest_.columns) > kLanes;
  }

  /// Columns begin and end where all rows say, or end, or begin, where the row does, further the later the row is.
  bool find_bounds() {
    const Op &rows = *nest_.rows, &columns = *nest_.columns;
    triangle_.reset();
    cap_ = nullptr;
    const bool fixed[] = {visible_before(*columns.operands[0], rows), visible_before(*columns.operands[1], rows)};
    if (fixed[0] && fixed[1]) return true;
    upper_ = fixed[1];
    Value* bound = columns.operands[upper_ ? 0 : 1];
    if (!fixed[0] && !fixed[1]) return false;
    if (bound->op && bound->op->code == (upper_ ? Opcode::pymax_ : Opcode::pymin_)) {
      const bool second = visible_before(*bound->op->operands[1], rows);
      if (second || visible_before(*bound->op->operands[0], rows)) {
        cap_ = bound->op->operands[second ? 1 : 0];
        bound = bound->op->operands[second ? 0 : 1];
      }
    }
    Ranges ranges(graph_);
    Affine beyond = ranges.affine(*bound, columns);
    if (beyond.coef(*induction(rows)) != 1) return false;
    beyond.add(*induction(rows), -1);
    for (const auto& [term, coef] : beyond.terms) {
      if (!visible_before(*term, rows) || coef < -1 || coef > 1) return false;
    }
    triangle_ = beyond;
    return true;
  }

  /// What the row computes for several of its parts does not change while it runs. Fills own_.
  bool may_repeat() {
    const Op& rows = *nest_.rows;
    std::map<const Op*, Part> part_of;
    own_.clear();
    bool may = true;
    Part at = Part::before;
    for (Op* op = body_of(rows).first; op; op = op->next) {
      if (op == nest_.columns) at = Part::columns;
      part_of[op] = at;
      if (op == nest_.columns) at = Part::behind;
      bool own = op->code == Opcode::load_ && writes_to(body_of(rows), *op->view());
      const auto look = [&](const Op& each) {
        for (const Value* v : each.operands) {
          if (!v->op || !own_.count(v->op)) continue;
          own = true;
          may &= part_of[v->op] == part_of[op];
        }
      };
      look(*op);
      for (Block* inner : op->blocks) ir::walk(*inner, look);
      if (own) own_.insert(op);
      if ((op->code == Opcode::for_ || op->code == Opcode::if_) && !op->results.empty()) may = false;
    }
    return may;
  }

  void measure() {
    const Op& rows = *nest_.rows;
    count_ = extent(rows.operands[0], rows.operands[1]);
    steps_ = extent(nest_.steps->operands[0], nest_.steps->operands[1]);
    Value *begin = nest_.columns->operands[0], *end = nest_.columns->operands[1];
    if (triangle_ && upper_) begin = bound_of(rows.operands[0]);
    if (triangle_ && !upper_) end = bound_of(sub(rows.operands[1], b_.i64(1)));
    columns_ = extent(begin, end);
    // Numbers that would not fit are not multiplied.
    Value* narrow = least(columns_, b_.i64(int64_t{1} << 26));
    deep_ = least(steps_, b_.i64(int64_t{1} << 26));
    bytes_ = mul(narrow, mul(deep_, b_.i64(nest_.bytes)));
    small_ = b_.op(Opcode::le_, {bytes_, b_.i64(kWorthIt)});
  }

  /// There are rows enough to read it again, and what is read for all columns is much; or, of dots, what is read for a
  /// panel is not.
  Value* worth_panels() {
    Value* rows = b_.op(Opcode::ge_, {count_, b_.i64(sizes_.worth_rows * std::max(1, graph_.workers))});
    const auto both = [&](Value* x, Value* y) { return b_.op(Opcode::and_, {x, y}); };
    if (nest_.dots) {
      Value* wide = b_.op(Opcode::ge_, {columns_, b_.i64(sizes_.dots_columns)});
      Value* deep = b_.op(Opcode::ge_, {steps_, b_.i64(sizes_.dots_steps)});
      return both(both(rows, wide), both(deep, b_.op(Opcode::le_, {steps_, b_.i64(sizes_.dots_bytes / nest_.bytes)})));
    }
    Value* worth = both(rows, b_.op(Opcode::gt_, {bytes_, b_.i64(sizes_.worth)}));
    return nest_.in_lanes ? worth : both(worth, b_.op(Opcode::le_, {steps_, b_.i64(sizes_.deepest)}));
  }

  /// As many groups for each worker.
  void choose_panels() {
    const int64_t workers = std::max(1, graph_.workers);
    Value* each = ceiling(count_, b_.i64(workers));
    Value* groups = most(ceiling(each, b_.i64(sizes_.rows)), b_.i64(workers > 1 ? 2 : 1));
    if (nest_.dots) {
      Value* room =
          b_.op(Opcode::floordiv_, {b_.i64(sizes_.band_bytes), most(mul(deep_, b_.i64(nest_.row_bytes)), b_.i64(1))});
      groups = ceiling(each, most(room, b_.i64(sizes_.multiple)));
    }
    group_ = multiple(ceiling(each, groups), sizes_.multiple);
    many_ = mul(groups, b_.i64(workers));
    width_ = b_.i64(panel_);
    depth_ = nest_.in_lanes ? b_.i64(sizes_.steps) : most(steps_, b_.i64(1));
  }

  /// Where a band of a triangle begins. All have the same area: the rows above the n-th of m are x, of which
  /// (2 a + x) x is n/m of what it is for all, where the first row has a columns.
  Value* band(Value* n) {
    const auto real = [&](Value* v) { return b_.cast(v, ir::DType::f64_); };
    const auto times = [&](Value* x, Value* y) { return b_.op(Opcode::mul_, {x, y}); };
    Value *first = nest_.rows->operands[0], *end = nest_.rows->operands[1];
    Value* a = real(extent(nest_.columns->operands[0], bound_of(first)));
    Value* all = real(count_);
    Value* area = times(b_.op(Opcode::add_, {b_.op(Opcode::add_, {a, a}), all}), all);
    Value* part = times(area, b_.op(Opcode::div_, {real(n), real(many_)}));
    Value* rows = b_.op(Opcode::sub_, {b_.op(Opcode::sqrt_, {b_.op(Opcode::add_, {times(a, a), part})}), a});
    Value* at = least(add(first, multiple(b_.cast(rows, ir::DType::i64_), sizes_.multiple)), end);
    return b_.select(b_.op(Opcode::ge_, {n, many_}), end, at);
  }

  void choose_sizes() {
    Value* wanted = ceiling(count_, b_.i64(kGroups * std::max(1, graph_.workers)));
    Value* of_block = nest_.in_lanes ? b_.i64(kSteps) : most(deep_, b_.i64(1));
    const bool across = nest_.columns->loop->simd;
    const int64_t together = across ? kLanes : kColumns;
    Value* wide = b_.op(Opcode::floordiv_, {b_.i64(kBlockBytes), mul(of_block, b_.i64(nest_.bytes * together))});
    Value* width = mul(most(wide, b_.i64(1)), b_.i64(together));
    Value* fewest = b_.select(small_, b_.i64(kJammed), b_.i64(2 * kJammed));
    group_ = least(most(multiple(wanted, kJammed), fewest), b_.i64(kRows));
    if (!nest_.in_lanes && nest_.row_bytes > 0) {
      Value* room = b_.op(Opcode::floordiv_, {b_.i64(kGroupBytes), mul(of_block, b_.i64(nest_.row_bytes * kJammed))});
      group_ = least(group_, mul(most(room, b_.i64(across ? 1 : 2)), b_.i64(kJammed)));
    }
    // Nobody is left without rows.
    group_ = least(group_, most(ceiling(count_, b_.i64(std::max(1, graph_.workers))), b_.i64(1)));
    width_ = b_.select(small_, most(columns_, b_.i64(1)), width);
    depth_ = b_.select(small_, most(steps_, b_.i64(1)), b_.i64(kSteps));
  }

  /// Blocks of columns stay in the cache while steps go by; in each piece of them, panels are copied a few at a time.
  void in_panels() {
    const Op &rows = *nest_.rows, &columns = *nest_.columns;
    const int64_t panels_together = nest_.dots ? 1 : sizes_.together;
    ColumnPanels panels(graph_, nest_);
    panels.alloc(b_, b_.i64(panels_together), depth_, width_);
    RowPanels values(graph_, rows, *nest_.steps);
    if (!nest_.in_lanes) values.clear();
    values.alloc(b_, group_, depth_);
    Value *begin = columns.operands[0], *end = columns.operands[1];
    if (triangle_) end = bound_of(sub(high_, b_.i64(1)));
    Value* together = b_.i64(panel_ * panels_together);
    Value* piece = b_.i64(panel_ * panels_together * (values.empty() ? 1 : kBlocksForValues));
    pieces(begin, end, piece, [&](Value* from, Value* to) {
      const auto steps = [&] {
        if (!values.empty()) values.fill(b_, low_, high_, from_step_, to_step_);
        pieces(from, to, together, [&](Value* first, Value* last) {
          panels.fill(b_, first, last, from_step_, to_step_);
          count_to(ceiling(sub(last, first), width_), [&](Value* panel) {
            Value* at = add(first, mul(panel, width_));
            redirect_ = [&, panel, at](const Copier& copier) {
              panels.redirect(copier, panel, at, from_step_);
              values.redirect(copier, low_, from_step_);
            };
            rows_of_panel(at, least(add(at, width_), last));
            redirect_ = {};
          });
        });
      };
      from_step_ = nest_.steps->operands[0], to_step_ = nest_.steps->operands[1];
      nest_.in_lanes ? for_deep(steps) : steps();
    });
  }

  /// All rows of the group; of a triangle those with all columns up to `end`, and those that end before.
  void rows_of_panel(Value* begin, Value* end) {
    if (!triangle_) return part(Part::columns, begin, end);
    Value *const low = low_, *const high = high_;
    Value* whole = least(most(sub(end, beyond()), low), high);
    low_ = sub(high, whole_groups(sub(high, whole)));
    part(Part::columns, begin, end);
    high_ = low_, low_ = low;
    ragged(begin, end);
    low_ = low, high_ = high;
  }

  /// What rows have behind column `begin`, each one more than the one before, a few rows at a time: all add up for as
  /// many columns as the last of these has. That is as far as `end`, or, if none is given, much, and most of it is for
  /// columns that all of them have.
  void ragged(Value* begin, Value* end) {
    Value *const low = low_, *const high = high_;
    // Rows in whole groups; some of the first may end before, but those without any column read nothing.
    Value* some = least(most(low, add(sub(begin, beyond()), b_.i64(1))), high);
    Value* readable = add(sub(nest_.columns->operands[0], beyond()), b_.i64(1));
    some = most(most(low, readable), sub(high, multiple(sub(high, some), sizes_.ragged_rows)));
    pieces(some, high, b_.i64(sizes_.ragged_rows), [&](Value* from, Value* to) {
      low_ = from, high_ = to;
      Value* common = begin;
      if (!end) {
        Value* whole = b_.op(Opcode::floordiv_, {extent(begin, bound_of(from)), b_.i64(panel_)});
        common = add(begin, mul(whole, b_.i64(panel_)));
        part(Part::columns, begin, common);
      }
      guarded_ = true;
      Value* bound = bound_of(sub(to, b_.i64(1)));
      part(Part::columns, common, end ? least(bound, end) : bound);
      guarded_ = false;
    });
    low_ = low, high_ = high;
  }

  Value* whole_groups(Value* rows) {
    return mul(b_.op(Opcode::floordiv_, {rows, b_.i64(sizes_.ragged_rows)}), b_.i64(sizes_.ragged_rows));
  }
  /// Row i of a triangle ends at i and this, if not at the cap.
  Value* beyond() { return emit(b_, *triangle_); }

  /// [from, to) in pieces of this length, the last of which may be shorter.
  template <class F>
  void pieces(Value* from, Value* to, Value* length, F&& body) {
    count_to(ceiling(extent(from, to), length), [&](Value* n) {
      Value* first = add(from, mul(n, length));
      body(first, least(add(first, length), to));
    });
  }

  /// Of a triangle, blocks that all rows of the group have; what is left of each begins, or ends, with the row.
  void in_blocks() {
    Value *begin = nest_.columns->operands[0], *end = nest_.columns->operands[1];
    if (triangle_ && upper_) {
      // Lanes begin with a line of the cache, if rows do.
      Value* common = multiple(bound_of(sub(high_, b_.i64(1))), kLine);
      begin = least(common, end);
    }
    if (triangle_ && !upper_) {
      Value* common = extent(begin, bound_of(low_));
      end = add(begin, mul(b_.op(Opcode::floordiv_, {common, width_}), width_));
    }
    if (triangle_ && upper_) by_steps(nullptr, begin);
    pieces(begin, end, width_, [&](Value* from, Value* to) { by_steps(from, to); });
    if (!triangle_ || upper_) return;
    if (!nest_.columns->loop->simd || !may_add_up_for_others(nest_)) return by_steps(end, nullptr);
    ragged(end, nullptr);
  }

  void by_steps(Value* from, Value* to) {
    if (!nest_.in_lanes) return part(Part::columns, from, to);
    for_deep([&] { part(Part::columns, from, to); });
  }

  /// Steps in pieces: [from_step_, to_step_).
  template <class F>
  void for_deep(F&& body) {
    pieces(nest_.steps->operands[0], nest_.steps->operands[1], depth_, [&](Value* first, Value* last) {
      from_step_ = first, to_step_ = last;
      body();
    });
  }

  /// The group's rows do this part of what they did, with columns from and to these, if given.
  void part(Part which, Value* from, Value* to) {
    const Op& rows = *nest_.rows;
    Op* loop = b_.for_loop(low_, high_, b_.i64(1), {}, *rows.loop);
    loop->loc = rows.loc;
    Block* outside = b_.block();
    Copier copier(graph_);
    copier.map(induction(rows), induction(*loop));
    Part at = Part::before;
    for (const Op* op = body_of(rows).first; op; op = op->next) {
      if (op == nest_.columns) at = Part::columns;
      const bool always = ir::is_pure(op->code) || op->code == Opcode::load_ || op->code == Opcode::yield_;
      if ((always && !own_.count(op)) || at == which) {
        Op* copy = copier.copy(*op);
        body_of(*loop).append(copy);
        if (op != nest_.columns) continue;
        Value* const bound = copy->operands[1];
        narrow(*copy, from, to);
        if (redirect_) redirect_(copier);
        if (guarded_) end_before(graph_, *copy, *bound);
      }
      if (op == nest_.columns) at = Part::behind;
    }
    b_.set_block(outside);
  }

  void narrow(Op& columns, Value* from, Value* to) const {
    if (from) columns.operands[0] = from;
    if (to) columns.operands[1] = to;
    Op& steps = *loop_inside(columns);
    if (nest_.in_lanes) {
      steps.operands[0] = from_step_;
      steps.operands[1] = to_step_;
    }
    if (across_) {
      columns.loop->simd = true;
      steps.loop->simd = false;
      steps.loop->parallel = true;  // still in any order
    }
  }

  template <class F>
  void count_to(Value* count, F&& body) {
    emit_loop(b_, b_.i64(0), count, {}, body);
  }

  /// Where the columns of row i end, or begin.
  Value* bound_of(Value* i) {
    Value* bound = add(emit(b_, *triangle_), i);
    if (!cap_) return bound;
    return upper_ ? most(bound, cap_) : least(bound, cap_);
  }
  Value* extent(Value* from, Value* to) { return most(sub(to, from), b_.i64(0)); }
  Value* multiple(Value* n, int64_t of) { return emit_multiple(b_, n, of); }
  Value* ceiling(Value* n, Value* by) { return emit_ceiling(b_, n, by); }
  Value* add(Value* x, Value* y) { return b_.op(Opcode::add_, {x, y}); }
  Value* sub(Value* x, Value* y) { return b_.op(Opcode::sub_, {x, y}); }
  Value* mul(Value* x, Value* y) { return b_.op(Opcode::mul_, {x, y}); }
  Value* least(Value* x, Value* y) { return b_.op(Opcode::pymin_, {x, y}); }
  Value* most(Value* x, Value* y) { return b_.op(Opcode::pymax_, {x, y}); }

  ir::Graph& graph_;
  const PanelSizes sizes_;
  Builder b_;
  BlockNest nest_;
  std::optional<Affine> triangle_;               // where the columns of a row end, or begin, less the row,
  Value* cap_ = nullptr;                         // or here, if that is before, or behind
  bool upper_ = false;                           // they begin there
  std::set<const Op*> own_;                      // of a row's part alone: they follow from what rows write
  std::function<void(const Copier&)> redirect_;  // what columns read that were copied
  int64_t panel_ = 0;                            // columns of a panel
  bool across_ = false;                          // columns are lanes instead of steps
  bool guarded_ = false;                         // rows have columns that are others'
  Value *count_ = nullptr, *columns_ = nullptr, *steps_ = nullptr, *deep_ = nullptr;
  Value *bytes_ = nullptr, *small_ = nullptr;
  Value *group_ = nullptr, *many_ = nullptr, *width_ = nullptr, *depth_ = nullptr;
  Value *low_ = nullptr, *high_ = nullptr, *from_step_ = nullptr, *to_step_ = nullptr;
};

}  // namespace

bool by_panels(ir::Graph& graph, const PanelSizes& sizes) {
  return !graph.may_alias && Blocker(graph, sizes).run(*graph.body);
}

bool blocks(ir::Graph& graph) { return by_panels(graph, {}); }

}  // namespace appy::passes
