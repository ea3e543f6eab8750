// How lanes of a `simd` loop leave an iteration, an inner loop that other lanes stay in, or the region by a check.
#include <algorithm>

#include "cpu/implied.h"
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;

bool VectorLoop::exit_test(const ir::Op& op) {
  Loop& l = loops_.back();
  if (!l.exec_is_live || masks_.size() != l.masks) return false;
  const auto first = [](const ir::Block& arm) {
    const ir::Op* at = arm.first;
    while (at->code == Opcode::const_) at = at->next;
    return at;
  };
  const ir::Op *stay = first(*op.blocks[0]), *leave = first(*op.blocks[1]);
  const bool leave_if = stay->code == Opcode::break_;
  if (leave_if) std::swap(stay, leave);
  if (stay->code != Opcode::yield_ || leave->code != Opcode::break_) return false;
  const Regs condition = get(op.operands[0]);
  auto remaining = [&](size_t u) {
    return leave_if ? mask_andn(l.live.r[u], condition[u]) : mask_and(l.live.r[u], condition[u]);
  };
  const std::vector<Regs> values = captured(l, *leave);
  if (std::ranges::count_if(values, [](const Regs& r) { return !r.empty(); }) <= kCaptureAlways) {
    // What lanes that stay leave in the results is overwritten later; a branch would be taken for every lane once.
    capture(l, l.live.r, values);
    for (size_t u = 0; u < condition.size(); ++u) f_.move(l.live.r[u], remaining(u));
    jump_if_none(l.live.r, l.exit);
  } else {
    asmjit::Label stay_all = cc_.newLabel();
    Regs leaving;
    for (size_t u = 0; u < condition.size(); ++u) leaving.push_back(mask_andn(l.live.r[u], remaining(u)));
    jump_if_none(leaving, stay_all);
    capture(l, leaving, values);
    for (size_t u = 0; u < condition.size(); ++u) f_.move(l.live.r[u], mask_andn(l.live.r[u], leaving[u]));
    jump_if_none(l.live.r, l.exit);
    cc_.bind(stay_all);
  }
  for (size_t i = 0; i < op.results.size(); ++i) {
    set(op.results[i], copy(get(stay->operands[i]), op.results[i]->type.dtype));
  }
  return true;
}

std::vector<Regs> VectorLoop::captured(const Loop& l, const ir::Op& exit) {
  std::vector<Regs> values;
  for (size_t i = 0; i < l.results.size(); ++i) {
    values.push_back(l.results[i].empty() ? Regs() : get(exit.operands[i]));
  }
  return values;
}

void VectorLoop::capture(Loop& l, const Regs& lanes, std::span<const Regs> values) {
  for (size_t i = 0; i < l.results.size(); ++i) {
    for (size_t u = 0; u < l.results[i].size(); ++u)
      blend_into(l.op->results[i]->type.dtype, l.results[i][u], lanes[u], values[i][u]);
  }
}

void VectorLoop::merge_early(const ir::Op& op) {
  const auto found = merges_.find(op.result()->id);
  if (found == merges_.end()) return;
  const Regs now = get(op.result());
  for (size_t u = 0; u < now.size(); ++u) {
    if (now[u].id() != found->second[u].id()) blend_into(op.result()->type.dtype, found->second[u], exec_.r[u], now[u]);
  }
  set(op.result(), found->second);
}

void VectorLoop::end_iteration(const ir::Op& yield, Loop& l) {
  std::vector<Regs> from;
  const size_t first_arg = l.op->code == Opcode::for_ ? 1 : 0;
  for (size_t i = 0; i < l.carried.size(); ++i) {
    const ir::Value* v = yield.operands[i];
    from.push_back(varying(l.op->blocks[0]->args[first_arg + i]) ? get(v) : Regs{f_.reg(v)});
  }
  const bool simd_level = l.op == &loop_;
  if (!l.next.empty()) {
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t u = 0; u < from[i].size(); ++u) {
        blend_into(l.op->results[i]->type.dtype, l.next[i][u], exec_.r[u], from[i][u]);
      }
    }
  } else if (simd_level && !exec_.all) {
    // In place unless one new value is another's old one.
    std::vector<Regs> merged = from;
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t k = 0; k < i; ++k) {
        if (from[i][0].id() == l.carried[k][0].id()) merged[i] = copy(from[i], l.op->results[i]->type.dtype);
      }
    }
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t u = 0; u < merged[i].size(); ++u) {
        if (merged[i][u].id() == l.carried[i][u].id()) continue;
        blend_into(l.op->results[i]->type.dtype, l.carried[i][u], exec_.r[u], merged[i][u]);
      }
    }
  } else {
    assign_all(l.carried, from);
  }
}

void VectorLoop::leave_iteration(const ir::Op& terminator) {
  Loop& l = loops_.back();
  if (terminator.code == Opcode::continue_ && !d_.splits(l.op)) {
    end_iteration(terminator, l);
    cc_.jmp(l.latch);
    return;
  }
  Regs lanes = exec_.r;
  if (exec_.all) lanes = Regs(static_cast<size_t>(unroll_), mask_all());
  if (terminator.code == Opcode::break_) {
    if (!l.divergent) {
      end_iteration(terminator, l);
      cc_.jmp(l.exit);
      return;
    }
    capture(l, lanes, captured(l, terminator));
  } else {
    for (size_t i = 0; i < l.next.size(); ++i) {
      Regs value = get(terminator.operands[i]);
      for (size_t u = 0; u < lanes.size(); ++u)
        blend_into(l.op->results[i]->type.dtype, l.next[i][u], lanes[u], value[u]);
    }
  }
  const bool from_loop = terminator.code == Opcode::break_;
  kill(copy(lanes, DType::bool_), from_loop);
  const Regs& rest = masks_.size() > l.masks ? masks_[l.masks].r : exec_.r;
  jump_if_none(rest, from_loop && l.exec_is_live ? l.exit : l.latch);
}

