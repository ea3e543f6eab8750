#include "passes/panel_sums.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

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

bool is_small(Wide n) { return n > -(Wide{1} << 40) && n < Wide{1} << 40; }

}  // namespace

Sums::Sums(ir::Graph& graph, const Op& outer, const Recurrence& r)
    : graph_(graph), outer_(outer), r_(r), live_(live_values(graph, *r.steps)) {}

void Sums::make_arrays(Builder& b, const std::vector<Value*>& extents) {
  const auto& results = r_.steps->results;
  for (size_t k = 0; k < results.size(); ++k) {
    if (std::find(live_.begin(), live_.end(), k) == live_.end())
      r_.steps->operands[3 + k] = b.constant(results[k]->type.dtype, 0);
  }
  for (size_t k : live_) {
    const ir::Type type{results[k]->type.dtype, static_cast<int8_t>(extents.size()), ir::Layout::c};
    sums_.push_back(b.alloc(type, extents));
    sums_.back()->name = results[k]->name;
  }
}

const Value& Sums::variable() const { return *induction(outer_); }

Value* Sums::split_of(Builder& b, Value* from) const {
  return r_.delta == 0 ? from : b.op(Opcode::add_, {from, b.i64(r_.delta)});
}

Op* Sums::free_loop(Builder& b, Value* low, Value* high) const {
  ir::Loop loop;
  loop.parallel = true;
  loop.annotated = r_.steps->loop->annotated;
  if (!r_.between.empty() && r_.between[0]->loop->parallel) {
    loop.schedule = r_.between[0]->loop->schedule;
    loop.threads = r_.between[0]->loop->threads;
  }
  return b.for_loop(low, high, b.i64(1), {}, std::move(loop));
}

void Sums::bring(const Value& v, Copier& copier, const Op& loop) const {
  if (ir::defined_outside(v, body_of(outer_)) || copier.of(const_cast<Value*>(&v)) != &v) return;
  for (const Value* operand : v.op->operands) bring(*operand, copier, loop);
  body_of(loop).append(copier.copy(*v.op));
}

void Sums::bring_for_steps(Copier& copier, const Op& loop) const {
  for (const Value* v : r_.steps->operands) bring(*v, copier, loop);
  ir::walk(body_of(*r_.steps), [&](const Op& op) {
    for (const Value* v : op.operands) {
      if (ir::defined_outside(*v, body_of(*r_.steps))) bring(*v, copier, loop);
    }
  });
}

std::vector<Value*> Sums::load_all(Block& block, Value* iteration, const Access& access) const {
  std::vector<Value*> loaded;
  for (size_t k = 0; k < sums_.size(); ++k) {
    Op* load = access(Opcode::load_, k, iteration);
    block.append(load);
    loaded.push_back(ir::add_result(*load, ir::scalar(sums_[k]->type.dtype)));
  }
  return loaded;
}

void Sums::store_all(Block& block, Value* iteration, const std::vector<Value*>& values, const Access& access) const {
  for (size_t k = 0; k < sums_.size(); ++k) {
    Op* store = access(Opcode::store_, k, iteration);
    store->operands.insert(store->operands.begin(), values[k]);
    block.append(store);
  }
}

void Sums::take_turns(Value* until, const Access& access) {
  Op& steps = *r_.steps;
  Builder b(graph_);
  b.set_loc(steps.loc);
  b.set_before(body_of(outer_).last);
  Value *now = induction(outer_), *step = split_of(b, now);
  Op* loop = free_loop(b, b.op(Opcode::add_, {now, b.i64(1)}), until);
  Block& body = body_of(*loop);
  Copier copier(graph_);
  copier.map(now, induction(*loop));
  bring_for_steps(copier, *loop);
  const std::vector<Value*> before = load_all(body, induction(*loop), access);
  copier.map(induction(steps), step);
  for (size_t k = 0; k < steps.results.size(); ++k) copier.map(body_of(steps).args[1 + k], steps.operands[3 + k]);
  for (size_t k = 0; k < before.size(); ++k) copier.map(body_of(steps).args[1 + live_[k]], before[k]);
  for (const Op* op = body_of(steps).first; op != body_of(steps).last; op = op->next) body.append(copier.copy(*op));
  std::vector<Value*> after;
  for (size_t k : live_) after.push_back(copier.of(body_of(steps).last->operands[k]));
  store_all(body, induction(*loop), after, access);
  b.set_block(&body);
  b.yield({});
  steps.parent->remove(&steps);
}

// --- before a tile ---------------------------------------------------------------------------------------------------

/// Does the value grow with the loop's variable, wherever that is more than a constant?
bool follows(Ranges& ranges, const Value& v, const Op& outer, const Op& where) {
  if (ranges.affine(v, where).coef(*induction(outer)) > 0) return true;
  return v.op && (v.op->code == Opcode::pymax_ || v.op->code == Opcode::maximum_) &&
         std::any_of(v.op->operands.begin(), v.op->operands.end(),
                     [&](const Value* operand) { return follows(ranges, *operand, outer, where); });
}

