// Registers of varying values, broadcasts of uniform ones, constants.
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"
#include "support/check.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

Regs VectorLoop::fresh(DType t) {
  Regs r;
  for (int u = 0; u < unroll_; ++u) r.push_back(fresh1(t));
  return r;
}

Regs VectorLoop::copy(const Regs& from, DType t) {
  Regs to;
  for (const x86::Reg& r : from) to.push_back(copy(r, t));
  return to;
}

void VectorLoop::assign(const Regs& to, const Regs& from) {
  for (size_t u = 0; u < to.size(); ++u) f_.move(to[u], from[u]);
}

void VectorLoop::assign_all(const std::vector<Regs>& to, const std::vector<Regs>& from) {
  std::vector<x86::Reg> flat_to, flat_from;
  for (size_t i = 0; i < to.size(); ++i) {
    flat_to.insert(flat_to.end(), to[i].begin(), to[i].end());
    flat_from.insert(flat_from.end(), from[i].begin(), from[i].end());
  }
  f_.move_all(flat_to, flat_from);
}

Regs VectorLoop::get(const ir::Value* v) {
  if (auto at = values_.find(v->id); !varying(v) && at != values_.end()) return at->second;
  if (!varying(v)) return broadcast(v);
  if (v == d_.linear()) return linear();
  if (folded_.contains(v->id)) return unfold(v);
  auto at = values_.find(v->id);
  APPY_CHECK(at != values_.end(), "a varying value has no registers");
  return at->second;
}

void VectorLoop::set(const ir::Value* v, Regs r) { values_[v->id] = std::move(r); }

void VectorLoop::finish(const ir::Value* v, Regs r) {
  if (const auto target = targets_.find(v->id); target != targets_.end()) {
    assign(target->second, r);
    r = target->second;
  }
  set(v, std::move(r));
}

Regs VectorLoop::broadcast(const ir::Value* v) {
  const DType t = v->type.dtype;
  const auto n = static_cast<size_t>(unroll_);
  if (f_.is_const(v) && t != DType::bool_) {
    return Regs(n, sized(broadcast_bits(ir::size_of(t), v->op->imm), bytes(t)));
  }
  x86::Reg scalar = f_.reg(v);
  const auto defined = static_cast<size_t>(f_.depth_of(v));
  if (defined >= f_.depth()) return Regs(n, broadcast_reg(t, scalar));
  const size_t home = std::max(defined + 1, level_);
  auto known = f_.level(home).broadcasts.find(v->id);
  if (known != f_.level(home).broadcasts.end()) return Regs(n, known->second);
  x86::Reg r;
  f_.hoist(home, [&] { r = broadcast_reg(t, scalar); });
  f_.level(home).broadcasts[v->id] = r;
  return Regs(n, r);
}

bool VectorLoop::serves_lanes(const ir::Op& op) const {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  if ((t != DType::f64_ && t != DType::f32_) || f_.module().uses[v->id] != 1 || bytes(t) < 32) return false;
  const ir::Op& user = *f_.module().user[v->id];
  if (user.parent != op.parent) return false;
  switch (user.code) {
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::div_:
    case Opcode::fma_:
      return varying(user.result());
    case Opcode::neg_:
      return negates_for_fma(user.result());
    default:
      return false;
  }
}

bool VectorLoop::is_scaled_load(const ir::Op& op) const {
  if (op.code != Opcode::mul_ || !serves_lanes(op) || f_.module().user[op.result()->id]->code != Opcode::fma_)
    return false;
  const auto is_load = [&](const ir::Value* v) {
    return v->op && v->op->code == Opcode::load_ && v->op->parent == op.parent && f_.module().uses[v->id] == 1;
  };
  const ir::Value *x = op.operands[0], *y = op.operands[1];
  return (is_load(x) && ir::defined_outside(*y, *op.parent)) || (is_load(y) && ir::defined_outside(*x, *op.parent));
}

bool VectorLoop::into_lanes(const ir::Op& op) {
  if (op.code == Opcode::neg_ && negates_for_fma(op.result())) return true;
  if (is_scaled_load(op)) {
    const Regs x = get(op.operands[0]), y = get(op.operands[1]);
    const x86::Reg r = real_op(op.code, op.result()->type.dtype, x[0], y[0], {});
    set(op.result(), Regs(static_cast<size_t>(unroll_), r));
    return true;
  }
  if (op.code != Opcode::load_) return false;
  const ir::Value* v = op.result();
  if (!serves_lanes(op) && !(f_.module().uses[v->id] == 1 && is_scaled_load(*f_.module().user[v->id]))) return false;
  const DType t = v->type.dtype;
  x86::Mem from = f_.address(op);
  prefetch_elements(op, from);
  from.setSize(static_cast<uint32_t>(ir::size_of(t)));
  x86::Vec r = vec(bytes(t));
  cc_.emit(t == DType::f64_ ? Id::kIdVbroadcastsd : Id::kIdVbroadcastss, r, from);
  set(v, Regs(static_cast<size_t>(unroll_), r));
  return true;
}

Regs VectorLoop::zeros(DType t) {
  Regs r = fresh(t);
  for (const x86::Reg& one : r) {
    const x86::Vec v = as_vec(one);
    cc_.emit(avx512_ ? Id::kIdVpxorq : Id::kIdVpxor, v, v, v);
  }
  return r;
}

Regs VectorLoop::linear() {
  if (!linear_.empty()) return linear_;
  for (int u = 0; u < unroll_; ++u) linear_.push_back(vec(bytes(DType::i64_)));
  const Level& level = f_.level(level_);
  x86::Vec lane_steps, group, whole;
  if (level.step_known) {
    const int64_t step = level.step / (lanes_ * unroll_);
    std::vector<uint64_t> offsets;
    for (int l = 0; l < lanes_; ++l) offsets.push_back(static_cast<uint64_t>(l) * static_cast<uint64_t>(step));
    lane_steps = constant_vec(offsets, 8);
    group = broadcast_bits(8, static_cast<uint64_t>(step) * static_cast<uint64_t>(lanes_));
    whole = broadcast_bits(8, static_cast<uint64_t>(level.step));
    linear_step_ = sized(whole, bytes(DType::i64_));
  } else {
    x86::Vec at = iota(8);
    hoisted([&] {
      x86::Vec step = as_vec(broadcast_reg(DType::i64_, lane_step_));
      lane_steps = as_vec(mul64(at, step, {}));
      x86::Gp g = cc_.newGpq();
      cc_.imul(g, lane_step_, lanes_);
      group = as_vec(broadcast_reg(DType::i64_, g));
      linear_step_ = broadcast_reg(DType::i64_, level.step_reg);
    });
  }
  hoisted([&] {
    x86::Vec at = as_vec(broadcast_reg(DType::i64_, level.iv));
    cc_.vpaddq(as_vec(linear_[0]), at, lane_steps);
    for (size_t u = 1; u < linear_.size(); ++u) {
      cc_.vpaddq(as_vec(linear_[u]), as_vec(linear_[u - 1]), sized(group, bytes(DType::i64_)));
    }
  });
  return linear_;
}

}  // namespace appy::cpu
