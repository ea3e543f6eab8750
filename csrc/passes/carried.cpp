#include "passes/carried.h"

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
bool widens(DType narrow, DType wide) {
  if (wide == DType::f64_) return narrow == DType::f32_;
  return wide == DType::i64_ && ir::is_int(narrow) && ir::size_of(narrow) < 8;
}

class Carrier {
 public:
  Carrier(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), exits_(exits_of(loop)) {}

  bool run(bool (Carrier::*step)(size_t)) {
    if (!exits_.breaks.empty()) return false;
    bool changed = false;
    const size_t count = carried_count(loop_);
    for (size_t k = 0; k < count; ++k) {
      const ir::Combiner combiner = loop_.loop->carried[k].combiner;
      const bool plain = combiner == ir::Combiner::recur_ || combiner == ir::Combiner::last_;
      if (plain) changed |= (this->*step)(k);
    }
    return changed;
  }

  bool close(size_t k) {
    Value* next = exits_.next[0]->operands[k];
    for (const Op* exit : exits_.next) {
      if (exit->operands[k] != next) return false;
    }
    const bool variable = next == induction(loop_) && constant(*loop_.operands[2]) == 1;
    if (!variable && !visible_before(*next, loop_)) return false;
    const Uses uses(graph_);
    if (uses.of(*loop_.results[k]).empty() || !uses.of(*arg(k)).empty()) return false;
    Builder b = builder(loop_.next);
    leave(k, variable ? b.op(Opcode::sub_, {loop_.operands[1], b.i64(1)}) : next, b);
    return true;
  }

  bool narrow(size_t k) {
    if (exits_.next.size() != 1) return false;
    Op* next = exits_.next[0]->operands[k]->op;
    if (!next || next->code != Opcode::cast_) return false;
    Value* made = next->operands[0];
    const DType type = made->type.dtype;
    if (!widens(type, arg(k)->type.dtype)) return false;
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
