// Intervals of values. Loop-carried values are guessed, checked and widened; what was computed on a guess that is not
// confirmed yet is forgotten, so that the memo only ever holds what is true.
#include <algorithm>

#include "passes/range_impl.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

constexpr int kMaxDepth = 160;
constexpr Wide kMaxTrips = Wide{1} << 62;
constexpr Wide kLifetime = Wide{1} << 60;  // no machine lives to see so many iterations
constexpr Wide kSlowly = 4;                // steps of a counter that cannot leave 64 bits in that time

bool has_interval(const Value& v) { return !v.type.is_view() && !ir::is_real(v.type.dtype); }

Wide floor_div(Wide a, Wide b) {
  const Wide q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

size_t carried_index(const Value& argument) {
  return argument.index - (argument.block->owner->code == Opcode::for_ ? 1 : 0);
}

const Value& initial(const ir::Op& loop, size_t index) {
  return *loop.operands[index + (loop.code == Opcode::for_ ? 3 : 0)];
}

const Value& argument_of(const ir::Op& loop, size_t index) {
  return *loop.blocks[0]->args[index + (loop.code == Opcode::for_ ? 1 : 0)];
}

/// The next larger interval that a carried value is tried with.
Interval widen(const Interval& guess, const Interval& seen, const Interval& all) {
  Interval out = guess;
  if (seen.lo < guess.lo) out.lo = seen.lo >= 0 ? 0 : all.lo;
  if (seen.hi > guess.hi) out.hi = seen.hi <= 0 ? 0 : all.hi;
  return out;
}

void collect_ends(const ir::Block& block, std::vector<const ir::Op*>& back, std::vector<const ir::Op*>& leave,
                  bool arm) {
  for (const ir::Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::if_) {
      for (const ir::Block* inner : op->blocks) collect_ends(*inner, back, leave, true);
    }
    if (op->code == Opcode::continue_ || (op->code == Opcode::yield_ && !arm)) back.push_back(op);
    if (op->code == Opcode::break_) leave.push_back(op);
  }
}

}  // namespace

void Ranges::Impl::forget(size_t mark) {
  while (log_.size() > mark) {
    memo_[*log_.back()].known = false;
    log_.pop_back();
  }
}

void Ranges::Impl::moved(const ir::Op& op) {
  const auto drop = [&](const Value* v) {
    if (Memo* known = memo_.find(*v)) known->known = false;
  };
  for (const Value* result : op.results) drop(result);
  for (const ir::Block* inner : op.blocks) {
    facts_.erase(inner);
    for (const Value* arg : inner->args) drop(arg);
    for (const ir::Op* at = inner->first; at; at = at->next) moved(*at);
  }
}

const Ranges::Impl::LoopEnds& Ranges::Impl::ends_of(const ir::Op& loop) {
  auto [at, fresh] = ends_.try_emplace(&loop);
  if (fresh) collect_ends(*loop.blocks[0], at->second.back, at->second.leave, false);
  return at->second;
}

Interval Ranges::Impl::base(const Value& v) {
  if (!has_interval(v)) return {INT64_MIN, INT64_MAX};
  if (const Memo* known = memo_.find(v); known && known->known) return known->value;
  if (constant_op(v)) return transfer(*v.op, {});
  const Interval all = interval_of(v.type.dtype);
  if (depth_ > kMaxDepth || work_ > most_work()) return all;
  ++work_;
  ++depth_;
  const bool extra = std::exchange(use_extra_, false);
  const Interval found = meet(all, v.op ? of_result(v) : of_argument(v));
  use_extra_ = extra;
  --depth_;
  memo_[v] = {true, found};
  if (assumptions_ > 0) log_.push_back(&v);
  return found;
}

void Ranges::Impl::narrow(Interval& bounds, const Value& v, const Affine& sum) {
  const Wide k = sum.coef(v);
  if (k == 0 || k > INT32_MAX || k < -INT32_MAX || sum.terms.size() > 6) return;
  Wide rest = sum.constant;  // the least that the rest of the sum can be
  for (const auto& [atom, factor] : sum.terms) {
    if (atom == &v) continue;
    if (factor > INT32_MAX || factor < -INT32_MAX) return;
    const Interval in = base(*atom);
    rest += factor * (factor > 0 ? in.lo : in.hi);
  }
  const Interval limit = k > 0 ? Interval{bounds.lo, floor_div(-rest, k)} : Interval{-floor_div(-rest, -k), bounds.hi};
  if (limit.lo <= limit.hi) bounds = meet(bounds, limit);
}

