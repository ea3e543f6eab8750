// Loads, stores and atomics of vectors: where they lie, and what becomes of contiguous and reversed ones.
#include <algorithm>

#include "cpu/math_calls.h"
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

x86::Gp VectorLoop::base_of(const x86::Mem& m) {
  if (!m.hasIndex() && m.offset() == 0) return m.baseReg().as<x86::Gp>();
  x86::Gp base = cc_.newGpq();
  cc_.lea(base, m);
  return base;
}

VectorLoop::Place VectorLoop::place(const ir::Op& op) {
  const Form form = address_form(op);
  Form scalar = form;
  std::erase_if(scalar.terms, [&](auto& t) { return varying(t.first) && t.first != d_.linear(); });
  Place p;
  p.base = f_.address(scalar);
  std::vector<std::pair<const ir::Value*, Stride>> terms;
  const Stride* along = nullptr;
  for (const auto& term : form.terms) {
    if (term.first == d_.linear()) {
      along = &term.second;
    } else if (varying(term.first)) {
      terms.push_back(term);
    }
  }
  const Level& level = f_.level(level_);
  if (along) {
    if (along->constant() && level.step_known) {
      p.stride_known = true;
      p.stride = along->known * (level.step / (lanes_ * unroll_));
    } else {
      f_.stride_reg(form.view, *along);
      p.stride_reg = cc_.newGpq();
      hoisted([&] {
        cc_.mov(p.stride_reg, f_.stride_reg(form.view, *along));
        if (level.step_known) {
          cc_.imul(p.stride_reg, p.stride_reg, static_cast<int32_t>(level.step / (lanes_ * unroll_)));
        } else {
          cc_.imul(p.stride_reg, lane_step_);
        }
      });
    }
  } else {
    p.stride_known = true;
  }
  const int size = ir::size_of(form.view->type.dtype);
  if (terms.empty()) {
    if (!p.stride_known) {
      p.kind = Place::Kind::strided;
    } else if (p.stride == 0) {
      p.kind = Place::Kind::uniform;
    } else if (p.stride == size) {
      p.kind = Place::Kind::contiguous;
    } else {
      p.kind = p.stride == -size ? Place::Kind::reversed : Place::Kind::strided;
    }
    if (p.kind == Place::Kind::strided && p.base.hasIndex()) p.base = x86::ptr(base_of(p.base));
    return p;
  }
  p.kind = Place::Kind::gather;
  if (p.base.hasIndex()) p.base = x86::ptr(base_of(p.base));
  // One term at a scale of the addressing mode serves as it is; otherwise byte offsets are added up.
  const Stride& only = terms[0].second;
  if (terms.size() == 1 && !along && only.constant() &&
      (only.known == 1 || only.known == 2 || only.known == 4 || only.known == 8)) {
    const ir::Value* index = terms[0].first;
    const bool narrow = d_.narrow_index(index);
    p.indices = index;
    p.index = get(narrow ? index->op->operands[0] : index);
    p.index_bytes = narrow ? 4 : 8;
    p.shift = only.known == 8 ? 3 : only.known == 4 ? 2 : only.known == 2 ? 1 : 0;
    return p;
  }
  Regs sum;
  for (const auto& [term, stride] : terms) {
    Regs index = get(term), scaled;
    x86::Reg factor;
    if (!stride.constant()) {
      x86::Gp s = f_.stride_reg(form.view, stride);
      hoisted([&] { factor = broadcast_reg(DType::i64_, s); });
    }
    for (size_t u = 0; u < index.size(); ++u) {
      const int64_t c = stride.known;
      if (stride.constant() && c == 1) {
        scaled.push_back(index[u]);
      } else if (stride.constant() && c > 0 && (c & (c - 1)) == 0) {
        scaled.push_back(shift_imm(Opcode::shl_, DType::i64_, index[u], __builtin_ctzll(static_cast<uint64_t>(c)), {}));
      } else {
        if (!factor.isValid()) {
          factor = sized(broadcast_bits(8, static_cast<uint64_t>(c)), bytes(DType::i64_));
        }
        scaled.push_back(mul64(as_vec(index[u]), as_vec(factor), {}));
      }
      if (!sum.empty()) scaled[u] = int_op(Opcode::add_, DType::i64_, sum[u], scaled[u], {});
    }
    sum = scaled;
  }
  if (along) {
    // The base is lane 0's; group u starts u * lanes further.
    x86::Vec lanes = strided_index(p, 8);
    for (size_t u = 0; u < sum.size(); ++u) {
      sum[u] = int_op(Opcode::add_, DType::i64_, sum[u], lanes, {});
    }
  }
  p.index = sum;
  return p;
}

