// Control flow inside a `simd` loop: masked conditionals and inner loops.
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

bool VectorLoop::contains_check(const ir::Op& op) {
  bool found = op.code == Opcode::check_;
  for (ir::Block* b : op.blocks) ir::walk(*b, [&](ir::Op& inner) { found |= inner.code == Opcode::check_; });
  return found;
}

bool VectorLoop::block(const ir::Block& block, const std::function<void(const ir::Op&)>& yield) {
  for (const ir::Op* at = block.first; at; at = at->next) {
    if (at->code == Opcode::yield_) {
      yield(*at);
      return true;
    }
    if (ir::is_terminator(at->code)) {
      leave_iteration(*at);
      return false;
    }
    if (at->code == Opcode::if_ && !d_.uniform(*at)) {
      if (varying(at->operands[0]) && exit_test(*at)) continue;
      const bool reached = varying(at->operands[0]) ? varying_if(*at) : uniform_if(*at);
      if (!reached) return false;
      skip_if_empty(*at);
      continue;
    }
    if (asmjit::Label past = cc_.newLabel(); at->code == Opcode::load_ && skip_false_masks(*at, past)) {
      op(*at);
      at = at->next;
      varying_if(*at);
      cc_.bind(past);
      continue;
    }
    op(*at);
  }
  return false;
}

bool VectorLoop::skip_false_masks(const ir::Op& load, asmjit::Label past) {
  const ir::Value* v = load.result();
  const ir::Op* next = load.next;
  if (v->type.dtype != DType::bool_ || f_.module().uses[v->id] != 1 || !varying(v) || !exec_.all) return false;
  if (!next || next->code != Opcode::if_ || next->operands[0] != v || !next->results.empty()) return false;
  if (next->blocks[0]->last->code != Opcode::yield_ || next->blocks[1]->first->code != Opcode::yield_) return false;
  bool leaves = contains_check(*next);
  ir::walk(*next->blocks[0],
           [&](const ir::Op& op) { leaves |= op.code == Opcode::continue_ || op.code == Opcode::break_; });
  if (leaves) return false;
  const int n = lanes_ * unroll_;
  if (n < 16 || n > f_.module().vector_bytes()) return false;
  const Place p = place(load);
  if (p.kind != Place::Kind::contiguous) return false;
  x86::Mem m = p.base;
  m.setSize(static_cast<uint32_t>(n));
  x86::Vec mask = vec(n);
  cc_.emit(avx512_ ? Id::kIdVmovdqu64 : Id::kIdVmovdqu, mask, m);
  if (avx512_) {
    x86::KReg some = cc_.newKq();
    cc_.vptestmd(some, mask, mask);
    cc_.kortestw(some, some);
  } else {
    cc_.vptest(mask, mask);
  }
  cc_.jz(past);
  return true;
}

void VectorLoop::op(const ir::Op& op) {
  if (op.code == Opcode::const_) return;
  if (d_.uniform(op)) {
    if (!into_lanes(op)) f_.emit(op);
    return;
  }
  switch (op.code) {
    case Opcode::load_:
      return load(op);
    case Opcode::store_:
      return store(op);
    case Opcode::atomic_:
      return atomic(op);
    case Opcode::check_:
      return check(op);
    case Opcode::for_:
    case Opcode::while_:
      inner_loop(op);
      return skip_if_empty(op);
    default:
      pure(op);
      return merge_early(op);
  }
}

void VectorLoop::skip_if_empty(const ir::Op& op) {
  if (may_replay_ || exec_.all || !contains_check(op)) return;
  const Loop& l = loops_.back();
  jump_if_none(exec_.r, l.exec_is_live ? l.exit : l.latch);
}

bool VectorLoop::uniform_if(const ir::Op& op) {
  asmjit::Label otherwise = cc_.newLabel(), end = cc_.newLabel();
  std::vector<Regs> results;
  for (const ir::Value* v : op.results) {
    results.push_back(varying(v) ? fresh(v->type.dtype) : Regs{f_.new_reg(v->type.dtype)});
  }
  auto take = [&](const ir::Op& yield) {
    std::vector<Regs> from;
    for (size_t i = 0; i < results.size(); ++i) {
      const ir::Value* v = yield.operands[i];
      from.push_back(varying(op.results[i]) ? get(v) : Regs{f_.reg(v)});
    }
    assign_all(results, from);
  };
  f_.jump_if(op.operands[0], false, otherwise);
  const bool first = block(*op.blocks[0], [&](const ir::Op& yield) {
    take(yield);
    cc_.jmp(end);
  });
  cc_.bind(otherwise);
  const bool second = block(*op.blocks[1], take);
  cc_.bind(end);
  for (size_t i = 0; i < results.size(); ++i) {
    if (varying(op.results[i])) {
      set(op.results[i], results[i]);
    } else {
      f_.bind(op.results[i], results[i][0]);
    }
  }
  return first || second;
}