Interval Ranges::Impl::refined(const Value& v, const ir::Op& where) {
  Interval bounds = base(v);
  if (bounds.single() || !has_interval(v)) return bounds;
  const bool settled = assumptions_ == 0 && work_ <= most_work();
  const Scope here = scope_of(where);
  const uint64_t in_case = use_extra_ ? case_ : 0;
  if (settled) {
    const Refined* const known = refined_.find(v);
    if (known && known->here == here && known->in_case == in_case) return known->value;
  }
  each_fact(where, atoms_of(v), [&](const Affine& sum) {
    ++work_;
    narrow(bounds, v, sum);
    return bounds.single();
  });
  if (settled) refined_[v] = {here, in_case, bounds};
  return bounds;
}

Interval Ranges::Impl::of_result(const Value& v) {
  const ir::Op& op = *v.op;
  if (op.code == Opcode::for_ || op.code == Opcode::while_) return loop_result(op, v.index);
  if (op.code == Opcode::if_) {
    const Interval condition = refined(*op.operands[0], op);
    std::optional<Interval> found;
    for (size_t arm = 0; arm < 2; ++arm) {
      if (condition.single() && condition.lo == static_cast<Wide>(arm)) continue;
      const ir::Op* end = op.blocks[arm]->last;
      if (!end || end->code != Opcode::yield_) continue;
      const Interval value = refined(*end->operands[v.index], *end);
      found = found ? hull(*found, value) : value;
    }
    return found.value_or(interval_of(v.type.dtype));
  }
  if (!ir::is_pure(op.code)) return interval_of(v.type.dtype);
  Interval in[4] = {};
  size_t count = 0;
  for (const Value* operand : op.operands) {
    if (count == 4) break;
    in[count++] = has_interval(*operand) ? refined(*operand, op) : Interval{0, 0};
  }
  return transfer(op, {in, count});
}

Interval Ranges::Impl::of_argument(const Value& v) {
  const ir::Op* owner = v.block->owner;
  if (!owner) {
    Interval promised{v.range.lo, v.range.hi};
    if (v.range.hi == INT64_MAX) promised.hi = interval_of(v.type.dtype).hi;
    return meet(interval_of(v.type.dtype), promised);
  }
  if (owner->code == Opcode::for_ && v.index == 0) return loop_variable(*owner);
  return carried(v);
}

Interval Ranges::Impl::loop_variable(const ir::Op& loop) {
  const Interval lower = refined(*loop.operands[0], loop), upper = refined(*loop.operands[1], loop),
                 step = refined(*loop.operands[2], loop);
  Interval up{lower.lo, std::max(lower.lo, upper.hi - 1)};
  if (step.single() && lower.single() && step.lo > 0 && up.hi > up.lo) {
    up.hi = up.lo + (up.hi - up.lo) / step.lo * step.lo;
  }
  const Interval down{std::min(lower.hi, upper.lo + 1), lower.hi};
  if (step.lo > 0) return up;
  if (step.hi < 0) return down;
  return hull(up, down);
}

Interval Ranges::Impl::trips(const ir::Op& loop) {
  const Interval lower = refined(*loop.operands[0], loop), upper = refined(*loop.operands[1], loop),
                 step = refined(*loop.operands[2], loop);
  const auto count = [](Wide distance, Wide by) { return distance <= 0 ? Wide{0} : (distance + by - 1) / by; };
  const Interval up = exact(Opcode::sub_, upper, lower), down = exact(Opcode::sub_, lower, upper);
  if (step.lo > 0) return {count(up.lo, step.hi), count(up.hi, step.lo)};
  if (step.hi < 0) return {count(down.lo, -step.lo), count(down.hi, -step.hi)};
  return {0, std::max(count(up.hi, 1), count(down.hi, 1))};
}

std::optional<Interval> Ranges::Impl::increment(const Value& v, const Value& argument, int depth) {
  if (&v == &argument) return Interval{0, 0};
  if (!v.op || depth == 0) return std::nullopt;
  const ir::Op& op = *v.op;
  const auto plus = [&](const Value& kept, const Value& added, Opcode code) -> std::optional<Interval> {
    const auto so_far = increment(kept, argument, depth - 1);
    if (!so_far) return std::nullopt;
    return exact(code, *so_far, refined(added, op));
  };
  const auto either = [](std::optional<Interval> a, std::optional<Interval> b) -> std::optional<Interval> {
    if (!a || !b) return std::nullopt;
    return hull(*a, *b);
  };
  switch (op.code) {
    case Opcode::add_: {
      const auto left = plus(*op.operands[0], *op.operands[1], Opcode::add_);
      return left ? left : plus(*op.operands[1], *op.operands[0], Opcode::add_);
    }
    case Opcode::sub_:
      return plus(*op.operands[0], *op.operands[1], Opcode::sub_);
    case Opcode::select_:
      return either(increment(*op.operands[1], argument, depth - 1), increment(*op.operands[2], argument, depth - 1));
    case Opcode::if_: {
      std::optional<Interval> found;
      for (const ir::Block* arm : op.blocks) {
        if (!arm->last || arm->last->code != Opcode::yield_) continue;
        const auto value = increment(*arm->last->operands[v.index], argument, depth - 1);
        if (!value) return std::nullopt;
        found = found ? hull(*found, *value) : value;
      }
      return found;
    }
    case Opcode::for_: {
      const auto start = increment(initial(op, v.index), argument, depth - 1);
      const auto each = start ? step_of(op, v.index, true, depth - 1) : std::nullopt;
      const Interval count = trips(op);
      if (!each || count.hi > kMaxTrips || !each->inside({INT32_MIN, INT32_MAX})) return std::nullopt;
      return exact(Opcode::add_, *start,
                   {std::min<Wide>(0, each->lo) * count.hi, std::max<Wide>(0, each->hi) * count.hi});
    }
    default:
      return std::nullopt;
  }
}

