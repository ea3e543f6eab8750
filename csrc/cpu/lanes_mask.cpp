// Masks: k registers on AVX-512; on AVX2 vectors whose elements, as wide as the loop's widest type, are 0 or all ones.
#include "cpu/lanes.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;

asmjit::InstId Lanes::k_inst(InstId b, InstId w, InstId d, InstId q) const {
  return lanes_ <= 8 ? b : lanes_ == 16 ? w : lanes_ == 32 ? d : q;
}

x86::Reg Lanes::new_mask() {
  if (avx512_) return cc_.newKq();
  return cc_.newYmm();
}

void Lanes::mask_logic(InstId k512, InstId v2, x86::Reg to, x86::Reg a, x86::Reg b) {
  cc_.emit(avx512_ ? k512 : v2, to, a, b);
}

x86::Reg Lanes::mask_and(x86::Reg a, x86::Reg b) {
  x86::Reg to = new_mask();
  mask_logic(k_inst(Id::kIdKandb, Id::kIdKandw, Id::kIdKandd, Id::kIdKandq), Id::kIdVpand, to, a, b);
  return to;
}

x86::Reg Lanes::mask_or(x86::Reg a, x86::Reg b) {
  x86::Reg to = new_mask();
  mask_logic(k_inst(Id::kIdKorb, Id::kIdKorw, Id::kIdKord, Id::kIdKorq), Id::kIdVpor, to, a, b);
  return to;
}

x86::Reg Lanes::mask_xor(x86::Reg a, x86::Reg b) {
  x86::Reg to = new_mask();
  mask_logic(k_inst(Id::kIdKxorb, Id::kIdKxorw, Id::kIdKxord, Id::kIdKxorq), Id::kIdVpxor, to, a, b);
  return to;
}

x86::Reg Lanes::mask_andn(x86::Reg a, x86::Reg b) {
  x86::Reg to = new_mask();
  mask_logic(k_inst(Id::kIdKandnb, Id::kIdKandnw, Id::kIdKandnd, Id::kIdKandnq), Id::kIdVpandn, to, b, a);
  return to;
}

x86::Reg Lanes::mask_not(x86::Reg a) {
  if (!avx512_) return mask_xor(a, mask_all());
  x86::Reg to = new_mask();
  cc_.emit(k_inst(Id::kIdKnotb, Id::kIdKnotw, Id::kIdKnotd, Id::kIdKnotq), to, a);
  return to;
}

x86::Reg Lanes::mask_none() {
  x86::Reg to = new_mask();
  if (avx512_) {
    cc_.emit(Id::kIdKxorq, to, to, to);
  } else {
    cc_.vpxor(to.as<x86::Ymm>(), to.as<x86::Ymm>(), to.as<x86::Ymm>());
  }
  return to;
}

x86::Reg Lanes::mask_all() {
  if (!avx512_) return broadcast_bits(8, ~uint64_t{0});
  x86::Reg to = new_mask();
  cc_.emit(k_inst(Id::kIdKxnorb, Id::kIdKxnorw, Id::kIdKxnord, Id::kIdKxnorq), to, to, to);
  return to;
}

void Lanes::test(const Regs& masks) {
  x86::Reg any = masks[0];
  for (size_t u = 1; u + (avx512_ ? 1 : 0) < masks.size(); ++u) any = mask_or(any, masks[u]);
  if (avx512_) {
    cc_.emit(k_inst(Id::kIdKortestb, Id::kIdKortestw, Id::kIdKortestd, Id::kIdKortestq), any, masks.back());
    return;
  }
  // One operation and a test that fuses with the jump; vptest alone is two or three.
  x86::Gp bits = cc_.newGpd();
  const x86::Ymm m = any.as<x86::Ymm>();
  if (element_ == 8) {
    cc_.vmovmskpd(bits, m);
  } else if (element_ == 4) {
    cc_.vmovmskps(bits, m);
  } else {
    cc_.vpmovmskb(bits, m);
  }
  cc_.test(bits, bits);
}

