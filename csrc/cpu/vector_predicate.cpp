// Instructions under a mask, which AVX-512 has of everything: the sum of what a condition selects is one addition, and
// the second of two comparisons gives their conjunction.
#include <algorithm>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"
#include "passes/comparisons.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

/// Does adding the constant leave a sum as it is that begins with `init`? -0 does; 0 where the sum is not -0, which it
/// is only if it begins with that.
bool adds_nothing(const ir::Value* v, const ir::Value* init) {
  if (!v->op || v->op->code != Opcode::const_) return false;
  const DType t = v->type.dtype;
  if (!ir::is_real(t)) return v->op->imm == 0;
  const ir::Word negative_zero = ir::Word{1} << (8 * ir::size_of(t) - 1);
  if (v->op->imm == negative_zero) return true;
  return v->op->imm == 0 && init->op && init->op->code == Opcode::const_ && init->op->imm != negative_zero;
}

/// What a sum that the block's loop carries begins with; null where v is none.
const ir::Value* start_of_sum(const ir::Value* v, const ir::Block& block) {
  const ir::Op* loop = block.owner;
  if (v->op || !loop || loop->code != Opcode::for_) return nullptr;
  const auto at = std::ranges::find(block.args, v);
  if (at <= block.args.begin() || at == block.args.end()) return nullptr;
  const auto k = static_cast<size_t>(at - block.args.begin() - 1);
  return loop->loop->carried[k].combiner == ir::Combiner::sum_ ? loop->operands[3 + k] : nullptr;
}

InstId addition(DType t) {
  switch (ir::size_of(t)) {
    case 1:
      return Id::kIdVpaddb;
    case 2:
      return Id::kIdVpaddw;
    case 4:
      return t == DType::f32_ ? Id::kIdVaddps : Id::kIdVpaddd;
    default:
      return t == DType::f64_ ? Id::kIdVaddpd : Id::kIdVpaddq;
  }
}

}  // namespace

bool VectorLoop::predicated(const ir::Value* v) const {
  if (!avx512_ || !varying(v) || !v->op || f_.module().uses[v->id] != 1) return false;
  const ir::Op &op = *v->op, &user = *f_.module().user[v->id];
  // A register that the loop carries may have its next value where the user stands.
  const auto stays = [&](const ir::Value* o) {
    return o->op || std::ranges::find(op.parent->args, o) == op.parent->args.end();
  };
  if (user.parent != op.parent || !std::ranges::all_of(op.operands, stays)) return false;
  const DType t = v->type.dtype;
  if (user.code == Opcode::and_ && t == DType::bool_) {
    return passes::is_comparison(op.code) && op.operands[0]->type.dtype != DType::bool_ && user.operands[1] == v;
  }
  if (user.code != Opcode::add_ || t == DType::bool_ || (ir::is_real(t) && ir::size_of(t) < 4)) return false;
  const bool counts = op.code == Opcode::cast_ && op.operands[0]->type.dtype == DType::bool_ && !ir::is_real(t);
  const ir::Value* init = start_of_sum(user.operands[user.operands[0] == v ? 1 : 0], *op.parent);
  return init && (counts || (op.code == Opcode::select_ && adds_nothing(op.operands[2], init)));
}

bool VectorLoop::under_mask(const ir::Op& op) {
  if (op.code != Opcode::add_ && op.code != Opcode::and_) return false;
  const auto found = std::ranges::find_if(op.operands, [&](const ir::Value* v) { return predicated(v); });
  if (found == op.operands.end()) return false;
  const ir::Op& made = *(*found)->op;
  const ir::Value *v = op.result(), *other = op.operands[found == op.operands.begin() ? 1 : 0];
  const DType t = v->type.dtype;
  const Regs before = get(other);
  if (op.code == Opcode::and_) {
    const Regs a = get(made.operands[0]), b = get(made.operands[1]);
    // A mask of this iteration alone: one from outside the block, or of all lanes alike, serves the next ones too.
    const bool own = other->op && other->op->parent == op.parent && varying(other) &&
                     passes::is_comparison(other->op->code) && f_.module().uses[other->id] == 1 &&
                     !targets_.contains(other->id) && !merges_.contains(other->id);
    const Regs to = own ? before : copy(before, t);
    for (size_t u = 0; u < to.size(); ++u) {
      compare(made.code, made.operands[0]->type.dtype, a[u], b[u], to[u]);
    }
    finish(v, to);
    return true;
  }
  const bool counts = made.code == Opcode::cast_;
  const Regs mask = get(made.operands[0]);
  const Regs addend =
      counts ? Regs(mask.size(), sized(broadcast_bits(ir::size_of(t), 1), bytes(t))) : get(made.operands[1]);
  const auto target = targets_.find(v->id);
  const Regs to = target != targets_.end() ? target->second : fresh(t);
  for (size_t u = 0; u < to.size(); ++u) {
    f_.move(to[u], before[u]);
    cc_.k(mask[u].as<x86::KReg>()).emit(addition(t), to[u], to[u], addend[u]);
  }
  set(v, to);
  return true;
}

bool VectorLoop::merges_sum(const ir::Op& op) {
  const DType t = op.result()->type.dtype;
  const auto merge = merges_.find(op.result()->id);
  const bool fma = op.code == Opcode::fma_;
  if (!avx512_ || merge == merges_.end() || (op.code != Opcode::add_ && !fma) || exec_.all) return false;
  if (t == DType::bool_ || (ir::is_real(t) && ir::size_of(t) < 4)) return false;
  if (fma && std::ranges::any_of(op.operands, [&](const ir::Value* v) { return negates_for_fma(v); })) return false;
  const auto is_product = [&](const ir::Value* v) {
    return v->op && v->op->code == Opcode::mul_ && f_.deferred(*v->op);
  };
  if (std::ranges::any_of(op.operands, is_product)) return false;
  const Regs &to = merge->second, a = get(op.operands[0]), b = get(op.operands[1]);
  if (fma) {
    if (get(op.operands[2])[0].id() != to[0].id()) return false;
    const InstId id = ir::size_of(t) == 8 ? Id::kIdVfmadd231pd : Id::kIdVfmadd231ps;
    for (size_t u = 0; u < to.size(); ++u) cc_.k(exec_.r[u].as<x86::KReg>()).emit(id, to[u], a[u], b[u]);
    set(op.result(), to);
    return true;
  }
  if (a[0].id() != to[0].id() && b[0].id() != to[0].id()) return false;
  for (size_t u = 0; u < to.size(); ++u) cc_.k(exec_.r[u].as<x86::KReg>()).emit(addition(t), to[u], a[u], b[u]);
  set(op.result(), to);
  return true;
}

}  // namespace appy::cpu
