// What a simd loop leaves: accumulators, combined across their lanes.
#include <algorithm>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::Combiner;
using ir::DType;
using ir::Opcode;

x86::Reg VectorLoop::across_lanes(Opcode code, DType t, x86::Reg r) {
  if (t == DType::bool_) {
    x86::Gp bits = cc_.newGpq(), result = cc_.newGpq();
    mask_bits(bits, r);
    cc_.mov(result.r32(), 0);
    if (code == Opcode::and_ || code == Opcode::mul_ || code == Opcode::pymin_ || code == Opcode::minimum_) {
      x86::Gp full = cc_.newGpq();
      f_.load_imm(full, lanes_ == 64 ? -1 : (int64_t{1} << lanes_) - 1);
      cc_.mov(result.r32(), 0);
      cc_.cmp(bits, full);
      cc_.sete(result.r8());
    } else if (code == Opcode::xor_) {
      cc_.popcnt(result, bits);
      cc_.and_(result, 1);
    } else {
      cc_.test(bits, bits);
      cc_.setne(result.r8());
    }
    return result;
  }
  const int all = lanes_;
  x86::Vec v = as_vec(r);
  for (int n = bytes(t); n > ir::size_of(t); n /= 2) {
    x86::Vec high = vec(n / 2);
    if (n == 64) {
      cc_.vextracti64x4(high.ymm(), v.zmm(), 1);
      v = v.ymm();
    } else if (n == 32) {
      avx512_ ? cc_.vextracti32x4(high.xmm(), v.ymm(), 1) : cc_.vextracti128(high.xmm(), v.ymm(), 1);
      v = v.xmm();
    } else {
      cc_.vpsrldq(high.xmm(), v.xmm(), n / 2);
    }
    lanes_ /= 2;
    v = as_vec(elementwise(code, t, v, high, {}));
  }
  lanes_ = all;
  x86::Reg to = f_.new_reg(t);
  if (is_float(t)) {
    cc_.vmovaps(to.as<x86::Xmm>(), v.xmm());
  } else {
    ir::size_of(t) == 8 ? cc_.vpextrq(to.as<x86::Gp>(), v.xmm(), 0) : cc_.vpextrd(to.as<x86::Gp>().r32(), v.xmm(), 0);
    f_.canonicalize(to.as<x86::Gp>(), t);
  }
  return to;
}

bool VectorLoop::starts_at_zero(size_t k) const {
  const ir::Value* init = loop_.operands[3 + k];
  return loop_.loop->carried[k].combiner == Combiner::sum_ && is_float(init->type.dtype) && f_.is_const(init) &&
         init->op->imm == 0;
}

x86::Vec VectorLoop::across_lanes_of(Opcode code, DType t, std::span<const x86::Reg> regs) {
  // Each step halves what is left of each and puts two into one: halves of neighbours beside each other are added.
  const bool wide = t == DType::f64_;
  std::vector<x86::Vec> now;
  for (const x86::Reg& r : regs) now.push_back(as_vec(r));
  const auto step = [&](auto&& low, auto&& high) {
    std::vector<x86::Vec> next;
    for (size_t k = 0; k < now.size(); k += 2) {
      const x86::Vec a = now[k], b = now[std::min(k + 1, now.size() - 1)];
      x86::Vec x = vec(bytes(t)), y = vec(bytes(t));
      low(x, a, b);
      high(y, a, b);
      next.push_back(as_vec(elementwise(code, t, x, y, {})));
    }
    now = std::move(next);
  };
  const auto by = [&](InstId id) {
    return [this, id](const x86::Vec& to, const x86::Vec& a, const x86::Vec& b) { cc_.emit(id, to, a, b); };
  };
  const auto halves = [&](InstId id, int which) {
    return
        [this, id, which](const x86::Vec& to, const x86::Vec& a, const x86::Vec& b) { cc_.emit(id, to, a, b, which); };
  };
  if (!wide) step(by(Id::kIdVunpcklps), by(Id::kIdVunpckhps));
  step(by(Id::kIdVunpcklpd), by(Id::kIdVunpckhpd));
  if (bytes(t) == 64) {
    step(halves(Id::kIdVshuff64x2, 0x88), halves(Id::kIdVshuff64x2, 0xdd));
    step(halves(Id::kIdVshuff64x2, 0x88), halves(Id::kIdVshuff64x2, 0xdd));
  } else if (bytes(t) == 32) {
    // Of AVX-512 the form that reaches all registers.
    avx512_ ? step(halves(Id::kIdVshuff64x2, 0), halves(Id::kIdVshuff64x2, 3))
            : step(halves(Id::kIdVperm2f128, 0x20), halves(Id::kIdVperm2f128, 0x31));
  }
  return now[0];
}

void VectorLoop::element_of(DType t, x86::Vec v, size_t k, x86::Reg to) {
  const size_t each = 16 / static_cast<size_t>(ir::size_of(t)), part = k / each;
  x86::Vec at = v.xmm();
  if (part > 0) {
    at = cc_.newXmm();
    const x86::Vec whole = sized(v, bytes(t));
    avx512_ ? cc_.vextractf32x4(at.xmm(), whole, static_cast<uint32_t>(part)) : cc_.vextractf128(at.xmm(), v.ymm(), 1);
  }
  const auto index = static_cast<uint32_t>(k % each);
  if (index == 0) {
    cc_.vmovaps(to.as<x86::Xmm>(), at.xmm());
  } else if (each == 2) {
    cc_.vpermilpd(to.as<x86::Xmm>(), at.xmm(), 1);
  } else {
    cc_.vpermilps(to.as<x86::Xmm>(), at.xmm(), index);
  }
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
      x86::Mem slot = scratch(16 + static_cast<int>(i));
      slot.addOffset(static_cast<int64_t>(u) * bytes(t));
      spill(t, accumulators_[k][u], slot);
    }
  }
  const auto count = static_cast<int>(accumulators_[members[0]].size()) * lanes_;
  x86::Gp lane = cc_.newGpq();
  asmjit::Label again = cc_.newLabel();
  cc_.xor_(lane.r32(), lane.r32());
  cc_.bind(again);
  for (size_t i = 0; i < members.size(); ++i) {
    x86::Mem slot = scratch(16 + static_cast<int>(i));
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
