// Flags that say whether a loop is in its first iteration: what counts only there is computed before the loop. An
// accumulator that starts as a Python int and goes on as a NumPy scalar has such a flag, and a check of the int.

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

class FirstIteration {
 public:
  FirstIteration(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), exits_(exits_of(loop)) {}

  bool run() {
    if (exits_.next.empty()) return false;
    bool changed = false;
    for (size_t k = 0; k < carried_count(loop_); ++k) {
      if (const auto first = first_value(k)) changed |= simplify_uses(k, *first);
    }
    return changed;
  }

 private:
  Value* arg(size_t k) { return body_of(loop_).args[first_carried(loop_) + k]; }
  Value* init(size_t k) { return loop_.operands[first_init(loop_) + k]; }

  /// What the flag is in the first iteration and in no other.
  std::optional<bool> first_value(size_t k) {
    if (arg(k)->type.dtype != ir::DType::bool_) return {};
    const auto first = constant(*init(k));
    if (!first) return {};
    for (const Op* exit : exits_.next) {
      if (constant(*exit->operands[k]) != int64_t{!*first}) return {};
    }
    return *first != 0;
  }

  bool simplify_uses(size_t k, bool first) {
    bool changed = false;
    const Uses uses(graph_);
    for (const Use& use : uses.of(*arg(k))) {
      Op& op = *use.op;
      // The operand that counts in the first iteration only.
      size_t other = 0;
      if (op.code == (first ? Opcode::and_ : Opcode::or_)) {
        other = 1 - use.operand;
      } else if (op.code == Opcode::select_ && use.operand == 0) {
        other = first ? 1 : 2;
      } else {
        continue;
      }
      if (op.operands[other] == arg(k) || !changes(*op.operands[other], 0)) continue;
      op.operands[other] = at_first(op.operands[other]);
      changed = true;
    }
    return changed;
  }

  /// Is it made of carried values, and of what is known before the loop?
  bool changes(const Value& v, int depth) {
    if (visible_before(v, loop_)) return false;
    if (!v.op) return v.block == &body_of(loop_) && v.index >= first_carried(loop_);
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
    // Bits that were only carried in another type.
    if (v->op->code == Opcode::cast_) {
      Value* from = operands[0];
      const bool back = from->op && from->op->code == Opcode::cast_ && from->op->operands[0]->type == v->type;
      const bool bits = ir::is_int(v->type.dtype) && ir::is_int(from->type.dtype) &&
                        ir::size_of(v->type.dtype) == ir::size_of(from->type.dtype);
      return made_[v] = back && bits ? from->op->operands[0] : b.cast(from, v->type.dtype);
    }
    return made_[v] = b.op(v->op->code, operands);
  }

  ir::Graph& graph_;
  Op& loop_;
  Exits exits_;
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
