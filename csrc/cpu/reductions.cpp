// Partial results of loops that run in lanes or on workers: where they start and how two of them combine.
#include "cpu/function.h"
#include "support/check.h"

namespace appy::cpu {

using ir::Combiner;
using ir::DType;

void Function::identity(Combiner c, DType t, x86::Reg to, x86::Reg init) {
  if (!ir::counts_each_update(c)) return move(to, init);
  const ir::Word bits = ir::neutral(c, t);
  if (t == DType::f64_) {
    cc_.vmovsd(to.as<x86::Xmm>(), constant64(bits));
  } else if (t == DType::f32_) {
    cc_.vmovss(to.as<x86::Xmm>(), constant32(static_cast<uint32_t>(bits)));
  } else {
    load_imm(to.as<x86::Gp>(), static_cast<int64_t>(bits));
  }
}

void Function::combine(const ir::Loop& loop, std::span<const DType> types, std::span<const x86::Reg> a,
                       std::span<const x86::Reg> b) {
  // Leaders decide before they are overwritten.
  std::vector<x86::Gp> take(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!ir::is_follower(loop.carried[i].combiner)) continue;
    const auto leader = static_cast<size_t>(loop.carried[i].leader);
    const auto tie = static_cast<size_t>(loop.carried[leader].tie);
    const Combiner by = loop.carried[leader].combiner;
    const bool least = by == Combiner::pymin_ || by == Combiner::minimum_;
    const bool nan_wins = by == Combiner::minimum_ || by == Combiner::maximum_;
    const DType t = types[leader];
    asmjit::Label yes = cc_.newLabel(), no = cc_.newLabel(), equal = cc_.newLabel();
    take[i] = cc_.newGpq();
    cc_.xor_(take[i].r32(), take[i].r32());
    if (is_float(t)) {
      auto compare = [&](const x86::Reg& x, const x86::Reg& y) {
        cc_.emit(t == DType::f64_ ? x86::Inst::kIdVucomisd : x86::Inst::kIdVucomiss, x, y);
      };
      if (nan_wins) {
        asmjit::Label ordered = cc_.newLabel(), a_is_number = cc_.newLabel();
        compare(a[leader], b[leader]);
        cc_.jnp(ordered);
        compare(a[leader], a[leader]);
        cc_.jnp(a_is_number);
        compare(b[leader], b[leader]);
        cc_.jp(equal);
        cc_.jmp(no);
        cc_.bind(a_is_number);
        cc_.jmp(yes);
        cc_.bind(ordered);
      }
      least ? compare(a[leader], b[leader]) : compare(b[leader], a[leader]);
      cc_.ja(yes);
      cc_.jne(no);
      cc_.jp(no);
    } else {
      const x86::Gp x = b[leader].as<x86::Gp>(), y = a[leader].as<x86::Gp>();
      cc_.cmp(x, y);
      cc_.je(equal);
      if (ir::is_signed(t)) {
        least ? cc_.jl(yes) : cc_.jg(yes);
      } else {
        least ? cc_.jb(yes) : cc_.ja(yes);
      }
      cc_.jmp(no);
    }
    cc_.bind(equal);
    if (is_float(types[tie])) {
      const bool wide = types[tie] == DType::f64_;
      const bool first = loop.carried[i].combiner == Combiner::follow_first_;
      cc_.emit(wide ? x86::Inst::kIdVucomisd : x86::Inst::kIdVucomiss, first ? a[tie] : b[tie],
               first ? b[tie] : a[tie]);
      cc_.jbe(no);
    } else {
      cc_.cmp(b[tie].as<x86::Gp>(), a[tie].as<x86::Gp>());
      loop.carried[i].combiner == Combiner::follow_first_ ? cc_.jge(no) : cc_.jle(no);
    }
    cc_.bind(yes);
    cc_.mov(take[i].r32(), 1);
    cc_.bind(no);
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const Combiner c = loop.carried[i].combiner;
    // A minimum that others follow moves with them: of equal zeros the sign is that of the one that won.
    const int tie = c == Combiner::pymin_ || c == Combiner::pymax_ ? loop.carried[i].tie : -1;
    if (c == Combiner::last_) {
      move(a[i], b[i]);
    } else if (ir::is_follower(c) || (tie >= 0 && is_float(types[i]))) {
      const x86::Gp won = take[ir::is_follower(c) ? i : static_cast<size_t>(tie)];
      asmjit::Label keep = cc_.newLabel();
      cc_.test(won.r32(), won.r32());
      cc_.jz(keep);
      move(a[i], b[i]);
      cc_.bind(keep);
    } else {
      x86::Reg r = new_reg(types[i]);
      arithmetic(opcode_of(c), types[i], r, a[i], b[i]);
      move(a[i], r);
    }
  }
}

}  // namespace appy::cpu
