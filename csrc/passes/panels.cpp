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
#include <memory>
#include <utility>

#include "ir/builder.h"
#include "passes/carried.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/recurrence.h"

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

bool may_divide(const Op& loop, const Panels& how) {
  for (const Op* at = ir::enclosing_loop(*loop.parent); at; at = ir::enclosing_loop(*at->parent)) {
    if (is_for(*at) && (at->loop->simd || (how.device && has_permission(*at)))) return false;
  }
  return true;
}

bool is_wanted(const Recurrence& r) {
  return r.steps->results.size() <= kMostCarried && r.between.size() <= 1 &&
         std::all_of(r.between.begin(), r.between.end(),
                     [](const Op* loop) { return constant(*loop->operands[2]) == 1; });
}

void remove_polls(Block& block) {
  ir::walk(block, [](Op& op) {
    if (op.code == Opcode::poll_) op.parent->remove(&op);
  });
}

/// The carried values of which somebody needs more than the init.
std::vector<size_t> live_values(const ir::Graph& graph, const Op& loop) {
  const Uses uses(graph);
  std::vector<size_t> live;
  for (size_t k = 0; k < loop.results.size(); ++k) {
    bool read = !uses.of(*loop.results[k]).empty();
    for (const Use& use : uses.of(*body_of(loop).args[1 + k])) read |= use.op != body_of(loop).last || use.operand != k;
    if (read) live.push_back(k);
  }
  return live;
}

/// The steps of a recurrence before a tile.
class Panel {
 public:
  /// `b` stands before the loop whose tiles are to be.
  Panel(ir::Graph& graph, Ranges& ranges, Builder& b, const Op& outer, const Recurrence& r, Value* height)
      : graph_(graph), outer_(outer), r_(r), between_(r.between.empty() ? nullptr : r.between[0]) {
    std::vector<Value*> extents = {height};
    if (between_) {
      const Affine low = ranges.affine(*between_->operands[0], *between_);
      const Affine high = ranges.affine(*between_->operands[1], *between_);
      swapped_ = low.coef(variable()) == 1 && known_before(low) && known_before(high) && high.coef(variable()) == 0;
      low_ = low, high_ = high;
      Value* last = b.op(Opcode::sub_, {outer.operands[1], b.i64(1)});
      base_ = at(b, low, low.coef(variable()) > 0 ? outer.operands[0] : last);
      Value* end = at(b, high, high.coef(variable()) > 0 ? last : outer.operands[0]);
      Value* runs = b.op(Opcode::lt_, {outer.operands[0], outer.operands[1]});
      Value* width = b.op(Opcode::pymax_, {b.op(Opcode::sub_, {end, base_}), b.i64(0)});
      extents.insert(swapped_ ? extents.begin() : extents.end(), b.select(runs, width, b.i64(0)));
    }
    live_ = live_values(graph, *r.steps);
    for (size_t k = 0; k < r.steps->results.size(); ++k) {
      if (std::find(live_.begin(), live_.end(), k) == live_.end())
        r.steps->operands[3 + k] = b.constant(r.steps->results[k]->type.dtype, 0);
    }
    for (size_t k : live_) {
      const Value& v = *r.steps->results[k];
      const ir::Type type{v.type.dtype, static_cast<int8_t>(extents.size()), ir::Layout::c};
      sums_.push_back(b.alloc(type, extents));
      sums_.back()->name = v.name;
    }
  }

  /// The bounds of the loop between are affine in the outer loop's variable.
  static bool fits(Ranges& ranges, const Op& outer, const Recurrence& r) {
    return std::all_of(r.between.begin(), r.between.end(), [&](const Op* loop) {
      return std::all_of(loop->operands.begin(), loop->operands.begin() + 2, [&](const Value* bound) {
        const Affine sum = ranges.affine(*bound, *loop);
        return std::all_of(
                   sum.terms.begin(), sum.terms.end(),
                   [&](const auto& term) {
                     return term.first->type == ir::scalar(ir::DType::i64_) && is_small(term.second) &&
                            (term.first == induction(outer) || ir::defined_outside(*term.first, body_of(outer)));
                   }) &&
               is_small(sum.constant);
      });
    });
  }

