#include "passes/range.h"

#include <algorithm>

#include "passes/range_impl.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

constexpr Wide kInfinity = Wide{1} << 124;

bool manageable(const Affine& sum) {
  if (sum.terms.size() > 10 || sum.constant > kInfinity / 16 || sum.constant < -kInfinity / 16) return false;
  for (const auto& [atom, factor] : sum.terms) {
    if (factor >= kMaxCoef || factor <= -kMaxCoef) return false;
  }
  return true;
}

ir::Range saturated(const Interval& v) {
  return {static_cast<int64_t>(std::clamp<Wide>(v.lo, INT64_MIN, INT64_MAX)),
          static_cast<int64_t>(std::clamp<Wide>(v.hi, INT64_MIN, INT64_MAX))};
}

}  // namespace

Affine Ranges::Impl::affine(const Value& v, const ir::Op* where, int depth) {
  Affine out;
  const auto bounds = [&](const Value& x) { return where ? refined(x, *where) : base(x); };
  const auto atom = [&] {
    out.add(v, 1);
    return out;
  };
  if (int64_t constant; is_constant(v, constant)) {
    out.constant = base(v).lo;
    return out;
  }
  if (!v.op || depth == 0 || !integral(v)) return atom();
  const ir::Op& op = *v.op;
  const Interval all = interval_of(v.type.dtype);
  const auto part = [&](size_t i) { return affine(*op.operands[i], where, depth - 1); };
  switch (op.code) {
    case Opcode::add_:
    case Opcode::sub_: {
      if (!exact(op.code, bounds(*op.operands[0]), bounds(*op.operands[1])).inside(all)) return atom();
      out = part(0);
      out.add(part(1), op.code == Opcode::add_ ? 1 : -1);
      return out;
    }
    case Opcode::mul_:
    case Opcode::shl_: {
      const size_t factor = op.code == Opcode::mul_ && constant_op(*op.operands[0]) ? 0 : 1;
      const Interval k = bounds(*op.operands[factor]), x = bounds(*op.operands[1 - factor]);
      if (!k.single()) return atom();
      if (op.code == Opcode::shl_ && (k.lo < 0 || k.lo > 62)) return atom();
      const Wide by = op.code == Opcode::shl_ ? Wide{1} << static_cast<int>(k.lo) : k.lo;
      if (by >= kMaxCoef || by <= -kMaxCoef || !exact(Opcode::mul_, x, {by, by}).inside(all)) return atom();
      out.add(part(1 - factor), by);
      return out;
    }
    case Opcode::neg_: {
      const Interval x = bounds(*op.operands[0]);
      if (!exact(Opcode::sub_, {0, 0}, x).inside(all)) return atom();
      out.add(part(0), -1);
      return out;
    }
    case Opcode::cast_:
      if (!integral(*op.operands[0]) || !bounds(*op.operands[0]).inside(all)) return atom();
      return part(0);
    case Opcode::wrap_: {
      const Interval i = bounds(*op.operands[0]);
      if (i.lo >= 0) return part(0);
      if (i.hi >= 0 || !exact(Opcode::add_, i, bounds(*op.operands[1])).inside(all)) return atom();
      out = part(0);
      out.add(part(1), 1);
      return out;
    }
    case Opcode::dim_: {
      if (const ir::Op* alloc = ir::alloc_of(*op.operands[0])) {
        return affine(*alloc->operands[static_cast<size_t>(op.dim)], where, depth - 1);
      }
      const uint64_t key = uint64_t{op.operands[0]->id} << 8 | static_cast<uint64_t>(op.dim);
      out.add(*extents_.emplace(key, &v).first->second, 1);
      return out;
    }
    default:
      return atom();
  }
}

