// `s += a * b + c * d` adds one product after the other, each fused with its addition, where a sum may be added up in
// any order: two operations instead of three. A sum waits for itself twice then, so there have to be others to go on
// with: those of loops that were jammed. All sums add their first product before any adds its second one, so that what
// several of them need of one product stays in registers for no longer than that.

#include "passes/products_in_turn.h"

#include <set>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// The op that computes the value, if nothing else uses that.
Op* only(const Uses& uses, const Value& v, Opcode code, const ir::Block& body) {
  return v.op && v.op->code == code && v.op->parent == &body && uses.of(v).size() == 1 ? v.op : nullptr;
}

class InTurn {
 public:
  explicit InTurn(ir::Graph& graph) : graph_(graph), uses_(graph), to_(graph.value_count()) {}

  bool run() {
    bool changed = false;
    for (Op* loop : for_loops(graph_)) {
      if (!takes_turns(*loop, static_cast<int64_t>(loop->results.size()))) continue;
      firsts_.clear();
      for (size_t k = 0; k < loop->results.size(); ++k) {
        if (const auto products = products_of(uses_, *loop, k)) chain(*loop, k, *products);
      }
      if (firsts_.empty()) continue;
      one_after_the_other(body_of(*loop));
      changed = true;
    }
    if (changed) ir::replace_uses(graph_, to_);
    return changed;
  }

 private:
  void chain(const Op& loop, size_t k, const Products& products) {
    Builder b(graph_);
    b.set_loc(products.add->loc);
    b.set_before(products.add);
    Value* sum = body_of(loop).args[first_carried(loop) + k];
    const Op &mul = *products.first, &fma = *products.second;
    Value* first = b.op(Opcode::fma_, {mul.operands[0], mul.operands[1], sum});
    Value* both = b.op(Opcode::fma_, {fma.operands[0], fma.operands[1], first});
    both->name = products.add->result()->name;
    to_[products.add->result()->id] = both;
    for (Op* op : {products.add, products.second, products.first}) op->parent->remove(op);
    firsts_.push_back(first);
  }

  void one_after_the_other(ir::Block& body) {
    for (const Op* op = body.first; op; op = op->next) {
      const bool plain = ir::is_pure(op->code) || op->code == Opcode::load_ || op->code == Opcode::poll_;
      if (!plain && op != body.last) return;
    }
    std::set<const Op*> early;
    for (const Value* first : firsts_) add_needed(*first, body, early);
    std::vector<Op*> late;
    for (Op* op = body.first; op != body.last; op = op->next) {
      if (!early.count(op)) late.push_back(op);
    }
    for (Op* op : late) {
      body.remove(op);
      body.insert_before(body.last, op);
    }
  }

  ir::Graph& graph_;
  const Uses uses_;
  std::vector<Value*> to_;
  std::vector<const Value*> firsts_;  // of one loop
};

}  // namespace

bool takes_turns(const Op& loop, int64_t sums) {
  // Two additions wait for each other as long as it takes to begin as many for eight sums.
  constexpr int64_t kLeastSums = 8;
  const int64_t vectors = in_lanes(loop) ? 2 : 1;
  return has_permission(loop) && sums * vectors >= kLeastSums && !loop.graph->exact && left_by_yield_only(loop);
}

std::optional<Products> products_of(const Uses& uses, const Op& loop, size_t k) {
  const ir::Block& body = body_of(loop);
  const Value* sum = body.args[first_carried(loop) + k];
  const Value& next = *body.last->operands[k];
  if (loop.loop->carried[k].combiner != ir::Combiner::sum_ || !ir::is_real(next.type.dtype)) return {};
  Op* add = only(uses, next, Opcode::add_, body);
  if (!add || (add->operands[0] == sum) == (add->operands[1] == sum)) return {};
  Op* second = only(uses, *add->operands[add->operands[0] == sum ? 1 : 0], Opcode::fma_, body);
  Op* first = second ? only(uses, *second->operands[2], Opcode::mul_, body) : nullptr;
  if (!first) return {};
  return Products{add, first, second};
}

bool products_in_turn(ir::Graph& graph) { return InTurn(graph).run(); }

}  // namespace appy::passes