x86::Vec VectorLoop::strided_index(const Place& p, int element) {
  if (p.stride_known) {
    std::vector<uint64_t> offsets;
    for (int l = 0; l < lanes_; ++l) offsets.push_back(static_cast<uint64_t>(l) * static_cast<uint64_t>(p.stride));
    auto [at, fresh] = strided_.try_emplace({element, p.stride});
    if (fresh) at->second = constant_vec(offsets, element);
    return at->second;
  }
  x86::Vec at = iota(8), r;
  hoisted([&] {
    x86::Reg step = broadcast_reg(DType::i64_, p.stride_reg);
    r = as_vec(mul64(at, as_vec(step), {}));
  });
  return r;
}

x86::Mem VectorLoop::lane_group(const Place& p, int u) {
  x86::Mem m = p.base;
  if (u == 0) return m;
  if (p.stride_known) {
    m.addOffset(static_cast<int64_t>(u) * lanes_ * p.stride);
    return m;
  }
  x86::Gp further = cc_.newGpq();
  cc_.imul(further, p.stride_reg, u * lanes_);
  cc_.add(further, base_of(m));
  return x86::ptr(further);
}

bool VectorLoop::may_read_behind(const ir::Op& load) {
  const ir::Op* alloc = ir::alloc_of(*load.view());
  if (!first_lane_runs_ || !alloc || alloc->escapes) return false;
  if (!computes_reals_) {
    computes_reals_ = accumulators_.empty();
    for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
      const ir::Value* v = op->result();
      if (!v || !varying(v)) continue;
      const auto is_real = [](const ir::Value* x) { return ir::is_real(x->type.dtype); };
      *computes_reals_ &= is_real(v) && !calls_function(op->code, v->type.dtype);
      if (op->code != Opcode::load_) *computes_reals_ &= std::ranges::all_of(op->operands, is_real);
    }
  }
  return *computes_reals_;
}

