// `s += a * b + c * d` adds one product after the other, each fused with its addition, where a sum may be added up in
// any order: two operations instead of three. A sum waits for itself twice then, so there have to be others to go on
// with: those of loops that were jammed.

#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Two additions wait for each other as long as it takes to begin as many for eight sums.
constexpr size_t kLeastSums = 8;

class InTurn {
 public:
  explicit InTurn(ir::Graph& graph) : graph_(graph), uses_(graph), to_(graph.value_count()) {}

  bool run() {
    if (graph_.exact) return false;
    std::vector<Op*> loops = for_loops(graph_);
    bool changed = false;
    for (Op* loop : loops) {
      if (!loop->loop->simd || loop->results.size() < kLeastSums || !left_by_yield_only(*loop)) continue;
      for (size_t k = 0; k < loop->results.size(); ++k) changed |= chain(*loop, k);
    }
    if (changed) ir::replace_uses(graph_, to_);
    return changed;
  }

 private:
  /// The op that computes the value, if nothing else uses that.
  Op* only(const Value& v, Opcode code, const ir::Block& body) const {
    return v.op && v.op->code == code && v.op->parent == &body && uses_.of(v).size() == 1 ? v.op : nullptr;
  }

  bool chain(Op& loop, size_t k) {
    const ir::Block& body = body_of(loop);
    Value* sum = body.args[first_carried(loop) + k];
    const Value& next = *body.last->operands[k];
    if (loop.loop->carried[k].combiner != ir::Combiner::sum_ || !ir::is_real(next.type.dtype)) return false;
    Op* add = only(next, Opcode::add_, body);
    if (!add || (add->operands[0] != sum) == (add->operands[1] != sum)) return false;
    Op* fused = only(*add->operands[add->operands[0] == sum ? 1 : 0], Opcode::fma_, body);
    Op* product = fused ? only(*fused->operands[2], Opcode::mul_, body) : nullptr;
    if (!product) return false;
    Builder b(graph_);
    b.set_loc(add->loc);
    b.set_before(add);
    Value* first = b.op(Opcode::fma_, {product->operands[0], product->operands[1], sum});
    Value* both = b.op(Opcode::fma_, {fused->operands[0], fused->operands[1], first});
    both->name = next.name;
    to_[next.id] = both;
    for (Op* op : {add, fused, product}) op->parent->remove(op);
    return true;
  }

  ir::Graph& graph_;
  const Uses uses_;
  std::vector<Value*> to_;
};

}  // namespace

bool products_in_turn(ir::Graph& graph) { return InTurn(graph).run(); }

}  // namespace appy::passes