void Ranges::Impl::counter_sums(const ir::Op& loop, const Value& counter, const ir::Op& where,
                                std::vector<Affine>& out) {
  const size_t index = counter.index - 1;
  const Interval step = base(*loop.operands[2]), found = base(counter);
  if (!step.single() || step.lo == 0 || step.lo >= kMaxCoef || step.lo <= -kMaxCoef) return;
  if (found == interval_of(counter.type.dtype) || !accumulated(loop, index, false)) return;  // it might wrap
  const auto each = step_of(loop, index, false, 8);
  if (!each || !each->inside({-kMaxCoef, kMaxCoef})) return;
  // |step| * (counter - start) lies in |step| * iterations * each, and step * iterations = variable - lower.
  const Wide size = step.lo > 0 ? step.lo : -step.lo, sign = step.lo > 0 ? 1 : -1;
  Affine grown;
  grown.add(counter, size);
  grown.add(affine(*loop.operands[3 + index], &where), -size);
  Affine walked;
  walked.add(*loop.blocks[0]->args[0], sign);
  walked.add(affine(*loop.operands[0], &where), -sign);
  Affine above = grown, below;
  above.add(walked, -each->hi);
  below.add(grown, -1);
  below.add(walked, each->lo);
  out.push_back(above);
  out.push_back(below);
}

void Ranges::Impl::defining_sums(const Value& atom, const ir::Op& where, int depth, std::vector<Affine>& out) {
  Affine self;
  self.add(atom, 1);
  if (!atom.op) {
    const ir::Op* loop = atom.block->owner;
    if (!loop || loop->code != Opcode::for_) return;
    if (atom.index != 0) return counter_sums(*loop, atom, where, out);
    const Interval step = base(*loop->operands[2]);
    const Affine lower = affine(*loop->operands[0], &where), upper = affine(*loop->operands[1], &where);
    if (step.lo > 0) {
      out.push_back(difference(self, upper, 1));
      out.push_back(difference(lower, self, 0));
    } else if (step.hi < 0) {
      out.push_back(difference(self, lower, 0));
      out.push_back(difference(upper, self, 1));
    }
    return;
  }
  const ir::Op& op = *atom.op;
  const auto operand = [&](size_t i) { return affine(*op.operands[i], &where); };
  switch (op.code) {
    case Opcode::pymin_:
    case Opcode::minimum_:
      for (size_t i = 0; i < 2; ++i) out.push_back(difference(self, operand(i), 0));
      return;
    case Opcode::pymax_:
    case Opcode::maximum_:
      for (size_t i = 0; i < 2; ++i) out.push_back(difference(operand(i), self, 0));
      return;
    case Opcode::mod_:
      if (refined(*op.operands[1], where).lo > 0) out.push_back(difference(self, operand(1), 1));
      if (refined(*op.operands[1], where).lo > 0 && refined(*op.operands[0], where).lo >= 0) {
        out.push_back(difference(self, operand(0), 0));
      }
      return;
    case Opcode::floordiv_:
    case Opcode::shr_: {
      const Interval k = refined(*op.operands[1], where);
      if (!k.single() || k.lo < 0 || (op.code == Opcode::shr_ && k.lo > 40) || k.lo >= kMaxCoef) return;
      const Wide by = op.code == Opcode::shr_ ? Wide{1} << static_cast<int>(k.lo) : k.lo;
      if (by == 0) return;
      Affine scaled;
      scaled.add(atom, by);
      out.push_back(difference(scaled, operand(0), 0));
      out.push_back(difference(operand(0), scaled, 1 - by));
      if (refined(*op.operands[0], where).lo >= 0) out.push_back(difference(self, operand(0), 0));
      return;
    }
    case Opcode::wrap_: {
      const Affine i = operand(0), n = operand(1);
      if (depth < 2 || !integral(*op.operands[0])) return;
      Affine least = number(0);  // -n - i
      least.add(n, -1);
      least.add(i, -1);
      if (upper(difference(i, n, 1), where, 0, depth - 2) <= 0 && upper(least, where, 0, depth - 2) <= 0) {
        out.push_back(difference(self, n, 1));
        out.push_back(difference(number(0), self, 0));
      }
      return;
    }
    default:
      return;
  }
}

