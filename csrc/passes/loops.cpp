#include "passes/loops.h"

#include <algorithm>
#include <utility>

#include "ir/sizes.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

Uses::Uses(const ir::Graph& graph) : ends_(graph.value_count()) {
  ir::walk(*graph.body, [&](Op& op) {
    for (const Value* v : op.operands) ++ends_[v->id];
  });
  uint32_t total = 0;
  for (uint32_t& end : ends_) end = std::exchange(total, total + end);  // begins, until the uses are filled in
  uses_.resize(total);
  ir::walk(*graph.body, [&](Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i) uses_[ends_[op.operands[i]->id]++] = {&op, i};
  });
}

std::span<const Use> Uses::of(const Value& v) const {
  if (v.id >= ends_.size()) return {};
  const uint32_t begin = v.id ? ends_[v.id - 1] : 0;
  return {uses_.data() + begin, ends_[v.id] - begin};
}

bool is_used(const Uses& uses, const Value& v) {
  return std::ranges::any_of(uses.of(v), [](const Use& use) { return use.operand < ir::first_state(*use.op); });
}

int64_t count_uses(const Block& block, const Value& v) {
  int64_t count = 0;
  for (const Op* op = block.first; op; op = op->next) {
    count += std::count(op->operands.begin(), op->operands.end(), &v);
    for (const Block* inner : op->blocks) count += count_uses(*inner, v);
  }
  return count;
}

bool is_for(const Op& op) { return op.code == Opcode::for_; }
bool is_loop(const Op& op) { return op.code == Opcode::for_ || op.code == Opcode::while_; }
bool has_permission(const Op& op) { return is_for(op) && (op.loop->parallel || op.loop->simd); }

bool runs_once(const Op& op) {
  if (!is_for(op)) return false;
  const auto lower = constant(*op.operands[0]), upper = constant(*op.operands[1]), step = constant(*op.operands[2]);
  return lower == 0 && upper == 1 && step == 1;
}

bool is_one_block(const Op& loop) {
  if (loop.mapping != ir::Mapping::workers || !runs_once(loop)) return false;
  const Op* inner = body_of(loop).first;
  while (inner && inner->mapping != ir::Mapping::workers) inner = inner->next;
  return !inner;
}

bool in_lanes(const Op& op) {
  for (const Op* at = ir::enclosing_loop(*op.parent); at; at = ir::enclosing_loop(*at->parent)) {
    if (is_for(*at) && at->loop->simd) return true;
  }
  return false;
}

bool is_cheap(const Op& pure) {
  switch (pure.code) {
    case ir::Opcode::div_:
    case ir::Opcode::floordiv_:
    case ir::Opcode::mod_:
    case ir::Opcode::rem_:
    case ir::Opcode::pow_:
      return false;
    default:
      return pure.code < ir::Opcode::sqrt_ || pure.code > ir::Opcode::lgamma_;
  }
}

bool interruptible_anywhere(const Op& loop) {
  for (const Op* at = &loop; at; at = ir::enclosing_loop(*at->parent)) {
    if (has_permission(*at)) return true;
  }
  return false;
}
size_t first_init(const Op& loop) { return is_for(loop) ? 3 : 0; }
size_t first_carried(const Op& loop) { return is_for(loop) ? 1 : 0; }
size_t carried_count(const Op& loop) { return loop.results.size(); }
Block& body_of(const Op& loop) { return *loop.blocks[0]; }
Value* induction(const Op& for_loop) { return for_loop.blocks[0]->args[0]; }
bool count_alike(const Op& a, const Op& b) {
  return std::equal(a.operands.begin(), a.operands.begin() + 3, b.operands.begin());
}

namespace {

void collect_exits(const Block& block, Exits& exits, bool arm) {
  for (Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::break_) exits.breaks.push_back(op);
    if (op->code == Opcode::continue_ || (op->code == Opcode::yield_ && !arm)) exits.next.push_back(op);
    if (op->code == Opcode::if_) {
      for (const Block* inner : op->blocks) collect_exits(*inner, exits, true);
    }
  }
}

}  // namespace

Exits exits_of(const Op& loop) {
  Exits exits;
  collect_exits(body_of(loop), exits, false);
  return exits;
}

bool left_by_yield_only(const Op& loop) {
  const Exits exits = exits_of(loop);
  return exits.breaks.empty() && exits.next.size() == 1 && exits.next[0] == body_of(loop).last;
}

bool is_simple_for(const Op& op) {
  return is_for(op) && constant(*op.operands[2]) == 1 && left_by_yield_only(op) && op.loop->collapse == 1;
}

bool has_plain_body(const Op& loop, bool may_check) {
  bool plain = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    plain &= ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::store_ || op.code == Opcode::if_ ||
             op.code == Opcode::for_ || op.code == Opcode::yield_ || op.code == Opcode::poll_ ||
             (may_check && op.code == Opcode::check_);
  });
  return plain;
}

std::optional<int64_t> constant(const Value& v) {
  if (!v.op || v.op->code != Opcode::const_ || ir::is_real(v.type.dtype)) return std::nullopt;
  return static_cast<int64_t>(v.op->imm);
}

