// Gathers and scatters: by one instruction where there is one and it is fast, else lane by lane.
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

bool VectorLoop::can_gather(const Place& p, int size) const {
  if (size < 4) return false;
  if (p.kind == Place::Kind::gather) return p.index_bytes == 4 || lanes_ * 8 <= f_.module().vector_bytes();
  // Strided: offsets are built in 32 bits where 64 do not fit the register.
  return lanes_ * 8 <= f_.module().vector_bytes() || (p.stride_known && std::abs(p.stride) < (1 << 24));
}

x86::Mem VectorLoop::gather_address(const Place& p, int u, bool& narrow) {
  const bool indexed = p.kind == Place::Kind::gather;
  narrow = indexed ? p.index_bytes == 4 : lanes_ * 8 > f_.module().vector_bytes();
  const x86::Vec index = indexed ? as_vec(p.index[static_cast<size_t>(u)]) : strided_index(p, narrow ? 4 : 8);
  x86::Mem group = lane_group(p, u);
  if (group.hasIndex()) group = x86::ptr(base_of(group));
  return x86::ptr(group.baseReg().as<x86::Gp>(), index, p.shift, static_cast<int32_t>(group.offset()));
}

x86::Reg VectorLoop::gather(const ir::Op& op, const Place& p, int u) {
  const DType t = op.result()->type.dtype;
  const int size = ir::size_of(t);
  const bool real = is_float(t);
  bool short_index = false;
  const x86::Mem m = gather_address(p, u, short_index);
  x86::Vec r = vec(bytes(t));
  const InstId wide_id =
      size == 8 ? (real ? Id::kIdVgatherqpd : Id::kIdVpgatherqq) : (real ? Id::kIdVgatherqps : Id::kIdVpgatherqd);
  const InstId narrow_id =
      size == 8 ? (real ? Id::kIdVgatherdpd : Id::kIdVpgatherdq) : (real ? Id::kIdVgatherdps : Id::kIdVpgatherdd);
  const InstId id = short_index ? narrow_id : wide_id;
  cc_.emit(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor, r, r, r);
  if (avx512_) {
    x86::KReg k = cc_.newKq();
    f_.move(k, exec_.all ? mask_all() : exec(u));
    cc_.k(k).emit(id, r, m);
  } else {
    x86::Vec mask = vec(bytes(t));
    if (exec_.all) {
      cc_.vpcmpeqd(mask, mask, mask);
    } else {
      cc_.vmovaps(mask, sized(narrow(exec(u), size), bytes(t)));
    }
    cc_.emit(id, r, m, mask);
  }
  return r;
}

bool VectorLoop::faster_by_loads(const Place& p, int size) const {
  if (avx512_ || size < 4 || lanes_ > 8) return false;
  if (p.kind != Place::Kind::gather) return p.kind == Place::Kind::strided && exec_.all;
  return can_gather(p, size) && (exec_.all || first_lane_runs_);
}

std::vector<x86::Gp> VectorLoop::lane_indices(const Place& p, int u) {
  x86::Vec index = as_vec(p.index[static_cast<size_t>(u)]);
  if (p.index_bytes == 4 && lanes_ == 4) {
    const x86::Vec wide = vec(32);
    cc_.vpmovsxdq(wide, index.xmm());
    index = wide;
  }
  if (!exec_.all) {
    // Lanes that are off load what the first one does.
    const x86::Vec first = vec(32), lanes = vec(32);
    cc_.emit(lanes_ == 4 ? Id::kIdVpbroadcastq : Id::kIdVpbroadcastd, first, index.xmm());
    cc_.emit(lanes_ == 4 ? Id::kIdVblendvpd : Id::kIdVblendvps, lanes, first, index, exec(u));
    index = lanes;
  }
  std::vector<x86::Gp> words;
  const auto add_two = [&](x86::Xmm both) {
    words.push_back(cc_.newGpq());
    cc_.vmovq(words.back(), both);
    words.push_back(cc_.newGpq());
    cc_.vpextrq(words.back(), both, 1);
  };
  const auto add_four = [&](const x86::Vec& four) {
    x86::Xmm high = cc_.newXmm();
    cc_.vextracti128(high, four.ymm(), 1);
    add_two(four.xmm());
    add_two(high);
  };
  if (lanes_ == 4) {
    add_four(index);
    return words;
  }
  x86::Xmm high = cc_.newXmm();
  cc_.vextracti128(high, index.ymm(), 1);
  for (const x86::Xmm& half : {index.xmm(), high}) {
    const x86::Vec wide = vec(32);
    cc_.vpmovsxdq(wide, half);
    add_four(wide);
  }
  return words;
}

