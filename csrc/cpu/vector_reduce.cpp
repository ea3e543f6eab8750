// What a simd loop leaves: its accumulators, combined.
#include <algorithm>

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
  bool group = false;
  const std::vector<bool> done = reduce_together(carried);
  for (size_t k = 0; k < carried.size(); ++k) {
    if (done[k]) continue;
    if (in_group(k)) {
      group = true;
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
  if (group) reduce_followers(carried);
  f_.pop_level();
}

void VectorLoop::reduce_followers(std::span<const x86::Reg> carried) {
  std::vector<size_t> members;
  std::vector<int> place(carried.size(), -1);
  for (size_t k = 0; k < carried.size(); ++k) {
    if (!in_group(k)) continue;
    place[k] = static_cast<int>(members.size());
    members.push_back(k);
  }
  ir::Loop group;
  std::vector<DType> types;
  std::vector<x86::Reg> best, other;
  const auto vectors = static_cast<int>(accumulators_[members[0]].size());
  // A vector of narrow elements is written as a whole register.
  const auto room = [&](size_t i) { return scratch(16 + static_cast<int>(i), vectors * bytes(types[i]) + kCacheLine); };
  for (size_t k : members) {
    ir::Carried c = loop_.loop->carried[k];
    if (c.leader >= 0) c.leader = place[static_cast<size_t>(c.leader)];
    if (c.tie >= 0) c.tie = place[static_cast<size_t>(c.tie)];
    group.carried.push_back(c);
    const DType t = loop_.results[k]->type.dtype;
    types.push_back(t);
    best.push_back(carried[k]);
    other.push_back(f_.new_reg(t));
    const size_t i = types.size() - 1;
    for (size_t u = 0; u < accumulators_[k].size(); ++u) {
      x86::Mem slot = room(i);
      slot.addOffset(static_cast<int64_t>(u) * bytes(t));
      spill(t, accumulators_[k][u], slot);
    }
  }
  const int count = vectors * lanes_;
  x86::Gp lane = cc_.newGpq();
  asmjit::Label again = cc_.newLabel();
  cc_.xor_(lane.r32(), lane.r32());
  cc_.bind(again);
  for (size_t i = 0; i < members.size(); ++i) {
    x86::Mem slot = room(i);
    const int size = ir::size_of(types[i]);
    slot.setIndex(lane, size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0);
    f_.load_scalar(types[i], other[i], slot);
  }
  f_.combine(group, types, best, other);
  cc_.inc(lane);
  cc_.cmp(lane, count);
  cc_.jb(again);
}

}  // namespace appy::cpu
