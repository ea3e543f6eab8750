// Parallel loops behind one another: the caller goes on from its part of one to the next one while workers are still at
// theirs, as long as what stands in between touches no memory and nobody leaves the region.
#include "cpu/function.h"

namespace appy::cpu {

using ir::Opcode;

namespace {

bool is_loop(const ir::Op& op) { return op.code == Opcode::for_ || op.code == Opcode::while_; }

/// A loop that VectorLoop may emit, which knows nothing of pending loops.
bool in_lanes(const ir::Op& op) { return op.code == Opcode::for_ && op.loop->simd; }

bool any_inside(const ir::Op& op, const std::function<bool(const ir::Op&)>& holds) {
  for (const ir::Block* block : op.blocks) {
    for (const ir::Op* inner = block->first; inner; inner = inner->next) {
      if (holds(*inner)) return true;
    }
  }
  return false;
}

bool touches_memory(const ir::Op& op) {
  const ir::Effect effect = ir::info(op.code).effect;
  if (effect != ir::Effect::pure && effect != ir::Effect::guard && effect != ir::Effect::control) return true;
  return in_lanes(op) || any_inside(op, touches_memory);
}

}  // namespace

bool Function::is_shared(const ir::Op& op) const {
  return op.code == Opcode::for_ && op.loop->parallel && op.loop->threads != 1 && !in_outlined() && !vector_ &&
         can_outline(op);
}

bool Function::waits_by_itself(const ir::Op& op) const {
  return is_shared(op) ||
         (!in_lanes(op) && any_inside(op, [this](const ir::Op& inner) { return waits_by_itself(inner); }));
}

bool Function::may_pend(const ir::Op& loop) const {
  if (!is_shared(loop) || !loop.results.empty()) return false;
  if (has_atomics(loop)) return false;  // workers may have copies of what it updates
  enum class Next : uint8_t { loop, memory, neither };
  const auto next = [this](const ir::Op* op) {
    for (; op; op = op->next) {
      if (waits_by_itself(*op)) return Next::loop;
      if (touches_memory(*op)) return Next::memory;
    }
    return Next::neither;
  };
  for (const ir::Op* at = &loop; at; at = at->parent->owner) {
    if (const Next found = next(at->next); found != Next::neither) return found == Next::loop;
    const ir::Op* around = at->parent->owner;
    if (around && is_loop(*around) && next(at->parent->first) == Next::loop) return true;  // in the next iteration
  }
  return false;
}

bool Function::leaves_pending(const ir::Op& op) const {
  return pending_loops_.contains(&op) || any_inside(op, [this](const ir::Op& inner) { return leaves_pending(inner); });
}

void Function::find_pending_loops(const ir::Block& block) {
  for (const ir::Op* op = block.first; op; op = op->next) {
    if (may_pend(*op)) pending_loops_.insert(op);
    if (is_shared(*op)) continue;
    for (const ir::Block* inner : op->blocks) find_pending_loops(*inner);
  }
}

bool Function::finish_pending_before(const ir::Op& op) {
  if (pending_loops_.empty()) return false;
  if (may_be_pending_ && !waits_by_itself(op) && touches_memory(op)) {
    finish_pending();
    may_be_pending_ = false;
  }
  const bool behind = may_be_pending_ || leaves_pending(op);
  if (is_loop(op) && !is_shared(op)) may_be_pending_ = behind;  // from its second iteration on
  return behind;
}

void Function::finish_pending() {
  x86::Gp status = cc_.newGpq();
  const x86::Reg arguments[] = {context_};
  call(reinterpret_cast<const void*>(&finish_parallel), status, arguments);
  cc_.test(status, status);
  cc_.jnz(cold([this, status] { leave(status); }));
}

void Function::tell_of_pending(const State& state) {
  write_state(state);
  cc_.mov(x86::byte_ptr(context_, offsetof(Context, told)), !state.empty());
}

}  // namespace appy::cpu
