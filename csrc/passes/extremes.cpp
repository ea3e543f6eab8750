#include "passes/extremes.h"

#include <algorithm>

#include "passes/comparisons.h"
#include "passes/host_loops.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

void split(const Value& condition, bool holds, Path& path) {
  const Op* op = condition.op;
  if (op && op->code == Opcode::not_) return split(*op->operands[0], !holds, path);
  if (op && ((op->code == Opcode::and_ && holds) || (op->code == Opcode::or_ && !holds))) {
    split(*op->operands[0], holds, path);
    return split(*op->operands[1], holds, path);
  }
  if (op && is_comparison(op->code) && ir::is_int(op->operands[0]->type.dtype)) {
    path.facts.push_back({op, holds});
  } else {
    path.opaque = true;
  }
}

bool leaves(const Block& arm) { return arm.last->code != Opcode::yield_; }

/// Some way through the block goes to the next iteration or out of the loop.
bool may_leave(const Block& block) {
  for (const Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::break_ || op->code == Opcode::continue_) return true;
    if (op->code == Opcode::if_ && (may_leave(*op->blocks[0]) || may_leave(*op->blocks[1]))) return true;
  }
  return false;
}

/// All that it does besides is to leave the loop, or not.
bool only_breaks(const Op& branch) {
  const Op &first = *branch.blocks[0]->first, &second = *branch.blocks[1]->first;
  return (first.code == Opcode::break_ && second.code == Opcode::yield_) ||
         (first.code == Opcode::yield_ && second.code == Opcode::break_);
}

void passed(const Op& branch, Path& path) {
  const bool first = may_leave(*branch.blocks[0]), second = may_leave(*branch.blocks[1]);
  if (first && second) path.opaque = true;
  if (first && !second) leaves(*branch.blocks[0]) ? split(*branch.operands[0], false, path) : void(path.opaque = true);
  if (second && !first) leaves(*branch.blocks[1]) ? split(*branch.operands[0], true, path) : void(path.opaque = true);
}

/// Are both computed alike, of the same values?
bool is_computed_alike(const Value& a, const Value& b, int depth = 6) {
  if (is_same_value(a, b)) return true;
  if (!a.op || !b.op || depth == 0 || a.op->code != b.op->code || !ir::is_pure(a.op->code)) return false;
  if (a.type != b.type || a.op->imm != b.op->imm || a.op->operands.size() != b.op->operands.size()) return false;
  return std::equal(a.op->operands.begin(), a.op->operands.end(), b.op->operands.begin(),
                    [&](const Value* x, const Value* y) { return is_computed_alike(*x, *y, depth - 1); });
}

/// Who runs through the block makes a check of that.
bool tests(const Block& block, const Value& condition) {
  for (const Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::check_ && is_computed_alike(*op->operands[0], condition)) return true;
    if (op->code != Opcode::if_) continue;
    if (tests(*op->blocks[0], condition) && tests(*op->blocks[1], condition)) return true;
    if (may_leave(*op->blocks[0]) || may_leave(*op->blocks[1])) return false;
  }
  return false;
}

bool small(const ir::Range& r) { return r.lo > INT64_MIN / 4 && r.hi < INT64_MAX / 4; }

std::optional<int64_t> narrow(Wide w) {
  if (w < INT64_MIN || w > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(w);
}

}  // namespace

// Of a loop around loops with permission it does not matter whether it is left before `where`, or not entered: who
// finds out in front of it that it would fail runs it as he would have without these loops having become one with it.
Path path_to(const Op& where, const Op& outer) {
  Path path;
  bool in_host_loop = false;  // it is behind us
  for (const Op* at = &where; at && at != &outer;) {
    const Op* owner = at->parent->owner;
    const bool host = owner && is_host_loop(*owner);
    for (const Op* before = at->prev; before; before = before->prev) {
      if (before->code == Opcode::if_ && !(host && only_breaks(*before))) passed(*before, path);
      if (before->code == Opcode::while_ && !is_host_loop(*before)) path.opaque = true;
    }
    if (owner && owner->code == Opcode::if_ && !in_host_loop) {
      const bool first = at->parent == owner->blocks[0];
      // A check that either arm makes is none under a condition.
      const bool either = where.code == Opcode::check_ && tests(*owner->blocks[first ? 1 : 0], *where.operands[0]);
      if (!either) split(*owner->operands[0], first, path);
    }
    if (owner && is_loop(*owner) && !host) {
      path.opaque |= owner->code == Opcode::while_ || !exits_of(*owner).breaks.empty();
    }
    in_host_loop |= host;
    at = owner;
  }
  return path;
}

