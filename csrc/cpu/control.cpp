// Scalar control flow: for, while, if and the terminators.
#include <algorithm>
#include <bit>

#include "cpu/function.h"
#include "cpu/packs.h"
#include "cpu/vector_loop.h"
#include "ir/divisor.h"
#include "support/check.h"

namespace appy::cpu {

using ir::Opcode;

void Function::push_level(const ir::Op& loop) {
  Level level;
  level.loop = &loop;
  cc_.comment("preheader");  // a node of its own: code hoisted to outer levels stays in front of it
  level.preheader = cc_.cursor();
  levels_.push_back(std::move(level));
}

void Function::pop_level() {
  prefer_innermost();
  levels_.pop_back();
}

void Function::prefer_innermost() {
  constexpr size_t kMost = 240;  // asmjit keeps a byte
  const auto loops = static_cast<size_t>(std::ranges::count_if(levels_, [](const Level& l) { return l.loop; }));
  const auto weight = static_cast<uint32_t>(loops * kMost / std::max<size_t>(deepest_, 6));
  const auto weigh = [&](uint32_t id) {
    if (!asmjit::Operand::isVirtId(id)) return;
    asmjit::VirtReg& r = *cc_.virtRegById(id);
    if (r.weight() < weight) r.setWeight(weight);
  };
  for (asmjit::BaseNode* at = levels_.back().preheader; at != cc_.cursor();) {
    at = at->next();
    if (!at->isInst()) continue;
    const auto* inst = at->as<asmjit::InstNode>();
    for (const asmjit::Operand& operand : std::span(inst->operands(), inst->opCount())) {
      if (operand.isReg()) weigh(operand.id());
      if (!operand.isMem()) continue;
      const auto& m = operand.as<x86::Mem>();
      if (m.hasBaseReg()) weigh(m.baseId());
      if (m.hasIndexReg()) weigh(m.indexId());
    }
  }
}

void Function::advance(Level& level) {
  for (const Level::Advance& a : level.advances) {
    if (a.by.isValid()) {
      cc_.add(a.pointer, a.by);
    } else {
      cc_.add(a.pointer, static_cast<int32_t>(a.imm));
    }
  }
}

Function::Bounds Function::bounds(const ir::Op& loop, bool clamp) {
  int deepest = 0;
  for (size_t i = 0; i < 3; ++i) {
    if (is_const(loop.operands[i])) continue;
    reg(loop.operands[i]);
    deepest = std::max(deepest, depth_of(loop.operands[i]));
  }
  // A loop whose bounds do not vary around it is counted once.
  const auto at = static_cast<size_t>(deepest) + 1;
  if (at > depth()) return bounds_here(loop, clamp);
  Bounds b;
  hoist(at, [&] { b = bounds_here(loop, true); });
  return b;
}

namespace {

/// It was no negative number when it got its type.
bool is_unsigned(const ir::Value& v) {
  const ir::DType from = v.op && v.op->code == Opcode::cast_ ? v.op->operands[0]->type.dtype : v.type.dtype;
  return ir::class_of(from) == ir::TypeClass::uint && ir::size_of(from) < 8;
}

}  // namespace

Function::Bounds Function::bounds_here(const ir::Op& loop, bool clamp) {
  const ir::Value *lower = loop.operands[0], *upper = loop.operands[1], *step = loop.operands[2];
  Bounds b;
  b.divisor = ir::divisor_of_trips(loop);
  b.whole = true;
  b.lower = gp(lower);
  b.step_known = is_const(step);
  if (b.step_known) {
    b.step = const_int(step);
  } else {
    b.step_reg = gp(step);
  }
  b.trips = cc_.newGpq();
  b.end = cc_.newGpq();
  if (b.step_known && is_const(lower) && is_const(upper)) {
    const int64_t lo = const_int(lower), hi = const_int(upper);
    uint64_t trips = 0;
    if (b.step > 0 && lo < hi)
      trips = (static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) - 1) / static_cast<uint64_t>(b.step) + 1;
    if (b.step < 0 && lo > hi)
      trips = (static_cast<uint64_t>(lo) - static_cast<uint64_t>(hi) - 1) / (0 - static_cast<uint64_t>(b.step)) + 1;
    load_imm(b.trips, static_cast<int64_t>(trips));
    load_imm(b.end, static_cast<int64_t>(static_cast<uint64_t>(lo) + trips * static_cast<uint64_t>(b.step)));
    b.known_trips = static_cast<int64_t>(trips);
    return b;
  }
  x86::Gp hi = gp(upper), zero = cc_.newGpq();
  auto divide = [&](x86::Gp difference, x86::Gp by) {
    x86::Gp rest = cc_.newGpq();
    cc_.sub(difference, 1);
    cc_.xor_(rest.r32(), rest.r32());
    cc_.div(rest, difference, by);
    cc_.add(difference, 1);
  };
  if (b.step_known && b.step != 0) {
    const x86::Gp from = b.step > 0 ? b.lower : hi, to = b.step > 0 ? hi : b.lower;
    const uint64_t size = b.step > 0 ? static_cast<uint64_t>(b.step) : 0 - static_cast<uint64_t>(b.step);
    cc_.mov(b.trips, to);
    const bool from_zero = b.step == 1 && is_const(lower) && const_int(lower) == 0;
    if (!from_zero) cc_.sub(b.trips, from);
    if (from_zero && is_unsigned(*upper)) {
      // As many as it says.
    } else if (b.step == 1 && !clamp) {
      b.clamped = false;
    } else if (size == 1) {
      cc_.xor_(zero.r32(), zero.r32());
      cc_.cmp(to, from);
      cc_.cmovl(b.trips, zero);
    } else if (std::has_single_bit(size)) {
      cc_.sub(b.trips, 1);
      cc_.shr(b.trips, std::countr_zero(size));
      cc_.add(b.trips, 1);
      cc_.xor_(zero.r32(), zero.r32());
      cc_.cmp(to, from);
      cc_.cmovle(b.trips, zero);
    } else {
      asmjit::Label done = cc_.newLabel(), some = cc_.newLabel();
      cc_.cmp(to, from);
      cc_.jg(some);
      cc_.xor_(b.trips.r32(), b.trips.r32());
      cc_.jmp(done);
      cc_.bind(some);
      x86::Gp by = cc_.newGpq();
      load_imm(by, static_cast<int64_t>(size));
      divide(b.trips, by);
      cc_.bind(done);
    }
  } else if (b.step_known) {
    load_imm(b.trips, 0);
  } else {
    asmjit::Label done = cc_.newLabel(), up = cc_.newLabel(), count = cc_.newLabel();
    x86::Gp difference = cc_.newGpq(), by = cc_.newGpq();
    cc_.xor_(b.trips.r32(), b.trips.r32());
    cc_.mov(by, b.step_reg);
    cc_.test(by, by);
    cc_.jz(done);
    cc_.jns(up);
    cc_.neg(by);
    cc_.cmp(b.lower, hi);
    cc_.jle(done);
    cc_.mov(difference, b.lower);
    cc_.sub(difference, hi);
    cc_.jmp(count);
    cc_.bind(up);
    cc_.cmp(hi, b.lower);
    cc_.jle(done);
    cc_.mov(difference, hi);
    cc_.sub(difference, b.lower);
    cc_.bind(count);
    divide(difference, by);
    cc_.mov(b.trips, difference);
    cc_.bind(done);
  }
  if (b.step_known && (b.step == 1 || b.step == -1)) {
    b.end = hi;
  } else {
    times_step(b.end, b.trips, b);
    cc_.add(b.end, b.lower);
  }
  return b;
}

