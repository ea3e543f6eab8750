// Two operations in one instruction: fused multiply-add, and loads as operands of their only user.
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

bool VectorLoop::may_fold(const ir::Op& load) const {
  const ir::Value* v = load.result();
  if (!is_float(v->type.dtype) || f_.module().uses[v->id] != 1) return false;
  const ir::Op& user = *f_.module().user[v->id];
  if (user.parent != load.parent || f_.deferred(user)) return false;
  for (const ir::Op* at = &load; at != &user; at = at->next) {
    if (!at->blocks.empty() || (!ir::is_pure(at->code) && at->code != Opcode::load_)) return false;
  }
  switch (user.code) {
    case Opcode::add_:
    case Opcode::mul_:
      return true;
    case Opcode::sub_:
    case Opcode::div_:
      return user.operands[1] == v;
    case Opcode::pymin_:
    case Opcode::pymax_:
      return user.operands[0] == v;
    case Opcode::fma_:
      return user.operands[2] != v;
    default:
      return false;
  }
}

Regs VectorLoop::unfold(const ir::Value* v) {
  const Place p = folded_.at(v->id);
  folded_.erase(v->id);
  Regs r;
  for (int u = 0; u < unroll_; ++u) r.push_back(load_contiguous(v->type.dtype, lane_group(p, u), false, u));
  set(v, r);
  return r;
}

std::vector<x86::Mem> VectorLoop::take_folded(const ir::Value* v) {
  auto at = folded_.find(v->id);
  if (at == folded_.end()) return {};
  std::vector<x86::Mem> places;
  for (int u = 0; u < unroll_; ++u) {
    places.push_back(lane_group(at->second, u));
    places.back().setSize(static_cast<uint32_t>(bytes(v->type.dtype)));
  }
  folded_.erase(at);
  return places;
}

bool VectorLoop::negates_for_fma(const ir::Value* v) const {
  if (!v->op || v->op->code != Opcode::neg_ || f_.module().uses[v->id] != 1) return false;
  const ir::Op& user = *f_.module().user[v->id];
  if (user.code != Opcode::fma_ || user.parent != v->op->parent) return false;
  if (varying(v)) return true;
  // What goes into all lanes as it is loaded.
  const ir::Value* of = v->op->operands[0];
  return varying(user.result()) && of->op && of->op->code == Opcode::load_ && of->op->parent == user.parent &&
         f_.module().uses[of->id] == 1 && is_float(v->type.dtype) && bytes(v->type.dtype) >= 32;
}

