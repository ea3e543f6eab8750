// Every other element. Loads of them are contiguous loads and a permutation, which is faster than a gather; so are
// loads of one or two bytes each that are a few apart, such as one channel of a picture, from windows of 16 bytes. Two
// loads, or two stores, of neighbours (the parts of complex numbers, `out[2 * i]` and `out[2 * i + 1]`) share two
// contiguous ones between them. As many loads of neighbours as there are lanes (rows of a transposed matrix) are
// contiguous ones with lanes and elements swapped. Nothing is touched outside of what the accesses themselves touch.
#include <cstdlib>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

/// Bytes that are loaded at a time where one or two of them are wanted here and there.
constexpr int kWindow = 16;

bool is_access(const ir::Op& op) { return op.code == Opcode::load_ || op.code == Opcode::store_; }

}  // namespace

bool VectorLoop::every_other(const Place& p, DType t) const {
  const int size = ir::size_of(t);
  return p.kind == Place::Kind::strided && p.stride_known && std::abs(p.stride) == 2 * size && size >= 4 &&
         bytes(t) >= 16;
}

bool VectorLoop::takes_every_other(const Place& p, DType t) const {
  return exec_.all && every_other(p, t) && bytes(t) >= 32;
}

x86::Reg VectorLoop::load_every_other(DType t, x86::Mem m, bool down) {
  const int size = ir::size_of(t), n = bytes(t);
  // Nothing past the last element is touched: the second load ends with it.
  if (down) m.addOffset(-static_cast<int64_t>(2 * (lanes_ - 1)) * size);
  const x86::Vec low = as_vec(load_contiguous(t, m, false, 0));
  m.addOffset(static_cast<int64_t>(lanes_ - 1) * size);
  const x86::Vec high = as_vec(load_contiguous(t, m, false, 0));
  x86::Vec r = vec(n);
  if (avx512_) {
    r = permute_two(size, low, order_vec(kOneOfTwo, size, [&](int l) { return l < lanes_ / 2 ? 2 * l : 2 * l + 1; }),
                    high);
  } else if (size == 8) {
    x86::Vec left = vec(n), right = vec(n);
    cc_.emit(Id::kIdVperm2f128, left, low, high, asmjit::Imm(0x20));
    cc_.emit(Id::kIdVperm2f128, right, low, high, asmjit::Imm(0x31));
    cc_.emit(Id::kIdVshufpd, r, left, right, asmjit::Imm(0xc));
  } else {
    cc_.emit(Id::kIdVshufps, r, low, high, asmjit::Imm(0xd8));
    cc_.emit(Id::kIdVpermpd, r, r, asmjit::Imm(0xd8));
  }
  return down ? reverse(t, r) : x86::Reg(r);
}

bool VectorLoop::takes_windows(const Place& p, DType t) const {
  constexpr int64_t kFarthest = 8;
  const int size = ir::size_of(t), lanes = std::min(lanes_, kWindow / size);
  if (size > 2 || !exec_.all || p.kind != Place::Kind::strided || !p.stride_known) return false;
  const int64_t step = std::abs(p.stride);
  return step > size && step <= kFarthest * size && (lanes - 1) * step + size >= kWindow;
}

x86::Reg VectorLoop::load_windows(DType t, const Place& p, x86::Mem m) {
  const int size = ir::size_of(t), each = std::min(lanes_, kWindow / size);
  std::vector<x86::Xmm> parts;
  for (int first = 0; first < lanes_; first += each) {
    x86::Mem part = m;
    part.addOffset(first * p.stride + (p.stride < 0 ? (each - 1) * p.stride : 0));
    parts.push_back(load_from_windows(size, p.stride, each, part));
  }
  return joined(parts, bytes(t));
}

/// So many elements, the lowest of which is at `m`. Nothing behind the last one is touched: the last window ends there.
x86::Xmm VectorLoop::load_from_windows(int size, int64_t stride, int count, x86::Mem m) {
  const int64_t step = std::abs(stride), span = (count - 1) * step + size;
  x86::Xmm all;
  int64_t known = 0;  // elements that lie before this are there
  while (known < span) {
    const int64_t start = std::min(known, span - kWindow);
    std::vector<uint64_t> order(kWindow, 0x80);
    int64_t next = known;
    for (int l = 0; l < count; ++l) {
      const int64_t at = (stride < 0 ? count - 1 - l : l) * step;
      if (at < known || at + size > start + kWindow) continue;
      for (int b = 0; b < size; ++b) order[static_cast<size_t>(l * size + b)] = static_cast<uint64_t>(at - start + b);
      next = std::max(next, at + step);
    }
    auto [mask, fresh] = windows_.try_emplace({size, stride, start});
    if (fresh) mask->second = constant_vec(order, 1);
    x86::Mem window = m;
    window.addOffset(start);
    window.setSize(kWindow);
    x86::Xmm here = cc_.newXmm();
    cc_.vmovdqu(here, window);
    cc_.vpshufb(here, here, mask->second.xmm());
    if (all.isValid()) cc_.vpor(here, here, all);
    all = here;
    known = next;
  }
  return all;
}