void Function::times_step(x86::Gp to, x86::Gp count, const Bounds& b) {
  if (!b.step_known) {
    cc_.mov(to, b.step_reg);
    cc_.imul(to, count);
  } else if (b.step == static_cast<int32_t>(b.step)) {
    cc_.imul(to, count, static_cast<int32_t>(b.step));
  } else {
    load_imm(to, b.step);
    cc_.imul(to, count);
  }
}

void Function::add_step(x86::Gp to, const Bounds& b) {
  if (!b.step_known) {
    cc_.add(to, b.step_reg);
  } else if (b.step == static_cast<int32_t>(b.step)) {
    cc_.add(to, static_cast<int32_t>(b.step));
  } else {
    x86::Gp s = cc_.newGpq();
    load_imm(s, b.step);
    cc_.add(to, s);
  }
}

void Function::step_back(x86::Gp to, x86::Gp iv, const Bounds& b) {
  if (b.step_known && b.step == static_cast<int32_t>(b.step) && b.step != INT32_MIN) {
    cc_.lea(to, x86::ptr(iv, -static_cast<int32_t>(b.step)));
    return;
  }
  x86::Gp step = b.step_reg;
  if (b.step_known) {
    step = cc_.newGpq();
    load_imm(step, b.step);
  }
  cc_.mov(to, iv);
  cc_.sub(to, step);
}

