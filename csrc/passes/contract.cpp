// Contraction: a product that only sums use, one or several, becomes a fused multiply-add in each, where a pragma
// speaks of a loop around it: several take as many operations as they have sums, and the product none.

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/eval.h"
#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_annotated(const Op& op) {
  for (const Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (is_for(*loop) && loop->loop->annotated) return true;
  }
  return false;
}

bool is_sum(const Op& op) {
  return (op.code == Opcode::add_ || op.code == Opcode::sub_) && ir::is_real(op.result()->type.dtype) &&
         is_annotated(op);
}

/// The product that defines v, computed as often as `sum`.
const Op* product(const Value& v, const Op& sum) {
  const Op* mul = v.op;
  if (!mul || mul->code != Opcode::mul_) return nullptr;
  return ir::enclosing_loop(*mul->parent) == ir::enclosing_loop(*sum.parent) ? mul : nullptr;
}

/// Do nothing but sums use the product, each of which has no other one that it could take?
bool all_can_take(const Uses& uses, const Op& mul) {
  const auto takes = [&](const Use& use) {
    const Op& sum = *use.op;
    return is_sum(sum) && product(*mul.result(), sum) && !product(*sum.operands[1 - use.operand], sum);
  };
  const auto users = uses.of(*mul.result());
  return std::all_of(users.begin(), users.end(), takes);
}

/// The operand that the sum takes as a product, or -1: nobody else may be left to need it.
int product_of(const Uses& uses, const Op& sum) {
  for (const bool alone : {true, false}) {
    for (const int k : {0, 1}) {
      const Op* mul = product(*sum.operands[static_cast<size_t>(k)], sum);
      if (mul && (alone ? uses.of(*mul->result()).size() == 1 : all_can_take(uses, *mul))) return k;
    }
  }
  return -1;
}

Value* negated(Builder& b, Value* v) {
  if (!constant_op(*v)) return b.op(Opcode::neg_, {v});
  const DType t = v->type.dtype;
  const ir::Word word[] = {static_cast<ir::Word>(v->op->imm)};
  return b.constant(t, ir::evaluate_op(Opcode::neg_, t, t, word));
}

}  // namespace

bool contract(ir::Graph& graph) {
  if (graph.exact) return false;
  const Uses uses(graph);
  std::vector<Value*> to(graph.value_count());
  std::vector<std::pair<Op*, int>> sums;
  ir::walk(*graph.body, [&](Op& op) {
    if (!is_sum(op)) return;
    if (const int k = product_of(uses, op); k >= 0) sums.emplace_back(&op, k);
  });
  std::set<Op*> products;
  Builder b(graph);
  for (const auto& [op, k] : sums) {
    Op* mul = op->operands[static_cast<size_t>(k)]->op;
    products.insert(mul);
    b.set_before(op);
    b.set_loc(op->loc);
    Value *x = mul->operands[0], *y = mul->operands[1], *addend = op->operands[static_cast<size_t>(1 - k)];
    if (op->code == Opcode::sub_) {
      if (k == 0) {
        addend = negated(b, addend);
      } else {
        Value*& factor = constant_op(*y) && !constant_op(*x) ? y : x;
        factor = negated(b, factor);
      }
    }
    Value* fused = b.op(Opcode::fma_, {x, y, addend});
    fused->name = op->result()->name;
    to[op->result()->id] = fused;
    op->parent->remove(op);
  }
  for (Op* mul : products) mul->parent->remove(mul);
  if (!sums.empty()) ir::replace_uses(graph, to);
  return !sums.empty();
}

}  // namespace appy::passes
