// Flags that are set in the first iteration, or in the first one that changes a value: what counts only as long as the
// value is what it was before the loop is computed there. An accumulator that starts as a Python int and goes on as a
// NumPy scalar has such a flag, and checks and conversions of the int.

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/pass.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int kMaxDepth = 8;

/// A number before the loop, converted once: what a value is in the first iteration.
struct First {
  const Value* base = nullptr;
  ir::DType type = ir::DType::i64_;
  friend bool operator==(const First&, const First&) = default;
};

/// Does every number that `v` can be come back from `to` unchanged?
bool comes_back(const Value& v, ir::DType to) {
  const ir::DType from = v.type.dtype;
  if (ir::is_int(from) && ir::is_int(to)) return ir::size_of(from) <= ir::size_of(to);
  if (ir::is_real(from)) return ir::is_real(to) && ir::size_of(from) < ir::size_of(to);
  if (!ir::is_real(to)) return false;
  const int64_t most = int64_t{1} << (to == ir::DType::f64_   ? 53
                                      : to == ir::DType::f32_ ? 24
                                      : to == ir::DType::f16_ ? 11
                                                              : 8);
  if (const auto n = constant(v)) return *n >= -most && *n <= most;
  const bool parameter = !v.op && v.block && !v.block->owner && from == ir::DType::i64_;
  return parameter && v.range.lo >= -most && v.range.hi <= most;
}

class FirstIteration {
 public:
  FirstIteration(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), exits_(exits_of(loop)) {}

  bool run() {
    if (exits_.next.empty()) return false;
    bool changed = false;
    for (size_t k = 0; k < carried_count(loop_); ++k) {
      const auto first = arg(k)->type.dtype == ir::DType::bool_ ? constant(*init(k)) : std::nullopt;
      if (first && find_settled(k, *first != 0)) changed |= simplify_uses(k, *first != 0);
    }
    return changed;
  }

 private:
  Value* arg(size_t k) { return body_of(loop_).args[first_carried(loop_) + k]; }
  Value* init(size_t k) { return loop_.operands[first_init(loop_) + k]; }

  /// Which carried values are what they were before the loop as long as flag k is what it was. False where there is
  /// none.
  bool find_settled(size_t k, bool first) {
    settled_.assign(carried_count(loop_), true);
    const auto changes_at = [&](const Op* exit) { return constant(*exit->operands[k]) == int64_t{!first}; };
    if (std::all_of(exits_.next.begin(), exits_.next.end(), changes_at)) return true;
    bool any = false;
    flag_ = arg(k);
    for (size_t a = 0; a < settled_.size(); ++a) {
      value_ = arg(a);
      settled_[a] = a != k && !first && std::all_of(exits_.next.begin(), exits_.next.end(), [&](const Op* exit) {
                      return keeps(*exit->operands[k], *exit->operands[a]);
                    });
      any |= settled_[a];
    }
    return any;
  }

  /// If the next flag is false, so is this one, and the next value is this one.
  bool keeps(const Value& flag, const Value& value) {
    if (constant(flag) == int64_t{1}) return true;
    if (flag.op && flag.op->code == Opcode::if_ && value.op == flag.op) {
      for (const ir::Block* arm : flag.op->blocks) {
        const Op& end = *arm->last;
        if (end.code == Opcode::yield_ && !keeps(*end.operands[flag.index], *end.operands[value.index])) return false;
      }
      return true;
    }
    std::vector<const Value*> no = {&flag};  // what is false then
    for (size_t i = 0; i < no.size(); ++i) {
      const Op* op = no[i]->op;
      if (!op) continue;
      if (op->code == Opcode::or_) no.insert(no.end(), {op->operands[0], op->operands[1]});
      if (op->code == Opcode::select_ && constant(*op->operands[1]) == int64_t{1}) {
        no.insert(no.end(), {op->operands[0], op->operands[2]});
      }
    }
    return std::find(no.begin(), no.end(), flag_) != no.end() && stays(value, no);
  }

  bool stays(const Value& value, const std::vector<const Value*>& no) {
    if (&value == value_) return true;
    const auto is_false = [&](const Value* v) { return std::find(no.begin(), no.end(), v) != no.end(); };
    if (value.op && value.op->code == Opcode::select_) {
      const auto& operands = value.op->operands;
      return (is_false(operands[0]) || stays(*operands[1], no)) && stays(*operands[2], no);
    }
    if (value.op && value.op->code == Opcode::if_) {
      const Op &yes = *value.op->blocks[0]->last, &other = *value.op->blocks[1]->last;
      const auto arm_stays = [&](const Op& end) {
        return end.code != Opcode::yield_ || stays(*end.operands[value.index], no);
      };
      return (is_false(value.op->operands[0]) || arm_stays(yes)) && arm_stays(other);
    }
    const auto now = first_of(value, value_), before = first_of(*value_, value_);
    return now && now == before;
  }

