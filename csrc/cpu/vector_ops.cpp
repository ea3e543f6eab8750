// Ops without effects: what their vector code is, and where its results go.
#include <bit>

#include "cpu/math_calls.h"
#include "cpu/reciprocal.h"
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

void VectorLoop::pure(const ir::Op& op) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  const DType from = op.operands[0]->type.dtype;
  if (f_.module().uses[v->id] == 0 || d_.narrow_index(v)) return;
  if (op.code == Opcode::mul_ && f_.deferred(op)) return;
  if (left_to_test(op)) return;
  if (negates_for_fma(v) || predicated(v) || under_mask(op) || merges_sum(op)) return;
  if ((op.code == Opcode::add_ || op.code == Opcode::sub_) && is_float(t) && fused(op)) return;
  if (op.code == Opcode::fma_) {
    fused(op);
    return;
  }
  if (with_memory(op)) return;
  auto target = targets_.find(v->id);
  Regs r;
  const auto n = static_cast<size_t>(unroll_);
  switch (op.code) {
    case Opcode::select_: {
      Regs c = get(op.operands[0]), a = get(op.operands[1]), b = get(op.operands[2]);
      if (avx512_ && t != DType::bool_ && target == targets_.end() && dies(op.operands[2], op)) {
        for (size_t u = 0; u < n; ++u) blend_into(t, b[u], c[u], a[u]);
        return set(v, b);
      }
      for (size_t u = 0; u < n; ++u) r.push_back(blend(t, c[u], a[u], b[u]));
      return finish(v, r);
    }
    case Opcode::cast_:
      if (cast_by_lane(t, from)) {
        by_lane(op);
        return;
      }
      return finish(v, cast(t, from, get(op.operands[0])));
    case Opcode::bitcast_:
      return finish(v, get(op.operands[0]));
    case Opcode::shl_:
    case Opcode::shr_: {
      Regs a = get(op.operands[0]);
      if (f_.is_const(op.operands[1])) {
        const uint64_t count = static_cast<uint64_t>(f_.const_int(op.operands[1]));
        const int width = 8 * ir::size_of(t);
        const int c = count >= static_cast<uint64_t>(width) ? width : static_cast<int>(count);
        for (size_t u = 0; u < n; ++u) r.push_back(shift_imm(op.code, t, a[u], c, {}));
        return finish(v, r);
      }
      if (ir::size_of(t) < 4) {
        by_lane(op);
        return;
      }
      Regs b = get(op.operands[1]);
      for (size_t u = 0; u < n; ++u) r.push_back(shift(op.code, t, a[u], b[u], {}));
      return finish(v, r);
    }
    case Opcode::mul_: {
      // A product of 64-bit integers takes long; two shifts and a sum do not.
      if (t != DType::i64_ && t != DType::u64_) break;
      const size_t factor = f_.is_const(op.operands[0]) ? 0 : 1;
      if (!f_.is_const(op.operands[factor])) break;
      const uint64_t c = static_cast<uint64_t>(f_.const_int(op.operands[factor]));
      if (std::popcount(c) != 2) break;
      Regs a = get(op.operands[1 - factor]);
      for (size_t u = 0; u < n; ++u) {
        x86::Reg low = std::countr_zero(c) ? shift_imm(Opcode::shl_, t, a[u], std::countr_zero(c), {}) : a[u];
        r.push_back(int_op(Opcode::add_, t, low, shift_imm(Opcode::shl_, t, a[u], 63 - std::countl_zero(c), {}), {}));
      }
      return finish(v, r);
    }
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::rem_: {
      if (is_float(t)) break;
      Regs a = get(op.operands[0]);
      if (f_.is_const(op.operands[1])) {
        const int64_t c = f_.const_int(op.operands[1]);
        const bool power = c > 0 && (c & (c - 1)) == 0;
        if (power && (op.code != Opcode::rem_ || !ir::is_signed(t))) {
          const int shift = __builtin_ctzll(static_cast<uint64_t>(c));
          x86::Vec mask;
          if (op.code != Opcode::floordiv_) {
            mask = sized(broadcast_bits(ir::size_of(t), static_cast<uint64_t>(c) - 1), bytes(t));
          }
          for (size_t u = 0; u < n; ++u) {
            r.push_back(op.code == Opcode::floordiv_ ? shift_imm(Opcode::shr_, t, a[u], shift, {})
                                                     : int_op(Opcode::and_, t, a[u], mask, {}));
          }
          return finish(v, r);
        }
        if (ir::size_of(t) == 8 && by_reciprocal(op.code, t, c)) {
          for (size_t u = 0; u < n; ++u) r.push_back(divide_by_constant(op.code, t, a[u], c));
          return finish(v, r);
        }
      }
      if (t == DType::i64_ && avx512_ && op.code != Opcode::rem_) {
        Regs b = get(op.operands[1]);
        for (size_t u = 0; u < n; ++u) r.push_back(wide_divide(op.code, a[u], b[u]));
        return finish(v, r);
      }
      if (ir::size_of(t) == 8) {
        by_lane(op);
        return;
      }
      Regs b = get(op.operands[1]);
      for (size_t u = 0; u < n; ++u) r.push_back(int_divide(op.code, t, a[u], b[u]));
      return finish(v, r);
    }
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_:
    case Opcode::isnan_:
    case Opcode::isinf_:
    case Opcode::isfinite_:
    case Opcode::signbit_: {
      Regs a = get(op.operands[0]), b = op.operands.size() > 1 ? get(op.operands[1]) : a;
      for (size_t u = 0; u < n; ++u) r.push_back(compare(op.code, from, a[u], b[u]));
      return finish(v, r);
    }
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_: {
      if (from != DType::i64_) {
        by_lane(op);
        return;
      }
      Regs a = get(op.operands[0]), b = get(op.operands[1]);
      for (size_t u = 0; u < n; ++u) r.push_back(overflow(op.code, from, a[u], b[u]));
      return finish(v, r);
    }
    case Opcode::wrap_: {
      Regs a = get(op.operands[0]), b = get(op.operands[1]);
      for (size_t u = 0; u < n; ++u) {
        x86::Reg sum = int_op(Opcode::add_, t, a[u], b[u], {});
        r.push_back(blend(t, negative(t, as_vec(a[u])), sum, a[u]));
      }
      return finish(v, r);
    }
    case Opcode::pow_:
      if (ir::is_int(t)) {
        by_lane(op);
        return;
      }
      break;
    case Opcode::popcount_:
      by_lane(op);
      return;
    default:
      break;
  }
  if (t == DType::bool_) {
    Regs a = get(op.operands[0]), b = op.operands.size() > 1 ? get(op.operands[1]) : a;
    for (size_t u = 0; u < n; ++u) {
      switch (op.code) {
        case Opcode::and_:
        case Opcode::mul_:
        case Opcode::pymin_:
        case Opcode::minimum_:
          r.push_back(mask_and(a[u], b[u]));
          break;
        case Opcode::xor_:
        case Opcode::sub_:
          r.push_back(mask_xor(a[u], b[u]));
          break;
        case Opcode::not_:
          r.push_back(mask_not(a[u]));
          break;
        default:
          r.push_back(mask_or(a[u], b[u]));
      }
    }
    return finish(v, r);
  }
  if (op.code == Opcode::mantissa_ || op.code == Opcode::exponent_) return split_real(op);
  if (is_float(t) && calls_function(op.code, t)) {
    if (!call_vector(op)) by_lane(op);
    return;
  }
  Regs a = get(op.operands[0]), b = op.operands.size() > 1 ? get(op.operands[1]) : a;
  Regs to = target != targets_.end() ? target->second : Regs(n);
  for (size_t u = 0; u < n; ++u) to[u] = elementwise(op.code, t, a[u], b[u], to[u]);
  set(v, to);
}