void VectorLoop::load(const ir::Op& op) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  const DType stored = t == DType::bool_ ? DType::u8_ : t;
  if (f_.module().uses[v->id] == 0) return;
  auto target = targets_.find(v->id);
  if (auto at = paired_.find(v->id); at != paired_.end()) {
    finish(v, at->second);
    paired_.erase(at);
    return;
  }
  const Place p = place(op);
  if (p.kind == Place::Kind::contiguous) {
    prefetch_rows(op, p);
    prefetch_stream(op, p);
    note_loaded(op, p);
  }
  if (every_other(p, stored) && (p.stride > 0 || exec_.all)) {
    if (const ir::Op* other = neighbour_to_load(op)) {
      Regs r, others;
      for (int u = 0; u < unroll_; ++u) {
        const auto both = load_pair(op, *other, p, u);
        r.push_back(both[0]);
        others.push_back(both[1]);
      }
      paired_.emplace(other->result()->id, others);
      return finish(v, r);
    }
  }
  if (p.kind == Place::Kind::strided && exec_.all) {
    if (const auto loads = side_by_side(op); !loads.empty()) return finish(v, load_transposed(loads, p));
  }
  if (load_neighbour(op, p)) return;
  const bool masked = !exec_.all && !may_read_behind(op);
  if (p.kind == Place::Kind::contiguous && !masked && target == targets_.end() && may_fold(op)) {
    folded_.emplace(v->id, p);
    return;
  }
  Regs r;
  for (int u = 0; u < unroll_; ++u) {
    x86::Reg x;
    switch (p.kind) {
      case Place::Kind::uniform: {
        // The address does not vary, but something else made the value varying.
        x86::Reg scalar = f_.new_reg(t);
        f_.load_scalar(t, scalar, p.base);
        x = broadcast_reg(t, scalar);
        break;
      }
      case Place::Kind::contiguous:
        x = load_contiguous(stored, lane_group(p, u), masked, u);
        break;
      case Place::Kind::reversed:
        if (exec_.all && (ir::size_of(stored) >= 4)) {
          x86::Mem m = lane_group(p, u);
          m.addOffset(-static_cast<int64_t>(lanes_ - 1) * ir::size_of(stored));
          x = reverse(stored, as_vec(load_contiguous(stored, m, false, u)));
          break;
        }
        [[fallthrough]];
      default:
        if (takes_every_other(p, stored)) {
          x = load_every_other(stored, lane_group(p, u), p.stride < 0);
        } else if (takes_windows(p, stored)) {
          x = load_windows(stored, p, lane_group(p, u));
        } else {
          x = faster_by_loads(p, ir::size_of(stored)) ? load_each(stored, p, u)
              : can_gather(p, ir::size_of(stored))    ? gather(op, p, u)
                                                      : load_by_lane(op, p, u);
        }
    }
    if (t == DType::bool_ && p.kind != Place::Kind::uniform) x = cast1(DType::bool_, DType::u8_, x);
    r.push_back(x);
  }
  finish(v, r);
}

x86::Reg VectorLoop::load_contiguous(DType t, x86::Mem m, bool masked, int u) {
  const int size = ir::size_of(t), n = bytes(t);
  x86::Vec r = vec(n);
  m.setSize(static_cast<uint32_t>(n));
  if (masked) {
    if (avx512_ || size >= 4) return load_masked(t, m, avx512_ ? exec(u) : narrow(exec(u), size));
    x86::Gp bits = cc_.newGpq(), word = cc_.newGpq();
    x86::Mem slot = scratch(0);
    mask_bits(bits, exec(u));
    for (int l = 0; l < lanes_; ++l) {
      asmjit::Label skip = cc_.newLabel();
      cc_.bt(bits, l);
      cc_.jnc(skip);
      x86::Mem from = m, to = slot;
      from.addOffset(l * size);
      to.addOffset(l * size);
      f_.load_scalar(t, word, from);
      f_.store_scalar(t, to, word);
      cc_.bind(skip);
    }
    slot.setSize(0);
    cc_.vmovdqu(r, slot);
    return r;
  }
  if (n == 4) {
    cc_.vmovd(r.xmm(), m);
  } else if (n == 8) {
    cc_.vmovq(r.xmm(), m);
  } else if (t == DType::f64_) {
    cc_.vmovupd(r, m);
  } else if (t == DType::f32_) {
    cc_.vmovups(r, m);
  } else {
    cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, r, m);
  }
  return r;
}

void VectorLoop::store_contiguous(DType t, x86::Mem m, x86::Vec v, bool masked, int u) {
  const int size = ir::size_of(t), n = bytes(t);
  m.setSize(static_cast<uint32_t>(n));
  if (masked) {
    if (avx512_ || size >= 4) return store_masked(t, m, v, avx512_ ? exec(u) : narrow(exec(u), size));
    x86::Gp bits = cc_.newGpq(), word = cc_.newGpq();
    x86::Mem slot = scratch(0);
    slot.setSize(0);
    cc_.vmovdqu(slot, v);
    mask_bits(bits, exec(u));
    for (int l = 0; l < lanes_; ++l) {
      asmjit::Label skip = cc_.newLabel();
      cc_.bt(bits, l);
      cc_.jnc(skip);
      x86::Mem from = slot, to = m;
      from.addOffset(l * size);
      to.addOffset(l * size);
      f_.load_scalar(t, word, from);
      f_.store_scalar(t, to, word);
      cc_.bind(skip);
    }
    return;
  }
  if (n == 4) {
    cc_.vmovd(m, v.xmm());
  } else if (n == 8) {
    cc_.vmovq(m, v.xmm());
  } else if (t == DType::f64_) {
    cc_.vmovupd(m, v);
  } else if (t == DType::f32_) {
    cc_.vmovups(m, v);
  } else {
    cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, m, v);
  }
}

