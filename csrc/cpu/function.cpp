#include "cpu/function.h"

#include <utility>

#include "ir/typing.h"
#include "support/check.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;

Function::Function(Module& m)
    : m_(m),
      cc_(m.cc),
      regs_(m.graph.value_count()),
      depths_(m.graph.value_count()),
      homes_(m.graph.value_count()),
      targets_(m.graph.value_count()) {
  levels_.reserve(64);
}

size_t loops_within(const ir::Block& block) {
  size_t most = 0;
  for (const ir::Op* op = block.first; op; op = op->next) {
    const size_t itself = op->code == Opcode::for_ || op->code == Opcode::while_;
    for (const ir::Block* inner : op->blocks) most = std::max(most, loops_within(*inner) + itself);
  }
  return most;
}

void Function::begin(asmjit::FuncNode* node, size_t deepest) {
  node_ = node;
  deepest_ = deepest;
  cc_.addFunc(node);
  node->frame().setAvxEnabled();
  if (avx512()) node->frame().setAvx512Enabled();
  node->frame().setAvxCleanup();
  context_ = cc_.newGpq("ctx");
  args_ = cc_.newGpq("args");
}

void Function::emit_region() {
  asmjit::FuncNode* node;
  cc_.newFuncNode(&node, asmjit::FuncSignatureT<int64_t, void*, const void*, void*>());
  begin(node, loops_within(*m_.graph.body));
  results_ = cc_.newGpq("results");
  node->setArg(0, context_);
  node->setArg(1, args_);
  node->setArg(2, results_);
  levels_.push_back({});
  levels_[0].preheader = cc_.cursor();
  find_pending_loops(*m_.graph.body);
  emit_block(*m_.graph.body, [&](const ir::Op& yield) {
    if (may_be_pending_) finish_pending();
    write_results(yield.operands);
    leave(runtime::Status::done);
  });
  finish();
}

void Function::finish() {
  emit_cold();
  for (const auto& [first, last] : aside_) {
    asmjit::BaseNode* next = nullptr;
    for (asmjit::BaseNode* node = first;; node = next) {
      next = node->next();
      cc_.removeNode(node);
      cc_.addNode(node);
      if (node == last) break;
    }
  }
  aside_.clear();
  cc_.endFunc();
}

void Function::aside(const std::function<void()>& emit) {
  const asmjit::BaseNode* before = cc_.cursor();
  emit();
  aside_.emplace_back(before->next(), cc_.cursor());
}

void Function::emit_cold() {
  for (size_t i = 0; i < cold_.size(); ++i) {
    cc_.bind(cold_[i].first);
    sums_.clear();
    auto f = std::move(cold_[i].second);
    f();
  }
  cold_.clear();
}

asmjit::Label Function::cold(std::function<void()> f) {
  asmjit::Label label = cc_.newLabel();
  cold_.emplace_back(label, std::move(f));
  return label;
}

void Function::leave(runtime::Status status) {
  x86::Gp r = cc_.newGpq();
  load_imm(r, static_cast<int64_t>(status));
  leave(r);
}

void Function::leave(x86::Gp status) {
  if (streamed_.hasBase()) {
    asmjit::Label ordered = cc_.newLabel();
    cc_.cmp(streamed_, 0);
    cc_.je(ordered);
    cc_.sfence();
    cc_.bind(ordered);
  }
  cc_.ret(status);
}

void Function::write_results(std::span<ir::Value* const> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const x86::Mem to = x86::qword_ptr(results_, static_cast<int32_t>(8 * i));
    const ir::Value* v = values[i];
    if (v->type.dtype == DType::f64_) {
      cc_.vmovsd(to, xmm(v));
    } else if (v->type.dtype == DType::f32_) {
      x86::Gp word = cc_.newGpq();
      cc_.vpextrd(word.r32(), xmm(v), 0);
      cc_.mov(to, word);
    } else {
      cc_.mov(to, gp(v));
    }
  }
}

x86::Reg Function::new_reg(DType t) {
  if (t == DType::f64_) return cc_.newXmmSd();
  if (t == DType::f32_) return cc_.newXmmSs();
  return cc_.newGpq();
}