Extremes::Extremes(ir::Graph& graph, Ranges& ranges, Op& outer, Inspected inspected)
    : graph_(graph), ranges_(ranges), outer_(outer), builder_(graph), inspected_(std::move(inspected)) {
  builder_.set_before(&outer);
  builder_.set_loc(outer.loc);
}

bool Extremes::is_before(const Value& v) const { return visible_before(v, outer_); }

std::vector<Value*> Extremes::take_overflows() { return std::exchange(overflows_, {}); }

Value* Extremes::number(int64_t n) {
  Value*& known = numbers_[n];
  if (!known) known = builder_.i64(n);
  return known;
}

Value* Extremes::arithmetic(Opcode code, Opcode overflow, Value* a, Value* b) {
  const auto x = constant(*a), y = constant(*b);
  if (x && y) {
    const Wide exact = code == Opcode::add_ ? Wide{*x} + *y : code == Opcode::sub_ ? Wide{*x} - *y : Wide{*x} * *y;
    if (const auto fits = narrow(exact)) return number(*fits);
  }
  if (y == 0 && code != Opcode::mul_) return a;
  if (x == 0 && code == Opcode::add_) return b;
  if (y == 1 && code == Opcode::mul_) return a;
  if (y == 0 && code == Opcode::mul_) return b;
  Value*& known = made_[{code, a, b}];
  if (!known) known = builder_.op(code, {a, b});
  const ir::Range ra = ranges_.of(*a), rb = ranges_.of(*b);
  const auto limit = code == Opcode::mul_ ? (int64_t{1} << 31) : INT64_MAX / 4;
  const auto within = [&](const ir::Range& r) { return r.lo >= -limit && r.hi <= limit; };
  if (within(ra) && within(rb)) return known;
  Value*& flag = made_[{overflow, a, b}];
  if (!flag) flag = builder_.op(overflow, {a, b});
  if (std::find(overflows_.begin(), overflows_.end(), flag) == overflows_.end()) overflows_.push_back(flag);
  return known;
}

Value* Extremes::least(Value* a, Value* b) {
  if (a == b) return a;
  const auto x = constant(*a), y = constant(*b);
  if (x && y) return *x < *y ? a : b;
  Value*& known = made_[{Opcode::minimum_, a, b}];
  if (!known) known = builder_.op(Opcode::minimum_, {a, b});
  return known;
}

Value* Extremes::greatest(Value* a, Value* b) {
  if (a == b) return a;
  const auto x = constant(*a), y = constant(*b);
  if (x && y) return *x > *y ? a : b;
  Value*& known = made_[{Opcode::maximum_, a, b}];
  if (!known) known = builder_.op(Opcode::maximum_, {a, b});
  return known;
}

std::optional<Bounds> Extremes::of(const Value& v, const Op& where) {
  if (is_before(v) && v.type == ir::scalar(DType::i64_)) {
    Value* same = const_cast<Value*>(&v);
    return Bounds{same, same, true, {}};
  }
  if (v.type != ir::scalar(DType::i64_)) return atom(v, where);
  return of(ranges_.affine(v, where), where);
}