void VectorLoop::store(const ir::Op& op) {
  loaded_.clear();
  const DType t = op.operands[0]->type.dtype;
  const DType stored = t == DType::bool_ ? DType::u8_ : t;
  Regs values = get(op.operands[0]);
  if (store_with_neighbour(op, values)) return;
  const Place p = place(op);
  if ((streaming_.isValid() || stream_only_) && exec_.all && p.kind == Place::Kind::contiguous &&
      std::find(stream_.stores.begin(), stream_.stores.end(), &op) != stream_.stores.end()) {
    return store_stream(t, p, values);
  }
  for (int u = 0; u < unroll_; ++u) {
    x86::Reg v = values[static_cast<size_t>(u)];
    if (t == DType::bool_) v = cast1(DType::u8_, DType::bool_, v);
    if (p.kind == Place::Kind::contiguous) {
      store_contiguous(stored, lane_group(p, u), as_vec(v), !exec_.all, u);
    } else if (p.kind == Place::Kind::reversed && exec_.all && ir::size_of(stored) >= 4) {
      x86::Mem m = lane_group(p, u);
      m.addOffset(-static_cast<int64_t>(lanes_ - 1) * ir::size_of(stored));
      store_contiguous(stored, m, reverse(stored, as_vec(v)), false, u);
    } else {
      scatter(op, p, u, as_vec(v));
    }
  }
}

void VectorLoop::store_stream(DType t, const Place& p, const Regs& values) {
  const int n = bytes(t);
  std::vector<x86::Mem> to;
  std::vector<x86::Vec> from;
  for (int u = 0; u < unroll_; ++u) {
    to.push_back(lane_group(p, u));
    to.back().setSize(static_cast<uint32_t>(n));
    from.push_back(sized(as_vec(values[static_cast<size_t>(u)]), n));
  }
  const auto past_caches = [this, t, to, from] {
    const InstId id = t == DType::f64_ ? Id::kIdVmovntpd : t == DType::f32_ ? Id::kIdVmovntps : Id::kIdVmovntdq;
    for (size_t u = 0; u < to.size(); ++u) cc_.emit(id, to[u], from[u]);
  };
  if (stream_only_) return past_caches();
  asmjit::Label back = cc_.newLabel();
  asmjit::Label around = f_.cold([this, past_caches, back] {
    past_caches();
    cc_.jmp(back);
  });
  cc_.test(streaming_, streaming_);
  cc_.jnz(around);
  for (size_t u = 0; u < to.size(); ++u) store_contiguous(t, to[u], from[u], false, static_cast<int>(u));
  cc_.bind(back);
}

void VectorLoop::atomic(const ir::Op& op) {
  loaded_.clear();
  const DType t = op.operands[0]->type.dtype;
  const DType stored = t == DType::bool_ ? DType::u8_ : t;
  const int size = ir::size_of(stored);
  Regs values = get(op.operands[0]);
  const Place p = place(op);
  for (int u = 0; u < unroll_; ++u) {
    x86::Mem in = scratch(10);
    x86::Reg v = values[static_cast<size_t>(u)];
    spill(t, v, in);
    each_lane(p, u, [&](int lane, x86::Mem m) {
      x86::Reg word = f_.new_reg(t);
      x86::Mem from = in;
      from.addOffset(lane * size);
      f_.load_scalar(t, word, from);
      f_.atomic_update(op, t, m, word);
    });
  }
}

}  // namespace appy::cpu
