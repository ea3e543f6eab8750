// Scalar loops in the program's order: polls for strips of iterations, and what they leave.
#include <algorithm>

#include "cpu/function.h"

namespace appy::cpu {

using ir::Opcode;

namespace {

/// Is there such a terminator of an iteration of the loop that the block is in?
bool has(Opcode terminator, const ir::Block& block) {
  for (const ir::Op* op = block.first; op; op = op->next) {
    if (op->code == terminator) return true;
    if (op->code == Opcode::if_ && (has(terminator, *op->blocks[0]) || has(terminator, *op->blocks[1]))) return true;
  }
  return false;
}

}  // namespace

bool Function::known_at_start(const ir::Value& v, const ir::Block& body, bool acts) const {
  if (is_const(&v) || ir::defined_outside(v, body)) return true;
  if (acts) return false;
  if (!v.op) return v.block == &body;
  return m_.told[v.id] && std::ranges::all_of(v.op->operands, [&](const ir::Value* operand) {
           return known_at_start(*operand, body, acts);
         });
}

const ir::Op* Function::strip_poll(const ir::Op& loop) const {
  const ir::Block& body = *loop.blocks[0];
  const ir::Op* poll = nullptr;
  bool acts = false;  // before the poll
  for (const ir::Op* op = body.first; op; op = op->next) {
    bool inner = op->code == Opcode::for_ || op->code == Opcode::while_;
    // Loops of the arm that stands elsewhere are short, or poll.
    const bool skips = op->code == Opcode::if_ && is_far(*op);
    for (ir::Block* arm : op->blocks) {
      ir::walk(*arm, [&](ir::Op& at) {
        inner |= !skips && (at.code == Opcode::for_ || at.code == Opcode::while_);
        inner |= at.code == Opcode::poll_;
      });
    }
    if (inner || (poll && op->code == Opcode::poll_)) return nullptr;
    if (op->code == Opcode::poll_) poll = op;
    if (!poll && !ir::is_pure(op->code)) acts = true;
  }
  if (!poll) return nullptr;
  for (const ir::Value* v : poll->operands) {
    if (!known_at_start(*v, body, acts)) return nullptr;
  }
  return poll;
}

void Function::strip_end(x86::Gp until, x86::Gp iv, const Bounds& b) {
  const auto stride = static_cast<int32_t>(b.step * kStrip);
  x86::Gp left = cc_.newGpq();
  cc_.mov(left, b.end);
  cc_.sub(left, iv);
  cc_.lea(until, x86::ptr(iv, stride));
  cc_.cmp(left, stride);  // both have the step's sign
  b.step > 0 ? cc_.cmovb(until, b.end) : cc_.cmova(until, b.end);
}

x86::Gp Function::first_strip_end(const ir::Op& loop, const Bounds& b) {
  x86::Gp until = cc_.newGpq("until");
  int deepest = b.whole ? 0 : static_cast<int>(depth());
  for (size_t i = 0; i < 2; ++i) {
    if (!is_const(loop.operands[i])) deepest = std::max(deepest, depth_of(loop.operands[i]));
  }
  hoist_from(deepest, [&] { strip_end(until, b.lower, b); });
  return until;
}

std::vector<const ir::Value*> Function::left_late(const ir::Op& loop) const {
  const ir::Block& body = *loop.blocks[0];
  std::vector<const ir::Value*> late(body.args.size() - 1);
  if (body.last->code != Opcode::yield_ || has(Opcode::continue_, body)) return late;
  for (size_t k = 0; k < late.size(); ++k) {
    const ir::Value* v = body.last->operands[k];
    const bool known = v == body.args[0] || is_const(v) || ir::defined_outside(*v, body);
    if (known && m_.uses[body.args[1 + k]->id] == 0) late[k] = v;
  }
  return late;
}

void Function::sequential_loop(const ir::Op& op, const Bounds& b, std::span<const x86::Reg> carried) {
  const ir::Block& body = *op.blocks[0];
  Frame frame{cc_.newLabel(), cc_.newLabel(), {carried.begin(), carried.end()}, left_late(op)};
  asmjit::Label head = cc_.newLabel();
  if (b.known_trips <= 0 && b.least <= 0) {
    cc_.test(b.trips, b.trips);
    cc_.jz(frame.exit);
  }
  x86::Gp iv = cc_.newGpq("iv");
  if (b.whole && is_const(op.operands[0])) {
    load_imm(iv, const_int(op.operands[0]));
  } else {
    cc_.mov(iv, b.lower);
  }
  push_level(op);
  Level& level = levels_.back();
  level.iv = iv;
  level.step_known = b.step_known;
  level.step = b.step;
  level.step_reg = b.step_reg;
  bind(body.args[0], iv);
  for (size_t i = 0; i < carried.size(); ++i) bind(body.args[i + 1], carried[i]);
  plan_targets(body, carried);
  frames_.push_back(frame);
  const bool steps = b.step_known && b.step != 0 && b.step <= kStrip && b.step >= -kStrip;
  const bool short_loop = (b.known_trips >= 0 ? b.known_trips : b.most) <= kStrip;
  const ir::Op* poll = steps || short_loop ? strip_poll(op) : nullptr;
  const bool strips = poll && !short_loop;
  x86::Gp until = b.end;
  if (strips) {
    const x86::Gp first = first_strip_end(op, b);
    until = cc_.newGpq("until");
    cc_.mov(until, first);
  }
  if (poll) leave_out(poll);
  // Where the ends of a short loop and of the one around it lie in one line, a Zen 4 learns the ends of 16384 rows in
  // 27 us a pass; 31 with the outer one in the next line, 36 with both there. All pairs' shortest paths, eight
  // instructions a step, take it 123 us where the loop lies in two lines, else 100. A search that ends soon would take
  // a tenth longer.
  const bool long_run = loops_within(body) == 0 && !has(Opcode::break_, body);
  if (b.known_trips < 0 && (short_loop || long_run)) cc_.align(asmjit::AlignMode::kCode, kCacheLine);
  cc_.bind(head);
  emit_block(body, [&](const ir::Op& last) { terminate(last, frame, true); });
  frames_.pop_back();
  for (const ir::Value* v : body.last->operands) targets_[v->id] = {};
  cc_.bind(frame.latch);
  advance(levels_.back());
  add_step(iv, b);
  cc_.cmp(iv, until);
  cc_.jne(head);
  if (poll) leave_out(nullptr);
  if (strips) {
    asmjit::Label done = cc_.newLabel();
    cc_.cmp(iv, b.end);
    cc_.je(done);
    emit_poll(*poll);
    strip_end(until, iv, b);
    cc_.jmp(head);
    cc_.bind(done);
  }
  for (size_t k = 0; k < frame.late.size(); ++k) {
    if (frame.late[k] == body.args[0]) {
      step_back(carried[k].as<x86::Gp>(), iv, b);
    } else if (frame.late[k]) {
      assign(carried.subspan(k, 1), std::span(&frame.late[k], 1));
    }
  }
  pop_level();
  cc_.bind(frame.exit);
}

}  // namespace appy::cpu
