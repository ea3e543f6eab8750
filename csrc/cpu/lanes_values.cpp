// Registers, constants, and lanes as scalars.
#include <algorithm>

#include "cpu/lanes.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;

void Lanes::forget_constants() {
  pool_.clear();
  iotas_.clear();
  orders_.clear();
}

x86::Vec Lanes::vec(int bytes) {
  if (bytes <= 16) return cc_.newXmm();
  if (bytes == 32) return cc_.newYmm();
  return cc_.newZmm();
}

x86::Reg Lanes::fresh1(DType t) {
  if (t == DType::bool_) return new_mask();
  return vec(bytes(t));
}

x86::Reg Lanes::copy(x86::Reg from, DType t) {
  x86::Reg to = fresh1(t);
  f_.move(to, from);
  return to;
}

x86::Reg Lanes::broadcast_reg(DType t, x86::Reg scalar) {
  if (t == DType::bool_) return mask_from_bool(scalar.as<x86::Gp>());
  x86::Vec to = vec(bytes(t));
  const int size = ir::size_of(t);
  if (t == DType::f64_) {
    if (to.isXmm()) {
      cc_.vmovddup(to.xmm(), scalar.as<x86::Xmm>());
    } else {
      cc_.emit(Id::kIdVbroadcastsd, to, scalar.as<x86::Xmm>().xmm());
    }
  } else if (t == DType::f32_) {
    cc_.emit(Id::kIdVbroadcastss, to, scalar.as<x86::Xmm>().xmm());
  } else if (avx512_) {
    const x86::Gp g = scalar.as<x86::Gp>();
    const InstId id = size == 8   ? Id::kIdVpbroadcastq
                      : size == 4 ? Id::kIdVpbroadcastd
                      : size == 2 ? Id::kIdVpbroadcastw
                                  : Id::kIdVpbroadcastb;
    cc_.emit(id, to, size == 8 ? g : x86::Gp(g.r32()));
  } else {
    cc_.vmovq(to.xmm(), scalar.as<x86::Gp>());
    const InstId id = size == 8   ? Id::kIdVpbroadcastq
                      : size == 4 ? Id::kIdVpbroadcastd
                      : size == 2 ? Id::kIdVpbroadcastw
                                  : Id::kIdVpbroadcastb;
    cc_.emit(id, to, to.xmm());
  }
  return to;
}

x86::Vec Lanes::broadcast_bits(int element, uint64_t bits) {
  if (element < 8) bits &= (uint64_t{1} << (8 * element)) - 1;
  auto [at, fresh] = pool_.try_emplace({element, static_cast<int64_t>(bits)});
  if (!fresh) return at->second;
  x86::Vec r = avx512_ ? x86::Vec(cc_.newZmm()) : x86::Vec(cc_.newYmm());
  at->second = r;
  hoisted([&] {
    const uint64_t full = element == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * element)) - 1;
    if (bits == 0) {
      cc_.emit(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor, r, r, r);
    } else if (bits == full && !avx512_) {
      cc_.vpcmpeqd(r, r, r);
    } else {
      x86::Mem m = f_.constant(&bits, static_cast<size_t>(element));
      m.setSize(static_cast<uint32_t>(element));
      cc_.emit(element == 8   ? Id::kIdVpbroadcastq
               : element == 4 ? Id::kIdVpbroadcastd
               : element == 2 ? Id::kIdVpbroadcastw
                              : Id::kIdVpbroadcastb,
               r, m);
    }
  });
  return r;
}

x86::Vec Lanes::constant_vec(const std::vector<uint64_t>& elements, int element) {
  std::vector<char> data;
  for (uint64_t e : elements) {
    for (int b = 0; b < element; ++b) data.push_back(static_cast<char>(e >> (8 * b)));
  }
  data.resize(std::max<size_t>(16, data.size()));
  x86::Vec r = vec(static_cast<int>(data.size()));
  hoisted([&] {
    x86::Mem m = f_.constant(data.data(), data.size());
    cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, r, m);
  });
  return r;
}

x86::Vec Lanes::iota(int element) {
  auto [at, fresh] = iotas_.try_emplace(element);
  if (!fresh) return at->second;
  std::vector<uint64_t> elements;
  for (int l = 0; l < lanes_; ++l) elements.push_back(static_cast<uint64_t>(l));
  at->second = constant_vec(elements, element);
  return at->second;
}

x86::Mem Lanes::scratch(int slot) {
  auto [at, fresh] = scratch_.try_emplace(slot);
  if (fresh) at->second = cc_.newStack(256, 64);
  return at->second;
}

void Lanes::spill(DType t, x86::Reg r, x86::Mem to) {
  x86::Vec v = as_vec(r);
  if (t == DType::bool_) v = as_vec(cast1(DType::u8_, DType::bool_, r));
  to.setSize(0);
  cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, to, v);
}

x86::Reg Lanes::extract(DType t, x86::Reg r, x86::Gp lane) {
  x86::Mem slot = scratch(0);
  spill(t, r, slot);
  const int size = ir::size_of(t);
  slot.setIndex(lane, size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0);
  x86::Reg to = f_.new_reg(t);
  f_.load_scalar(t, to, slot);
  return to;
}

}  // namespace appy::cpu