bool Panel::fits(Ranges& ranges, const Op& outer, const Recurrence& r) {
  // Of a band there is little before a tile, and points that move with the tile would need an array for all tiles.
  if (follows(ranges, *r.steps->operands[0], outer, *r.steps)) return false;
  const auto is_known = [&](const Affine& sum) {
    return is_small(sum.constant) && std::all_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
             return term.first->type == ir::scalar(ir::DType::i64_) && is_small(term.second) &&
                    (term.first == induction(outer) || ir::defined_outside(*term.first, body_of(outer)));
           });
  };
  return std::all_of(r.between.begin(), r.between.end(), [&](const Op* loop) {
    const Affine low = ranges.affine(*loop->operands[0], *loop), high = ranges.affine(*loop->operands[1], *loop);
    return is_known(low) && is_known(high) && low.coef(*induction(outer)) * high.coef(*induction(outer)) <= 0;
  });
}

Panel::Panel(ir::Graph& graph, Ranges& ranges, Builder& b, const Op& outer, const Recurrence& r, Value* height,
             bool one_nest)
    : Sums(graph, outer, r), between_(r.between.empty() ? nullptr : r.between[0]), one_nest_(one_nest) {
  std::vector<Value*> extents = {height};
  if (between_) {
    low_ = ranges.affine(*between_->operands[0], *between_);
    high_ = ranges.affine(*between_->operands[1], *between_);
    swapped_ = low_.coef(variable()) == 1 && high_.coef(variable()) == 0;
    Value* last = b.op(Opcode::sub_, {outer.operands[1], b.i64(1)});
    base_ = at(b, low_, low_.coef(variable()) > 0 ? outer.operands[0] : last);
    Value* end = at(b, high_, high_.coef(variable()) > 0 ? last : outer.operands[0]);
    Value* runs = b.op(Opcode::lt_, {outer.operands[0], outer.operands[1]});
    Value* width = emit_distance(b, base_, end);
    extents.insert(swapped_ ? extents.begin() : extents.end(), b.select(runs, width, b.i64(0)));
  }
  make_arrays(b, extents);
}

void Panel::emit(Builder& b, Value* from, Value* until, const Op* poll) {
  if (!swapped_) return nest(b, from, until, {}, poll);
  // Iteration j of the tile has those i that are not below j + c: i has those j that are not above i - c.
  Affine rest = low_;
  rest.add(variable(), -1);
  Value *above = at(b, rest, from), *high = at(b, high_, from);
  Value* low = b.op(Opcode::add_, {from, above});
  if (one_nest_) return nest(b, from, until, {low, high, above}, poll);
  // From some row on each has the whole tile.
  Value* whole = b.op(Opcode::sub_, {b.op(Opcode::add_, {until, above}), b.i64(1)});
  Value* middle = b.op(Opcode::pymax_, {low, b.op(Opcode::pymin_, {whole, high})});
  nest(b, from, until, {low, middle, above}, poll);
  nest(b, from, until, {middle, high, nullptr}, poll);
}