x86::Vec VectorLoop::load_each(DType t, const Place& p, int u) {
  const auto lanes = static_cast<size_t>(lanes_);
  x86::Mem group = lane_group(p, u);
  if (group.hasIndex()) group = x86::ptr(base_of(group));
  std::vector<x86::Mem> at(lanes, group);
  const ir::Value* index = p.indices;
  const Place* from = p.kind == Place::Kind::gather ? place_of_indices(index) : nullptr;
  if (p.kind == Place::Kind::gather) {
    const std::vector<x86::Gp> words = from ? std::vector<x86::Gp>() : lane_indices(p, u);
    for (size_t l = 0; l < words.size(); ++l) at[l].setIndex(words[l], p.shift);
  } else if (p.stride_known) {
    for (size_t l = 0; l < lanes; ++l) at[l].addOffset(static_cast<int64_t>(l) * p.stride);
  } else {
    for (size_t l = 0; l < lanes; l += 2) {
      if (l > 0) {
        x86::Gp further = cc_.newGpq();
        x86::Mem two = at[l - 2];
        two.setIndex(p.stride_reg, 1);
        cc_.lea(further, two);
        at[l] = x86::ptr(further);
      }
      at[l + 1] = at[l];
      at[l + 1].setIndex(p.stride_reg, 0);
    }
  }
  const int size = ir::size_of(t);
  for (x86::Mem& m : at) m.setSize(static_cast<uint32_t>(size));
  const size_t in_half = 16 / static_cast<size_t>(size);
  std::vector<x86::Xmm> halves;
  for (size_t l = 0; l < lanes; ++l) {
    if (from) at[l].setIndex(load_index(*index, *from, u, l), p.shift);
    if (l % in_half == 0) {
      halves.push_back(cc_.newXmm());
      cc_.emit(size == 8 ? Id::kIdVmovsd : Id::kIdVmovss, halves.back(), at[l]);
    } else if (size == 8) {
      cc_.vmovhpd(halves.back(), halves.back(), at[l]);
    } else {
      cc_.vinsertps(halves.back(), halves.back(), at[l], static_cast<uint32_t>(l % in_half) << 4);
    }
  }
  x86::Vec r = vec(bytes(t));
  if (halves.size() == 1) {
    f_.move(r, halves[0]);
  } else {
    cc_.vinsertf128(r.ymm(), halves[0].ymm(), halves[1], 1);
  }
  return r;
}