void Function::bind(const ir::Value* v, x86::Reg r) {
  regs_[v->id] = r;
  depths_[v->id] = static_cast<int>(depth());
}

int Function::depth_of(const ir::Value* v) const {
  return bound(v) ? depths_[v->id] : v->op && !is_const(v) ? static_cast<int>(depth()) : 0;
}

bool Function::is_const(const ir::Value* v) const { return v->op && v->op->code == Opcode::const_; }
int64_t Function::const_int(const ir::Value* v) const { return static_cast<int64_t>(v->op->imm); }

void Function::load_imm(x86::Gp to, int64_t value) {
  if (value == 0) {
    cc_.xor_(to.r32(), to.r32());
  } else if (value > 0 && value <= UINT32_MAX) {
    cc_.mov(to.r32(), static_cast<uint32_t>(value));
  } else {
    cc_.mov(to, value);
  }
}

x86::Mem Function::constant(const void* data, size_t size) {
  return cc_.newConst(asmjit::ConstPoolScope::kGlobal, data, size);
}

x86::Reg Function::reg(const ir::Value* v) {
  if (regs_[v->id].isValid()) return regs_[v->id];
  if (is_const(v)) {
    x86::Reg r = new_reg(v->type.dtype);
    auto load = [&] {
      if (v->type.dtype == DType::f64_) {
        if (v->op->imm == 0) {
          cc_.vxorps(r.as<x86::Xmm>(), r.as<x86::Xmm>(), r.as<x86::Xmm>());
        } else {
          cc_.vmovsd(r.as<x86::Xmm>(), constant64(v->op->imm));
        }
      } else if (v->type.dtype == DType::f32_) {
        cc_.vmovss(r.as<x86::Xmm>(), constant32(static_cast<uint32_t>(v->op->imm)));
      } else {
        load_imm(r.as<x86::Gp>(), static_cast<int64_t>(v->op->imm));
      }
    };
    if (depth() == 0 || levels_.empty()) {
      load();
    } else {
      hoist(0, load);
      regs_[v->id] = r;
      depths_[v->id] = 0;
    }
    return r;
  }
  if (m_.param_word[v->id] >= 0) {
    x86::Reg r = new_reg(v->type.dtype);
    hoist(0, [&] {
      x86::Mem word = x86::ptr(args_, 8 * m_.param_word[v->id]);
      if (is_float(v->type.dtype)) {
        load_scalar(v->type.dtype, r, word);
      } else {
        cc_.mov(r.as<x86::Gp>(), word);
      }
    });
    regs_[v->id] = r;
    depths_[v->id] = 0;
    return r;
  }
  APPY_CHECK(v->op, "a block argument has no register");
  x86::Reg r = new_reg(v->type.dtype);
  if (v->op->code == Opcode::load_) {
    load_scalar(v->type.dtype, r, address(*v->op));
  } else {
    emit_pure(*v->op, r);
  }
  bind(v, r);
  return r;
}

x86::Gp Function::gp(const ir::Value* v) { return reg(v).as<x86::Gp>(); }
x86::Xmm Function::xmm(const ir::Value* v) { return reg(v).as<x86::Xmm>(); }

asmjit::Operand Function::xmm_or_mem(const ir::Value* v) {
  if (!bound(v) && is_const(v)) {
    return v->type.dtype == DType::f64_ ? constant64(v->op->imm) : constant32(static_cast<uint32_t>(v->op->imm));
  }
  if (!bound(v) && v->op && v->op->code == Opcode::load_ && folded(*v->op)) {
    x86::Mem place = address(*v->op);
    place.setSize(static_cast<uint32_t>(ir::size_of(v->type.dtype)));
    return place;
  }
  return reg(v);
}

asmjit::Operand Function::gp_or_imm(const ir::Value* v) {
  if (is_const(v)) {
    const int64_t c = const_int(v);
    if (c == static_cast<int32_t>(c)) return asmjit::Imm(c);
  }
  return reg(v);
}

