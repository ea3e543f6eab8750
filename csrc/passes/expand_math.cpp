// Elementary functions in loops whose iterations run in lanes become branch-free arithmetic, which the backend
// vectorizes like any other and which shares subexpressions with its surroundings. The results differ from the
// correctly rounded ones by less than 3 ulp (docs/accuracy.md); a pragma must therefore speak of the loop. What the
// formulas do not cover (sines of large numbers) is left to the op itself, in the arm of an `if` that is rarely taken.
#include <cmath>
#include <vector>

#include "passes/loops.h"
#include "passes/math_builder.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool in_annotated_simd(const Op& op) {
  for (const Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (is_for(*loop) && loop->loop->simd && loop->loop->annotated) return true;
  }
  return false;
}

bool is_odd(Opcode code) {
  switch (code) {
    case Opcode::sin_:
    case Opcode::tan_:
    case Opcode::asin_:
    case Opcode::atan_:
    case Opcode::sinh_:
    case Opcode::tanh_:
    case Opcode::asinh_:
    case Opcode::atanh_:
    case Opcode::cbrt_:
    case Opcode::erf_:
      return true;
    default:
      return false;
  }
}

/// v or -v, whichever needs no negation: f(-x) then shares the code of f(x).
struct Unsigned {
  Value* v;
  bool negated;
};

Unsigned without_sign(MathBuilder& m, Value* v) {
  const Op* op = v->op;
  if (!op) return {v, false};
  if (op->code == Opcode::neg_) {
    const Unsigned inner = without_sign(m, op->operands[0]);
    return {inner.v, !inner.negated};
  }
  if (op->code == Opcode::mul_) {
    const Unsigned left = without_sign(m, op->operands[0]), right = without_sign(m, op->operands[1]);
    if (left.v == op->operands[0] && right.v == op->operands[1]) return {v, false};
    return {m.mul(left.v, right.v), left.negated != right.negated};
  }
  return {v, false};
}

Value* expansion(MathBuilder& m, Opcode code, Value* x) {
  if (Value* v = expand_exponential(m, code, x)) return v;
  if (Value* v = expand_logarithm(m, code, x)) return v;
  if (Value* v = expand_trigonometric(m, code, x)) return v;
  if (Value* v = expand_root(m, code, x)) return v;
  return expand_error_function(m, code, x);
}

/// |x| > limit ? op(x) : fast, with the op behind a branch.
Value* unless_large(Builder& b, MathBuilder& m, const Op& op, Value* x, double limit, Value* fast) {
  const ir::Type type[] = {op.result()->type};
  Op* choice = b.if_op(m.gt(m.abs(x), m.number(limit)), type);
  Builder arm(b.graph());
  arm.set_loc(op.loc);
  arm.set_block(choice->blocks[0]);
  Value* exact[] = {arm.op(op.code, {x})};
  arm.yield(exact);
  arm.set_block(choice->blocks[1]);
  Value* kept[] = {fast};
  arm.yield(kept);
  return choice->result();
}

}  // namespace

bool expand_math(ir::Graph& graph) {
  if (graph.exact) return false;
  std::vector<Op*> found;
  ir::walk(*graph.body, [&](Op& op) {
    if (!ir::is_pure(op.code) || op.operands.size() != 1 || !ir::is_real(op.result()->type.dtype)) return;
    if (ir::info(op.code).rule == ir::Rule::real && in_annotated_simd(op)) found.push_back(&op);
  });
  std::vector<Value*> to(graph.value_count());
  Builder b(graph);
  bool changed = false;
  for (Op* op : found) {
    b.set_before(op);
    b.set_loc(op->loc);
    MathBuilder m(b, op->result()->type.dtype);
    Unsigned x{op->operands[0], false};
    if (is_odd(op->code)) x = without_sign(m, x.v);
    while (x.v->id < to.size() && to[x.v->id]) x.v = to[x.v->id];
    Value* v = expansion(m, op->code, x.v);
    if (!v) continue;
    if (const double limit = expansion_limit(op->code)) v = unless_large(b, m, *op, x.v, limit, v);
    if (x.negated) v = m.neg(v);
    if (v->op) v->name = op->result()->name;
    to[op->result()->id] = v;
    op->parent->remove(op);
    changed = true;
  }
  if (changed) ir::replace_uses(graph, to);
  return changed;
}

}  // namespace appy::passes