bool VectorLoop::worth_a_branch(const ir::Block& arm) const {
  int ops = 0;
  bool must = false;
  ir::walk(const_cast<ir::Block&>(arm), [&](ir::Op& op) {
    ++ops;
    switch (op.code) {
      case Opcode::for_:
      case Opcode::while_:
      case Opcode::check_:
      case Opcode::poll_:
      case Opcode::atomic_:
      case Opcode::continue_:
      case Opcode::break_:
        must = true;
        break;
      case Opcode::store_:
        // Processors take a hundred cycles for a store of no lanes to some pages.
        must = true;
        break;
      case Opcode::load_: {
        bool contiguous = false;
        for (size_t i = op.first_term(); i < op.operands.size(); ++i) {
          contiguous |= op.operands[i] == d_.linear();
          must |= varying(op.operands[i]) && op.operands[i] != d_.linear();
        }
        must |= !contiguous;
        break;
      }
      default:
        must |= op.code >= Opcode::cbrt_ && op.code <= Opcode::lgamma_;
        must |= op.code == Opcode::pow_ || op.code == Opcode::atan2_ || op.code == Opcode::hypot_;
    }
  });
  return must || ops > 14;
}

bool VectorLoop::varying_if(const ir::Op& op) {
  const Regs condition = get(op.operands[0]);
  const Mask saved = exec_;
  Mask then_mask{false, {}}, else_mask{false, {}};
  for (size_t u = 0; u < condition.size(); ++u) {
    // Masks change in place when lanes leave, so an arm's must not be the condition's own registers.
    then_mask.r.push_back(saved.all ? copy(condition[u], DType::bool_) : mask_and(saved.r[u], condition[u]));
  }
  const ir::Op& other = *op.blocks[1]->first;
  const bool has_else = other.code != Opcode::yield_;
  if (has_else) {
    for (size_t u = 0; u < condition.size(); ++u) {
      else_mask.r.push_back(saved.all ? mask_not(condition[u]) : mask_andn(saved.r[u], condition[u]));
    }
  }
  std::vector<Regs> results;
  for (const ir::Value* v : op.results) results.push_back(fresh(v->type.dtype));
  auto values_of = [&](const ir::Op& yield) {
    std::vector<Regs> from;
    for (const ir::Value* v : yield.operands) from.push_back(get(v));
    return from;
  };
  const bool branch_then = worth_a_branch(*op.blocks[0]);
  asmjit::Label after_then = cc_.newLabel(), after_else = cc_.newLabel();
  masks_.push_back(saved);
  masks_.push_back(else_mask);
  exec_ = then_mask;
  bool first = false;
  std::vector<Regs> then_values;
  if (branch_then) {
    // The skipped arm's results must be defined.
    for (size_t i = 0; i < results.size(); ++i) {
      for (const x86::Reg& r : results[i]) {
        if (op.results[i]->type.dtype == DType::bool_) {
          f_.move(r, mask_none());
        } else {
          f_.move(r, sized(broadcast_bits(8, 0), bytes(op.results[i]->type.dtype)));
        }
      }
    }
    jump_if_none(then_mask.r, after_then);
    first = block(*op.blocks[0], [&](const ir::Op& yield) { assign_all(results, values_of(yield)); });
    cc_.bind(after_then);
    then_values = results;
  } else {
    first = block(*op.blocks[0], [&](const ir::Op& yield) { then_values = values_of(yield); });
  }
  masks_.pop_back();
  bool second = false;
  auto merge = [&](const ir::Op& yield) {
    std::vector<Regs> from = values_of(yield), merged;
    for (size_t i = 0; i < results.size(); ++i) {
      Regs r;
      for (size_t u = 0; u < condition.size(); ++u) {
        r.push_back(first ? blend(op.results[i]->type.dtype, condition[u], then_values[i][u], from[i][u]) : from[i][u]);
      }
      merged.push_back(r);
    }
    assign_all(results, merged);
  };
  if (!has_else) {
    exec_ = saved;
    masks_.pop_back();
    merge(other);
    second = true;
  } else {
    exec_ = else_mask;
    const bool branch_else = worth_a_branch(*op.blocks[1]);
    if (branch_else) {
      if (!branch_then || !first) {
        for (size_t i = 0; i < results.size(); ++i) {
          if (first) {
            assign(results[i], then_values[i]);
          } else {
            for (const x86::Reg& r : results[i]) {
              if (op.results[i]->type.dtype == DType::bool_) {
                f_.move(r, mask_none());
              } else {
                f_.move(r, sized(broadcast_bits(8, 0), bytes(op.results[i]->type.dtype)));
              }
            }
          }
        }
        then_values = results;
      }
      jump_if_none(else_mask.r, after_else);
    }
    second = block(*op.blocks[1], merge);
    if (!second && first && !branch_else) {
      for (size_t i = 0; i < results.size(); ++i) assign(results[i], then_values[i]);
    }
    if (branch_else) cc_.bind(after_else);
    exec_ = saved;
    masks_.pop_back();
  }
  for (size_t i = 0; i < results.size(); ++i) set(op.results[i], results[i]);
  return first || second;
}

