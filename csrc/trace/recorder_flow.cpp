// Structured control flow out of the bytecode's graph: paths, branches, merges.
#include <algorithm>
#include <set>

#include "support/abort.h"
#include "support/check.h"
#include "trace/recorder.h"
#include "trace/recorder_loop.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Node;
using bytecode::Op;

namespace {

bool is_const(const ir::Value* v) { return v->op && v->op->code == ir::Opcode::const_; }

bool only_constants(const ir::Block& block) {
  for (const ir::Op* op = block.first; op; op = op->next) {
    if (op->code != ir::Opcode::const_) return false;
  }
  return true;
}

void move_ops(ir::Block& from, ir::Block& to) {
  while (ir::Op* op = from.first) {
    from.remove(op);
    to.append(op);
  }
}

}  // namespace

/// Follows a path from a block until it arrives at stops. `inside_header`: the block is the header of the loop that is
/// being traced, not a loop to start.
Outcome Recorder::execute(int node, std::vector<Slot> slots, const Stops& stops, bool inside_header) {
  const bytecode::Cfg& cfg = *frame_->text->cfg;
  slots_ = std::move(slots);
  for (;;) {
    if (const int l = cfg.loop_of_header(node); l >= 0 && !inside_header) return loop(l, std::move(slots_), stops);
    inside_header = false;
    const Node& n = cfg.nodes()[static_cast<size_t>(node)];
    const auto& code = frame_->text->instructions;
    const Instruction& last = code[static_cast<size_t>(n.last)];
    const bool splits = bytecode::is_conditional_jump(last.op);
    for (int i = n.first; i <= n.last; ++i) {
      const Instruction& instruction = code[static_cast<size_t>(i)];
      if (instruction.position.line) {
        line_ = instruction.position.line;
        builder_.set_loc(
            graph_->add_loc(frame_->file, line_, std::max(instruction.position.column, 0), frame_->inlined_at));
      }
      if ((splits && i == n.last) || instruction.op == Op::return_value_) break;
      if (step(instruction) == Flow::dead) {
        product_.reset();
        return {};
      }
      count_array(instruction);
    }
    finish_product(*this);

    if (last.op == Op::return_value_) {
      Slot value = std::move(slots_.back());
      const int target = n.succs[0];
      slots_.resize(frame_->stack);
      size_t place = 0;
      while (frame_->function < 0 && returns_[place].first != target) ++place;
      slots_[frame_->result + place] = std::move(value);
      return {{{target, slots_.size()}}, nullptr, std::move(slots_)};
    }
    if (!splits) {
      const int next = n.succs[0];
      if (stops[static_cast<size_t>(next)]) return {{{next, slots_.size()}}, nullptr, std::move(slots_)};
      node = next;
      continue;
    }

    Outcome o;
    const int fall = n.succs[0], jump = n.succs[1];
    size_t depth_fall = slots_.size(), depth_jump = slots_.size();
    ir::Value* jumps = nullptr;
    if (last.op == Op::for_iter_) {
      // No back edge leads here: the body runs at most once.
      const Traced range = peek(1);
      ir::Value* enters = enters_range(range);
      jumps = is_const(enters) ? builder_.boolean(!enters->op->imm) : builder_.op(ir::Opcode::not_, {enters});
      push(range.items[0]);
      ++depth_fall;
      --depth_jump;
    } else {
      bool pops_on_jump, pops_on_fall;
      jumps = condition(last, pops_on_jump, pops_on_fall);
      depth_fall -= pops_on_fall;
      depth_jump -= pops_on_jump;
    }
    if (is_const(jumps) || fall == jump) {
      const bool taken = is_const(jumps) && jumps->op->imm;
      o.targets = {taken ? Outcome::Target{jump, depth_jump} : Outcome::Target{fall, depth_fall}};
    } else {
      const bool fall_first =
          cfg.nodes()[static_cast<size_t>(fall)].order < cfg.nodes()[static_cast<size_t>(jump)].order;
      o.targets = {{fall, depth_fall}, {jump, depth_jump}};
      if (!fall_first) std::swap(o.targets[0], o.targets[1]);
      o.selector = jumps;
      if (fall_first) {
        const bool negation = jumps->op && jumps->op->code == ir::Opcode::not_;
        o.selector = negation ? jumps->op->operands[0] : builder_.op(ir::Opcode::not_, {jumps});
      }
    }
    o.slots = std::move(slots_);
    return resolve(std::move(o), stops);
  }
}