std::optional<Wide> Ranges::Impl::split_upper(const Affine& sum, const Value& atom, const ir::Op& where, Wide goal,
                                              int depth) {
  if (!atom.op || (atom.op->code != Opcode::select_ && atom.op->code != Opcode::if_)) return std::nullopt;
  const ir::Op& op = *atom.op;
  const Wide factor = sum.coef(atom);
  std::optional<Wide> worst;
  for (size_t arm = 0; arm < 2; ++arm) {
    if (op.code == Opcode::if_ && !falls_through(*op.blocks[arm])) continue;
    const Value& value =
        op.code == Opcode::select_ ? *op.operands[1 + arm] : *op.blocks[arm]->last->operands[atom.index];
    const size_t mark = extra_.size();
    const uint64_t around = case_;
    case_ = ++cases_;
    condition_sums(*op.operands[0], arm == 0, extra_, 4);
    Affine chosen = sum;
    chosen.add(atom, -factor);
    chosen.add(affine(value, &where), factor);
    const Wide found = upper(chosen, where, goal, depth - 1);
    extra_.resize(mark);
    case_ = around;
    worst = worst ? std::max(*worst, found) : found;
    if (found > goal) break;
  }
  return worst && *worst <= goal ? worst : std::nullopt;
}

bool Ranges::Impl::searched_before(const Affine& sum, int depth) {
  // Sums of equal hashes cost a proof at worst: the bound that stands for what is not looked at is right for each.
  const uint64_t terms = hash_of_terms(sum) + case_;
  const auto at =
      std::find_if(searched_.begin(), searched_.end(), [&](const Searched& known) { return known.terms == terms; });
  if (at == searched_.end()) {
    searched_.push_back({terms, sum.constant, depth});
    return false;
  }
  if (at->constant <= sum.constant && at->depth >= depth) return true;
  at->constant = sum.constant;
  at->depth = depth;
  return false;
}

Wide Ranges::Impl::upper(const Affine& sum, const ir::Op& where, Wide goal, int depth) {
  if (!manageable(sum)) return kInfinity;
  Wide best = sum.constant, least = sum.constant;
  for (const auto& [atom, factor] : sum.terms) {
    const Interval in = refined(*atom, where);
    best += factor * (factor > 0 ? in.hi : in.lo);
    least += factor * (factor > 0 ? in.lo : in.hi);
  }
  if (best <= goal || least > goal || depth == 0 || sum.terms.empty() || searched_before(sum, depth)) return best;
  if (refuted(sum, where, goal)) return best;
  if (--budget_ < 0) return best;

  // sum = rest + k * fact <= rest, with k chosen so that one atom disappears.
  const auto substitute = [&](const Affine& fact) {
    for (const auto& [atom, factor] : fact.terms) {
      const Wide own = sum.coef(*atom);
      if (own == 0 || (own > 0) != (factor > 0) || own % factor != 0) continue;
      Affine rest = sum;
      rest.add(fact, -(own / factor));
      if (rest.terms.size() > sum.terms.size() + 1) continue;
      best = std::min(best, upper(rest, where, goal, depth - 1));
      if (best <= goal) return true;
    }
    return budget_ < 0;
  };
  std::vector<Affine> known;
  for (size_t i = sum.terms.size(); i-- > 0;) {
    known.clear();
    defining_sums(*sum.terms[i].first, where, depth, known);
    for (const Affine& fact : known) {
      if (substitute(fact)) return best;
    }
  }
  each_fact(where, atoms_of(sum), substitute);
  for (size_t i = sum.terms.size(); i-- > 0 && best > goal && budget_ > 0;) {
    if (const auto split = split_upper(sum, *sum.terms[i].first, where, goal, depth)) best = std::min(best, *split);
  }
  return best;
}

bool Ranges::Impl::nonpositive(const Affine& sum, const ir::Op& where, int budget) {
  begin_search(budget);
  return upper(sum, where, 0, kDepth) <= 0;
}

std::optional<bool> Ranges::Impl::decide(const Value& condition, const ir::Op& where, int depth) {
  if (condition.type != ir::scalar(ir::DType::bool_)) return std::nullopt;
  if (const Interval known = refined(condition, where); known.single()) return known.lo != 0;
  if (!condition.op || depth == 0) return std::nullopt;
  const Scope here = scope_of(where);
  const Undecided* const before = undecided_.find(condition);
  if (before && before->here == here && before->depth >= depth) return std::nullopt;
  const std::optional<bool> found = decide_op(*condition.op, where, depth);
  if (!found) undecided_[condition] = {here, depth};
  return found;
}

