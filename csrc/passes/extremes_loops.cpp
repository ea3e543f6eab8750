// Bounds that need whole loops: counters, and values loaded from integer arrays.

#include <algorithm>

#include "ir/typing.h"
#include "passes/extremes.h"
#include "passes/interval.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// The additions that a carried value goes through in one iteration, if it goes through nothing else.
class Additions {
 public:
  struct Addition {
    const Op* op;
    const Value* addend;
    bool plus;
  };

  bool collect(const Op& loop, size_t k) {
    known_.insert(body_of(loop).args[first_carried(loop) + k]);
    const Exits exits = exits_of(loop);
    for (const auto* list : {&exits.next, &exits.breaks}) {
      for (const Op* exit : *list) {
        if (!reach(*exit->operands[k])) return false;
      }
    }
    return true;
  }
  const std::vector<Addition>& list() const { return list_; }
  /// The value is the carried one plus some of the additions.
  bool reaches(const Value& v) const { return known_.count(&v) > 0; }

 private:
  bool reach(const Value& v) {
    if (known_.count(&v)) return true;
    if (!v.op) return false;
    const Op& op = *v.op;
    const size_t before = list_.size();
    bool found = false;
    switch (op.code) {
      case Opcode::add_:
        for (size_t side = 0; side < 2 && !found; ++side) {
          const std::set<const Value*> known = known_;
          found = reach(*op.operands[side]);
          if (found) {
            list_.push_back({&op, op.operands[1 - side], true});
          } else {  // what was reached on a failed way holds no longer
            known_ = known;
            list_.resize(before);
          }
        }
        break;
      case Opcode::sub_:
        found = reach(*op.operands[0]);
        if (found) list_.push_back({&op, op.operands[1], false});
        break;
      case Opcode::select_:
        found = reach(*op.operands[1]) && reach(*op.operands[2]);
        break;
      case Opcode::if_:
        found = true;
        for (const Block* arm : op.blocks) {
          if (arm->last->code == Opcode::yield_) found = found && reach(*arm->last->operands[v.index]);
        }
        break;
      case Opcode::for_:
        found = reach(*op.operands[3 + v.index]) && collect(op, v.index);
        break;
      default:
        break;
    }
    if (found) known_.insert(&v);
    return found;
  }

  std::set<const Value*> known_;
  std::vector<Addition> list_;
};

/// The end of a range, as its iterations see it: where there is one, `max(x, begin)` is x.
const Value* end_of(const Op& loop) {
  const Value *begin = loop.operands[0], *end = loop.operands[1];
  if (!end->op || (end->op->code != Opcode::pymax_ && end->op->code != Opcode::maximum_)) return end;
  for (size_t side = 0; side < 2; ++side) {
    const Value* other = end->op->operands[1 - side];
    const auto x = constant(*other), y = constant(*begin);
    if (other == begin || (x && x == y)) return end->op->operands[side];
  }
  return end;
}

}  // namespace

std::optional<Bounds> Extremes::counter(const Op& from, size_t k) {
  if (from.results[k]->type != ir::scalar(DType::i64_)) return std::nullopt;
  // A loop around may carry on what this one counts. One that only starts it has no say in what it becomes.
  const Value& counted = *body_of(from).args[1 + k];
  std::vector<std::pair<const Op*, size_t>> around = {{&from, k}};
  for (const Value* init = from.operands[3 + k]; !is_before(*init);) {
    const Op* owner = init->op ? nullptr : init->block->owner;
    if (!owner || !is_for(*owner) || init->index == 0) break;
    around.emplace_back(owner, init->index - 1);
    init = owner->operands[2 + init->index];
  }
  const Op* loop = nullptr;
  Additions additions;
  for (; !loop && !around.empty(); around.pop_back()) {
    additions = {};
    if (!additions.collect(*around.back().first, around.back().second) || !additions.reaches(counted)) continue;
    std::tie(loop, k) = around.back();
  }
  if (!loop) return std::nullopt;
  const auto init = of(*loop->operands[3 + k], *loop);
  if (!init) return std::nullopt;
  Bounds out = *init;
  out.loops.insert(loop);
  for (const auto& addition : additions.list()) {
    const ir::Range r = ranges_.at(*addition.addend, *addition.op);
    std::optional<Bounds> addend;
    if (r.lo > INT64_MIN / 4 && r.hi < INT64_MAX / 4) {
      addend = Bounds{number(r.lo), number(r.hi), true, {}};
    } else if (!(addend = of(*addition.addend, *addition.op))) {
      return std::nullopt;
    }
    Value* down = least(addition.plus ? addend->lo : sub(number(0), addend->hi), number(0));
    Value* up = greatest(addition.plus ? addend->hi : sub(number(0), addend->lo), number(0));
    Value* times = number(1);
    for (const Op* at = ir::enclosing_loop(*addition.op->parent);; at = ir::enclosing_loop(*at->parent)) {
      if (!is_for(*at)) return std::nullopt;
      const auto lower = of(*at->operands[0], *at), upper = of(*at->operands[1], *at);
      const auto step = constant(*at->operands[2]);
      if (!lower || !upper || !step) return std::nullopt;
      Value* span = *step > 0 ? sub(upper->hi, lower->lo) : sub(lower->hi, upper->lo);
      times = mul(times, greatest(span, number(0)));
      if (at == loop) break;
    }
    out.lo = add(out.lo, mul(times, down));
    out.hi = add(out.hi, mul(times, up));
  }
  return out;
}