ir::Value* Recorder::enters_range(const Traced& range) {
  if (range.kind != Kind::range) abort(AbortId::iterable_);
  ir::Value *lower = range.items[0].value, *upper = range.items[1].value, *step = range.items[2].value;
  if (is_const(step)) {
    return builder_.op(static_cast<int64_t>(step->op->imm) > 0 ? ir::Opcode::lt_ : ir::Opcode::gt_, {lower, upper});
  }
  ir::Value* up = builder_.op(ir::Opcode::gt_, {step, builder_.i64(0)});
  return builder_.select(up, builder_.op(ir::Opcode::lt_, {lower, upper}),
                         builder_.op(ir::Opcode::gt_, {lower, upper}));
}

/// A bool that is true where the outcome's path goes to target `t`.
ir::Value* Recorder::select(const Outcome& o, size_t t) {
  if (o.targets.size() == 2) {
    if (t == 0) return o.selector;
    return builder_.op(ir::Opcode::not_, {o.selector});
  }
  return builder_.op(ir::Opcode::eq_, {o.selector, builder_.i64(o.targets[t].node)});
}

/// The selector of an outcome in the form for a larger set of targets; null for one target.
ir::Value* Recorder::selector_for(const Outcome& o, const std::vector<Outcome::Target>& targets) {
  if (targets.size() < 2) return nullptr;
  const bool wide = targets.size() > 2;
  const auto constant = [&](int node) { return wide ? builder_.i64(node) : builder_.boolean(node == targets[0].node); };
  if (o.targets.empty()) return constant(targets[0].node);
  if (o.targets.size() == 1) return constant(o.targets[0].node);
  if (o.targets.size() > 2) {
    if (wide) return o.selector;
    return builder_.op(ir::Opcode::eq_, {o.selector, builder_.i64(targets[0].node)});
  }
  if (!wide) return o.selector;
  return builder_.select(o.selector, builder_.i64(o.targets[0].node), builder_.i64(o.targets[1].node));
}

/// The outcome without one of its targets, on the paths that do not go there.
Outcome Recorder::rest_of(const Outcome& o, size_t chosen) {
  Outcome rest;
  rest.slots = o.slots;
  for (size_t t = 0; t < o.targets.size(); ++t) {
    if (t != chosen) rest.targets.push_back(o.targets[t]);
  }
  if (rest.targets.size() == 2) {
    rest.selector = builder_.op(ir::Opcode::eq_, {o.selector, builder_.i64(rest.targets[0].node)});
  } else if (rest.targets.size() > 2) {
    rest.selector = o.selector;
  }
  if (rest.targets.size() == 1) rest.slots.resize(rest.targets[0].depth);
  return rest;
}

/// Goes on until every target is a stop.
Outcome Recorder::resolve(Outcome o, const Stops& stops) {
  for (;;) {
    size_t chosen = o.targets.size();
    for (size_t t = o.targets.size(); t-- > 0;) {
      if (!stops[static_cast<size_t>(o.targets[t].node)]) chosen = t;
    }
    if (chosen == o.targets.size()) {
      if (o.targets.size() == 1) o.slots.resize(o.targets[0].depth);
      return o;
    }
    if (o.targets.size() == 1) {
      o.slots.resize(o.targets[0].depth);
      return execute(o.targets[0].node, std::move(o.slots), stops);
    }
    if (o.targets.size() == 2) {
      const size_t raising = always_raises(o.targets[0].node) ? 0 : 1;
      if (always_raises(o.targets[raising].node) && hoist_raise(o, raising)) {
        o = rest_of(o, raising);
        continue;
      }
    }
    o = branch(o, chosen, stops);
  }
}

bool Recorder::always_raises(int node) const {
  const Node& n = frame_->text->cfg->nodes()[static_cast<size_t>(node)];
  return n.kind == Node::Kind::block && n.succs.empty() &&
         frame_->text->instructions[static_cast<size_t>(n.last)].op == Op::raise_varargs_;
}