void Panel::nest(Builder& b, Value* from, Value* until, const Rows& rows, const Op* poll) {
  Value* split = split_of(b, from);
  Op *outside = nullptr, *tile = nullptr, *inside = nullptr;
  if (rows.low) {
    outside = free_loop(b, rows.low, rows.high);
    b.set_block(&body_of(*outside));
    Value* end = until;
    if (rows.above) {
      end = b.op(Opcode::add_, {b.op(Opcode::sub_, {induction(*outside), rows.above}), b.i64(1)});
      end = b.op(Opcode::pymin_, {end, until});
    }
    inside = tile = free_loop(b, from, end);
  } else {
    outside = inside = tile = free_loop(b, from, until);
  }
  Copier copier(graph_);
  copier.map(&variable(), induction(*tile));
  b.set_block(&body_of(*inside));
  if (between_ && !swapped_) {
    for (size_t k = 0; k < 2; ++k) bring(*between_->operands[k], copier, *inside);
    inside = free_loop(b, copier.of(between_->operands[0]), copier.of(between_->operands[1]));
    inside->loop->simd = between_->loop->simd;
    b.set_block(&body_of(*inside));
  }
  if (between_) copier.map(induction(*between_), induction(swapped_ ? *outside : *inside));
  bring_for_steps(copier, *inside);
  Op* steps = copier.copy(*r_.steps);
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

void Panel::enter(Value* from) {
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

void Panel::take_turns(Op& iterations) const {
  if (!r_.in_turn) return;
  for (Op *op = body_of(iterations).first, *next; op; op = next) {
    next = op->next;
    const auto begins_here = [&](size_t k) {
      const Op* init = op->operands[3 + live_[k]]->op;
      return init && init->code == Opcode::load_ && init->view() == sums_[k] && init->parent == op->parent;
    };
    if (!is_for(*op) || op->results.size() != r_.steps->results.size()) continue;
    bool all = true;
    for (size_t k = 0; k < live_.size(); ++k) all &= begins_here(k);
    if (!all || live_.empty()) continue;
    Recurrence here = r_;
    here.steps = op;
    here.between.clear();
    SumsInPanel(graph_, iterations, here).enter();
  }
}

Value* Panel::at(Builder& b, const Affine& sum, Value* variable_is) const {
  return passes::emit(b, sum, [&](const Value& v) { return &v == &variable() ? variable_is : const_cast<Value*>(&v); });
}

/// [iteration - from], and the point of the loop between from its least one on.
void Panel::subscribe(Op& access, Value* iteration, Value* point, Value* from) const {
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

// --- in turn, in a panel ---------------------------------------------------------------------------------------------

SumsInPanel::SumsInPanel(ir::Graph& graph, const Op& iterations, const Recurrence& r) : Sums(graph, iterations, r) {
  for (size_t k : live_) {
    loads_.push_back(r_.steps->operands[3 + k]->op);
    sums_.push_back(loads_.back()->view());
  }
}

void SumsInPanel::enter() {
  Op& steps = *r_.steps;
  Builder b(graph_);
  b.set_loc(steps.loc);
  b.set_before(&steps);
  std::vector<Value*> to(graph_.value_count());
  for (size_t k = 0; k < loads_.size(); ++k) {
    to[steps.results[live_[k]]->id] = loads_[k]->result();
    steps.operands[3 + live_[k]] = b.constant(sums_[k]->type.dtype, 0);
  }
  to.resize(graph_.value_count());
  ir::replace_uses(graph_, to);
  Sums::take_turns(outer_.operands[1], [this](Opcode code, size_t k, Value* iteration) {
    const Op& load = *loads_[k];
    Op* made = graph_.new_op(code, load.loc);
    made->access = std::make_unique<ir::Access>(*load.access);
    for (Value* v : load.operands) made->operands.push_back(v == induction(outer_) ? iteration : v);
    return made;
  });
}

// --- behind each tile ------------------------------------------------------------------------------------------------

bool RunningSums::fits(const Recurrence& r) { return r.between.empty() && r.complete; }

RunningSums::RunningSums(ir::Graph& graph, Builder& b, const Op& outer, const Recurrence& r)
    : Sums(graph, outer, r), begin_(outer.operands[0]), end_(outer.operands[1]) {
  make_arrays(b, {emit_distance(b, begin_, end_)});
  nest(b, begin_, end_, nullptr, begin_);
}

Sums::Access RunningSums::access() const {
  return [this](Opcode code, size_t k, Value* iteration) {
    return relative_access(graph_, r_.steps->loc, code, sums_[k], iteration, begin_);
  };
}

/// For the iterations [begin, end), the steps that are known before `until` and are not before `from`; all of them
/// without `from`.
void RunningSums::nest(Builder& b, Value* begin, Value* end, Value* from, Value* until) const {
  Value *first = from ? split_of(b, from) : nullptr, *last = split_of(b, until);
  Op* loop = free_loop(b, begin, end);
  Block *around = b.block(), &body = body_of(*loop);
  Copier copier(graph_);
  copier.map(&variable(), induction(*loop));
  bring_for_steps(copier, *loop);
  const std::vector<Value*> before = from ? load_all(body, induction(*loop), access()) : std::vector<Value*>();
  Op* steps = copier.copy(*r_.steps);
  b.set_block(&body);
  if (from) steps->operands[0] = b.op(Opcode::pymax_, {steps->operands[0], first});
  steps->operands[1] = last;
  for (size_t k = 0; k < before.size(); ++k) steps->operands[3 + live_[k]] = before[k];
  body.append(steps);
  std::vector<Value*> after;
  for (size_t k : live_) after.push_back(steps->results[k]);
  store_all(body, induction(*loop), after, access());
  b.yield({});
  if (from) {
    b.set_block(around);
  } else {
    b.set_before(loop->next);
  }
}

void RunningSums::add(Builder& b, Value* from, Value* until, Value* end) const { nest(b, until, end, from, until); }

void RunningSums::enter(Value* from, Value* until) {
  Op& steps = *r_.steps;
  Builder b(graph_);
  b.set_loc(steps.loc);
  b.set_before(&steps);
  std::vector<Value*> sums;
  for (size_t k = 0; k < sums_.size(); ++k) {
    Op* load = access()(Opcode::load_, k, induction(outer_));
    steps.parent->insert_before(&steps, load);
    sums.push_back(ir::add_result(*load, ir::scalar(sums_[k]->type.dtype)));
  }
  if (!r_.in_turn) {
    steps.operands[0] = b.op(Opcode::pymax_, {steps.operands[0], split_of(b, from)});
    for (size_t k = 0; k < sums.size(); ++k) steps.operands[3 + live_[k]] = sums[k];
    return;
  }
  std::vector<Value*> to(graph_.value_count());
  for (size_t k = 0; k < sums.size(); ++k) to[steps.results[live_[k]]->id] = sums[k];
  ir::replace_uses(graph_, to);
  take_turns(until, access());
}

}  // namespace appy::passes