std::optional<Bounds> Extremes::of(const Affine& sum, const Op& where) {
  const auto offset = narrow(sum.constant);
  if (!offset) return std::nullopt;
  if (auto closer = between_ends(sum, where)) return closer;
  Bounds total{nullptr, nullptr, true, {}};
  for (const auto& [value, factor] : sum.terms) {
    const auto coef = narrow(factor);
    if (!coef) return std::nullopt;
    auto term = atom(*value, where);
    if (!term) return std::nullopt;
    Bounds scaled = *term;
    if (*coef != 1) {
      Value* c = number(*coef);
      const bool varies = term->varies();
      scaled.lo = mul(*coef > 0 ? term->lo : term->hi, c);
      scaled.hi = varies ? mul(*coef > 0 ? term->hi : term->lo, c) : scaled.lo;
    }
    if (!total.lo) {
      total = scaled;
      continue;
    }
    for (const Op* loop : scaled.loops) total.exact &= !total.loops.count(loop);
    total.exact &= scaled.exact;
    total.loops.insert(scaled.loops.begin(), scaled.loops.end());
    const bool varies = total.varies() || scaled.varies();
    total.lo = add(total.lo, scaled.lo);
    total.hi = varies ? add(total.hi, scaled.hi) : total.lo;
  }
  if (!total.lo) {
    total.lo = total.hi = number(*offset);
    return total;
  }
  if (*offset == 0) return total;
  const bool varies = total.varies();
  total.lo = add(total.lo, number(*offset));
  total.hi = varies ? add(total.hi, number(*offset)) : total.lo;
  return total;
}

std::optional<Bounds> Extremes::constant_range(const Value& v, const Op& where) {
  const ir::Range r = ranges_.at(v, where);
  if (!small(r)) return std::nullopt;
  return Bounds{number(r.lo), number(r.hi), r.lo == r.hi, {}};
}

std::optional<Bounds> Extremes::atom(const Value& v, const Op& where) {
  if (!ir::is_int(v.type.dtype)) return std::nullopt;
  if (is_before(v)) {
    if (v.type.dtype == DType::u64_) return std::nullopt;
    Value* same = builder_.cast(const_cast<Value*>(&v), DType::i64_);
    return Bounds{same, same, true, {}};
  }
  if (!open_.insert(&v).second) return constant_range(v, where);
  auto found = compute(v, where);
  open_.erase(&v);
  return found ? found : constant_range(v, where);
}

std::optional<Bounds> Extremes::either(const Value& a, const Op& at_a, const Value& b, const Op& at_b) {
  const auto x = of(a, at_a), y = of(b, at_b);
  if (!x || !y) return std::nullopt;
  Bounds both{least(x->lo, y->lo), greatest(x->hi, y->hi), false, x->loops};
  both.loops.insert(y->loops.begin(), y->loops.end());
  return both;
}

std::optional<Bounds> Extremes::product(const Op& op, const Op& where) {
  const auto x = of(*op.operands[0], where), y = of(*op.operands[1], where);
  if (!x || !y) return std::nullopt;
  Bounds out{nullptr, nullptr, x->exact && y->exact && !(x->varies() && y->varies()), x->loops};
  out.loops.insert(y->loops.begin(), y->loops.end());
  for (Value* a : {x->lo, x->hi}) {
    for (Value* b : {y->lo, y->hi}) {
      Value* p = mul(a, b);
      out.lo = out.lo ? least(out.lo, p) : p;
      out.hi = out.hi ? greatest(out.hi, p) : p;
    }
  }
  return out;
}

