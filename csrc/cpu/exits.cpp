// Checks and polls: the cold code that leaves a region early.
#include <algorithm>

#include "cpu/function.h"
#include "cpu/implied.h"
#include "cpu/vector_loop.h"
#include "support/check.h"

// Bits of a float go to a general register by vpextrq, never by vmovq: where asmjit has spilled the source it would
// encode `vmovq r64, m64`, which does not exist and comes out as a load of the vector register of that number.
namespace appy::cpu {

using ir::DType;

namespace {

constexpr int32_t kFailure = offsetof(Context, failure);

}  // namespace

void Function::record_failure(const ir::Op& check, bool has_state) {
  const x86::Gp ctx = context_;
  cc_.mov(x86::dword_ptr(ctx, kFailure + static_cast<int32_t>(offsetof(runtime::Failure, check))), m_.ordinal(check));
  cc_.mov(x86::byte_ptr(ctx, kFailure + static_cast<int32_t>(offsetof(runtime::Failure, has_state))),
          has_state ? 1 : 0);
}

void Function::store_info(int index, x86::Gp value) {
  cc_.mov(x86::qword_ptr(context_, kFailure + static_cast<int32_t>(offsetof(runtime::Failure, info)) + 8 * index),
          value);
}

void Function::store_iteration(x86::Gp value) {
  cc_.mov(x86::qword_ptr(context_, kFailure + static_cast<int32_t>(offsetof(runtime::Failure, iteration))), value);
}

void Function::emit_check(const ir::Op& op) {
  // Which of them fails matters only where a later one does.
  if (implied_by(op)) return;
  const std::vector<PutOff> before = put_off_before(op);
  asmjit::Label failed = failure(op);
  if (!before.empty()) {
    failed = cold([this, before, failed] {
      for (const PutOff& p : before) {
        with_registers(p.registers, [&] { jump_if(p.check->operands[0], false, p.failed); });
      }
      cc_.jmp(failed);
    });
  }
  if (const ir::Op* wrap = tested_wrap(op)) {
    wrap_or_jump(*wrap, op, failed);
  } else if (const ir::Op* result = tested_result(op)) {
    const x86::Gp to = cc_.newGpq();
    jump(overflow(*op.operands[0]->op->operands[0]->op, to), true, failed);
    bind(result->result(), to);
    ahead_.insert(result);
  } else {
    jump_if(op.operands[0], false, failed);
  }
}

const ir::Op* Function::tested_result(const ir::Op& check) const {
  const ir::Op* no = check.operands[0]->op;
  if (vector_ || !no || no->code != ir::Opcode::not_ || bound(no->result()) || !deferred(*no)) return nullptr;
  const ir::Op* overflow = no->operands[0]->op;
  if (!overflow || bound(overflow->result()) || !deferred(*overflow)) return nullptr;
  const ir::Opcode code = overflow->code == ir::Opcode::ovf_add_   ? ir::Opcode::add_
                          : overflow->code == ir::Opcode::ovf_sub_ ? ir::Opcode::sub_
                                                                   : ir::Opcode::mul_;
  const bool tests = code != ir::Opcode::mul_ || overflow->code == ir::Opcode::ovf_mul_;
  if (!tests || overflow->operands[0]->type.dtype != DType::i64_) return nullptr;
  for (const ir::Op* op = check.next; op; op = op->next) {
    if (op->code == code && op->operands == overflow->operands)
      return deferred(*op) || m_.told[op->result()->id] || m_.uses[op->result()->id] == 0 ? nullptr : op;
    if (!ir::is_pure(op->code) && op->code != ir::Opcode::check_ && op->code != ir::Opcode::load_) return nullptr;
  }
  return nullptr;
}

std::vector<Function::PutOff> Function::put_off_before(const ir::Op& check) {
  std::vector<PutOff> before;
  std::vector<const ir::Op*> made;
  for (const ir::Op* at = check.prev; at; at = at->prev) {
    if (at->code != ir::Opcode::check_) {
      if (!ir::is_pure(at->code) && at->code != ir::Opcode::load_) break;
      continue;
    }
    const ir::Op* by = implied_by(*at);
    if (!by) {
      made.push_back(at);
    } else if (std::ranges::find(made, by) == made.end()) {
      before.push_back({at, failure(*at), {}});
      note_registers(*at->operands[0], before.back().registers);
    }
  }
  std::ranges::reverse(before);
  return before;
}

void Function::note_registers(const ir::Value& v, Registers& to) {
  if (is_const(&v)) return;
  if (!bound(&v) && v.op && (deferred(*v.op) || m_.told[v.id])) {
    for (const ir::Value* operand : v.op->operands) note_registers(*operand, to);
    to.emplace_back(&v, x86::Reg());
  } else {
    to.emplace_back(&v, reg(&v));
  }
}

asmjit::Label Function::failure(const ir::Op& op) {
  const ir::Check& check = *op.check;
  // Registers are taken now: a block that is emitted twice gives its values new ones.
  std::vector<x86::Reg> info;
  State state;
  const bool has_state = check.has_state && !in_outlined() && !vector_;
  for (int i = 0; i < check.ninfo; ++i) {
    const ir::Value* v = op.operands[1 + static_cast<size_t>(i)];
    info.push_back(is_const(v) ? x86::Reg() : reg(v));
  }
  if (has_state && !check.declines) state = state_of(std::span(op.operands).subspan(ir::first_state(op)));
  x86::Gp iteration = failing_iteration();
  const bool pending = may_be_pending_;
  return cold([this, &op, info, state, has_state, iteration, pending] {
    if (pending) finish_pending();
    if (op.check->declines) {
      leave(runtime::Status::declined);
      return;
    }
    record_failure(op, has_state);
    for (size_t i = 0; i < info.size(); ++i) {
      x86::Gp word = cc_.newGpq();
      word_of(op.operands[1 + i], info[i], word);
      store_info(static_cast<int>(i), word);
    }
    write_state(state);
    if (iteration.isValid()) store_iteration(iteration);
    leave(runtime::Status::failed);
  });
}

void Function::word_of(const ir::Value* v, x86::Reg r, x86::Gp to) {
  if (!r.isValid()) {
    load_imm(to, const_int(v));
  } else if (v->type.dtype == DType::f64_) {
    cc_.vpextrq(to, r.as<x86::Xmm>(), 0);
  } else if (v->type.dtype == DType::f32_) {
    cc_.vpextrd(to.r32(), r.as<x86::Xmm>(), 0);
  } else {
    cc_.mov(to, r.as<x86::Gp>());
  }
}

void Function::emit_poll(const ir::Op& op) {
  if (&op == left_out_) return;
  if (!flag_.isValid()) {
    flag_ = cc_.newGpq("flag");
    hoist(0, [&] { cc_.mov(flag_, x86::qword_ptr(context_, offsetof(Context, flag))); });
  }
  const State state = state_of(op);
  asmjit::Label back = cc_.newLabel();
  asmjit::Label slow = cold([this, state, back] {
    x86::Gp status = cc_.newGpq();
    const x86::Reg arguments[] = {context_};
    call(reinterpret_cast<const void*>(&poll_slow), status, arguments);
    cc_.test(status, status);
    cc_.jz(back);
    leave_interrupted(state, status);
  });
  cc_.cmp(x86::dword_ptr(flag_), 0);
  cc_.jne(slow);
  cc_.bind(back);
}

Function::State Function::state_of(const ir::Op& poll) {
  if (in_outlined() || (vector_ && !vector_->knows(poll.operands))) return {};
  return state_of(poll.operands);
}

Function::State Function::state_of(std::span<ir::Value* const> values) {
  State state;
  for (ir::Value* v : values) {
    state.values.push_back(v);
    note_registers(*v, state.registers);
  }
  return state;
}

void Function::write_state(const State& state) {
  with_registers(state.registers, [&] {
    for (size_t i = 0; i < state.values.size(); ++i) {
      const ir::Value* v = state.values[i];
      x86::Gp word = cc_.newGpq();
      word_of(v, is_const(v) ? x86::Reg() : reg(v), word);
      cc_.mov(x86::qword_ptr(results_, static_cast<int32_t>(8 * i)), word);
    }
  });
}

void Function::tell(const State& state) {
  if (state.empty()) return;
  write_state(state);
  const auto at = static_cast<int32_t>(offsetof(runtime::Failure, has_state));
  cc_.mov(x86::byte_ptr(context_, kFailure + at), 1);
}

Function::State Function::state_before(const ir::Op& loop) {
  for (const ir::Op* at = &loop; at; at = at->parent->owner) {
    for (const ir::Op* op = at; op; op = op->prev) {
      if (op->code == ir::Opcode::poll_) return state_of(*op);
    }
  }
  return State();
}

void Function::leave_interrupted(const State& state, x86::Gp status) {
  if (!state.empty()) {
    asmjit::Label other = cc_.newLabel();
    cc_.cmp(status, static_cast<int32_t>(runtime::Status::interrupted));
    cc_.jne(other);
    tell(state);
    cc_.bind(other);
  }
  leave(status);
}

x86::Gp Function::failing_iteration() {
  // The outermost parallel or simd loop around this point is the outlined one, if any. A loop inside that comes from
  // the same place, and begins at its iteration, does a part of its iterations one by one.
  if (!root_) return {};
  const ir::Op* inner = levels_.size() > 2 ? levels_[2].loop : nullptr;
  const bool is_part = inner && inner->code == ir::Opcode::for_ && inner->loc == root_->loc &&
                       inner->operands[0] == root_->blocks[0]->args[0];
  return levels_[is_part ? 2 : 1].iv;
}

}  // namespace appy::cpu