void VectorLoop::each_lane(const Place& p, int u, const std::function<void(int, x86::Mem)>& f, bool loads) {
  x86::Gp bits;
  if (!exec_.all) {
    bits = cc_.newGpq();
    mask_bits(bits, exec(u));
  }
  x86::Gp pointer;
  x86::Mem slot = scratch(9);
  const bool gathered = p.kind == Place::Kind::gather;
  x86::Mem group = lane_group(p, u);
  // What stores between them may store the next one's index.
  const ir::Value* index = p.indices;
  const Place* indices = gathered && loads ? place_of_indices(index) : nullptr;
  if (gathered) {
    if (!indices) spill(p.index_bytes == 4 ? DType::i32_ : DType::i64_, p.index[static_cast<size_t>(u)], slot);
    if (group.hasIndex()) group = x86::ptr(base_of(group));
  } else if (!p.stride_known) {
    pointer = cc_.newGpq();
    cc_.lea(pointer, group);
  }
  for (int l = 0; l < lanes_; ++l) {
    asmjit::Label skip = cc_.newLabel();
    if (pointer.isValid() && l > 0) cc_.add(pointer, p.stride_reg);
    if (!exec_.all) {
      cc_.bt(bits, l);
      cc_.jnc(skip);
    }
    x86::Mem m = group;
    if (indices) {
      m.setIndex(load_index(*index, *indices, u, static_cast<size_t>(l)), p.shift);
    } else if (gathered) {
      x86::Gp at = cc_.newGpq();
      x86::Mem from = slot;
      from.addOffset(p.index_bytes * l);
      f_.load_scalar(p.index_bytes == 4 ? DType::i32_ : DType::i64_, at, from);
      m.setIndex(at, p.shift);
    } else if (p.stride_known) {
      m.addOffset(l * p.stride);
    } else {
      m = x86::ptr(pointer);
    }
    f(l, m);
    if (!exec_.all) cc_.bind(skip);
  }
}

x86::Reg VectorLoop::load_by_lane(const ir::Op& op, const Place& p, int u) {
  const DType t = op.result()->type.dtype == DType::bool_ ? DType::u8_ : op.result()->type.dtype;
  const int size = ir::size_of(t);
  if (size <= 2) {
    // Not by way of the stack: a load of what several stores have stored waits until they are done.
    const int in_part = 16 / size;
    std::vector<x86::Xmm> parts;
    for (int l = 0; l < lanes_; l += in_part) {
      parts.push_back(cc_.newXmm());
      cc_.vpxor(parts.back(), parts.back(), parts.back());
    }
    each_lane(
        p, u,
        [&](int lane, x86::Mem m) {
          const x86::Xmm& part = parts[static_cast<size_t>(lane / in_part)];
          m.setSize(static_cast<uint32_t>(size));
          cc_.emit(size == 1 ? Id::kIdVpinsrb : Id::kIdVpinsrw, part, part, m, asmjit::Imm(lane % in_part));
        },
        true);
    return joined(parts, bytes(t));
  }
  const DType word_type = size == 8 ? DType::u64_ : DType::u32_;
  x86::Mem out = scratch(0);
  each_lane(p, u, [&](int lane, x86::Mem m) {
    x86::Gp word = cc_.newGpq();
    f_.load_scalar(word_type, word, m);
    x86::Mem to = out;
    to.addOffset(lane * size);
    f_.store_scalar(word_type, to, word);
  });
  x86::Vec r = vec(bytes(t));
  out.setSize(0);
  cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, r, out);
  return r;
}

void VectorLoop::scatter(const ir::Op& op, const Place& p, int u, x86::Vec value) {
  DType t = op.operands[0]->type.dtype;
  if (t == DType::bool_) t = DType::u8_;
  const int size = ir::size_of(t);
  if (avx512_ && p.kind != Place::Kind::uniform && can_gather(p, size)) {
    bool narrow = false;
    const x86::Mem m = gather_address(p, u, narrow);
    x86::KReg k = cc_.newKq();
    f_.move(k, exec_.all ? mask_all() : exec(u));
    cc_.k(k).emit(narrow ? (size == 8 ? Id::kIdVscatterdpd : Id::kIdVscatterdps)
                         : (size == 8 ? Id::kIdVscatterqpd : Id::kIdVscatterqps),
                  m, value);
    return;
  }
  x86::Mem in = scratch(10);
  spill(t, value, in);
  const DType word_type = size == 8 ? DType::u64_ : size == 4 ? DType::u32_ : size == 2 ? DType::u16_ : DType::u8_;
  each_lane(p, u, [&](int lane, x86::Mem m) {
    x86::Gp word = cc_.newGpq();
    x86::Mem from = in;
    from.addOffset(lane * size);
    f_.load_scalar(word_type, word, from);
    f_.store_scalar(word_type, m, word);
  });
}

}  // namespace appy::cpu