void Function::move(x86::Reg to, x86::Reg from) {
  if (to.id() == from.id()) return;
  if (to.isGp()) {
    cc_.mov(to.as<x86::Gp>(), from.as<x86::Gp>());
  } else if (to.isKReg()) {
    cc_.kmovq(to.as<x86::KReg>(), from.as<x86::KReg>());
  } else {
    cc_.vmovaps(to.as<x86::Vec>(), from.as<x86::Vec>());
  }
}

void Function::move_all(std::span<const x86::Reg> to, std::span<const x86::Reg> from) {
  std::vector<x86::Reg> source(from.begin(), from.end());
  for (size_t i = 0; i < source.size(); ++i) {
    bool overwritten = false;
    for (size_t k = 0; k < i; ++k) overwritten |= to[k].id() == source[i].id() && source[k].id() != to[k].id();
    if (!overwritten) continue;
    x86::Reg copy;
    cc_._newReg(&copy, source[i]);
    move(copy, source[i]);
    source[i] = copy;
  }
  // The copies above read their sources before any is written: they come first in the code.
  for (size_t i = 0; i < source.size(); ++i) move(to[i], source[i]);
}

void Function::assign(std::span<const x86::Reg> to, std::span<const ir::Value* const> values) {
  const auto is_number = [&](const ir::Value* v) { return is_const(v) && !is_float(v->type.dtype); };
  std::vector<x86::Reg> moved, from;
  for (size_t k = 0; k < to.size(); ++k) {
    if (is_number(values[k])) continue;
    moved.push_back(to[k]);
    from.push_back(reg(values[k]));
  }
  move_all(moved, from);
  for (size_t k = 0; k < to.size(); ++k) {
    if (is_number(values[k])) load_imm(to[k].as<x86::Gp>(), const_int(values[k]));
  }
}

x86::Reg Function::destination(const ir::Value* v) {
  x86::Reg r = targets_[v->id].isValid() ? targets_[v->id] : new_reg(v->type.dtype);
  return r;
}

bool Function::may_fuse(const ir::Op& op) const {
  if (m_.graph.exact) return false;
  for (const ir::Block* b = op.parent; b && b->owner; b = b->owner->parent) {
    if (b->owner->loop && b->owner->loop->annotated) return true;
  }
  return false;
}

namespace {

/// A conjunction or disjunction of conditions. In a check, which hardly ever fails, jumps say it in fewer instructions.
bool joins(const ir::Op& op) {
  return (op.code == Opcode::and_ || op.code == Opcode::or_) && op.result()->type.dtype == DType::bool_;
}

/// Indices lie within extents of arrays.
bool tests_indices(const ir::Value& condition) {
  if (const auto test = ir::index_test(condition)) return test->extent->op && test->extent->op->code == Opcode::dim_;
  const ir::Op* op = condition.op;
  return op && op->code == Opcode::and_ && joins(*op) && tests_indices(*op->operands[0]) &&
         tests_indices(*op->operands[1]);
}

}  // namespace

bool Function::folded(const ir::Op& load) const {
  const ir::Value* v = load.result();
  if (vector_ || load.code != Opcode::load_ || !is_float(v->type.dtype) || m_.uses[v->id] != 1) return false;
  const ir::Op* user = m_.user[v->id];
  const bool arithmetic = user->code == Opcode::add_ || user->code == Opcode::sub_ || user->code == Opcode::mul_ ||
                          user->code == Opcode::div_ || user->code == Opcode::fma_;
  if (!arithmetic || user->parent != load.parent || user->operands[1] != v) return false;
  if (deferred(*user)) user = m_.user[user->result()->id];
  for (const ir::Op* op = load.next; op != user; op = op->next) {
    if (!ir::is_pure(op->code) && op->code != Opcode::load_ && op->code != Opcode::check_) return false;
  }
  return true;
}