std::vector<Regs> VectorLoop::inits(const ir::Op& op, size_t first, const ir::Block& body, size_t first_arg) {
  std::vector<Regs> carried;
  for (size_t i = first; i < op.operands.size(); ++i) {
    const ir::Value* arg = body.args[first_arg + i - first];
    const DType t = arg->type.dtype;
    if (varying(arg) && t != DType::bool_ && f_.is_const(op.operands[i]) && f_.const_int(op.operands[i]) == 0) {
      carried.push_back(zeros(t));
    } else if (varying(arg)) {
      carried.push_back(copy(get(op.operands[i]), t));
    } else {
      x86::Reg r = f_.new_reg(t);
      f_.move(r, f_.reg(op.operands[i]));
      carried.push_back({r});
    }
  }
  return carried;
}

void VectorLoop::inner_loop(const ir::Op& op) {
  const ir::Block& body = *op.blocks[0];
  const bool is_for = op.code == Opcode::for_;
  const size_t first = is_for ? 3 : 0, first_arg = is_for ? 1 : 0;
  const std::vector<Behind> behind = places_behind(op);
  const bool lane_trips = is_for && (varying(op.operands[0]) || varying(op.operands[1]));
  Loop l;
  l.op = &op;
  l.divergent = d_.divergent(&op);
  const bool splits = d_.splits(&op);
  l.latch = cc_.newLabel();
  l.exit = cc_.newLabel();
  asmjit::Label head = cc_.newLabel();
  l.carried = inits(op, first, body, first_arg);
  auto duplicate = [&](std::vector<Regs>& to) {
    for (size_t i = 0; i < l.carried.size(); ++i) to.push_back(copy(l.carried[i], op.results[i]->type.dtype));
  };
  // Lanes of one register a uniform value never leave alone, so a divergent loop's carried values may still be uniform.
  auto lanes_of = [&](size_t i) {
    const ir::Value* arg = body.args[first_arg + i];
    return varying(arg) ? l.carried[i]
                        : Regs(static_cast<size_t>(unroll_), broadcast_reg(arg->type.dtype, l.carried[i][0]));
  };
  if (splits) duplicate(l.next);
  if (l.divergent) {
    for (size_t i = 0; i < l.carried.size(); ++i) {
      const bool used = f_.module().uses[op.results[i]->id] > 0;
      l.results.push_back(used ? copy(lanes_of(i), op.results[i]->type.dtype) : Regs());
    }
  }
  const Mask outer = exec_;
  masks_.push_back(outer);
  l.masks = masks_.size();
  const bool own_mask = l.divergent || splits;
  l.exec_is_live = l.divergent && !splits;
  if (own_mask) {
    l.live.all = false;
    for (int u = 0; u < unroll_; ++u)
      l.live.r.push_back(copy(outer.all ? mask_all() : outer.r[static_cast<size_t>(u)], DType::bool_));
  }
  Function::Bounds bounds;
  Regs iv_lanes, remaining;
  x86::Gp iv;
  int64_t direction = 1;
  if (is_for && !lane_trips) {
    bounds = f_.bounds(op);
    cc_.test(bounds.trips, bounds.trips);
    cc_.jz(l.exit);
    iv = cc_.newGpq();
    cc_.mov(iv, bounds.lower);
  } else if (is_for) {
    direction = f_.const_int(op.operands[2]);
    Regs lower = get(op.operands[0]), upper = get(op.operands[1]);
    for (size_t u = 0; u < lower.size(); ++u) {
      const x86::Reg a = direction > 0 ? lower[u] : upper[u], b = direction > 0 ? upper[u] : lower[u];
      remaining.push_back(int_op(Opcode::sub_, DType::i64_, b, a, {}));
      f_.move(l.live.r[u], mask_and(l.live.r[u], compare_int(Opcode::lt_, DType::i64_, as_vec(a), as_vec(b))));
    }
    if (varying(op.operands[0])) {
      iv_lanes = copy(lower, DType::i64_);
    } else {
      iv = cc_.newGpq();
      cc_.mov(iv, f_.gp(op.operands[0]));
    }
    jump_if_none(l.live.r, l.exit);
  }
  f_.push_level(op);
  const size_t depth = f_.depth();
  if (iv.isValid()) {
    Level& level = f_.level(depth);
    level.iv = iv;
    level.step_known = lane_trips || bounds.step_known;
    level.step = lane_trips ? direction : bounds.step;
    level.step_reg = bounds.step_reg;
    f_.bind(body.args[0], iv);
  } else if (is_for) {
    set(body.args[0], iv_lanes);
  }
  for (size_t i = 0; i < l.carried.size(); ++i) {
    const ir::Value* arg = body.args[first_arg + i];
    if (varying(arg)) {
      set(arg, l.carried[i]);
    } else {
      f_.bind(arg, l.carried[i][0]);
    }
  }
  if (!splits) plan_targets(body, l.carried);
  loops_.push_back(l);
  const bool uniform = iv.isValid() && !lane_trips && !own_mask;
  const bool in_turn = uniform && asks_in_turn(op, behind);
  if (!in_turn) ask_for(behind);
  // A poll for many iterations, where nobody can tell the iterations of the loops around apart.
  const bool counts = uniform && bounds.step_known && bounds.step != 0;
  const bool steps = counts && bounds.step <= kStrip && bounds.step >= -kStrip;
  const ir::Op* poll = steps ? f_.strip_poll(op) : nullptr;
  asmjit::Label strip = cc_.newLabel();
  x86::Gp until = bounds.end;
  if (poll) f_.leave_out(poll);
  if (in_turn) {
    ask_in_turn(behind, bounds.trips, [&] {
      block(body, [&](const ir::Op& yield) { end_iteration(yield, l); });
      f_.advance(f_.level(depth));
      f_.add_step(iv, bounds);
    });
    plan_targets(body, l.carried);  // for the body once more
    cc_.cmp(iv, bounds.end);
    cc_.je(l.exit);
  }
  if (poll) {
    until = cc_.newGpq("until");
    cc_.bind(strip);
    f_.strip_end(until, iv, bounds);
  }
  cc_.bind(head);
  if (own_mask) {
    if (l.exec_is_live) {
      exec_ = l.live;
    } else {
      exec_.all = false;
      exec_.r.clear();
      for (const x86::Reg& r : l.live.r) exec_.r.push_back(copy(r, DType::bool_));
    }
  }
  block(body, [&](const ir::Op& yield) { end_iteration(yield, l); });
  cc_.bind(l.latch);
  if (splits) assign_all(l.carried, l.next);
  if (splits && l.divergent) jump_if_none(l.live.r, l.exit);
  f_.advance(f_.level(depth));
  if (!is_for) {
    cc_.jmp(head);
  } else if (!lane_trips) {
    f_.add_step(iv, bounds);
    cc_.cmp(iv, until);
    cc_.jne(head);
    if (poll) {
      f_.leave_out(nullptr);
      cc_.cmp(iv, bounds.end);
      cc_.je(l.exit);
      f_.emit_poll(*poll);
      cc_.jmp(strip);
    }
    if (l.divergent) {
      std::vector<Regs> values;
      for (size_t i = 0; i < l.carried.size(); ++i) values.push_back(lanes_of(i));
      capture(l, l.live.r, values);
    }
  } else {
    x86::Vec one = sized(broadcast_bits(8, 1), bytes(DType::i64_)),
             zero = sized(broadcast_bits(8, 0), bytes(DType::i64_));
    Regs leaving;
    for (size_t u = 0; u < remaining.size(); ++u) {
      int_op(Opcode::sub_, DType::i64_, remaining[u], one, remaining[u]);
      if (!iv_lanes.empty()) {
        int_op(direction > 0 ? Opcode::add_ : Opcode::sub_, DType::i64_, iv_lanes[u], one, iv_lanes[u]);
      }
      leaving.push_back(mask_and(l.live.r[u], compare_int(Opcode::eq_, DType::i64_, as_vec(remaining[u]), zero)));
    }
    if (iv.isValid()) cc_.add(iv, static_cast<int32_t>(direction));
    jump_if_none(leaving, head);
    std::vector<Regs> values;
    for (size_t i = 0; i < l.carried.size(); ++i) values.push_back(lanes_of(i));
    capture(l, leaving, values);
    for (size_t u = 0; u < leaving.size(); ++u) f_.move(l.live.r[u], mask_andn(l.live.r[u], leaving[u]));
    jump_if_any(l.live.r, head);
  }
  loops_.pop_back();
  f_.pop_level();
  cc_.bind(l.exit);
  exec_ = outer;
  masks_.pop_back();
  for (size_t i = 0; i < l.carried.size(); ++i) {
    if (l.divergent) {
      set(op.results[i], l.results[i]);
    } else if (varying(op.results[i])) {
      set(op.results[i], l.carried[i]);
    } else {
      f_.bind(op.results[i], l.carried[i][0]);
    }
  }
}

}  // namespace appy::cpu