bool is_same_value(const Value& a, const Value& b) {
  const auto is_const = [](const Value& v) { return v.op && v.op->code == Opcode::const_; };
  return &a == &b || (is_const(a) && is_const(b) && a.type == b.type && a.op->imm == b.op->imm);
}

bool contains(const Block& block, ir::Effect effect) {
  for (const Op* op = block.first; op; op = op->next) {
    if (ir::info(op->code).effect == effect) return true;
    for (const Block* inner : op->blocks) {
      if (contains(*inner, effect)) return true;
    }
  }
  return false;
}

bool has_inner_loop(const Op& loop) {
  bool found = false;
  ir::walk(body_of(loop), [&](const Op& op) { found |= is_loop(op); });
  return found;
}

bool only_computes(const Op& op) {
  if (op.code != Opcode::if_) return ir::is_pure(op.code) || op.code == Opcode::load_;
  return std::all_of(op.blocks.begin(), op.blocks.end(), [](const Block* arm) {
    const Op* at = arm->first;
    while (at != arm->last && only_computes(*at)) at = at->next;
    return at->code == Opcode::yield_;
  });
}

bool writes(const Block& block) { return contains(block, ir::Effect::store) || contains(block, ir::Effect::atomic); }

bool writes(const Op& op) {
  const ir::Effect effect = ir::info(op.code).effect;
  if (effect == ir::Effect::store || effect == ir::Effect::atomic) return true;
  return std::any_of(op.blocks.begin(), op.blocks.end(), [](const Block* b) { return writes(*b); });
}

bool writes_lasting(const Op& op) {
  const ir::Effect effect = ir::info(op.code).effect;
  if (effect == ir::Effect::store || effect == ir::Effect::atomic) return !ir::is_temporary(*op.view());
  return std::any_of(op.blocks.begin(), op.blocks.end(), [](const Block* block) {
    for (const Op* inner = block->first; inner; inner = inner->next) {
      if (writes_lasting(*inner)) return true;
    }
    return false;
  });
}

void add_needed(const Value& v, const Block& block, std::set<const Op*>& needed) {
  if (!v.op || v.op->parent != &block || !needed.insert(v.op).second) return;
  for (const Value* operand : v.op->operands) add_needed(*operand, block, needed);
}

bool is_private(const Value& view, const Op& loop) { return !ir::defined_outside(view, body_of(loop)); }

bool is_inside(const Op& op, const Block& block) {
  for (const Block* at = op.parent; at; at = at->owner ? at->owner->parent : nullptr) {
    if (at == &block) return true;
  }
  return false;
}

bool visible_before(const Value& v, const Op& op) {
  const Block* home = v.op ? v.op->parent : v.block;
  const Op* at = &op;
  while (at && at->parent != home) at = at->parent ? at->parent->owner : nullptr;
  if (!at) return false;
  if (!v.op) return true;
  for (const Op* later = v.op->next; later; later = later->next) {
    if (later == at) return true;
  }
  return false;
}

Op* ancestor_in(const Block& block, Op& op) {
  Op* at = &op;
  while (at && at->parent != &block) at = at->parent ? at->parent->owner : nullptr;
  return at;
}

bool remove_polls(Block& block) {
  bool changed = false;
  ir::walk(block, [&](Op& op) {
    if (op.code != Opcode::poll_) return;
    op.parent->remove(&op);
    changed = true;
  });
  return changed;
}

Value* emit_runs(Builder& b, const Op& loop) {
  Value *lower = loop.operands[0], *upper = loop.operands[1], *step = loop.operands[2];
  if (const auto s = constant(*step))
    return *s > 0 ? b.op(Opcode::lt_, {lower, upper}) : b.op(Opcode::gt_, {lower, upper});
  Value* up = b.op(Opcode::gt_, {step, b.i64(0)});
  return b.select(up, b.op(Opcode::lt_, {lower, upper}), b.op(Opcode::gt_, {lower, upper}));
}

Value* emit_iteration(ir::Builder& b, const Op& for_loop, Value* n) {
  const int64_t step = *constant(*for_loop.operands[2]);
  if (step != 1) n = b.op(Opcode::mul_, {n, b.i64(step)});
  return b.op(Opcode::add_, {for_loop.operands[0], n});
}

Value* emit_distance(Builder& b, Value* low, Value* high) {
  return b.op(Opcode::pymax_, {b.op(Opcode::sub_, {high, low}), b.i64(0)});
}

Value* emit_ceiling(Builder& b, Value* n, Value* by) {
  Value* one = b.i64(1);
  return b.op(Opcode::floordiv_, {b.op(Opcode::sub_, {b.op(Opcode::add_, {n, by}), one}), by});
}

Value* emit_multiple(Builder& b, Value* n, int64_t of) {
  Value* count = emit_ceiling(b, n, b.i64(of));
  return b.op(Opcode::mul_, {count, b.i64(of)});
}