  /// What `v` is where carried value `only`, or any settled one, is what it was before the loop.
  std::optional<First> first_of(const Value& v, const Value* only) {
    if (!v.op && v.block == &body_of(loop_) && v.index >= first_carried(loop_)) {
      const size_t a = v.index - first_carried(loop_);
      if (only ? &v != only : !settled_[a]) return {};
      const Value& before = *init(a);
      const bool converted = before.op && before.op->code == Opcode::cast_;
      return First{converted ? before.op->operands[0] : &before, v.type.dtype};
    }
    if (visible_before(v, loop_)) return First{&v, v.type.dtype};
    if (!v.op || v.op->code != Opcode::cast_) return {};
    const auto from = first_of(*v.op->operands[0], only);
    if (!from) return {};
    const ir::DType base = from->base->type.dtype;
    if (from->type == base || (v.type.dtype == base && comes_back(*from->base, from->type))) {
      return First{from->base, v.type.dtype};
    }
    return {};
  }

  bool simplify_uses(size_t k, bool first) {
    bool changed = false;
    const Uses uses(graph_);
    for (const Use& use : uses.of(*arg(k))) {
      Op& op = *use.op;
      // The operand that counts in the first iteration only.
      size_t operand = 1 - use.operand;
      if (op.code == Opcode::select_ && use.operand == 0) {
        operand = first ? 1 : 2;
      } else if (op.code != (first ? Opcode::and_ : Opcode::or_)) {
        continue;
      }
      Value* then = op.operands[operand] == arg(k) ? arg(k) : before_change(op.operands[operand], 0);
      changed |= then != op.operands[operand];
      op.operands[operand] = then;
    }
    return changed;
  }

  /// What `v` is where the settled values are what they were before the loop: itself where nothing better is known.
  Value* before_change(Value* v, int depth) {
    if ((!v->op && v->block == &body_of(loop_)) || visible_before(*v, loop_)) return v;
    const auto now = first_of(*v, nullptr);
    for (size_t a = 0; a < settled_.size(); ++a) {
      if (settled_[a] && v->type == arg(a)->type && now && now == first_of(*arg(a), nullptr)) return arg(a);
    }
    // Numbers stay what they are made of in the other iterations, so that both ways can still be seen to be one.
    if (v->type.dtype == ir::DType::bool_ && changes(*v, 0)) return at_first(v);
    const ir::OpInfo* info = v->op ? &ir::info(v->op->code) : nullptr;
    if (!info || info->effect != ir::Effect::pure || info->rule == ir::Rule::given || depth == kMaxDepth) return v;
    std::vector<Value*> operands;
    for (Value* operand : v->op->operands) operands.push_back(before_change(operand, depth + 1));
    if (operands == v->op->operands) return v;
    Builder b(graph_);
    b.set_loc(v->op->loc);
    b.set_before(v->op);
    return b.op(v->op->code, operands);
  }

  /// Is it made of settled values, and of what is known before the loop?
  bool changes(const Value& v, int depth) {
    if (visible_before(v, loop_)) return false;
    if (!v.op) {
      return v.block == &body_of(loop_) && v.index >= first_carried(loop_) && settled_[v.index - first_carried(loop_)];
    }
    const ir::OpInfo& info = ir::info(v.op->code);
    const bool plain = info.rule != ir::Rule::given && info.rule != ir::Rule::none;
    if (info.effect != ir::Effect::pure || (!plain && v.op->code != Opcode::cast_) || depth == kMaxDepth) return false;
    for (const Value* operand : v.op->operands) {
      const bool constant_inside = operand->op && operand->op->code == Opcode::const_;
      if (!visible_before(*operand, loop_) && !constant_inside && !changes(*operand, depth + 1)) return false;
    }
    return !v.op->operands.empty();
  }

  /// Its value in the first iteration, before the loop.
  Value* at_first(Value* v) {
    if (visible_before(*v, loop_)) return v;
    if (!v->op) return init(v->index - first_carried(loop_));
    if (auto known = made_.find(v); known != made_.end()) return known->second;
    Builder b(graph_);
    b.set_loc(v->op->loc);
    if (v->op->code == Opcode::const_) {
      b.set_before(&loop_);
      return made_[v] = b.constant(v->type.dtype, v->op->imm);
    }
    std::vector<Value*> operands;
    for (Value* operand : v->op->operands) operands.push_back(at_first(operand));
    b.set_before(&loop_);
    // What was only carried in another type.
    if (v->op->code == Opcode::cast_) {
      const Op* from = operands[0]->op;
      const bool back = from && from->code == Opcode::cast_ && from->operands[0]->type == v->type;
      const bool same = back && comes_back(*from->operands[0], operands[0]->type.dtype);
      return made_[v] = same ? from->operands[0] : b.cast(operands[0], v->type.dtype);
    }
    return made_[v] = b.op(v->op->code, operands);
  }

  ir::Graph& graph_;
  Op& loop_;
  Exits exits_;
  std::vector<bool> settled_;    // by carried index, for the flag at hand
  const Value* flag_ = nullptr;  // the flag and the value that find_settled() looks at
  const Value* value_ = nullptr;
  std::unordered_map<const Value*, Value*> made_;
};

}  // namespace

bool first_iteration(ir::Graph& graph) {
  std::vector<Op*> loops;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_loop(op)) loops.push_back(&op);
  });
  bool changed = false;
  for (Op* loop : loops) changed |= FirstIteration(graph, *loop).run();
  return changed;
}

}  // namespace appy::passes