  /// The nest, where `b` stands: tile iterations [from, until), in an array. `poll` is one for its iterations, or null.
  void emit(Builder& b, Value* from, Value* until, const Op* poll) {
    Value *one = b.i64(1), *split = split_of(b, from);
    Op *outside = nullptr, *tile = nullptr, *inside = nullptr;
    if (swapped_) {
      // Iteration j of the tile has those i that are not below j + c: i has those j that are not above i - c.
      Affine rest = low_;
      rest.add(variable(), -1);
      Value* above = at(b, rest, from);
      outside = nest_loop(b, b.op(Opcode::add_, {from, above}), at(b, high_, from), one);
      b.set_block(&body_of(*outside));
      Value* end = b.op(Opcode::add_, {b.op(Opcode::sub_, {induction(*outside), above}), one});
      inside = tile = nest_loop(b, from, b.op(Opcode::pymin_, {end, until}), one);
    } else {
      outside = inside = tile = nest_loop(b, from, until, one);
    }
    Copier copier(graph_);
    copier.map(&variable(), induction(*tile));
    b.set_block(&body_of(*inside));
    if (between_ && !swapped_) {
      for (size_t k = 0; k < 2; ++k) bring(*between_->operands[k], copier, *inside);
      inside = nest_loop(b, copier.of(between_->operands[0]), copier.of(between_->operands[1]), one);
      inside->loop->simd = between_->loop->simd;
      b.set_block(&body_of(*inside));
    }
    if (between_) copier.map(induction(*between_), induction(swapped_ ? *outside : *inside));
    Op* steps = copy_steps(copier, *inside);
    steps->operands[1] = r_.complete ? split : b.op(Opcode::pymin_, {steps->operands[1], split});
    body_of(*inside).append(steps);
    Value* point = between_ ? copier.of(induction(*between_)) : nullptr;
    for (size_t k = 0; k < sums_.size(); ++k) {
      Op* store = graph_.new_op(Opcode::store_, b.loc());
      store->operands = {steps->results[live_[k]], sums_[k]};
      subscribe(*store, induction(*tile), point, from);
      body_of(*inside).append(store);
    }
    b.yield({});
    if (inside != outside) {
      b.set_block(&body_of(*outside));
      b.yield({});
    }
    if (poll) {
      Op* copy = Copier(graph_).copy(*poll);
      body_of(*outside).insert_before(body_of(*outside).first, copy);
    }
    b.set_block(outside->parent);
  }

  /// The steps in the tile that begins at `from` go on from the panel's sums.
  void enter(Value* from) {
    Builder b(graph_);
    b.set_loc(r_.steps->loc);
    b.set_before(r_.steps);
    r_.steps->operands[0] = b.op(Opcode::pymax_, {r_.steps->operands[0], split_of(b, from)});
    for (size_t k = 0; k < sums_.size(); ++k) {
      Op* load = graph_.new_op(Opcode::load_, b.loc());
      load->operands = {sums_[k]};
      subscribe(*load, induction(outer_), between_ ? induction(*between_) : nullptr, from);
      r_.steps->parent->insert_before(r_.steps, load);
      r_.steps->operands[3 + live_[k]] = ir::add_result(*load, ir::scalar(sums_[k]->type.dtype));
    }
  }

 private:
  static bool is_small(Wide n) { return n > -(Wide{1} << 40) && n < Wide{1} << 40; }

  const Value& variable() const { return *induction(outer_); }

