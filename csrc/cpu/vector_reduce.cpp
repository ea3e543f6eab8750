// What a simd loop leaves: its accumulators, combined.
#include <algorithm>
#include <map>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

using ir::Combiner;
using ir::DType;
using ir::Opcode;

bool VectorLoop::starts_at_zero(size_t k) const {
  const ir::Value* init = loop_.operands[3 + k];
  return loop_.loop->carried[k].combiner == Combiner::sum_ && is_float(init->type.dtype) && f_.is_const(init) &&
         init->op->imm == 0;
}

void VectorLoop::add_up(size_t k, x86::Reg partial, x86::Reg carried) {
  const Combiner c = loop_.loop->carried[k].combiner;
  const DType t = loop_.results[k]->type.dtype;
  if (!ir::counts_each_update(c) || starts_at_zero(k)) {
    f_.move(carried, partial);
  } else {
    x86::Reg total = f_.new_reg(t);
    f_.arithmetic(opcode_of(c), t, total, carried, partial);
    f_.move(carried, total);
  }
}

std::vector<bool> VectorLoop::reduce_together(std::span<const x86::Reg> carried) {
  std::vector<bool> done(carried.size());
  std::vector<std::pair<x86::Vec, std::vector<size_t>>> found;
  for (size_t first = 0; first < carried.size(); ++first) {
    const Combiner c = loop_.loop->carried[first].combiner;
    const DType t = loop_.results[first]->type.dtype;
    if (done[first] || in_group(first) || !is_float(t) || !ir::counts_each_update(c) || bytes(t) < 16) continue;
    std::vector<size_t> members;
    std::vector<x86::Reg> regs;
    for (size_t k = first; k < carried.size() && members.size() < static_cast<size_t>(lanes_); ++k) {
      const bool alike = loop_.loop->carried[k].combiner == c && loop_.results[k]->type.dtype == t && !in_group(k);
      if (done[k] || !alike) continue;
      members.push_back(k);
      regs.push_back(accumulators_[k][0]);
    }
    if (members.size() < 2) continue;
    for (size_t k : members) done[k] = true;
    found.emplace_back(across_lanes_of(opcode_of(c), t, regs), std::move(members));
  }
  if (!packs_.empty()) {
    for (size_t n = 0; n < packs_.size(); ++n) {
      const DType t = loop_.results[found[n].second[0]]->type.dtype;
      const x86::Vec to = sized(packs_[n], bytes(t)), sums = sized(found[n].first, bytes(t));
      if (std::ranges::all_of(found[n].second, [this](size_t k) { return starts_at_zero(k); })) {
        f_.move(to, sums);  // so that the loop has nothing to keep
      } else {
        elementwise(Opcode::add_, t, to, sums, to);
      }
    }
    return done;
  }
  // Only now: before, the accumulators have the registers.
  for (const auto& [sums, members] : found) {
    for (size_t m = 0; m < members.size(); ++m) {
      const size_t k = members[m];
      const DType t = loop_.results[k]->type.dtype;
      x86::Reg partial = starts_at_zero(k) ? carried[k] : f_.new_reg(t);
      element_of(t, sums, m, partial);
      if (!starts_at_zero(k)) add_up(k, partial, carried[k]);
    }
  }
  return done;
}

void VectorLoop::reduce(std::span<const x86::Reg> carried) {
  // Constants that the reduction needs are made here, outside of any loop.
  begin_pass(1, true);
  level_ = f_.depth();
  f_.push_level(loop_);
  level_ = f_.depth();
  const std::vector<bool> done = reduce_together(carried);
  for (size_t k = 0; k < carried.size(); ++k) {
    if (done[k]) continue;
    if (in_group(k)) {
      if (loop_.loop->carried[k].tie >= 0) reduce_group(k, carried);
      continue;
    }
    const Combiner c = loop_.loop->carried[k].combiner;
    const DType t = loop_.results[k]->type.dtype;
    if (c == Combiner::last_) {
      // The last active lane: left_ is 0 after a full group, else minus the lanes that were off.
      x86::Gp lane = cc_.newGpq();
      cc_.lea(lane, x86::ptr(left_, lanes_ - 1));
      f_.move(carried[k], extract(t, accumulators_[k][0], lane));
      continue;
    }
    add_up(k, across_lanes(opcode_of(c), t, accumulators_[k][0]), carried[k]);
  }
  f_.pop_level();
}

