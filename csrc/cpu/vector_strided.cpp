// Loads of every other element: two contiguous loads and a permutation are faster than a gather.
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;

bool VectorLoop::takes_every_other(const Place& p, DType t) const {
  const int size = ir::size_of(t);
  return exec_.all && p.kind == Place::Kind::strided && p.stride_known && std::abs(p.stride) == 2 * size && size >= 4 &&
         bytes(t) >= 32;
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
    auto [at, fresh] = strided_.try_emplace({-1, size});
    if (fresh) {
      std::vector<uint64_t> order;
      for (int l = 0; l < lanes_; ++l) order.push_back(static_cast<uint64_t>(l < lanes_ / 2 ? 2 * l : 2 * l + 1));
      at->second = constant_vec(order, size);
    }
    f_.move(r, low);
    cc_.emit(size == 8 ? Id::kIdVpermt2pd : Id::kIdVpermt2ps, r, at->second, high);
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

}  // namespace appy::cpu
