#include "passes/trailing.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "passes/carried.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/recurrence.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Mover {
 public:
  Mover(ir::Graph& graph, const Tile& tile, Op& rows) : graph_(graph), tile_(tile), rows_(rows), ranges_(graph) {}

  Op* run() {
    if (!bounds_fit() || !independent()) return nullptr;
    close_carried(graph_, rows_);
    return find_last_values() ? move() : nullptr;
  }

 private:
  const Value& iteration() const { return *induction(*tile_.loop); }
  const Value& row_index() const { return *induction(rows_); }
  Block& tile_body() const { return body_of(*tile_.loop); }

  /// Each iteration of the tile has all rows from the end of the tile on.
  bool bounds_fit() {
    if (!rows_.loop->parallel || constant(*rows_.operands[2]) != 1 || !left_by_yield_only(rows_)) return false;
    const Affine low = ranges_.affine(*rows_.operands[0], rows_);
    return low.coef(iteration()) == 1 && low.terms.size() == 1 && low.constant <= 1 &&
           ir::defined_outside(*rows_.operands[1], tile_body());
  }

  // --- what rows need of each other ----------------------------------------------------------------------------------

  bool independent() {
    std::vector<const Op*> inside, all;
    bool own_arrays = false;
    ir::walk(tile_body(), [&](const Op& op) {
      own_arrays |= op.code == Opcode::alloc_;
      if (!is_access(op)) return;
      all.push_back(&op);
      if (is_inside(op, body_of(rows_))) inside.push_back(&op);
    });
    if (own_arrays) return false;  // an iteration's array is gone when the tile is done
    for (const Op* behind : inside) {
      for (const Op* other : all) {
        if (behind->view() != other->view()) continue;
        if (behind->code == Opcode::load_ && other->code == Opcode::load_) continue;
        if (!is_above(*behind, *other) && !is_earlier(*behind, *other)) return false;
        // Rows behind the tile, among themselves.
        if (is_inside(*other, body_of(rows_)) && !is_own(*behind, *other) && !is_above(*behind, *other, true) &&
            !is_above(*other, *behind, true)) {
          return false;
        }
      }
    }
    return true;
  }

  /// Of rows behind the tile, the one touches what lies above all that the other touches: its iterations end with the
  /// tile, and so do its rows, if it has any, but for `all` rows.
  bool is_above(const Op& behind, const Op& other, bool all = false) {
    for (size_t d = 0; d < behind.access->offset.size(); ++d) {
      Affine low = row_at(ranges_, behind, d, behind);
      const Wide rows = low.coef(row_index());
      if (rows < 1) continue;
      low.add(row_index(), -rows);
      low.add(*tile_.until, rows);
      auto least = extreme(ranges_, low, true, *tile_.loop);
      Affine high = row_at(ranges_, other, d, other);
      if (const Wide own = high.coef(row_index()); own != 0) {
        if (own < 0 || all) continue;
        high.add(row_index(), -own);
        high.add(*tile_.until, own);
        high.constant -= own;
      }
      auto greatest = extreme(ranges_, high, false, *tile_.loop);
      if (!least || !greatest || least->coef(iteration()) != 0) continue;
      if (const Wide own = greatest->coef(iteration()); own != 0) {
        if (own < 0) continue;
        greatest->add(iteration(), -own);
        greatest->add(*tile_.until, own);
        greatest->constant -= own;
      }
      greatest->add(*least, -1);
      if (greatest->is_constant() && greatest->constant < 0) return true;
    }
    return false;
  }

  /// What iteration j touches in rows behind the tile lies below what the other one touches in later iterations, which
  /// are now run before; and, behind the rows' loop, in j itself.
  bool is_earlier(const Op& behind, const Op& other) {
    const bool follows = !is_inside(other, body_of(rows_)) && !comes_before(other);
    for (size_t d = 0; d < behind.access->offset.size(); ++d) {
      auto greatest = extreme(ranges_, row_at(ranges_, behind, d, behind), false, *tile_.loop);
      const auto least = extreme(ranges_, row_at(ranges_, other, d, other), true, *tile_.loop);
      if (!greatest || !least) continue;
      const Wide step = greatest->coef(iteration());
      if (step < 0 || least->coef(iteration()) != step) continue;
      greatest->add(*least, -1);
      if (greatest->is_constant() && greatest->constant < (follows ? 0 : step)) return true;
    }
    return false;
  }

  bool comes_before(const Op& op) const {
    const Op* at = ancestor_in(tile_body(), const_cast<Op&>(op));
    for (; at; at = at->next) {
      if (at == &rows_) return true;
    }
    return false;
  }

  /// Different rows touch different elements.
  bool is_own(const Op& a, const Op& b) {
    for (size_t d = 0; d < a.access->offset.size(); ++d) {
      Affine first = row_at(ranges_, a, d, a), second = row_at(ranges_, b, d, b);
      const Wide step = first.coef(row_index());
      if (step == 0 || second.coef(row_index()) != step) continue;
      first.add(row_index(), -step);
      second.add(row_index(), -step);
      const bool fixed = std::all_of(first.terms.begin(), first.terms.end(),
                                     [&](const auto& term) { return ir::defined_outside(*term.first, tile_body()); });
      first.add(second, -1);
      if (fixed && first.is_constant() && first.constant == 0) return true;
    }
    return false;
  }

  // --- values that leave the loops -----------------------------------------------------------------------------------

  /// A carried value of the rows that only the end of the tile's iterations sees: it is that of the last row.
  struct Last {
    size_t of_rows, of_tile;
  };

  bool find_last_values() {
    const Uses uses(graph_);
    for (size_t k = 0; k < rows_.results.size(); ++k) {
      const auto used = uses.of(*rows_.results[k]);
      const auto read = uses.of(*body_of(rows_).args[1 + k]);
      if (used.empty() && read.empty()) continue;
      if (!read.empty() || used.size() != 1 || used[0].op != tile_body().last) return false;
      const size_t slot = used[0].operand;
      const Value* arg = tile_body().args[1 + slot];
      const auto inits = uses.of(*arg);
      if (rows_.operands[3 + k] != arg || inits.size() != 1) return false;
      last_.push_back({k, slot});
    }
    return true;
  }

  // --- moving --------------------------------------------------------------------------------------------------------

  Op* move() {
    Builder b(graph_);
    b.set_loc(rows_.loc);
    b.set_before(tile_.loop->next);
    std::vector<Value*> inits;
    for (const Last& last : last_) inits.push_back(tile_.loop->results[last.of_tile]);
    ir::Loop control = *rows_.loop;
    control.carried.assign(inits.size(), {});
    Op* outer = b.for_loop(tile_.until, rows_.operands[1], b.i64(1), inits, std::move(control));
    b.set_block(&body_of(*outer));
    std::vector<Value*> nothing;
    for (const Value* v : inits) nothing.push_back(b.constant(v->type.dtype, 0));
    ir::Loop inner_control;
    inner_control.annotated = tile_.loop->loop->annotated;
    Op* inner = b.for_loop(tile_.from, tile_.until, b.i64(1), nothing, std::move(inner_control));
    b.yield(inner->results);

    Copier copier(graph_);
    copier.map(&iteration(), induction(*inner));
    copier.map(&row_index(), induction(*outer));
    const Block& body = body_of(rows_);
    for (size_t k = 0; k < rows_.results.size(); ++k) copier.map(body.args[1 + k], rows_.operands[3 + k]);
    ir::walk(body_of(rows_), [&](const Op& op) {
      for (const Value* v : op.operands) {
        if (ir::defined_outside(*v, body)) bring(const_cast<Value&>(*v), copier, *inner);
      }
    });
    for (const Op* op = body.first; op != body.last; op = op->next) body_of(*inner).append(copier.copy(*op));
    std::vector<Value*> values;
    for (const Last& last : last_) values.push_back(copier.of(body.last->operands[last.of_rows]));
    b.set_block(&body_of(*inner));
    b.yield(values);
    for (size_t k = 0; k < last_.size(); ++k)
      body_of(*tile_.tiles).last->operands[last_[k].of_tile] = outer->results[k];

    b.set_before(&rows_);
    rows_.operands[1] = b.op(Opcode::pymin_, {rows_.operands[1], tile_.until});
    // The lanes that run the tile have a row each; what a row adds up keeps its permission to be added in any order.
    ir::walk(body_of(rows_), [](Op& op) {
      if (is_for(op)) op.loop->parallel = false;
    });
    return inner;
  }

  bool computes_from_iteration(const Value& v) const {
    if (&v == &iteration() || ir::defined_outside(v, tile_body())) return true;
    return v.op && ir::is_pure(v.op->code) &&
           std::all_of(v.op->operands.begin(), v.op->operands.end(),
                       [&](const Value* operand) { return computes_from_iteration(*operand); });
  }

  /// A value of the tile's body for a copy of its rows: computed anew, or kept for each iteration.
  void bring(Value& v, Copier& copier, Op& inner) {
    if (ir::defined_outside(v, tile_body()) || copier.of(&v) != &v) return;
    if (computes_from_iteration(v)) {
      for (Value* operand : v.op->operands) bring(*operand, copier, inner);
      body_of(inner).append(copier.copy(*v.op));
      return;
    }
    Builder b(graph_);
    b.set_loc(rows_.loc);
    b.set_before(tile_.tiles);
    Value* kept = b.alloc({v.type.dtype, 1, ir::Layout::c}, std::vector<Value*>{tile_.height});
    kept->name = v.name;
    Op* store = access(Opcode::store_, kept, induction(*tile_.loop));
    store->operands.insert(store->operands.begin(), &v);
    tile_body().insert_before(&rows_, store);
    Op* load = access(Opcode::load_, kept, induction(inner));
    body_of(inner).append(load);
    copier.map(&v, ir::add_result(*load, v.type));
  }

  Op* access(Opcode code, Value* view, Value* at) const {
    return relative_access(graph_, rows_.loc, code, view, at, tile_.from);
  }

  ir::Graph& graph_;
  Tile tile_;
  Op& rows_;
  Ranges ranges_;
  std::vector<Last> last_;
};

}  // namespace

Op* move_behind(ir::Graph& graph, const Tile& tile, Op& rows) { return Mover(graph, tile, rows).run(); }

}  // namespace appy::passes