Value* emit_trips(Builder& b, const Op& loop) {
  Value *lower = loop.operands[0], *upper = loop.operands[1], *step = loop.operands[2];
  Value* runs = emit_runs(b, loop);
  Value* span = b.op(Opcode::sub_, {upper, lower});
  const auto s = constant(*step);
  if (s == 1) return b.select(runs, span, b.i64(0));
  // (span - sign) // step + 1 is exact for either sign of the step: span and step have one sign when the loop runs.
  Value* sign = s ? b.i64(*s > 0 ? 1 : -1) : b.select(b.op(Opcode::gt_, {step, b.i64(0)}), b.i64(1), b.i64(-1));
  Value* trips = b.op(Opcode::add_, {b.op(Opcode::floordiv_, {b.op(Opcode::sub_, {span, sign}), step}), b.i64(1)});
  return b.select(runs, trips, b.i64(0));
}

NewCarried append_carried(Op& loop, Value* init, ir::Carried carried, std::string name) {
  loop.operands.push_back(init);
  if (loop.loop) loop.loop->carried.push_back(carried);
  Value* arg = ir::add_arg(body_of(loop), init->type, name);
  Value* result = ir::add_result(loop, init->type);
  return {arg, result};
}

std::string line_of(const ir::Graph& graph, ir::LocId loc) {
  const int line = loc < graph.locs.size() ? graph.locs[loc].line : 0;
  return line > 0 ? "line " + std::to_string(line) : "an unknown line";
}

void remark(ir::Graph& graph, ir::Severity severity, std::string_view stage, ir::LocId loc, std::string text) {
  graph.remarks.push_back({severity, std::string(stage), loc, std::move(text)});
}

std::vector<Op*> for_loops(ir::Graph& graph) {
  std::vector<Op*> loops;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_for(op)) loops.push_back(&op);
  });
  return loops;
}

Op* move_before(Block& from, Op& op) {
  Op* const first = from.first == from.last ? nullptr : from.first;
  while (from.first != from.last) {
    Op* moving = from.first;
    from.remove(moving);
    op.parent->insert_before(&op, moving);
  }
  return first;
}

void move_into(Op& outer, Op& inner) {
  Block &out = body_of(outer), &in = body_of(inner);
  Op* front = in.first;
  for (Op *op = out.first, *next; op != out.last; op = next) {
    next = op->next;
    if (op == &inner) continue;
    out.remove(op);
    in.insert_before(front, op);
  }
}

void swap_roles(Op& outer, Op& inner) {
  std::swap(outer.loc, inner.loc);
  std::swap(outer.loop, inner.loop);
  Value *x = induction(outer), *y = induction(inner);
  ir::walk(body_of(outer), [&](Op& op) {
    for (Value*& operand : op.operands) operand = operand == x ? y : operand == y ? x : operand;
  });
  std::swap(x->name, y->name);
}

bool swap_loops(Op& outer, Op& inner) {
  for (size_t k = 0; k < 3; ++k) {
    if (!visible_before(*inner.operands[k], outer)) return false;
  }
  move_into(outer, inner);
  for (size_t k = 0; k < 3; ++k) std::swap(outer.operands[k], inner.operands[k]);
  swap_roles(outer, inner);
  return true;
}

bool ordered_by_accesses_only(const Op& loop) {
  bool only = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    switch (op.code) {
      case Opcode::check_:
      case Opcode::atomic_:
      case Opcode::alloc_:
      case Opcode::barrier_:
      case Opcode::while_:
      case Opcode::break_:
      case Opcode::continue_:
        only = false;
        break;
      case Opcode::poll_:
        only &= interruptible_anywhere(loop);
        break;
      default:
        break;
    }
  });
  return only;
}

std::optional<bool> settle(ir::Graph& graph, const Value& condition) {
  return ir::settle(graph, condition, graph.given);
}

Op* make_versions(ir::Builder& b, Op& loop, Value* condition) {
  ir::Graph& graph = *loop.parent->graph;
  std::vector<ir::Type> types;
  for (const Value* v : loop.results) types.push_back(v->type);
  Op* choice = b.if_op(condition, types);
  std::vector<Value*> to(graph.value_count());
  for (size_t k = 0; k < types.size(); ++k) {
    Value* result = choice->results.size() > k ? choice->results[k] : ir::add_result(*choice, types[k]);
    result->name = loop.results[k]->name;
    to[loop.results[k]->id] = result;
  }
  ir::replace_uses(graph, to);
  loop.parent->remove(&loop);
  b.set_block(choice->blocks[1]);
  choice->blocks[1]->append(&loop);
  b.yield(loop.results);
  return choice;
}

bool with_versions(ir::Builder& b, Op& loop, Value* condition, const std::function<void(Op& choice)>& fill) {
  const std::optional<bool> known = settle(*loop.graph, *condition);
  if (known == false) return false;
  Op& choice = *make_versions(b, loop, condition);
  fill(choice);
  if (!known) return true;
  Block& taken = *choice.blocks[0];
  std::vector<Value*> to(choice.graph->value_count());
  for (size_t k = 0; k < choice.results.size(); ++k) to[choice.results[k]->id] = taken.last->operands[k];
  ir::replace_uses(*choice.graph, to);
  move_before(taken, choice);
  choice.parent->remove(&choice);
  return true;
}

}  // namespace appy::passes