std::optional<Bounds> Extremes::compute(const Value& v, const Op& where) {
  if (!v.op) {
    const Op* owner = v.block->owner;
    if (!owner || !is_loop(*owner)) return std::nullopt;
    if (!is_for(*owner)) return std::nullopt;
    if (v.index == 0) return variable(*owner, where);
    const auto counted = counter(*owner, v.index - 1);
    return counted ? counted : converted(*owner, v.index - 1);
  }
  const Op& op = *v.op;
  switch (op.code) {
    case Opcode::const_:
      return v.type.dtype == DType::u64_ ? std::nullopt
                                         : std::optional(Bounds{number(*constant(v)), number(*constant(v)), true, {}});
    case Opcode::cast_:
      if (!ir::is_int(op.operands[0]->type.dtype) || v.type != ir::scalar(DType::i64_)) return std::nullopt;
      if (op.operands[0]->type.dtype == DType::u64_) return std::nullopt;
      return of(*op.operands[0], where);
    case Opcode::dim_: {
      if (!is_before(*op.operands[0])) return std::nullopt;
      Value* extent = builder_.dim(op.operands[0], op.dim);
      return Bounds{extent, extent, true, {}};
    }
    case Opcode::load_:
      return inspect(op);
    case Opcode::mul_:
      return v.type == ir::scalar(DType::i64_) && ranges_.affine(v, where).terms.size() == 1 ? product(op, where)
                                                                                             : std::nullopt;
    case Opcode::mod_: {
      const auto n = of(*op.operands[1], where);
      if (!n || v.type != ir::scalar(DType::i64_)) return std::nullopt;
      overflows_.push_back(builder_.op(Opcode::le_, {n->lo, number(0)}));
      return Bounds{number(0), sub(n->hi, number(1)), !n->varies(), n->loops};
    }
    case Opcode::floordiv_: {
      const auto c = constant(*op.operands[1]);
      const auto x = of(*op.operands[0], where);
      if (!c || *c <= 0 || !x || v.type != ir::scalar(DType::i64_)) return std::nullopt;
      Bounds out = *x;
      out.lo = builder_.op(Opcode::floordiv_, {x->lo, number(*c)});
      out.hi = x->varies() ? builder_.op(Opcode::floordiv_, {x->hi, number(*c)}) : out.lo;
      return out;
    }
    case Opcode::wrap_: {
      const auto i = of(*op.operands[0], where), n = of(*op.operands[1], where);
      if (!i || !n || n->varies()) return std::nullopt;
      const ir::Range lowest = ranges_.of(*i->lo);
      if (lowest.lo >= 0) return i;
      Value* negative = builder_.op(Opcode::lt_, {i->lo, number(0)});
      Bounds out = *i;
      // The sum is used where the index is negative, and cannot overflow there.
      Value* wrapped = builder_.op(Opcode::add_, {least(i->lo, number(0)), n->lo});
      out.lo = builder_.select(negative, i->varies() ? least(wrapped, number(0)) : wrapped, i->lo);
      out.hi = i->varies() ? builder_.select(negative, greatest(i->hi, sub(n->lo, number(1))), i->hi) : out.lo;
      return out;
    }
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_: {
      const auto x = of(*op.operands[0], where), y = of(*op.operands[1], where);
      if (!x || !y || v.type != ir::scalar(DType::i64_)) return std::nullopt;
      const bool min = op.code == Opcode::pymin_ || op.code == Opcode::minimum_;
      Bounds out{min ? least(x->lo, y->lo) : greatest(x->lo, y->lo), min ? least(x->hi, y->hi) : greatest(x->hi, y->hi),
                 x->exact && y->exact && !(x->varies() && y->varies()), x->loops};
      out.loops.insert(y->loops.begin(), y->loops.end());
      return out;
    }
    case Opcode::select_:
      return either(*op.operands[1], where, *op.operands[2], where);
    case Opcode::if_: {
      const Op *a = op.blocks[0]->last, *b = op.blocks[1]->last;
      if (a->code != Opcode::yield_ || b->code != Opcode::yield_) {
        const Op* stays = a->code == Opcode::yield_ ? a : b;
        return stays->code == Opcode::yield_ ? of(*stays->operands[v.index], *stays) : std::nullopt;
      }
      return either(*a->operands[v.index], *a, *b->operands[v.index], *b);
    }
    case Opcode::add_:
    case Opcode::sub_: {
      // Not affine: it may wrap. The same bounds hold as long as the sums of bounds do not.
      const auto x = of(*op.operands[0], where), y = of(*op.operands[1], where);
      if (!x || !y || v.type != ir::scalar(DType::i64_)) return std::nullopt;
      Bounds out = *x;
      out.loops.insert(y->loops.begin(), y->loops.end());
      out.exact = x->exact && y->exact && !(x->varies() && y->varies());
      const bool plus = op.code == Opcode::add_;
      out.lo = plus ? add(x->lo, y->lo) : sub(x->lo, y->hi);
      out.hi = !x->varies() && !y->varies() ? out.lo : plus ? add(x->hi, y->hi) : sub(x->hi, y->lo);
      return out;
    }
    default:
      return is_for(op) ? counter(op, v.index) : std::nullopt;
  }
}