bool Function::deferred(const ir::Op& op) const {
  const ir::Value* v = op.result();
  if (v && m_.chooses[v->id]) return true;
  if (!v || m_.uses[v->id] != 1) return false;
  const ir::Op& user = *m_.user[v->id];
  if (user.parent != op.parent) return false;
  switch (op.code) {
    case Opcode::not_:
      if (v->type.dtype != DType::bool_) return false;
      [[fallthrough]];
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_:
    case Opcode::isnan_:
    case Opcode::isinf_:
    case Opcode::isfinite_:
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_:
      if (user.code == Opcode::not_ || joins(user)) return deferred(user);
      return (user.code == Opcode::if_ || user.code == Opcode::check_ || user.code == Opcode::select_) &&
             user.operands[0] == v;
    case Opcode::and_:
    case Opcode::or_:
      if (!joins(op)) return false;
      if (joins(user)) return deferred(user);
      // Jumps where a test of indices fails, which hardly ever happens; another condition is computed for an `if`.
      return (user.code == Opcode::check_ || (user.code == Opcode::if_ && tests_indices(*v))) && user.operands[0] == v;
    case Opcode::mul_:
      return is_float(v->type.dtype) && (user.code == Opcode::add_ || user.code == Opcode::sub_) && may_fuse(op);
    default:
      return false;
  }
}

namespace {

/// A cast between integers that leaves the canonical word as it is, of what has a register of its own.
bool keeps_word(const ir::Op& op) {
  if (op.code != Opcode::cast_) return false;
  const ir::Value& from = *op.operands[0];
  const DType to = op.result()->type.dtype;
  if (!from.op || (from.op->code != Opcode::load_ && !ir::is_pure(from.op->code))) return false;
  if (from.op->code == Opcode::const_ || !ir::is_int(from.type.dtype) || !ir::is_int(to)) return false;
  return ir::size_of(to) == 8 || ir::widens(from.type.dtype, to);
}

}  // namespace

void Function::emit_block(const ir::Block& block, const std::function<void(const ir::Op&)>& terminator) {
  const size_t outside = levels_.size();
  const auto sums_before = sums_;
  for (const ir::Op* op = block.first; op; op = op->next) {
    if (!ir::is_terminator(op->code)) {
      const bool pending = finish_pending_before(*op);
      emit(*op);
      may_be_pending_ = pending;
      if (emitted_to_) op = std::exchange(emitted_to_, nullptr)->prev;
      continue;
    }
    terminator(*op);
    while (levels_.size() > outside) pop_level();  // of allocs
    sums_ = sums_before;
    return;
  }
}

void Function::emit(const ir::Op& op) {
  switch (op.code) {
    case Opcode::const_:
      return;
    case Opcode::load_: {
      if (folded(op)) {
        regs_[op.result()->id] = {};  // of a first copy of the block
        return;
      }
      x86::Reg to = destination(op.result());
      load_scalar(op.result()->type.dtype, to, address(op));
      bind(op.result(), to);
      return;
    }
    case Opcode::store_: {
      x86::Reg value = reg(op.operands[0]);
      store_scalar(op.operands[0]->type.dtype, address(op), value);
      return;
    }
    case Opcode::atomic_:
      if (!add_constant(op)) atomic_update(op, op.operands[0]->type.dtype, address(op), reg(op.operands[0]));
      return;
    case Opcode::alloc_:
      if (!made_.contains(&op)) emit_alloc(op);
      return;
    case Opcode::check_:
      return emit_check(op);
    case Opcode::poll_:
      return emit_poll(op);
    case Opcode::barrier_:
      APPY_CHECK(false, "the machine code of a CPU has no barriers");
      return;
    case Opcode::for_:
      return emit_for(op);
    case Opcode::while_:
      return emit_while(op);
    case Opcode::if_:
      return emit_if(op);
    default:
      break;
  }
  const ir::Value* v = op.result();
  if (m_.uses[v->id] == 0 || ahead_.erase(&op) > 0) return;
  if (deferred(op) || m_.told[v->id] || (op.code == Opcode::wrap_ && is_wrapped_by_its_test(op))) {
    // A block may be emitted twice: what was computed on demand in the first copy is not there in the second.
    regs_[v->id] = {};
    return;
  }
  if (keeps_word(op) && !targets_[v->id].isValid() && !targets_[op.operands[0]->id].isValid()) {
    bind(v, reg(op.operands[0]));
    return;
  }
  x86::Reg to = destination(v);
  emit_pure(op, to);
  bind(v, to);
}

}  // namespace appy::cpu