/// A sum of a loop's variable and of what the end of its range is made of: `row + k` with k in range(end - row) is
/// between `row` and `end`. Bounds of the two terms apart are further than that.
std::optional<Bounds> Extremes::between_ends(const Affine& sum, const Op& where) {
  const auto varying = [&](const Affine& a) {
    return std::count_if(a.terms.begin(), a.terms.end(), [&](const auto& term) { return !is_before(*term.first); });
  };
  if (varying(sum) < 2 || !path_to(where, outer_).facts.empty()) return std::nullopt;
  for (const auto& [value, factor] : sum.terms) {
    const Op* loop = value->op ? nullptr : value->block->owner;
    if (factor != 1 || is_before(*value) || !loop || !is_for(*loop) || value->index != 0) continue;
    if (active_.count(loop) || constant(*loop->operands[2]) != 1) continue;
    const Affine lower = ranges_.affine(*loop->operands[0], *loop), upper = ranges_.affine(*end_of(*loop), *loop);
    Affine first = sum;
    first.add(*value, -1);
    Affine last = first;
    first.add(lower, 1);
    last.add(upper, 1);
    last.constant -= 1;
    if (varying(last) >= varying(sum) - 1 + varying(upper)) continue;
    const size_t flags = overflows_.size();
    active_.insert(loop);
    const auto begin = of(first, where), end = of(last, where);
    active_.erase(loop);
    if (!begin || !end) {
      overflows_.resize(flags);
      continue;
    }
    const bool reached = exits_of(*loop).breaks.empty() && adjoin(first, last);
    Bounds out{begin->lo, end->hi, begin->exact && end->exact && reached, begin->loops};
    out.loops.insert(end->loops.begin(), end->loops.end());
    out.loops.insert(loop);
    return out;
  }
  return std::nullopt;
}

/// Do the ranges follow each other, `ptr[i]` to `ptr[i + 1]`? Then nothing lies between them, and the bounds of those
/// that are empty are bounds of others.
bool Extremes::adjoin(const Affine& first, const Affine& last) {
  const Op *begin = looked_up(first), *end = looked_up(last);
  if (!begin || !end || begin->operands[0] != end->operands[0]) return false;
  const auto rank = static_cast<size_t>(begin->operands[0]->type.rank);
  for (size_t d = 0; d < rank; ++d) {
    Affine difference = row_at(ranges_, *end, d, *end);
    difference.add(row_at(ranges_, *begin, d, *begin), -1);
    if (!difference.is_constant() || difference.constant != (d + 1 == rank ? 1 : 0)) return false;
  }
  return rank > 0;
}

/// The load that the only term that varies comes from, cut off at an extent or counted from the end.
const Op* Extremes::looked_up(const Affine& sum) const {
  const Value* found = nullptr;
  for (const auto& [value, factor] : sum.terms) {
    if (is_before(*value)) continue;
    if (found || factor != 1) return nullptr;
    found = value;
  }
  while (found && found->op && found->op->code != Opcode::load_) {
    const Op& op = *found->op;
    const bool passes = op.code == Opcode::cast_ || op.code == Opcode::wrap_ || op.code == Opcode::pymin_ ||
                        op.code == Opcode::pymax_ || op.code == Opcode::minimum_ || op.code == Opcode::maximum_;
    if (!passes || (op.operands.size() > 1 && !is_before(*op.operands[1]))) return nullptr;
    found = op.operands[0];
  }
  return found ? found->op : nullptr;
}