std::vector<x86::Reg> Function::copy_inits(const ir::Op& loop, size_t first) {
  std::vector<x86::Reg> carried;
  for (size_t i = first; i < loop.operands.size(); ++i) {
    const ir::Value* init = loop.operands[i];
    carried.push_back(new_reg(init->type.dtype));
    assign(std::span(&carried.back(), 1), std::span(&init, 1));
  }
  return carried;
}

const ir::Value* Function::target_value(const ir::Block& body, size_t k, size_t carried) const {
  const ir::Value* v = body.last->operands[k];
  const ir::Value* arg = body.args[body.args.size() - carried + k];
  if (!v->op || v->op->parent != &body) return nullptr;
  if (!ir::is_pure(v->op->code) && v->op->code != Opcode::if_ && v->op->code != Opcode::load_) return nullptr;
  if (v->op->code == Opcode::const_) return nullptr;
  auto uses_arg = [&](const ir::Op& op) {
    return std::find(op.operands.begin(), op.operands.end(), arg) != op.operands.end();
  };
  auto uses_arg_inside = [&](const ir::Op& op) {
    bool found = uses_arg(op);
    for (ir::Block* b : op.blocks) ir::walk(*b, [&](ir::Op& inner) { found |= uses_arg(inner); });
    return found;
  };
  for (const ir::Op* op = v->op->next; op; op = op->next) {
    if (uses_arg_inside(*op)) return nullptr;
  }
  for (const ir::Op* op = body.first; op != v->op; op = op->next) {
    bool later = op->result() && deferred(*op) && m_.user[op->result()->id] != v->op && uses_arg(*op);
    const auto tells = [&](const ir::Op& at) { later |= at.result() && m_.told[at.result()->id] && uses_arg(at); };
    tells(*op);
    for (ir::Block* b : op->blocks) ir::walk(*b, tells);
    if (later) return nullptr;
  }
  return v;
}

void Function::plan_targets(const ir::Block& body, std::span<const x86::Reg> carried) {
  if (body.last->code != Opcode::yield_) return;
  for (const ir::Value* v : body.last->operands) targets_[v->id] = {};
  for (size_t k = 0; k < carried.size(); ++k) {
    const ir::Value* v = target_value(body, k, carried.size());
    if (v && !targets_[v->id].isValid()) targets_[v->id] = carried[k];
  }
}

void Function::emit_for(const ir::Op& op) {
  const ir::Loop& loop = *op.loop;
  const bool shared = is_shared(op);
  VectorLoop* vector = nullptr;
  if (!shared && loop.simd && !vector_ && VectorLoop::supports(*this, op)) {
    vector = &vector_loop(op);
  }
  const Bounds b = bounds(op, !vector || vector->scalar_below() == 0);
  std::vector<x86::Reg> carried = copy_inits(op, 3);
  if (shared) {
    parallel_loop(op, b, carried);
  } else if (vector) {
    if (auto packs = vector->may_leave_rest() ? std::nullopt : find_packs(op, vector->lanes(), m_.uses)) {
      PackedSums sums(*this, op, std::move(*packs), vector->lanes());
      sums.take(carried);
      simd_loop(*vector, op, b, carried, &sums);
      sums.emit();
      emitted_to_ = sums.end();
      return;
    }
    simd_loop(*vector, op, b, carried);
  } else {
    sequential_loop(op, b, carried);
  }
  for (size_t i = 0; i < carried.size(); ++i) bind(op.results[i], carried[i]);
}

