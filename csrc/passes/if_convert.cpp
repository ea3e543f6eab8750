// If-conversion of innermost loops. In simd loops a conditional whose arms compute little and load only what is there
// becomes selects. `if lo <= x[i] and x[i] < hi: s += y[i]` adds y[i] or nothing, under one condition; in lanes a
// branch is skipped only where all of them agree. In other loops one becomes selects whose arms are a few operations on
// ints, as in a binary search: a branch that is mispredicted takes as long as twenty of them.

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// A condition without negations in front; whether it is the opposite.
struct Condition {
  Value* value;
  bool negated = false;
};

Condition plain(Value* v) {
  Condition c{v};
  while (c.value->op && c.value->op->code == Opcode::not_) {
    c.value = c.value->op->operands[0];
    c.negated = !c.negated;
  }
  return c;
}

class IfConvert {
 public:
  explicit IfConvert(ir::Graph& graph) : graph_(graph), builder_(graph) {}

  bool run() {
    std::vector<Op*> loops;
    ir::walk(*graph_.body, [&](Op& op) {
      if (is_loop(op) && !has_inner_loop(op)) loops.push_back(&op);
    });
    for (Op* loop : loops) {
      lanes_ = is_for(*loop) && loop->loop->simd;
      if (!lanes_ && in_lanes(*loop)) continue;
      Block& body = body_of(*loop);
      loads_ = 0;
      for (const Op* op = body.first; lanes_ && op; op = op->next) loads_ += op->code == Opcode::load_;
      block(body);
    }
    return changed_;
  }

 private:
  static constexpr int kFew = 4;  // operations in vain of scalar code

  void block(Block& block) {
    for (Op *op = block.first, *next = nullptr; op; op = next) {
      next = op->next;
      Work work;
      if (op->code == Opcode::if_ && measure(*op, *op, work) && work.ops <= (lanes_ ? kSpeculated : kFew) &&
          work.loads <= loads_) {
        convert(*op);
      } else {
        for (Block* arm : op->blocks) this->block(*arm);
      }
    }
  }

  struct Work {
    int ops = 0, loads = 0;
  };

  /// What the arms do, and those of conditionals in them; false where it cannot be done in vain. Loads that are made in
  /// vain cost bandwidth: not more of them than each iteration makes anyway.
  bool measure(const Op& branch, const Op& outermost, Work& work) {
    if (branch.results.empty()) return false;
    if (!lanes_ && std::ranges::any_of(branch.results, [](const Value* v) { return ir::is_real(v->type.dtype); })) {
      return false;
    }
    for (const Block* arm : branch.blocks) {
      if (arm->last->code != Opcode::yield_) return false;
      for (const Op* op = arm->first; op != arm->last; op = op->next) {
        if (op->code == Opcode::if_) {
          if (!measure(*op, outermost, work)) return false;
        } else if (op->code == Opcode::load_) {
          if (!ranges().in_bounds(*op, outermost)) return false;
          ++work.loads;
        } else if (ir::is_pure(op->code) && is_cheap(*op) && (lanes_ || is_quick(*op))) {
          ++work.ops;
        } else {
          return false;
        }
      }
    }
    return true;
  }

  /// One or two cycles, on ints.
  static bool is_quick(const Op& op) {
    return op.code == Opcode::const_ ||
           (op.code != Opcode::mul_ &&
            std::ranges::none_of(op.operands, [](const Value* v) { return ir::is_real(v->type.dtype); }));
  }

  /// Knows nothing of conditionals that are gone.
  Ranges& ranges() {
    if (!ranges_) ranges_.emplace(graph_);
    return *ranges_;
  }

  void convert(Op& branch) {
    for (Block* arm : branch.blocks) {
      for (Op *op = arm->first, *next = nullptr; op != arm->last; op = next) {
        next = op->next;
        if (op->code == Opcode::if_) convert(*op);
      }
      move_before(*arm, branch);
    }
    builder_.set_before(&branch);
    builder_.set_loc(branch.loc);
    const Condition condition = plain(branch.operands[0]);
    for (size_t k = 0; k < branch.results.size(); ++k) {
      Value *yes = branch.blocks[0]->last->operands[k], *no = branch.blocks[1]->last->operands[k];
      if (condition.negated) std::swap(yes, no);
      ir::replace_uses(graph_, branch.results[k], chosen(condition.value, yes, no));
    }
    branch.parent->remove(&branch);
    ranges_.reset();
    changed_ = true;
  }

  Value* chosen(Value* condition, Value* yes, Value* no) {
    if (yes == no) return yes;
    if (Value* sum = added(condition, *yes, no, true)) return sum;
    if (Value* sum = added(condition, *no, yes, false)) return sum;
    return select(condition, yes, no);
  }

  /// s + x where the condition `holds`, else s: s and x, or what adds nothing.
  Value* added(Value* condition, const Value& sum, Value* s, bool holds) {
    const bool number = ir::is_int(s->type.dtype) || ir::is_real(s->type.dtype);
    if (!sum.op || sum.op->code != Opcode::add_ || !number) return nullptr;
    const auto& terms = sum.op->operands;
    if (terms[0] != s && terms[1] != s) return nullptr;
    Value *x = terms[terms[0] == s ? 1 : 0], *nothing = builder_.constant(s->type.dtype, zero(s->type.dtype));
    Value* when = holds ? condition : builder_.op(Opcode::not_, {condition});
    return builder_.op(Opcode::add_, {s, select(when, x, nothing)});
  }

  /// -0: with +0 a sum of -0 would lose its sign.
  static ir::Word zero(DType t) { return ir::is_real(t) ? ir::Word{1} << (8 * ir::size_of(t) - 1) : 0; }

  /// select(c, select(d, x, y), y) is one select of the conjunction, select(c, x, select(d, x, y)) of the disjunction.
  Value* select(Value* condition, Value* yes, Value* no) {
    if (const auto inner = apart(*yes, *no)) {
      Value* both = builder_.op(Opcode::and_, {condition, inner->differs});
      return builder_.select(both, inner->other, no);
    }
    if (const auto inner = apart(*no, *yes)) {
      Value* either = builder_.op(Opcode::or_, {condition, negation(inner->differs)});
      return builder_.select(either, yes, inner->other);
    }
    return builder_.select(condition, yes, no);
  }

  /// A select of `value` and another one: when it is the other.
  struct Apart {
    Value* differs;
    Value* other;
  };

  std::optional<Apart> apart(const Value& chosen, const Value& value) {
    if (!chosen.op || chosen.op->code != Opcode::select_) return std::nullopt;
    const auto& [condition, yes, no] = std::tie(chosen.op->operands[0], chosen.op->operands[1], chosen.op->operands[2]);
    if (is_same_value(*no, value)) return Apart{condition, yes};
    if (is_same_value(*yes, value)) return Apart{negation(condition), no};
    return std::nullopt;
  }

  Value* negation(Value* condition) {
    const Condition c = plain(condition);
    return c.negated ? c.value : builder_.op(Opcode::not_, {c.value});
  }

  ir::Graph& graph_;
  Builder builder_;
  std::optional<Ranges> ranges_;
  bool lanes_ = false;  // is the loop simd, or one around it?
  int loads_ = 0;       // of an iteration of the loop, whatever holds, in lanes
  bool changed_ = false;
};

}  // namespace

bool if_convert(ir::Graph& graph) { return IfConvert(graph).run(); }

}  // namespace appy::passes