void Lanes::jump_if_none(const Regs& masks, asmjit::Label to) {
  test(masks);
  cc_.jz(to);
}

void Lanes::jump_if_any(const Regs& masks, asmjit::Label to) {
  test(masks);
  cc_.jnz(to);
}

void Lanes::mask_bits(x86::Gp to, x86::Reg mask) {
  if (avx512_) {
    // From a register of its own: a spilled mask must not become a memory operand, which this kmov does not take.
    x86::KReg k = cc_.newKq();
    cc_.kmovq(k, mask.as<x86::KReg>());
    cc_.emit(k_inst(Id::kIdKmovb, Id::kIdKmovw, Id::kIdKmovd, Id::kIdKmovq), lanes_ == 64 ? to : x86::Gp(to.r32()), k);
    return;
  }
  const x86::Ymm m = mask.as<x86::Ymm>();
  if (element_ == 8) {
    cc_.vmovmskpd(to.r32(), m);
  } else if (element_ == 4) {
    cc_.vmovmskps(to.r32(), m);
  } else {
    cc_.vpmovmskb(to.r32(), m);
    if (element_ == 2) {
      x86::Gp every_other = cc_.newGpd();
      cc_.mov(every_other, 0x55555555);
      cc_.pext(to.r32(), to.r32(), every_other);
    }
  }
}

x86::Reg Lanes::mask_below(x86::Gp n, x86::Vec numbers, bool small) {
  x86::Gp count = n;
  if (!small) {
    x86::Gp limit = cc_.newGpq();
    count = cc_.newGpq();
    cc_.mov(limit.r32(), lanes_);
    cc_.mov(count, n);
    cc_.cmp(count, limit);
    cc_.cmova(count, limit);
  }
  x86::Reg to = new_mask();
  if (avx512_) {
    x86::Gp ones = cc_.newGpq();
    cc_.mov(ones, -1);
    cc_.bzhi(ones, ones, count);
    cc_.emit(k_inst(Id::kIdKmovb, Id::kIdKmovw, Id::kIdKmovd, Id::kIdKmovq), to,
             lanes_ == 64 ? ones : x86::Gp(ones.r32()));
    return to;
  }
  x86::Ymm limits = cc_.newYmm();
  cc_.vmovd(limits.xmm(), count.r32());
  const x86::Ymm m = to.as<x86::Ymm>(), at = numbers.ymm();
  switch (element_) {
    case 8:
      cc_.vpbroadcastq(limits, limits.xmm());
      cc_.vpcmpgtq(m, limits, at);
      break;
    case 4:
      cc_.vpbroadcastd(limits, limits.xmm());
      cc_.vpcmpgtd(m, limits, at);
      break;
    case 2:
      cc_.vpbroadcastw(limits, limits.xmm());
      cc_.vpcmpgtw(m, limits, at);
      break;
    default:
      cc_.vpbroadcastb(limits, limits.xmm());
      cc_.vpcmpgtb(m, limits, at);
  }
  return to;
}

x86::Reg Lanes::mask_from_bool(x86::Gp b) {
  x86::Gp ones = cc_.newGpq();
  cc_.mov(ones, b);
  cc_.neg(ones);
  x86::Reg to = new_mask();
  if (avx512_) {
    cc_.emit(k_inst(Id::kIdKmovb, Id::kIdKmovw, Id::kIdKmovd, Id::kIdKmovq), to,
             lanes_ == 64 ? ones : x86::Gp(ones.r32()));
  } else {
    const x86::Ymm m = to.as<x86::Ymm>();
    cc_.vmovq(m.xmm(), ones);
    cc_.vpbroadcastq(m, m.xmm());
  }
  return to;
}

x86::Vec Lanes::narrow(x86::Reg mask, int element) {
  x86::Vec from = mask.as<x86::Ymm>();
  for (int size = element_; size > element; size /= 2) {
    x86::Xmm low = from.xmm(), high = low;
    if (from.isYmm()) {
      high = cc_.newXmm();
      cc_.vextracti128(high, from.ymm(), 1);
    }
    x86::Xmm to = cc_.newXmm();
    if (size == 8) {
      cc_.vshufps(to, low, high, 0x88);
    } else if (size == 4) {
      cc_.vpackssdw(to, low, high);
    } else {
      cc_.vpacksswb(to, low, high);
    }
    from = to;
  }
  return from;
}