void VectorLoop::kill(const Regs& lanes, bool from_loop) {
  Loop& l = loops_.back();
  std::vector<uint32_t> done;
  auto clear = [&](const Mask& m) {
    if (m.all) return;
    for (size_t u = 0; u < m.r.size(); ++u) {
      if (std::find(done.begin(), done.end(), m.r[u].id()) != done.end()) continue;
      done.push_back(m.r[u].id());
      f_.move(m.r[u], mask_andn(m.r[u], lanes[u]));
    }
  };
  for (size_t i = l.masks; i < masks_.size(); ++i) clear(masks_[i]);
  clear(exec_);
  if (from_loop) clear(l.live);
}

bool VectorLoop::left_out(const ir::Op& check) const { return may_replay_ && implied_by(check) != nullptr; }

/// What only checks that are left out use.
void VectorLoop::find_left_out() {
  if (!may_replay_) return;
  ir::walk(*loop_.blocks[0], [&](const ir::Op& check) {
    if (check.code == Opcode::check_ && left_out(check)) leave_out_test(*check.operands[0]);
  });
}

void VectorLoop::leave_out_test(const ir::Value& condition) {
  const ir::Op* op = condition.op;
  if (!op || condition.type.dtype != DType::bool_ || !ir::is_pure(op->code)) return;
  if (f_.module().uses[condition.id] != 1) return;
  by_test_.insert(op);
  for (const ir::Value* v : op->operands) leave_out_test(*v);
}

void VectorLoop::check(const ir::Op& op) {
  if (left_out(op) || test_index(op)) return;
  const ir::Value* ok = op.operands[0];
  Regs lanes;
  if (varying(ok)) {
    Regs good = get(ok);
    for (size_t u = 0; u < good.size(); ++u) {
      lanes.push_back(exec_.all ? mask_not(good[u]) : mask_andn(exec_.r[u], good[u]));
    }
  }
  auto fail_to = [&](asmjit::Label to) {
    if (varying(ok)) {
      jump_if_any(lanes, to);
    } else {
      f_.jump_if(ok, false, to);
    }
  };
  if (op.check->declines) {
    fail_to(f_.cold([this] { f_.leave(runtime::Status::declined); }));
    return;
  }
  if (may_replay_) {
    fail_to(undone_);
    return;
  }
  if (lanes.empty()) lanes = copy(exec_.r, DType::bool_);
  std::vector<std::pair<const ir::Value*, x86::Reg>> info;
  for (int i = 0; i < op.check->ninfo; ++i) {
    const ir::Value* v = op.operands[1 + static_cast<size_t>(i)];
    x86::Reg value = varying(v) ? get(v)[0] : f_.is_const(v) ? x86::Reg() : f_.reg(v);
    // The cold block has no place for constants, so a mask becomes bytes here.
    if (varying(v) && v->type.dtype == DType::bool_) value = cast1(DType::u8_, DType::bool_, value);
    info.emplace_back(v, value);
  }
  std::vector<x86::Reg> masks;
  auto note = [&](const Mask& m) {
    for (const x86::Reg& r : m.r) {
      if (std::none_of(masks.begin(), masks.end(), [&](auto& k) { return k.id() == r.id(); })) masks.push_back(r);
    }
  };
  for (const Mask& m : masks_) note(m);
  for (const Loop& l : loops_) note(l.live);
  note(exec_);
  const x86::Vec numbers = lane_numbers();
  asmjit::Label back = cc_.newLabel();
  const Loop& inner = loops_.back();
  const asmjit::Label nobody = inner.exec_is_live ? inner.exit : inner.latch;
  const Regs exec = exec_.r;
  const x86::Gp iv = f_.failing_iteration();
  const bool own_iteration = !iv.isValid() || f_.root_ == &loop_;
  fail_to(f_.cold([this, &op, lanes, numbers, info, masks, back, nobody, exec, iv, own_iteration] {
    x86::Gp first = cc_.newGpq();
    mask_bits(first, lanes[0]);
    cc_.tzcnt(first, first);
    f_.record_failure(op, false);
    for (size_t i = 0; i < info.size(); ++i) {
      const ir::Value* v = info[i].first;
      x86::Reg value = info[i].second;
      if (varying(v)) value = extract(v->type.dtype == DType::bool_ ? DType::u8_ : v->type.dtype, value, first);
      x86::Gp word = cc_.newGpq();
      f_.word_of(v, value, word);
      f_.store_info(static_cast<int>(i), word);
    }
    if (own_iteration) {
      x86::Gp at = cc_.newGpq();
      cc_.mov(at, first);
      if (lane_step_.isValid()) {
        cc_.imul(at, lane_step_);
      } else {
        x86::Gp step = cc_.newGpq();
        f_.load_imm(step, step_);
        cc_.imul(at, step);
      }
      cc_.add(at, iv_);
      f_.store_iteration(at);
    } else {
      f_.store_iteration(iv);
    }
    x86::Reg alive = mask_below(first, numbers);
    for (const x86::Reg& m : masks) f_.move(m, mask_and(m, alive));
    cc_.mov(failed_.r32(), 1);
    jump_if_none(exec, nobody);
    cc_.jmp(back);
  }));
  cc_.bind(back);
}

}  // namespace appy::cpu