x86::Vec VectorLoop::joined(std::span<const x86::Xmm> parts, int size) {
  const x86::Vec r = vec(size);
  if (parts.size() == 1) {
    f_.move(r, parts[0]);
    return r;
  }
  std::vector<x86::Ymm> halves;
  for (size_t k = 0; k < parts.size(); k += 2) {
    halves.push_back(parts.size() == 2 ? r.ymm() : cc_.newYmm());
    cc_.vinserti128(halves.back(), parts[k].ymm(), parts[k + 1], 1);
  }
  if (halves.size() == 2) cc_.vinserti64x4(r.zmm(), halves[0].zmm(), halves[1], 1);
  return r;
}

bool VectorLoop::apart(const ir::Op& a, const ir::Op& b) const {
  if (a.view() != b.view()) return !f_.module().graph.may_alias;
  const Form x = address_form(a), y = address_form(b);
  // Where both step by two, one of them takes the even elements and one the odd ones.
  const int64_t size = ir::size_of(a.view()->type.dtype);
  return same_form(x, y) && std::abs(x.offset.known - y.offset.known) % (2 * size) == size;
}

const ir::Op* VectorLoop::neighbour(const ir::Op& first) const {
  const Form form = address_form(first);
  const int64_t size = ir::size_of(form.view->type.dtype);
  for (const ir::Op* op = first.next; op; op = op->next) {
    if (ir::is_pure(op->code) && op->blocks.empty()) continue;
    if (!is_access(*op)) return nullptr;
    if (op->code == first.code && op->view() == form.view) {
      const Form other = address_form(*op);
      if (std::abs(other.offset.known - form.offset.known) == size && same_form(other, form)) return op;
    }
    // The first store is done where the second one stands.
    if (first.code == Opcode::store_ && !apart(first, *op)) return nullptr;
  }
  return nullptr;
}

const ir::Op* VectorLoop::neighbour_to_load(const ir::Op& first) const {
  const ir::Op* second = neighbour(first);
  if (!second || f_.module().uses[second->result()->id] == 0 || paired_.contains(second->result()->id)) return nullptr;
  // The second load is done where the first one stands.
  for (const ir::Op* op = &first; op != second; op = op->next) {
    if (op->code == Opcode::store_ && !apart(*op, *second)) return nullptr;
  }
  for (const auto& [at, store] : waiting_) {
    if (!apart(*store.op, *second)) return nullptr;
  }
  return second;
}

x86::Mem VectorLoop::first_of_pairs(const ir::Op& op, const ir::Op& other, const Place& p, int u) {
  const int size = ir::size_of(op.view()->type.dtype);
  x86::Mem m = lane_group(p, u);
  if (address_form(other).offset.known < address_form(op).offset.known) m.addOffset(-size);
  if (p.stride < 0) m.addOffset(-static_cast<int64_t>(2 * (lanes_ - 1)) * size);
  return m;
}

std::array<x86::Reg, 2> VectorLoop::pair_masks(int size, int u) {
  if (!avx512_) {
    const x86::Vec m = sized(narrow(exec(u), size), lanes_ * size);
    const auto [low, high] = interleave(size, m, m);
    return {low, high};
  }
  // Each bit twice; lanes of four bytes and more are 16 at most.
  x86::Gp bits = cc_.newGpq(), even = cc_.newGpq();
  mask_bits(bits, exec(u));
  cc_.mov(even.r32(), 0x55555555);
  cc_.pdep(bits, bits, even);
  cc_.lea(bits, x86::ptr(bits, bits, 1));
  const InstId move = k_inst(Id::kIdKmovb, Id::kIdKmovw, Id::kIdKmovd, Id::kIdKmovq);
  x86::Reg low = new_mask(), high = new_mask();
  cc_.emit(move, low, bits.r32());
  cc_.shr(bits, lanes_);
  cc_.emit(move, high, bits.r32());
  return {low, high};
}

std::array<x86::Reg, 2> VectorLoop::load_pair(const ir::Op& op, const ir::Op& other, const Place& p, int u) {
  const DType t = op.result()->type.dtype;
  const int size = ir::size_of(t), n = bytes(t);
  x86::Mem m = first_of_pairs(op, other, p, u);
  std::array<x86::Vec, 2> r;
  if (exec_.all) {
    r[0] = as_vec(load_contiguous(t, m, false, u));
    m.addOffset(n);
    r[1] = as_vec(load_contiguous(t, m, false, u));
  } else {
    const auto masks = pair_masks(size, u);
    for (size_t k = 0; k < 2; ++k) {
      r[k] = load_masked(t, m, masks[k]);
      m.addOffset(n);
    }
  }
  r = deinterleave(size, r[0], r[1]);
  if (p.stride < 0) r = {reverse(t, r[0]), reverse(t, r[1])};
  const bool swapped = address_form(other).offset.known < address_form(op).offset.known;
  return {r[swapped ? 1 : 0], r[swapped ? 0 : 1]};
}