  bool known_before(const Affine& sum) const {
    return std::all_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      return term.first == &variable() || ir::defined_outside(*term.first, body_of(outer_));
    });
  }

  /// The first step that is left to the tile.
  Value* split_of(Builder& b, Value* from) const {
    return r_.delta == 0 ? from : b.op(Opcode::add_, {from, b.i64(r_.delta)});
  }

  /// The sum, the outer loop's variable being `variable_is`.
  Value* at(Builder& b, const Affine& sum, Value* variable_is) const {
    Value* all = nullptr;
    for (const auto& [term, coef] : sum.terms) {
      Value* v = term == &variable() ? variable_is : const_cast<Value*>(term);
      if (coef != 1) v = b.op(Opcode::mul_, {v, b.i64(static_cast<int64_t>(coef))});
      all = all ? b.op(Opcode::add_, {all, v}) : v;
    }
    if (!all || sum.constant != 0) {
      Value* c = b.i64(static_cast<int64_t>(sum.constant));
      all = all ? b.op(Opcode::add_, {all, c}) : c;
    }
    return all;
  }

  Op* nest_loop(Builder& b, Value* low, Value* high, Value* step) const {
    ir::Loop loop;
    loop.parallel = true;
    loop.annotated = r_.steps->loop->annotated;
    if (between_ && between_->loop->parallel) {
      loop.schedule = between_->loop->schedule;
      loop.threads = between_->loop->threads;
    }
    return b.for_loop(low, high, step, {}, std::move(loop));
  }

  /// What computes the value, for the end of the loop's body.
  void bring(const Value& v, Copier& copier, const Op& loop) const {
    if (ir::defined_outside(v, body_of(outer_)) || copier.of(const_cast<Value*>(&v)) != &v) return;
    for (const Value* operand : v.op->operands) bring(*operand, copier, loop);
    body_of(loop).append(copier.copy(*v.op));
  }

  Op* copy_steps(Copier& copier, const Op& loop) const {
    for (const Value* v : r_.steps->operands) bring(*v, copier, loop);
    ir::walk(body_of(*r_.steps), [&](const Op& op) {
      for (const Value* v : op.operands) {
        if (ir::defined_outside(*v, body_of(*r_.steps))) bring(*v, copier, loop);
      }
    });
    return copier.copy(*r_.steps);
  }

  /// [iteration - from], and the point of the loop between from its least one on.
  void subscribe(Op& access, Value* iteration, Value* point, Value* from) const {
    access.access = std::make_unique<ir::Access>();
    access.access->terms = point ? 4 : 2;
    access.access->offset.assign(point ? 2 : 1, 0);
    access.operands.insert(access.operands.end(), {iteration, from});
    if (!point) {
      access.access->coef = {{1, -1}};
      return;
    }
    access.operands.insert(access.operands.end(), {point, base_});
    access.access->coef = {{1, -1, 0, 0}, {0, 0, 1, -1}};
    if (swapped_) std::swap(access.access->coef[0], access.access->coef[1]);
  }

  ir::Graph& graph_;
  const Op& outer_;
  Recurrence r_;
  const Op* between_;
  Affine low_, high_;     // bounds of the loop between
  bool swapped_ = false;  // its points outside, the tile's iterations inside
  Value* base_ = nullptr;
  std::vector<size_t> live_;  // carried values
  std::vector<Value*> sums_;  // an array for each of them
};

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
    if (!may_divide(loop, how_)) return false;
    Ranges ranges(graph_);
    if (ranges.trips(loop).hi <= how_.block) return false;
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
    Value *low = loop.operands[0], *high = loop.operands[1], *block = b.i64(how_.block);
    Value* trips = b.op(Opcode::pymax_, {b.op(Opcode::sub_, {high, low}), b.i64(0)});
    Value* height = b.op(Opcode::pymin_, {trips, block});
    std::vector<Panel> panels;
    for (const Recurrence& r : wanted) {
      b.set_loc(r.steps->loc);
      panels.emplace_back(graph_, ranges, b, loop, r, height);
    }
    b.set_loc(loop.loc);
    Op& tiles = wrap(b, loop, block);
    b.set_block(&body_of(tiles));
    Value* from = induction(tiles);
    Value* until = b.op(Opcode::pymin_, {b.op(Opcode::add_, {from, block}), high});
    const Op* poll = poll_at_start(loop, tiles);
    for (Panel& panel : panels) panel.emit(b, from, until, poll);
    body_of(tiles).append(&loop);
    loop.operands[0] = from;
    loop.operands[1] = until;
    for (size_t k = 0; k < loop.results.size(); ++k) loop.operands[3 + k] = body_of(tiles).args[1 + k];
    b.yield(loop.results);
    for (Panel& panel : panels) panel.enter(from);
    remark(graph_, ir::Severity::note, "panels", loop.loc,
           "the loop at " + line_of(graph_, loop.loc) + " runs in tiles of " + std::to_string(how_.block) +
               " iterations: what its sums need of earlier tiles is computed before each tile");
    return true;
  }

  /// A loop over the tiles in the place of the loop, which stands nowhere then.
  Op& wrap(Builder& b, Op& loop, Value* block) {
    ir::Loop control;
    control.annotated = loop.loop->annotated;
    control.carried = loop.loop->carried;
    const std::vector<Value*> inits(loop.operands.begin() + 3, loop.operands.end());
    Op* tiles = b.for_loop(loop.operands[0], loop.operands[1], block, inits, std::move(control));
    std::vector<Value*> to(graph_.value_count());
    for (size_t k = 0; k < loop.results.size(); ++k) {
      to[loop.results[k]->id] = tiles->results[k];
      tiles->results[k]->name = loop.results[k]->name;
      body_of(*tiles).args[1 + k]->name = body_of(loop).args[1 + k]->name;
    }
    ir::replace_uses(graph_, to);
    induction(*tiles)->name = induction(loop)->name;
    loop.parent->remove(&loop);
    return *tiles;
  }

  /// The poll with which an iteration of the loop begins, at the start of a tile; null where there is none, or it tells
  /// of values that are not known there. It stands nowhere.
  const Op* poll_at_start(const Op& loop, const Op& tiles) {
    const Op* poll = body_of(loop).first;
    if (poll->code != Opcode::poll_) return nullptr;
    Copier copier(graph_);
    for (size_t k = 0; k < loop.results.size(); ++k) copier.map(body_of(loop).args[1 + k], body_of(tiles).args[1 + k]);
    Op* copy = copier.copy(*poll);
    for (const Value* v : copy->operands) {
      if (!ir::defined_outside(*v, body_of(loop))) return nullptr;
    }
    return copy;
  }

  ir::Graph& graph_;
  const Panels& how_;
};

}  // namespace

bool make_panels(ir::Graph& graph, const Panels& how) { return Divider(graph, how).run(*graph.body); }

bool panels(ir::Graph& graph) { return make_panels(graph, {.block = kBlock}); }

}  // namespace appy::passes
