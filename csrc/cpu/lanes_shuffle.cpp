// Lanes in another order: reversed, every other one, transposed, combined with each other.
#include <algorithm>

#include "cpu/lanes.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

x86::Vec Lanes::reverse(DType t, x86::Vec v) {
  const int size = ir::size_of(t), n = bytes(t);
  x86::Vec r = vec(n);
  if (n == 16) {
    cc_.emit(Id::kIdVpshufd, r, v, asmjit::Imm(size == 4 ? 0x1b : 0x4e));
  } else if (n == 32 && size == 8) {
    cc_.vpermq(r, v, 0x1b);
  } else if (n == 64 && size == 8) {
    // Not by vpermq with an index register: once that is spilled, asmjit takes the form with an immediate for it.
    cc_.emit(Id::kIdVshufi64x2, r, v, v, asmjit::Imm(0x1b));
    cc_.emit(Id::kIdVpshufd, r, r, asmjit::Imm(0x4e));
  } else {
    const x86::Vec order = order_vec(kReversed, size, [this](int l) { return lanes_ - 1 - l; });
    cc_.emit(size == 8 ? Id::kIdVpermq : Id::kIdVpermd, r, order, v);
  }
  return r;
}

x86::Vec Lanes::order_vec(uint32_t key, int size, const std::function<int(int)>& element) {
  auto [at, fresh] = orders_.try_emplace({key, size});
  if (fresh) {
    std::vector<uint64_t> order;
    for (int l = 0; l < lanes_; ++l) order.push_back(static_cast<uint64_t>(element(l)));
    at->second = constant_vec(order, size);
  }
  return at->second;
}

x86::Vec Lanes::permute_two(int size, x86::Vec a, x86::Vec order, x86::Vec b) {
  x86::Vec r = vec(lanes_ * size);
  f_.move(r, a);
  cc_.emit(size == 8 ? Id::kIdVpermt2pd : Id::kIdVpermt2ps, r, order, b);
  return r;
}

std::array<x86::Vec, 2> Lanes::interleave(int size, x86::Vec a, x86::Vec b) {
  const int n = lanes_ * size;
  if (avx512_) {
    const auto order = [&](int from) { return [=, this](int l) { return (from + l) / 2 + (l % 2 ? lanes_ : 0); }; };
    return {permute_two(size, a, order_vec(kPairsLow, size, order(0)), b),
            permute_two(size, a, order_vec(kPairsHigh, size, order(lanes_)), b)};
  }
  x86::Vec low = vec(n), high = vec(n);
  cc_.emit(size == 8 ? Id::kIdVunpcklpd : Id::kIdVunpcklps, low, a, b);
  cc_.emit(size == 8 ? Id::kIdVunpckhpd : Id::kIdVunpckhps, high, a, b);
  if (n == 16) return {low, high};
  x86::Vec left = vec(n), right = vec(n);
  cc_.emit(Id::kIdVperm2f128, left, low, high, asmjit::Imm(0x20));
  cc_.emit(Id::kIdVperm2f128, right, low, high, asmjit::Imm(0x31));
  return {left, right};
}

std::array<x86::Vec, 2> Lanes::deinterleave(int size, x86::Vec low, x86::Vec high) {
  const int n = lanes_ * size;
  if (avx512_) {
    return {permute_two(size, low, order_vec(kEven, size, [](int l) { return 2 * l; }), high),
            permute_two(size, low, order_vec(kOdd, size, [](int l) { return 2 * l + 1; }), high)};
  }
  x86::Vec even = vec(n), odd = vec(n);
  if (size == 8) {
    x86::Vec left = low, right = high;
    if (n == 32) {
      left = vec(n), right = vec(n);
      cc_.emit(Id::kIdVperm2f128, left, low, high, asmjit::Imm(0x20));
      cc_.emit(Id::kIdVperm2f128, right, low, high, asmjit::Imm(0x31));
    }
    cc_.emit(Id::kIdVunpcklpd, even, left, right);
    cc_.emit(Id::kIdVunpckhpd, odd, left, right);
    return {even, odd};
  }
  cc_.emit(Id::kIdVshufps, even, low, high, asmjit::Imm(0x88));
  cc_.emit(Id::kIdVshufps, odd, low, high, asmjit::Imm(0xdd));
  if (n == 32) {
    for (const x86::Vec& r : {even, odd}) cc_.emit(Id::kIdVpermpd, r, r, asmjit::Imm(0xd8));
  }
  return {even, odd};
}

void Lanes::transpose(int size, std::vector<x86::Vec>& rows) {
  const int n = lanes_ * size;
  // After the step of distance d blocks of 2 d lanes of 2 d rows are transposed.
  for (int d = 1; d < lanes_; d *= 2) {
    for (int k = 0; k < lanes_; ++k) {
      if (k & d) continue;
      x86::Vec &first = rows[static_cast<size_t>(k)], &second = rows[static_cast<size_t>(k | d)];
      const x86::Vec a = first, b = second;
      first = vec(n), second = vec(n);
      if (d * size == 8) {
        cc_.emit(Id::kIdVunpcklpd, first, a, b);
        cc_.emit(Id::kIdVunpckhpd, second, a, b);
      } else if (d * size == 32) {
        cc_.emit(Id::kIdVshuff64x2, first, a, b, asmjit::Imm(0x44));
        cc_.emit(Id::kIdVshuff64x2, second, a, b, asmjit::Imm(0xee));
      } else if (avx512_) {
        const auto key = kTransposed + 2 * static_cast<uint32_t>(d);
        first = permute_two(size, a, order_vec(key, size, [=, this](int l) { return l & d ? lanes_ + l - d : l; }), b);
        second =
            permute_two(size, a, order_vec(key + 1, size, [=, this](int l) { return l & d ? lanes_ + l : l + d; }), b);
      } else if (d * size == 16) {
        cc_.emit(Id::kIdVperm2f128, first, a, b, asmjit::Imm(0x20));
        cc_.emit(Id::kIdVperm2f128, second, a, b, asmjit::Imm(0x31));
      } else {
        x86::Vec even = vec(n), odd = vec(n);
        cc_.emit(Id::kIdVmovsldup, even, b);
        cc_.emit(Id::kIdVmovshdup, odd, a);
        cc_.emit(Id::kIdVblendps, first, a, even, asmjit::Imm(0xaa));
        cc_.emit(Id::kIdVblendps, second, odd, b, asmjit::Imm(0xaa));
      }
    }
  }
}

x86::Reg Lanes::across_lanes(Opcode code, DType t, x86::Reg r) {
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

x86::Vec Lanes::across_lanes_of(Opcode code, DType t, std::span<const x86::Reg> regs) {
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

void Lanes::element_of(DType t, x86::Vec v, size_t k, x86::Reg to) {
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

}  // namespace appy::cpu