bool VectorLoop::moves_with_followers(size_t leader) const {
  // Of equal zeros the sign is that of the one that won.
  const Combiner c = loop_.loop->carried[leader].combiner;
  return (c == Combiner::pymin_ || c == Combiner::pymax_) && is_float(loop_.results[leader]->type.dtype);
}

void VectorLoop::merge_group(size_t leader, std::span<const size_t> followers) {
  const std::vector<ir::Carried>& carried = loop_.loop->carried;
  const auto type = [this](size_t k) { return loop_.results[k]->type.dtype; };
  const DType t = type(leader);
  const Combiner by = carried[leader].combiner;
  const auto tie = static_cast<size_t>(carried[leader].tie);
  const bool least = by == Combiner::pymin_ || by == Combiner::minimum_;
  const bool nan_wins = is_float(t) && (by == Combiner::minimum_ || by == Combiner::maximum_);
  for (size_t u = 1; u < accumulators_[leader].size(); ++u) {
    const x86::Reg a = accumulators_[leader][0], b = accumulators_[leader][u];
    x86::Reg better = compare(least ? Opcode::lt_ : Opcode::gt_, t, b, a), equal = compare(Opcode::eq_, t, a, b);
    if (nan_wins) {
      const x86::Reg x = compare(Opcode::isnan_, t, a, a), y = compare(Opcode::isnan_, t, b, b);
      better = mask_or(better, mask_andn(y, x));
      equal = mask_or(equal, mask_and(x, y));
    }
    std::map<Combiner, x86::Reg> take;
    for (size_t f : followers) {
      x86::Reg& mask = take[carried[f].combiner];
      if (mask.isValid()) continue;
      const Opcode before = carried[f].combiner == Combiner::follow_first_ ? Opcode::lt_ : Opcode::gt_;
      const x86::Reg decides = compare(before, type(tie), accumulators_[tie][u], accumulators_[tie][0]);
      mask = mask_or(better, mask_and(equal, decides));
    }
    for (size_t f : followers) blend_into(type(f), accumulators_[f][0], take[carried[f].combiner], accumulators_[f][u]);
    if (moves_with_followers(leader)) {
      blend_into(t, a, take[carried[tie].combiner], b);
    } else {
      elementwise(opcode_of(by), t, a, b, a);
    }
  }
}

void VectorLoop::reduce_group(size_t leader, std::span<const x86::Reg> carried) {
  const auto combiner = [this](size_t k) { return loop_.loop->carried[k].combiner; };
  const auto type = [this](size_t k) { return loop_.results[k]->type.dtype; };
  const auto tie = static_cast<size_t>(loop_.loop->carried[leader].tie);
  std::vector<size_t> followers;
  for (size_t k = 0; k < carried.size(); ++k) {
    if (ir::is_follower(combiner(k)) && loop_.loop->carried[k].leader == static_cast<int>(leader))
      followers.push_back(k);
  }
  merge_group(leader, followers);
  const DType t = type(leader);
  const x86::Reg all = accumulators_[leader][0], ties = accumulators_[tie][0];
  const x86::Reg best = across_lanes(opcode_of(combiner(leader)), t, all);
  // Where one is not a number all are, or that is the best.
  x86::Reg candidates = compare(Opcode::eq_, t, all, broadcast_reg(t, best));
  if (is_float(t)) candidates = mask_or(candidates, compare(Opcode::isnan_, t, all, all));
  if (!moves_with_followers(leader)) f_.move(carried[leader], best);
  for (const Combiner c : {Combiner::follow_first_, Combiner::follow_last_}) {
    if (std::none_of(followers.begin(), followers.end(), [&](size_t f) { return combiner(f) == c; })) continue;
    const bool first = c == Combiner::follow_first_;
    const x86::Vec none = broadcast_bits(8, static_cast<uint64_t>(first ? INT64_MAX : INT64_MIN));
    const x86::Reg kept = blend(type(tie), candidates, ties, sized(none, bytes(type(tie))));
    const x86::Reg decides = across_lanes(first ? Opcode::pymin_ : Opcode::pymax_, type(tie), kept);
    const x86::Reg won = mask_and(candidates, compare(Opcode::eq_, type(tie), ties, broadcast_reg(type(tie), decides)));
    x86::Gp lane = cc_.newGpq();
    mask_bits(lane, won);
    cc_.tzcnt(lane, lane);
    for (size_t f : followers) {
      if (combiner(f) == c) f_.move(carried[f], f == tie ? decides : extract(type(f), accumulators_[f][0], lane));
    }
    if (combiner(tie) == c && moves_with_followers(leader)) f_.move(carried[leader], extract(t, all, lane));
  }
}

}  // namespace appy::cpu