std::optional<bool> Ranges::Impl::decide_op(const ir::Op& op, const ir::Op& where, int depth) {
  const auto other = [&](size_t i) { return decide(*op.operands[i], where, depth - 1); };
  const auto sum = [&](Opcode code, Wide offset) {
    Affine out = affine(*op.operands[0], &where);
    out.add(affine(*op.operands[1], &where), code == Opcode::sub_ ? -1 : 1);
    out.constant += offset;
    return out;
  };
  const auto negated = [](Affine a, Wide offset) {
    Affine out;
    out.add(a, -1);
    out.constant += offset;
    return out;
  };
  const bool integers = !op.operands.empty() && integral(*op.operands[0]);
  switch (op.code) {
    case Opcode::not_:
      if (const auto inner = other(0)) return !*inner;
      return std::nullopt;
    case Opcode::and_:
    case Opcode::or_: {
      const bool absorbing = op.code == Opcode::or_;
      const auto a = other(0), b = other(1);
      if ((a && *a == absorbing) || (b && *b == absorbing)) return absorbing;
      if (a && b) return !absorbing;
      return std::nullopt;
    }
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_: {
      if (!integers) return std::nullopt;
      const bool flipped = op.code == Opcode::gt_ || op.code == Opcode::ge_;
      const Wide strict = op.code == Opcode::lt_ || op.code == Opcode::gt_ ? 1 : 0;
      const Affine a_minus_b = flipped ? negated(sum(Opcode::sub_, 0), 0) : sum(Opcode::sub_, 0);
      Affine holds = a_minus_b;
      holds.constant += strict;
      if (nonpositive(holds, where)) return true;
      if (nonpositive(negated(a_minus_b, 1 - strict), where)) return false;
      return std::nullopt;
    }
    case Opcode::eq_:
    case Opcode::ne_: {
      if (!integers) return std::nullopt;
      const Affine d = sum(Opcode::sub_, 0);
      if (d.is_constant()) return (d.constant == 0) == (op.code == Opcode::eq_);
      Affine below = d;
      below.constant += 1;
      if (nonpositive(below, where) || nonpositive(negated(d, 1), where)) return op.code == Opcode::ne_;
      return std::nullopt;
    }
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_: {
      const Interval fits = interval_of(op.operands[0]->type.dtype);
      const Affine s = sum(op.code == Opcode::ovf_add_ ? Opcode::add_ : Opcode::sub_, 0);
      if (nonpositive(difference(s, number(fits.hi), 0), where) &&
          nonpositive(difference(number(fits.lo), s, 0), where)) {
        return false;
      }
      return std::nullopt;
    }
    case Opcode::ovf_mul_: {
      const Interval product = exact(Opcode::mul_, refined(*op.operands[0], where), refined(*op.operands[1], where));
      if (product.inside(interval_of(op.operands[0]->type.dtype))) return false;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

Affine Ranges::Impl::extent(const Value& view, int dim, const ir::Op& where) {
  if (const ir::Op* alloc = ir::alloc_of(view)) return affine(*alloc->operands[static_cast<size_t>(dim)], &where);
  if (!all_extents_) {
    all_extents_ = true;
    ir::walk(*graph_.body, [&](ir::Op& op) {
      if (op.code == Opcode::dim_) {
        extents_.emplace(uint64_t{op.operands[0]->id} << 8 | static_cast<uint64_t>(op.dim), op.result());
      }
    });
  }
  const auto found = extents_.find(uint64_t{view.id} << 8 | static_cast<uint64_t>(dim));
  Affine out;
  if (found != extents_.end()) out.add(*found->second, 1);
  return out;  // 0 where nobody asks for the extent, of which then nothing is known
}

bool Ranges::Impl::in_bounds(const ir::Op& access, const ir::Op& where) {
  const ir::Access& a = *access.access;
  for (size_t d = 0; d < a.offset.size(); ++d) {
    Affine row = number(a.offset[d]);
    for (int t = 0; t < a.terms; ++t) {
      const Wide factor = a.coef[d][t];
      if (factor >= kMaxCoef || factor <= -kMaxCoef) return false;
      if (factor != 0) row.add(affine(*access.operands[access.first_term() + t], &where), factor);
    }
    if (!nonpositive(difference(number(0), row, 0), where)) return false;
    if (!nonpositive(difference(row, extent(*access.view(), static_cast<int>(d), where), 1), where)) return false;
  }
  return true;
}

Ranges::Ranges(const ir::Graph& graph) : impl_(std::make_unique<Impl>(graph)) {}
Ranges::~Ranges() = default;

ir::Range Ranges::of(const Value& v) { return saturated(impl_->anew().base(v)); }

ir::Range Ranges::at(const Value& v, const ir::Op& where) {
  Interval bounds = impl_->anew().refined(v, where);
  if (!bounds.single() && integral(v)) {
    const Affine sum = impl_->affine(v, &where);
    impl_->begin_search(Impl::kBudget / 4);
    bounds.hi = std::min(bounds.hi, impl_->upper(sum, where, bounds.lo, 2));
    impl_->begin_search(Impl::kBudget / 4);
    bounds.lo = std::max(bounds.lo, -impl_->upper(difference(number(0), sum, 0), where, -bounds.hi, 2));
    if (bounds.lo > bounds.hi) bounds = impl_->refined(v, where);  // never reached
  }
  return saturated(bounds);
}

bool Ranges::proves_lt(const Value& a, const Value& b, const ir::Op& where) { return proves_le(a, 1, b, where); }
bool Ranges::proves_le(const Value& a, const Value& b, const ir::Op& where) { return proves_le(a, 0, b, where); }

bool Ranges::sees_le(const Value& a, const Value& b, const ir::Op& where) {
  impl_->anew();
  const Affine over = difference(impl_->affine(a, &where), impl_->affine(b, &where), 0);
  return impl_->nonpositive(over, where, Impl::kGlance);
}

bool Ranges::proves_le(const Value& a, int64_t c, const Value& b, const ir::Op& where) {
  impl_->anew();
  return impl_->nonpositive(difference(impl_->affine(a, &where), impl_->affine(b, &where), c), where);
}

bool Ranges::proves_ge(const Value& a, int64_t c, const ir::Op& where) {
  return impl_->nonpositive(difference(number(c), impl_->anew().affine(a, &where), 0), where);
}

bool Ranges::proves_le(const Value& a, int64_t c, const ir::Op& where) {
  return impl_->nonpositive(difference(impl_->anew().affine(a, &where), number(c), 0), where);
}

bool Ranges::proves_nonpositive(const Affine& sum, const ir::Op& where) {
  return impl_->anew().nonpositive(sum, where);
}

std::optional<bool> Ranges::decide(const Value& condition, const ir::Op& where) {
  return impl_->anew().decide(condition, where);
}

bool Ranges::in_bounds(const ir::Op& access, const ir::Op& where) { return impl_->anew().in_bounds(access, where); }

std::optional<Ranges::Ends> Ranges::ends(const ir::Op& loop) {
  const ir::Range step = at(*loop.operands[2], loop);
  if (step.lo > 0) return Ends{*loop.operands[0], *loop.operands[1]};
  if (step.hi < 0) return Ends{*loop.operands[1], *loop.operands[0]};
  return {};
}

ir::Range Ranges::trips(const ir::Op& loop) {
  Interval bounds = impl_->anew().trips(loop);
  if (const auto of = bounds.lo > 0 ? std::nullopt : ends(loop)) {
    if (proves_le(of->low, 1, of->high, loop)) {
      bounds.lo = 1;
    } else if (sees_le(of->high, of->low, loop)) {
      bounds.hi = 0;
    }
  }
  return saturated(bounds);
}

int64_t Ranges::most_trips(const ir::Op& loop) { return saturated(impl_->anew().trips(loop)).hi; }

bool Ranges::never_runs(const ir::Op& loop) {
  const Interval bounds = impl_->anew().trips(loop);
  if (bounds.hi <= 0 || bounds.lo > 0) return bounds.hi <= 0;
  const auto of = ends(loop);
  return of && sees_le(of->high, of->low, loop);
}

void Ranges::moved(const ir::Op& op) {
  impl_->anew().moved(op);
  impl_->forget_places();
}

Affine Ranges::affine(const Value& v, const ir::Op& where) { return impl_->anew().affine(v, &where); }

}  // namespace appy::passes