std::optional<Bounds> Extremes::variable(const Op& loop, const Op& where) {
  if (active_.count(&loop)) return std::nullopt;
  const auto lower = of(*loop.operands[0], loop), upper = of(*loop.operands[1], loop),
             step = of(*loop.operands[2], loop);
  if (!lower || !upper || !step || step->varies()) return std::nullopt;
  const bool whole = exits_of(loop).breaks.empty();
  Bounds out{nullptr, nullptr, lower->exact && upper->exact && whole, lower->loops};
  out.loops.insert(upper->loops.begin(), upper->loops.end());
  out.loops.insert(&loop);
  const auto s = constant(*step->lo);
  const bool fixed = !lower->varies() && !upper->varies();
  if (s && (*s == 1 || *s == -1 || !fixed)) {
    out.exact &= *s == 1 || *s == -1;
    out.lo = *s > 0 ? lower->lo : add(upper->lo, number(1));
    out.hi = *s > 0 ? sub(upper->hi, number(1)) : lower->hi;
  } else if (fixed) {
    Value* up = s ? nullptr : builder_.op(Opcode::gt_, {step->lo, number(0)});
    Value* sign = s ? number(*s > 0 ? 1 : -1) : builder_.select(up, number(1), number(-1));
    Value* steps = builder_.op(Opcode::floordiv_, {sub(sub(upper->lo, lower->lo), sign), step->lo});
    Value* last = add(lower->lo, mul(steps, step->lo));
    out.lo = s ? (*s > 0 ? lower->lo : last) : builder_.select(up, lower->lo, last);
    out.hi = s ? (*s > 0 ? last : lower->lo) : builder_.select(up, last, lower->lo);
  } else {
    return std::nullopt;
  }
  active_.insert(&loop);
  clip(out, loop, where);
  active_.erase(&loop);
  return out;
}

void Extremes::clip(Bounds& bounds, const Op& loop, const Op& where) {
  const Value* iv = body_of(loop).args[0];
  for (const Fact& fact : path_to(where, outer_).facts) {
    if (!is_inside(*fact.compare, body_of(loop)) && fact.compare->operands[0] != iv) continue;
    Affine difference = ranges_.affine(*fact.compare->operands[0], where);
    difference.add(ranges_.affine(*fact.compare->operands[1], where), -1);
    const Wide c = difference.coef(*iv);
    if (c != 1 && c != -1) continue;
    // c * iv + rest OP 0, so iv OP' bound = -c * rest.
    difference.add(*iv, -c);
    Affine bound;
    bound.add(difference, -c);
    Opcode code = fact.compare->code;
    const bool less = code == Opcode::lt_ || code == Opcode::le_, more = code == Opcode::gt_ || code == Opcode::ge_;
    if (!less && !more && !(code == Opcode::eq_ && fact.holds)) continue;
    bool strict = code == Opcode::lt_ || code == Opcode::gt_;
    bool above = more;  // the fact bounds the difference from below
    if (!fact.holds) {
      above = !above;
      strict = !strict;
    }
    if (code == Opcode::eq_) strict = false;
    const bool bounds_below = code == Opcode::eq_ || above == (c == 1);
    const bool bounds_above = code == Opcode::eq_ || above != (c == 1);
    const size_t flags = overflows_.size();
    const auto limit = of(bound, where);
    if (!limit) {
      overflows_.resize(flags);
      continue;
    }
    if (bounds_above) bounds.hi = least(bounds.hi, strict ? sub(limit->hi, number(1)) : limit->hi);
    if (bounds_below) bounds.lo = greatest(bounds.lo, strict ? add(limit->lo, number(1)) : limit->lo);
  }
}

bool Extremes::cuts_exactly(const Path& path, const Op& where) {
  if (path.opaque) return false;
  for (const Fact& fact : path.facts) {
    if (fact.compare->code == Opcode::ne_ || (fact.compare->code == Opcode::eq_ && !fact.holds)) return false;
    Affine difference = ranges_.affine(*fact.compare->operands[0], where);
    difference.add(ranges_.affine(*fact.compare->operands[1], where), -1);
    int variables = 0;
    for (const auto& [value, coef] : difference.terms) {
      if (is_before(*value)) continue;
      const Op* owner = value->op ? nullptr : value->block->owner;
      const bool variable = owner && is_for(*owner) && value->index == 0;
      if (!variable || (coef != 1 && coef != -1)) return false;
      ++variables;
    }
    if (variables != 1) return false;
  }
  return true;
}

}  // namespace appy::passes