bool is_far(const ir::Op& conditional) {
  const auto loops = [](const ir::Block& arm) {
    bool found = false;
    for (const ir::Op* op = arm.first; op; op = op->next) {
      const bool skips = op->code == Opcode::if_ && is_far(*op);
      found |= op->code == Opcode::for_ || op->code == Opcode::while_;
      for (const ir::Block* inner : op->blocks) found |= !skips && loops_within(*inner) > 0;
    }
    return found;
  };
  return loops(*conditional.blocks[1]) && !loops(*conditional.blocks[0]);
}

void Function::emit_while(const ir::Op& op) {
  const ir::Block& body = *op.blocks[0];
  std::vector<x86::Reg> carried = copy_inits(op, 0);
  Frame frame{cc_.newLabel(), cc_.newLabel(), carried};
  push_level(op);
  for (size_t i = 0; i < carried.size(); ++i) bind(body.args[i], carried[i]);
  plan_targets(body, carried);
  frames_.push_back(frame);
  cc_.bind(frame.latch);
  emit_block(body, [&](const ir::Op& last) {
    terminate(last, frame, true);
    if (last.code != Opcode::break_) cc_.jmp(frame.latch);
  });
  frames_.pop_back();
  pop_level();
  cc_.bind(frame.exit);
  for (size_t i = 0; i < carried.size(); ++i) bind(op.results[i], carried[i]);
}

void Function::terminate(const ir::Op& op, const Frame& frame, bool at_end) {
  std::vector<x86::Reg> to;
  std::vector<const ir::Value*> values;
  for (size_t k = 0; k < frame.carried.size(); ++k) {
    if (op.code != Opcode::break_ && k < frame.late.size() && frame.late[k]) continue;
    to.push_back(frame.carried[k]);
    values.push_back(op.operands[k]);
  }
  assign(to, values);
  if (op.code == Opcode::break_) {
    cc_.jmp(frame.exit);
  } else if (!at_end) {
    cc_.jmp(frame.latch);
  }
}

void Function::emit_if(const ir::Op& op) {
  asmjit::Label otherwise = cc_.newLabel(), end = cc_.newLabel();
  std::vector<x86::Reg> results;
  for (const ir::Value* v : op.results) results.push_back(destination(v));
  const bool pending = may_be_pending_;
  auto arm = [&](const ir::Block& block, bool last) {
    may_be_pending_ = pending;
    emit_block(block, [&](const ir::Op& terminator) {
      if (terminator.code != Opcode::yield_) {
        terminate(terminator, frames_.back(), false);
        return;
      }
      assign(results, std::vector<const ir::Value*>(terminator.operands.begin(), terminator.operands.end()));
      if (!last) cc_.jmp(end);
    });
  };
  const ir::Block &first = *op.blocks[0], &second = *op.blocks[1];
  bool empty_else = second.first->code == Opcode::yield_;
  for (size_t i = 0; empty_else && i < results.size(); ++i) {
    const ir::Value* v = second.first->operands[i];
    empty_else = bound(v) && reg(v).id() == results[i].id();
  }
  // What goes on has nothing to jump over where the other arm leaves the loop, or takes long.
  const auto leaves = [](const ir::Block& block) { return block.last->code != Opcode::yield_; };
  const bool inside = depth() > 0, turned = inside && leaves(first) && !leaves(second);
  if (empty_else && !turned) {
    jump_if(op.operands[0], false, end);
    arm(first, true);
  } else {
    const ir::Block &near = turned ? second : first, &other = turned ? first : second;
    const bool far = inside && (turned || (leaves(other) && !leaves(near)) || is_far(op));
    jump_if(op.operands[0], turned, otherwise);
    arm(near, far);
    const auto elsewhere = [&] {
      cc_.bind(otherwise);
      arm(other, !far);
    };
    far ? aside(elsewhere) : elsewhere();
  }
  cc_.bind(end);
  for (size_t i = 0; i < results.size(); ++i) bind(op.results[i], results[i]);
}

}  // namespace appy::cpu