x86::Reg Lanes::widen(x86::Vec from, int element) {
  if (element == element_) return from;
  x86::Ymm to = cc_.newYmm();
  const InstId id = element == 4   ? Id::kIdVpmovsxdq
                    : element == 2 ? (element_ == 8 ? Id::kIdVpmovsxwq : Id::kIdVpmovsxwd)
                                   : (element_ == 8   ? Id::kIdVpmovsxbq
                                      : element_ == 4 ? Id::kIdVpmovsxbd
                                                      : Id::kIdVpmovsxbw);
  cc_.emit(id, to, from.xmm());
  return to;
}

x86::Reg Lanes::blend(DType t, x86::Reg mask, x86::Reg a, x86::Reg b) {
  if (t == DType::bool_) return mask_or(mask_and(a, mask), mask_andn(b, mask));
  x86::Reg to = fresh1(t);
  const int size = ir::size_of(t);
  if (avx512_) {
    // Two moves, not a blend: asmjit takes a masked blend for one that reads its destination.
    f_.move(to, b);
    blend_into(t, to, mask, a);
  } else {
    const InstId id = size == 8 ? Id::kIdVblendvpd : size == 4 ? Id::kIdVblendvps : Id::kIdVpblendvb;
    x86::Vec m = sized(narrow(mask, size), bytes(t));
    cc_.emit(id, to, b, a, m);
  }
  return to;
}

void Lanes::blend_into(DType t, x86::Reg to, x86::Reg mask, x86::Reg a) {
  if (t == DType::bool_ || !avx512_) {
    f_.move(to, blend(t, mask, a, to));
    return;
  }
  const int size = ir::size_of(t);
  const InstId id = t == DType::f64_   ? Id::kIdVmovapd
                    : t == DType::f32_ ? Id::kIdVmovaps
                    : size == 8        ? Id::kIdVmovdqa64
                    : size == 4        ? Id::kIdVmovdqa32
                    : size == 2        ? Id::kIdVmovdqu16
                                       : Id::kIdVmovdqu8;
  cc_.k(mask.as<x86::KReg>()).emit(id, to, a);
}

InstId Lanes::masked_move(DType t) const {
  const int size = ir::size_of(t);
  if (!avx512_) return size == 8 ? Id::kIdVmaskmovpd : Id::kIdVmaskmovps;
  return t == DType::f64_   ? Id::kIdVmovupd
         : t == DType::f32_ ? Id::kIdVmovups
         : size == 8        ? Id::kIdVmovdqu64
         : size == 4        ? Id::kIdVmovdqu32
         : size == 2        ? Id::kIdVmovdqu16
                            : Id::kIdVmovdqu8;
}

x86::Vec Lanes::load_masked(DType t, x86::Mem m, x86::Reg mask) {
  const int n = bytes(t);
  x86::Vec r = vec(n);
  m.setSize(static_cast<uint32_t>(avx512_ ? std::max(n, 16) : n));
  if (avx512_) {
    cc_.k(mask.as<x86::KReg>()).z().emit(masked_move(t), r, m);
  } else {
    cc_.emit(masked_move(t), r, sized(as_vec(mask), n), m);
  }
  return r;
}

void Lanes::store_masked(DType t, x86::Mem m, x86::Vec v, x86::Reg mask) {
  const int n = bytes(t);
  m.setSize(static_cast<uint32_t>(avx512_ ? std::max(n, 16) : n));
  if (avx512_) {
    cc_.k(mask.as<x86::KReg>()).emit(masked_move(t), m, v);
  } else {
    cc_.emit(masked_move(t), m, sized(as_vec(mask), n), v);
  }
}

}  // namespace appy::cpu