/// A branch to a block that only raises a constant exception becomes a check. False where it is no such block.
bool Recorder::hoist_raise(const Outcome& o, size_t raising) {
  const Node& n = frame_->text->cfg->nodes()[static_cast<size_t>(o.targets[raising].node)];
  for (int i = n.first; i <= n.last; ++i) {
    switch (frame_->text->instructions[static_cast<size_t>(i)].op) {
      case Op::nop_:
      case Op::push_null_:
      case Op::load_const_:
      case Op::load_global_:
      case Op::load_assertion_error_:
      case Op::call_:
      case Op::raise_varargs_:
        break;
      default:
        return false;
    }
  }
  ir::Value* ok = select(o, 1 - raising);
  ir::Op* before = builder_.block()->last;
  std::vector<Slot> slots = o.slots;
  slots.resize(o.targets[raising].depth);
  const Stops none(frame_->text->cfg->nodes().size(), false);
  execute(o.targets[raising].node, std::move(slots), none);
  ir::Op* check = builder_.block()->last;
  APPY_CHECK(check != before && check->code == ir::Opcode::check_, "a raise without its check");
  check->operands[0] = ok;
  return true;
}

/// Emits the conditional that follows one target (two, where they meet only later).
Outcome Recorder::branch(const Outcome& o, size_t chosen, const Stops& stops) {
  const bytecode::Cfg& cfg = *frame_->text->cfg;
  const int target = o.targets[chosen].node;
  const bool both = o.targets.size() == 2 && !stops[static_cast<size_t>(o.targets[1 - chosen].node)];

  // Where the paths meet they stop, and so do paths that pass by the first meeting point: they are the outcomes of a
  // condition made of several jumps (`and`, `or`, chained comparisons), not part of it.
  Stops inner = stops;
  int meeting = -1;
  const auto others_reach = [&](int n) {
    for (size_t t = 0; t < o.targets.size(); ++t) {
      if (t != chosen && cfg.reaches(o.targets[t].node, n)) return true;
    }
    return false;
  };
  const int count = static_cast<int>(cfg.nodes().size());
  std::vector<int> common;
  for (int n = 0; n < count; ++n) {
    if (!cfg.reaches(target, n) || !others_reach(n)) continue;
    common.push_back(n);
    if (stops[static_cast<size_t>(n)]) continue;
    if (meeting < 0 || cfg.nodes()[static_cast<size_t>(n)].order < cfg.nodes()[static_cast<size_t>(meeting)].order) {
      meeting = n;
    }
  }
  for (int n : common) inner[static_cast<size_t>(n)] = true;
  if (meeting >= 0) {
    for (int n = 0; n < count; ++n) {
      if ((cfg.reaches(target, n) || others_reach(n)) && !cfg.reaches(n, meeting)) inner[static_cast<size_t>(n)] = true;
    }
  }
  // The target itself is no stop unless others lead to it.
  for (size_t t = 0; t < o.targets.size(); ++t) {
    if (t != chosen)
      inner[static_cast<size_t>(o.targets[t].node)] = inner[static_cast<size_t>(o.targets[t].node)] || !both;
  }

  ir::Block* outer = builder_.block();
  ir::Value* cond = select(o, chosen);
  const ir::LocId loc = builder_.loc();
  ir::Op* op = builder_.if_op(cond, {});
  builder_.set_block(op->blocks[0]);
  std::vector<Slot> slots = o.slots;
  slots.resize(o.targets[chosen].depth);
  Outcome first;
  if (inner[static_cast<size_t>(target)]) {
    first = {{o.targets[chosen]}, nullptr, std::move(slots)};
  } else {
    first = execute(target, std::move(slots), inner);
  }
  builder_.set_block(op->blocks[1]);
  builder_.set_loc(loc);
  Outcome second = rest_of(o, chosen);
  if (both && !inner[static_cast<size_t>(second.targets[0].node)]) {
    second = execute(second.targets[0].node, std::move(second.slots), inner);
  }
  builder_.set_block(outer);
  builder_.set_loc(loc);
  return join_arms(op, o.slots, std::move(first), std::move(second));
}

/// Ends an arm whose only way leads out of the innermost loop.
bool Recorder::leave_loop(ir::Block* arm, Outcome& o) {
  if (!frame_->loop || o.targets.size() != 1) return false;
  LoopContext& context = *frame_->loop;
  const int node = o.targets[0].node;
  if (node == context.loop->next || context.loop->body[static_cast<size_t>(node)]) return false;
  ir::Block* outer = builder_.block();
  builder_.set_block(arm);
  const auto words = carried_words(context, o.slots, o.targets[0].depth, node);
  builder_.terminator(ir::Opcode::break_, words);
  builder_.set_block(outer);
  context.left(o.targets[0]);
  o = {};
  return true;
}