void VectorLoop::store_pair(const ir::Op& op, const Regs& values, const ir::Op& other, const Regs& others,
                            const Place& p) {
  const DType t = op.operands[0]->type.dtype;
  const int size = ir::size_of(t), n = bytes(t);
  const bool swapped = address_form(other).offset.known < address_form(op).offset.known;
  for (int u = 0; u < unroll_; ++u) {
    x86::Vec a = as_vec((swapped ? others : values)[static_cast<size_t>(u)]);
    x86::Vec b = as_vec((swapped ? values : others)[static_cast<size_t>(u)]);
    if (p.stride < 0) a = reverse(t, a), b = reverse(t, b);
    const auto r = interleave(size, sized(a, n), sized(b, n));
    x86::Mem m = first_of_pairs(op, other, p, u);
    if (exec_.all) {
      store_contiguous(t, m, r[0], false, u);
      m.addOffset(n);
      store_contiguous(t, m, r[1], false, u);
      continue;
    }
    const auto masks = pair_masks(size, u);
    // The second half of the last vector is often empty: such a store may cost a hundred cycles.
    asmjit::Label skip = cc_.newLabel();
    for (size_t k = 0; k < 2; ++k) {
      if (k == 1) {
        m.addOffset(n);
        if (avx512_) {
          jump_if_none({masks[1]}, skip);
        } else {
          cc_.emit(Id::kIdVptest, masks[1], masks[1]);
          cc_.jz(skip);
        }
      }
      store_masked(t, m, r[k], masks[k]);
    }
    cc_.bind(skip);
  }
}

bool VectorLoop::store_with_neighbour(const ir::Op& op, const Regs& values) {
  if (auto at = waiting_.find(&op); at != waiting_.end()) {
    const Waiting first = at->second;
    waiting_.erase(at);
    store_pair(*first.op, first.values, op, values, first.place);
    return true;
  }
  const DType t = op.operands[0]->type.dtype;
  if (t == DType::bool_) return false;
  const Place p = place(op);
  if (!every_other(p, t) || (p.stride < 0 && !exec_.all)) return false;
  const ir::Op* second = neighbour(op);
  if (!second || waiting_.contains(second)) return false;
  // What is computed in between may take the registers of a value that is not this store's alone.
  const ir::Value* v = op.operands[0];
  waiting_.emplace(second, Waiting{&op, varying(v) && !dies(v, op) ? copy(values, t) : values, p});
  return true;
}

std::vector<const ir::Op*> VectorLoop::side_by_side(const ir::Op& first) const {
  const Form form = address_form(first);
  const int size = ir::size_of(form.view->type.dtype);
  if (size < 4 || lanes_ * size < 16 || form.view->type.dtype == DType::bool_) return {};
  bool linear = false;
  for (const auto& [term, stride] : form.terms) {
    if (!varying(term)) continue;
    if (term != d_.linear() || (stride.constant() && std::abs(stride.known) <= size)) return {};
    linear = true;
  }
  if (!linear) return {};
  std::vector<const ir::Op*> found(static_cast<size_t>(lanes_));
  found[0] = &first;
  int missing = lanes_ - 1;
  for (const ir::Op* op = first.next; op && missing > 0; op = op->next) {
    if (ir::is_pure(op->code) && op->blocks.empty()) continue;
    if (op->code != Opcode::load_) break;
    if (op->view() != form.view || paired_.contains(op->result()->id)) continue;
    const Form other = address_form(*op);
    const int64_t apart = other.offset.known - form.offset.known;
    if (apart <= 0 || apart >= lanes_ * size || apart % size != 0 || !same_form(other, form)) continue;
    const ir::Op*& at = found[static_cast<size_t>(apart / size)];
    if (at) continue;
    at = op;
    --missing;
  }
  if (missing > 0) found.clear();
  return found;
}

Regs VectorLoop::load_transposed(std::span<const ir::Op* const> loads, const Place& p) {
  const DType t = loads[0]->result()->type.dtype;
  std::vector<Regs> loaded(loads.size());
  for (int u = 0; u < unroll_; ++u) {
    std::vector<x86::Vec> rows;
    x86::Mem m = lane_group(p, u);
    x86::Gp at;
    if (!p.stride_known) {
      at = cc_.newGpq();
      cc_.lea(at, m);
      m = x86::ptr(at);
    }
    for (int l = 0; l < lanes_; ++l) {
      rows.push_back(as_vec(load_contiguous(t, m, false, u)));
      if (p.stride_known) {
        m.addOffset(p.stride);
      } else if (l + 1 < lanes_) {
        cc_.add(at, p.stride_reg);
      }
    }
    transpose(ir::size_of(t), rows);
    for (size_t k = 0; k < loads.size(); ++k) loaded[k].push_back(rows[k]);
  }
  for (size_t k = 1; k < loads.size(); ++k) {
    if (f_.module().uses[loads[k]->result()->id] > 0) paired_.emplace(loads[k]->result()->id, loaded[k]);
  }
  return loaded[0];
}

}  // namespace appy::cpu