void VectorLoop::by_lane(const ir::Op& op) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  const DType stored = t == DType::bool_ ? DType::u8_ : t;
  std::vector<Regs> operands;
  std::vector<x86::Mem> slots;
  std::vector<x86::Reg> saved;
  for (const ir::Value* o : op.operands) operands.push_back(get(o));
  Regs results;
  auto slot_at = [&](size_t i, DType type, x86::Gp lane) {
    x86::Mem m = scratch(1 + static_cast<int>(i));
    const int size = ir::size_of(type);
    m.setIndex(lane, size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0);
    return m;
  };
  for (int u = 0; u < unroll_; ++u) {
    for (size_t i = 0; i < operands.size(); ++i) {
      spill(op.operands[i]->type.dtype, operands[i][static_cast<size_t>(u)], scratch(1 + static_cast<int>(i)));
    }
    x86::Gp lane = cc_.newGpq();
    asmjit::Label again = cc_.newLabel();
    cc_.xor_(lane.r32(), lane.r32());
    cc_.bind(again);
    std::vector<std::pair<const ir::Value*, x86::Reg>> hidden;
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Value* o = op.operands[i];
      x86::Reg scalar = f_.new_reg(o->type.dtype);
      f_.load_scalar(o->type.dtype, scalar, slot_at(i, o->type.dtype, lane));
      hidden.emplace_back(o, f_.regs_[o->id]);
      f_.regs_[o->id] = scalar;
    }
    x86::Reg out = f_.new_reg(t);
    f_.emit_pure(op, out);
    for (size_t i = hidden.size(); i-- > 0;) f_.regs_[hidden[i].first->id] = hidden[i].second;
    f_.store_scalar(stored, slot_at(7, stored, lane), out);
    cc_.inc(lane);
    cc_.cmp(lane, lanes_);
    cc_.jb(again);
    x86::Vec r = vec(bytes(stored));
    cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, r, scratch(8));
    results.push_back(t == DType::bool_ ? cast1(DType::bool_, DType::u8_, r) : x86::Reg(r));
  }
  finish(v, std::move(results));
}

}  // namespace appy::cpu