/// A carried value that is its init, or what an iteration converted from a narrower type.
std::optional<Bounds> Extremes::converted(const Op& loop, size_t k) {
  const Value* arg = body_of(loop).args[first_carried(loop) + k];
  const Exits exits = exits_of(loop);
  if (arg->type != ir::scalar(DType::i64_) || !exits.breaks.empty()) return std::nullopt;
  const auto init = of(*loop.operands[first_init(loop) + k], loop);
  if (!init) return std::nullopt;
  Bounds out{init->lo, init->hi, init->exact, init->loops};
  out.loops.insert(&loop);
  for (const Op* exit : exits.next) {
    const Value* v = exit->operands[k];
    if (v == arg) continue;
    if (!v->op || v->op->code != Opcode::cast_ || !ir::is_int(v->op->operands[0]->type.dtype)) return std::nullopt;
    const DType from = v->op->operands[0]->type.dtype;
    if (ir::size_of(from) == 8) return std::nullopt;
    const Interval all = interval_of(from);
    out.lo = least(out.lo, number(static_cast<int64_t>(all.lo)));
    out.hi = greatest(out.hi, number(static_cast<int64_t>(all.hi)));
  }
  return out;
}

std::optional<Bounds> Extremes::inspect(const Op& load) {
  if (const auto known = inspected_.find(&load); known != inspected_.end()) return known->second;
  Value* view = load.operands[0];
  if (!is_before(*view) || !ir::is_int(view->type.dtype) || view->type.dtype == DType::u64_ || graph_.may_alias ||
      !graph_.inspectors) {
    return std::nullopt;
  }
  if (writes_to(*graph_.body, *view) || view->type.rank < 1) return std::nullopt;
  const auto rank = static_cast<size_t>(view->type.rank);
  std::vector<Bounds> index;
  for (size_t d = 0; d < rank; ++d) {
    const Affine subscript = row_at(ranges_, load, d, load);
    for (const auto& [value, coef] : subscript.terms) {
      // With a larger stride the inspector would read more than the loops do.
      if (!is_before(*value) && coef != 1 && coef != -1) return std::nullopt;
    }
    const auto b = of(subscript, load);
    if (!b) return std::nullopt;
    index.push_back(*b);
  }
  Bounds out{nullptr, nullptr, true, {}};
  std::vector<Value*> lower, upper;
  for (size_t d = 0; d < rank; ++d) {
    // An index outside fails its own check; here it must only do no harm.
    lower.push_back(greatest(index[d].lo, number(0)));
    upper.push_back(least(add(index[d].hi, number(1)), builder_.dim(view, static_cast<int>(d))));
    out.exact &= index[d].exact;
    out.loops.insert(index[d].loops.begin(), index[d].loops.end());
  }
  // Of no elements at all: far, but sums with them do not overflow.
  Value *const none_lo = number(INT64_MAX / 4), *const none_hi = number(INT64_MIN / 4);
  // Of 32 bits twice as many are compared at once.
  const bool narrow = ir::size_of(view->type.dtype) == 4;
  const DType type = narrow ? view->type.dtype : DType::i64_;
  const Interval all = interval_of(type);
  std::vector<Value*> results = {none_lo, none_hi}, subscripts;
  if (narrow) {
    results = {builder_.constant(type, ir::canonical(type, static_cast<ir::Word>(all.hi))),
               builder_.constant(type, ir::canonical(type, static_cast<ir::Word>(all.lo)))};
  }
  std::vector<Op*> nest;
  Value* one = number(1);
  for (size_t d = 0; d < rank; ++d) {
    ir::Loop loop;
    loop.parallel = d == 0;
    loop.simd = d + 1 == rank;
    loop.annotated = true;
    loop.carried = {{ir::Combiner::minimum_}, {ir::Combiner::maximum_}};
    Op* made = builder_.for_loop(lower[d], upper[d], one, results, loop);
    made->loc = load.loc;
    nest.push_back(made);
    Block& body = body_of(*made);
    subscripts.push_back(body.args[0]);
    results = {body.args[1], body.args[2]};
    builder_.set_block(&body);
  }
  builder_.poll({});
  Value* element = builder_.cast(builder_.load(view, subscripts), type);
  results = {builder_.op(Opcode::minimum_, {results[0], element}),
             builder_.op(Opcode::maximum_, {results[1], element})};
  for (size_t d = rank; d-- > 0;) {
    builder_.yield(results);
    results.assign(nest[d]->results.begin(), nest[d]->results.end());
    if (d > 0) builder_.set_block(&body_of(*nest[d - 1]));
  }
  builder_.set_before(&outer_);
  Value* some = nullptr;
  for (size_t d = 0; narrow && d < rank; ++d) {
    Value* runs = builder_.op(Opcode::lt_, {lower[d], upper[d]});
    some = some ? builder_.op(Opcode::and_, {some, runs}) : runs;
  }
  const auto wide = [&](Value* v, Value* none) {
    return narrow ? builder_.select(some, builder_.cast(v, DType::i64_), none) : v;
  };
  out.lo = wide(results[0], none_lo);
  out.hi = wide(results[1], none_hi);
  inspected_[&load] = out;
  return out;
}

}  // namespace appy::passes
