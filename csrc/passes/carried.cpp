#include "passes/carried.h"

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Every value of `narrow` is one of `wide`, and comes back from there unchanged.
bool comes_back(DType narrow, DType wide) {
  if (ir::is_real(wide)) return ir::is_real(narrow) && ir::size_of(narrow) < ir::size_of(wide);
  return wide == DType::i64_ && ir::is_int(narrow) && ir::size_of(narrow) < 8;
}

class Carrier {
 public:
  Carrier(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), exits_(exits_of(loop)) {}

  bool run(bool (Carrier::*step)(size_t)) {
    if (!exits_.breaks.empty()) return false;
    bool changed = false;
    const size_t count = carried_count(loop_);
    for (size_t k = 0; k < count; ++k) changed |= (this->*step)(k);
    return changed;
  }

  bool close(size_t k) {
    if (decides(k)) return false;
    Value* next = exits_.next[0]->operands[k];
    for (const Op* exit : exits_.next) {
      if (exit->operands[k] != next) return false;
    }
    const bool variable = next == induction(loop_) && constant(*loop_.operands[2]) == 1;
    const bool fixed = variable || is_fixed(*next);
    if (!fixed && !settles(*next, *arg(k))) return false;
    if (count_uses(body_of(loop_), *arg(k)) != (fixed ? 0 : 1)) return false;
    if (count_uses(*loop_.parent, *loop_.results[k]) == 0) return false;
    Builder b = builder(loop_.next);
    if (fixed) {
      leave(k, variable ? b.op(Opcode::sub_, {loop_.operands[1], b.i64(1)}) : outside(*next, b), b);
    } else {
      leave(k, settled(*next, k, b), b);
    }
    forget(k);
    return true;
  }

  bool narrow(size_t k) {
    const ir::Combiner combiner = loop_.loop->carried[k].combiner;
    if (combiner != ir::Combiner::recur_ && combiner != ir::Combiner::last_) return false;
    if (exits_.next.size() != 1) return false;
    Op* next = exits_.next[0]->operands[k]->op;
    if (!next || next->code != Opcode::cast_) return false;
    Value* made = next->operands[0];
    const DType type = made->type.dtype;
    if (!comes_back(type, arg(k)->type.dtype)) return false;
    const Uses uses(graph_);
    if (uses.of(*loop_.results[k]).empty() || uses.of(*next->result()).size() != 1) return false;
    // The state of a check or poll would need the wide value.
    const auto found = uses.of(*arg(k));
    for (const Use& use : found) {
      if (use.op->code != Opcode::cast_ || use.op->result()->type.dtype != type) return false;
    }
    if (found.empty()) return false;
    Builder b = builder(&loop_);
    const NewCarried narrowed = append_carried(loop_, b.cast(init(k), type), {}, arg(k)->name);
    exits_.next[0]->operands.push_back(made);
    for (const Use& use : found) {
      ir::replace_uses(graph_, use.op->result(), narrowed.arg);
      use.op->parent->remove(use.op);
    }
    Builder after = builder(loop_.next);
    leave(k, after.cast(narrowed.result, arg(k)->type.dtype), after);
    exits_.next[0]->operands[k] = init(k);
    next->parent->remove(next);
    return true;
  }

 private:
  Value* arg(size_t k) { return body_of(loop_).args[1 + k]; }
  Value* init(size_t k) { return loop_.operands[3 + k]; }

  /// Do others move with it where partial results are combined?
  bool decides(size_t k) const {
    const auto at = static_cast<int>(k);
    return std::ranges::any_of(loop_.loop->carried,
                               [&](const ir::Carried& c) { return c.leader == at || c.tie == at; });
  }

  /// Nobody reads the carried value any more: its init is no use of what it was, for the loops around to see.
  void forget(size_t k) {
    Builder b = builder(&loop_);
    loop_.operands[3 + k] = b.constant(arg(k)->type.dtype, 0);
  }

  /// The first iteration makes `next` of the carried value, and the others change nothing: it is what does not vary, or
  /// stays, as conditions say that do not vary, several of them in turn, too.
  bool settles(const Value& next, const Value& arg) const {
    if (!next.op) return false;
    const Op& op = *next.op;
    if (op.code != Opcode::select_ && op.code != Opcode::or_ && op.code != Opcode::and_) return false;
    size_t own = 0;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value& v = *op.operands[i];
      if (is_fixed(v)) continue;
      if (op.code == Opcode::select_ && i == 0) return false;
      if (&v != &arg && !settles(v, arg)) return false;
      ++own;
    }
    return own == 1;
  }

  /// What the first iteration makes of the init, computed after the loop.
  Value* settled(const Value& next, size_t k, Builder& b) {
    std::vector<Value*> operands;
    for (Value* v : next.op->operands) {
      operands.push_back(v == arg(k) ? init(k) : is_fixed(*v) ? outside(*v, b) : settled(*v, k, b));
    }
    return b.op(next.op->code, operands);
  }

  /// The value can be computed after the loop.
  bool is_fixed(const Value& v, int depth = 4) const {
    if (visible_before(v, loop_)) return true;
    if (!v.op || depth == 0 || !ir::is_pure(v.op->code)) return false;
    const Opcode code = v.op->code;
    if (code == Opcode::cast_ || code == Opcode::bitcast_ || code == Opcode::dim_) return false;
    for (const Value* operand : v.op->operands) {
      if (!is_fixed(*operand, depth - 1)) return false;
    }
    return true;
  }

  Value* outside(Value& v, Builder& b) {
    if (visible_before(v, loop_)) return &v;
    if (v.op->code == Opcode::const_) return b.constant(v.type.dtype, v.op->imm);
    std::vector<Value*> operands;
    for (Value* operand : v.op->operands) operands.push_back(outside(*operand, b));
    return b.op(v.op->code, operands);
  }

  Builder builder(Op* before) {
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(before);
    return b;
  }

  /// The result is `value` where the loop runs, and the init where it does not.
  void leave(size_t k, Value* value, Builder& b) {
    Value* result = loop_.results[k];
    Value* after = value == init(k) ? value : b.select(emit_runs(b, loop_), value, init(k));
    ir::replace_uses(graph_, result, after);
  }

  ir::Graph& graph_;
  Op& loop_;
  Exits exits_;
};

}  // namespace

bool narrow_carried(ir::Graph& graph, Op& loop) { return Carrier(graph, loop).run(&Carrier::narrow); }

bool close_carried(ir::Graph& graph, Op& loop) { return Carrier(graph, loop).run(&Carrier::close); }

}  // namespace appy::passes