bool VectorLoop::fused(const ir::Op& op) {
  const ir::Value* v = op.result();
  const bool wide = v->type.dtype == DType::f64_;
  const ir::Value *x = nullptr, *y = nullptr, *z = nullptr;
  bool negate_product = false, negate_addend = false;
  if (op.code == Opcode::fma_) {
    x = op.operands[0], y = op.operands[1], z = op.operands[2];
    for (const ir::Value** factor : {&x, &y}) {
      if (!negates_for_fma(*factor)) continue;
      *factor = (*factor)->op->operands[0];
      negate_product = !negate_product;
    }
    if (negates_for_fma(z)) {
      z = z->op->operands[0];
      negate_addend = true;
    }
  } else {
    auto product = [&](const ir::Value* p) {
      return p->op && p->op->code == Opcode::mul_ && varying(p) && f_.deferred(*p->op);
    };
    const int which = product(op.operands[0]) ? 0 : product(op.operands[1]) ? 1 : -1;
    if (which < 0) return false;
    const ir::Op& mul = *op.operands[static_cast<size_t>(which)]->op;
    x = mul.operands[0], y = mul.operands[1], z = op.operands[static_cast<size_t>(1 - which)];
    if (op.code == Opcode::sub_) (which == 0 ? negate_addend : negate_product) = true;
  }
  auto target = targets_.find(v->id);
  // Of the factors one may be in memory, unless the sum replaces the other one.
  const auto replaced = [&](const ir::Value* factor) {
    auto at = values_.find(factor->id);
    return target != targets_.end() && at != values_.end() && at->second[0].id() == target->second[0].id();
  };
  std::vector<x86::Mem> memory;
  if (!replaced(x)) memory = take_folded(y);
  if (memory.empty() && !replaced(y)) {
    memory = take_folded(x);
    if (!memory.empty()) std::swap(x, y);
  }
  Regs a = get(x), b = memory.empty() ? get(y) : a, c = get(z);
  // In place of an operand that nobody reads any more, the addend or, as in a polynomial, a factor.
  Regs to;
  if (target != targets_.end()) {
    to = target->second;
  } else if (dies(z, op)) {
    to = c;
  } else if (memory.empty() && (dies(x, op) || dies(y, op))) {
    to = dies(x, op) ? a : b;
  } else {
    to = fresh(v->type.dtype);
  }
  auto form = [&](InstId plus, InstId minus, InstId negated, InstId negated_minus) {
    return negate_product ? (negate_addend ? negated_minus : negated) : negate_addend ? minus : plus;
  };
  const InstId id213 = wide ? form(Id::kIdVfmadd213pd, Id::kIdVfmsub213pd, Id::kIdVfnmadd213pd, Id::kIdVfnmsub213pd)
                            : form(Id::kIdVfmadd213ps, Id::kIdVfmsub213ps, Id::kIdVfnmadd213ps, Id::kIdVfnmsub213ps);
  const InstId id231 = wide ? form(Id::kIdVfmadd231pd, Id::kIdVfmsub231pd, Id::kIdVfnmadd231pd, Id::kIdVfnmsub231pd)
                            : form(Id::kIdVfmadd231ps, Id::kIdVfmsub231ps, Id::kIdVfnmadd231ps, Id::kIdVfnmsub231ps);
  for (size_t u = 0; u < to.size(); ++u) {
    if (to[u].id() == a[u].id() || to[u].id() == b[u].id()) {
      const bool first = to[u].id() == a[u].id();
      if (to[u].id() != c[u].id()) {
        cc_.emit(id213, to[u], first ? b[u] : a[u], c[u]);
        continue;
      }
    }
    const bool clash = to[u].id() != c[u].id() && (to[u].id() == a[u].id() || to[u].id() == b[u].id());
    x86::Reg r = clash ? fresh1(v->type.dtype) : to[u];
    f_.move(r, c[u]);
    if (memory.empty()) {
      cc_.emit(id231, r, a[u], b[u]);
    } else {
      cc_.emit(id231, r, a[u], memory[u]);
    }
    f_.move(to[u], r);
  }
  set(v, to);
  return true;
}

bool VectorLoop::dies(const ir::Value* v, const ir::Op& user) const {
  if (!varying(v) || !v->op || v->op->parent != user.parent || f_.module().uses[v->id] != 1) return false;
  // Registers of their own: not those of a carried value, a constant, or another value's under a second name.
  switch (v->op->code) {
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::div_:
    case Opcode::fma_:
    case Opcode::neg_:
    case Opcode::abs_:
    case Opcode::sqrt_:
    case Opcode::select_:
    case Opcode::load_:
      return !targets_.contains(v->id) && !merges_.contains(v->id);
    default:
      return false;
  }
}

bool VectorLoop::with_memory(const ir::Op& op) {
  if (folded_.empty() || op.operands.size() != 2 || !is_float(op.result()->type.dtype)) return false;
  const bool wide = op.result()->type.dtype == DType::f64_;
  const auto pick = [&](InstId d, InstId f) { return wide ? d : f; };
  InstId id;
  bool commutes = false, reversed = false;
  switch (op.code) {
    case Opcode::add_:
      id = pick(Id::kIdVaddpd, Id::kIdVaddps), commutes = true;
      break;
    case Opcode::mul_:
      id = pick(Id::kIdVmulpd, Id::kIdVmulps), commutes = true;
      break;
    case Opcode::sub_:
      id = pick(Id::kIdVsubpd, Id::kIdVsubps);
      break;
    case Opcode::div_:
      id = pick(Id::kIdVdivpd, Id::kIdVdivps);
      break;
    case Opcode::pymin_:
      id = pick(Id::kIdVminpd, Id::kIdVminps), reversed = true;
      break;
    case Opcode::pymax_:
      id = pick(Id::kIdVmaxpd, Id::kIdVmaxps), reversed = true;
      break;
    default:
      return false;
  }
  size_t last = reversed ? 0 : 1;
  std::vector<x86::Mem> memory = take_folded(op.operands[last]);
  if (memory.empty() && commutes) memory = take_folded(op.operands[last = 0]);
  if (memory.empty()) return false;
  const ir::Value* v = op.result();
  const Regs other = get(op.operands[1 - last]);
  auto target = targets_.find(v->id);
  const Regs to = target != targets_.end() ? target->second : fresh(v->type.dtype);
  for (size_t u = 0; u < to.size(); ++u) cc_.emit(id, to[u], other[u], memory[u]);
  set(v, to);
  return true;
}

}  // namespace appy::cpu