Outcome Recorder::join_arms(ir::Op* op, const std::vector<Slot>& before, Outcome a, Outcome b) {
  ir::Block *outer = builder_.block(), *first = op->blocks[0], *second = op->blocks[1];
  const bool one_target = a.targets.size() == 1 && b.targets.size() == 1 && a.targets[0].node == b.targets[0].node;
  bool ended[2] = {false, false};
  if (!one_target) {
    ended[0] = leave_loop(first, a);
    if (!ended[0]) ended[1] = leave_loop(second, b);
  }

  Outcome out;
  const bytecode::Cfg& cfg = *frame_->text->cfg;
  for (const Outcome* arm : {&a, &b}) {
    for (const Outcome::Target& t : arm->targets) {
      const bool known = std::any_of(out.targets.begin(), out.targets.end(),
                                     [&](const Outcome::Target& other) { return other.node == t.node; });
      if (!known) out.targets.push_back(t);
    }
  }
  std::sort(out.targets.begin(), out.targets.end(), [&](const auto& s, const auto& t) {
    return cfg.nodes()[static_cast<size_t>(s.node)].order < cfg.nodes()[static_cast<size_t>(t.node)].order;
  });

  // What each slot is after the conditional.
  const size_t count = std::max(a.slots.size(), b.slots.size());
  std::vector<Merged> plan(count);
  std::vector<bool> kept(count, false);
  std::vector<ir::Type> types;
  const Slot nothing;
  const bool dead_a = a.targets.empty(), dead_b = b.targets.empty();
  for (size_t i = 0; i < count; ++i) {
    if (!dead_a && i < a.slots.size()) a.slots[i] = settled(a.slots[i], i);
    if (!dead_b && i < b.slots.size()) b.slots[i] = settled(b.slots[i], i);
    const Slot& s = !dead_a && i < a.slots.size() ? a.slots[i] : nothing;
    const Slot& t = !dead_b && i < b.slots.size() ? b.slots[i] : nothing;
    const Slot& alive = dead_a ? t : s;
    if ((dead_a || dead_b || same(s, t)) && i < before.size() && same(alive, before[i])) {
      kept[i] = true;
      continue;
    }
    plan[i] = merge(s, t, false);
    if (plan[i].needs_entry) throw Restart{static_cast<int>(i)};
    append_types(plan[i], types);
  }
  const auto words_of = [&](const Outcome& arm, bool dead) {
    std::vector<ir::Value*> words;
    slots_ = arm.slots;  // conversions may check
    for (size_t i = 0; i < count; ++i) {
      if (!kept[i]) append_words(*this, plan[i], !dead && i < arm.slots.size() ? arm.slots[i] : nothing, words);
    }
    if (ir::Value* selector = selector_for(arm, out.targets)) words.push_back(selector);
    return words;
  };
  if (out.targets.size() > 1) {
    types.push_back(ir::scalar(out.targets.size() > 2 ? ir::DType::i64_ : ir::DType::bool_));
  }

  std::vector<ir::Value*> results;
  const bool plain = std::none_of(plan.begin(), plan.end(), [](const Merged& m) { return m.tag || !m.items.empty(); });
  if (plain && !ended[0] && !ended[1] && !dead_a && !dead_b && only_constants(*first) && only_constants(*second)) {
    ir::Value* cond = op->operands[0];
    outer->remove(op);
    move_ops(*first, *outer);
    move_ops(*second, *outer);
    const auto u = words_of(a, false), v = words_of(b, false);
    for (size_t i = 0; i < u.size(); ++i) results.push_back(u[i] == v[i] ? u[i] : builder_.select(cond, u[i], v[i]));
  } else {
    for (int arm = 0; arm < 2; ++arm) {
      if (ended[arm]) continue;
      builder_.set_block(op->blocks[static_cast<size_t>(arm)]);
      builder_.yield(arm == 0 ? words_of(a, dead_a) : words_of(b, dead_b));
    }
    builder_.set_block(outer);
    for (const ir::Type& type : types) results.push_back(ir::add_result(*op, type));
  }

  out.slots.resize(count);
  std::span<ir::Value* const> words = results;
  for (size_t i = 0; i < count; ++i) out.slots[i] = kept[i] ? before[i] : rebuild(*this, plan[i], words);
  if (out.targets.size() > 1) out.selector = words.front();
  if (out.targets.size() == 1) out.slots.resize(out.targets[0].depth);
  return out;
}

}  // namespace appy::trace