std::optional<Interval> Ranges::Impl::step_of(const ir::Op& loop, size_t index, bool with_breaks, int depth) {
  const Value& argument = argument_of(loop, index);
  std::optional<Interval> found;
  const LoopEnds& ends = ends_of(loop);
  for (const auto* list : {&ends.back, &ends.leave}) {
    if (list == &ends.leave && !with_breaks) break;
    for (const ir::Op* end : *list) {
      const auto value = increment(*end->operands[index], argument, depth);
      if (!value) return std::nullopt;
      found = found ? hull(*found, *value) : value;
    }
  }
  return found;
}

std::optional<Interval> Ranges::Impl::accumulated(const ir::Op& loop, size_t index, bool after) {
  const auto step = step_of(loop, index, after, 8);
  if (!step) return std::nullopt;
  const Interval start = refined(initial(loop, index), loop);
  if (step->lo == 0 && step->hi == 0) return start;
  const bool counted = loop.code == Opcode::for_;
  if (!step->inside(counted ? Interval{-kMaxTrips, kMaxTrips} : Interval{-kSlowly, kSlowly})) return std::nullopt;
  const Wide most = counted ? std::max<Wide>(0, trips(loop).hi - (after ? 0 : 1)) : kLifetime;
  if (most > kMaxTrips) return std::nullopt;
  const Interval total{start.lo + std::min<Wide>(0, step->lo) * most, start.hi + std::max<Wide>(0, step->hi) * most};
  if (!total.inside(interval_of(argument_of(loop, index).type.dtype))) return std::nullopt;
  return total;
}

Interval Ranges::Impl::carried(const Value& argument) {
  const ir::Op& loop = *argument.block->owner;
  const size_t index = carried_index(argument);
  const Interval all = interval_of(argument.type.dtype);
  const LoopEnds& ends = ends_of(loop);
  const Interval start = refined(initial(loop, index), loop);
  const auto assume = [&](const Interval& guess) {
    memo_[argument] = {true, guess};
    return log_.size();
  };

  ++assumptions_;
  size_t mark = assume(all);  // increments may use the argument itself, of which nothing is known yet
  std::optional<Interval> found = accumulated(loop, index, false);
  // Of a `while` only the time it takes is known: its own conditions may say more.
  const Interval in_time = loop.code == Opcode::while_ ? std::exchange(found, std::nullopt).value_or(all) : all;
  forget(mark);
  Interval guess = start;
  for (int round = 0; !found && round < 4; ++round) {
    mark = assume(guess);
    Interval seen = start;
    for (const ir::Op* end : ends.back) seen = hull(seen, refined(*end->operands[index], *end));
    forget(mark);
    if (seen.inside(guess)) {
      found = seen;
    } else {
      guess = widen(guess, seen, all);
    }
  }
  --assumptions_;
  memo_[argument].known = false;
  return meet(in_time, found.value_or(all));
}

Interval Ranges::Impl::loop_result(const ir::Op& loop, size_t index) {
  if (loop.code == Opcode::for_) {
    if (const auto total = accumulated(loop, index, true)) return *total;
  }
  std::optional<Interval> found;
  const LoopEnds& ends = ends_of(loop);
  if (loop.code == Opcode::for_) {
    if (trips(loop).lo == 0) found = refined(initial(loop, index), loop);
    for (const ir::Op* end : ends.back) {
      const Interval value = refined(*end->operands[index], *end);
      found = found ? hull(*found, value) : value;
    }
  }
  for (const ir::Op* end : ends.leave) {
    const Interval value = refined(*end->operands[index], *end);
    found = found ? hull(*found, value) : value;
  }
  return found.value_or(interval_of(loop.results[index]->type.dtype));
}

}  // namespace appy::passes
