// Rules for comparisons, conditions and selections.
#include "ir/typing.h"
#include "passes/comparisons.h"
#include "passes/simplify_rules.h"

namespace appy::passes {

using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Zero, above, or NaN.
bool is_not_negative(const Value& v, int depth) {
  if (const auto known = ir::known_real(v)) return *known >= 0;
  if (!v.op || depth == 0 || !ir::is_real(v.type.dtype)) return false;
  const auto& in = v.op->operands;
  switch (v.op->code) {
    case Opcode::mul_:
      if (in[0] == in[1]) return true;
      [[fallthrough]];
    case Opcode::add_:
      return is_not_negative(*in[0], depth - 1) && is_not_negative(*in[1], depth - 1);
    case Opcode::abs_:
    case Opcode::sqrt_:
    case Opcode::exp_:
      return true;
    default:
      return false;
  }
}

/// Above zero, or NaN: a product would not do, it may become zero.
bool is_positive(const Value& v, int depth) {
  if (const auto known = ir::known_real(v)) return *known > 0;
  if (!v.op || depth == 0 || v.op->code != Opcode::add_) return false;
  const Value &a = *v.op->operands[0], &b = *v.op->operands[1];
  return (is_positive(a, depth - 1) && is_not_negative(b, depth - 1)) ||
         (is_positive(b, depth - 1) && is_not_negative(a, depth - 1));
}

bool is_sum(const Op* op) { return op && (op->code == Opcode::add_ || op->code == Opcode::sub_); }

/// p < q and q > p.
bool are_mirrored(const Value& a, const Value& c) {
  if (!a.op || !c.op || !is_comparison(a.op->code) || !is_comparison(c.op->code)) return false;
  return c.op->code == mirrored(a.op->code) && a.op->operands[0] == c.op->operands[1] &&
         a.op->operands[1] == c.op->operands[0];
}

/// Is `v` a selection of integers that gives what `extremum` gives? (Other selections become an extremum themselves.)
bool is_same_extremum(const Value& extremum, const Value& v) {
  const Op *e = extremum.op, *s = v.op;
  if (!e || !s || (e->code != Opcode::pymin_ && e->code != Opcode::pymax_) || s->code != Opcode::select_) return false;
  const Op* c = s->operands[0]->op;
  if (!c || !is_comparison(c->code) || c->code == Opcode::eq_ || c->code == Opcode::ne_) return false;
  const Value *yes = s->operands[1], *no = s->operands[2];
  const auto pair = [](const Op& op, const Value* p, const Value* q) {
    return (op.operands[0] == p && op.operands[1] == q) || (op.operands[0] == q && op.operands[1] == p);
  };
  if (!ir::is_int(yes->type.dtype) || !pair(*e, yes, no) || !pair(*c, yes, no)) return false;
  const bool greater = c->code == Opcode::gt_ || c->code == Opcode::ge_;
  return (greater == (c->operands[0] == yes)) == (e->code == Opcode::pymax_);
}

}  // namespace

/// min(a, b) == a is a <= b.
Value* Rules::compared_extremum(Value* extremum, Value* v) {
  const Op* e = extremum->op;
  if (real() || !e || (e->code != Opcode::pymin_ && e->code != Opcode::pymax_)) return nullptr;
  if (e->operands[0] != v && e->operands[1] != v) return nullptr;
  Value* other = e->operands[e->operands[0] == v ? 1 : 0];
  const bool least = e->code == Opcode::pymin_, equal = op.code == Opcode::eq_;
  return b.op(least ? (equal ? Opcode::le_ : Opcode::gt_) : (equal ? Opcode::ge_ : Opcode::lt_), {v, other});
}

Value* Rules::comparison() {
  if (same() && !real()) {
    return b.boolean(op.code == Opcode::eq_ || op.code == Opcode::le_ || op.code == Opcode::ge_);
  }
  // Two numbers of one type compare as they did before they were widened.
  const Op *left_cast = made_by(x, Opcode::cast_), *right_cast = made_by(y, Opcode::cast_);
  if (left_cast && right_cast) {
    Value *u = left_cast->operands[0], *v = right_cast->operands[0];
    if (u->type == v->type && u->type.dtype != DType::bool_ && widens(u->type.dtype, x->type.dtype)) {
      return b.op(op.code, {u, v});
    }
  }
  if (op.code != Opcode::eq_ && op.code != Opcode::ne_) return nullptr;
  if (Value* order = compared_extremum(x, y)) return order;
  if (Value* order = compared_extremum(y, x)) return order;
  if (real() && ir::known_real(*y) == 0.0 && is_positive(*x, 4)) return b.boolean(op.code == Opcode::ne_);
  const auto right = constant(*y);
  if (!right) return nullptr;
  if (type == DType::bool_) {
    const bool keep = (*right != 0) == (op.code == Opcode::eq_);
    return keep ? x : b.op(Opcode::not_, {x});
  }
  // A bool in an integer's clothes, compared with 0 or 1.
  const Op* cast = made_by(x, Opcode::cast_);
  if (!cast || cast->operands[0]->type.dtype != DType::bool_ || (*right != 0 && *right != 1)) return nullptr;
  const bool keep = (*right == 1) == (op.code == Opcode::eq_);
  return keep ? cast->operands[0] : b.op(Opcode::not_, {cast->operands[0]});
}

/// b > a ? b : a is Python's max(a, b), b < a ? b : a its min. Of floats only: integer comparisons are inverted freely,
/// and what follows a minimum could then no longer be told by its comparison.
Value* Rules::chosen_extremum(const Value& condition, Value* yes, Value* no) {
  const Op* c = condition.op;
  if (!c || (c->code != Opcode::lt_ && c->code != Opcode::gt_) || !ir::is_real(yes->type.dtype)) return nullptr;
  const bool straight = c->operands[0] == yes && c->operands[1] == no;
  if (!straight && (c->operands[0] != no || c->operands[1] != yes)) return nullptr;
  return b.op((c->code == Opcode::gt_) == straight ? Opcode::pymax_ : Opcode::pymin_, {no, yes});
}

/// not v, itself simplified.
Value* Rules::negated(Value* v) {
  if (const Op* inner = made_by(v, Opcode::not_)) return inner->operands[0];
  if (v->op && is_comparison(v->op->code) && !ir::is_real(v->op->operands[0]->type.dtype)) {
    return b.op(inverse(v->op->code), {v->op->operands[0], v->op->operands[1]});
  }
  return b.op(Opcode::not_, {v});
}

/// not (not p and q) is p or not q; not (not p or q) is p and not q.
Value* Rules::opposite(const Value& v) {
  const Op* op = v.op;
  if (!op || v.type.dtype != DType::bool_ || (op->code != Opcode::and_ && op->code != Opcode::or_)) return nullptr;
  for (size_t side = 0; side < 2; ++side) {
    const Op* inner = made_by(op->operands[side], Opcode::not_);
    if (!inner) continue;
    const Opcode dual = op->code == Opcode::and_ ? Opcode::or_ : Opcode::and_;
    return b.op(dual, {inner->operands[0], negated(op->operands[1 - side])});
  }
  return nullptr;
}

Value* Rules::negative(Value* v) {
  const DType t = v->type.dtype;
  if (!v->op || v->op->code != Opcode::const_) return b.op(Opcode::neg_, {v});
  const ir::Word words[] = {v->op->imm};
  return b.constant(t, ir::evaluate_op(Opcode::neg_, t, t, words));
}

/// s + a or s + b is s and one of a and b, with - and * so, too: s, which may come from the iteration before, need not
/// wait for both.
Value* Rules::shared_operand(Value* condition, const Value& yes, const Value& no) {
  const Op *p = yes.op, *q = no.op;
  const bool sums = is_sum(p) && is_sum(q);
  if (!sums && !(p && q && p->code == Opcode::mul_ && q->code == Opcode::mul_)) return nullptr;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t k = 0; k < 2; ++k) {
      const bool subtracts = (i == 1 && p->code == Opcode::sub_) || (k == 1 && q->code == Opcode::sub_);
      if (subtracts || p->operands[i] != q->operands[k]) continue;
      Value *a = p->operands[1 - i], *c = q->operands[1 - k];
      if (p->code == q->code) return b.op(p->code, {p->operands[i], b.select(condition, a, c)});
      Value*& subtracted = p->code == Opcode::sub_ ? a : c;
      subtracted = negative(subtracted);
      return b.op(Opcode::add_, {p->operands[i], b.select(condition, a, c)});
    }
  }
  return nullptr;
}

Value* Rules::choice() {
  if (op.code == Opcode::not_) {
    if (const Op* inner = made_by(x, Opcode::not_)) return inner->operands[0];
    if (Value* flipped = opposite(*x)) return flipped;
    if (type != DType::bool_ || !x->op || !is_comparison(x->op->code)) return nullptr;
    const bool on_reals = ir::is_real(x->op->operands[0]->type.dtype);
    if (on_reals && x->op->code != Opcode::eq_ && x->op->code != Opcode::ne_) return nullptr;
    return b.op(inverse(x->op->code), {x->op->operands[0], x->op->operands[1]});
  }
  Value *a = op.operands[1], *c = op.operands[2];
  if (const auto known = constant(*x)) return *known ? a : c;
  if (a == c || are_mirrored(*a, *c)) return a;
  if (const Op* inner = made_by(x, Opcode::not_)) return b.select(inner->operands[0], c, a);
  if (a->type.dtype != DType::bool_) {
    if (Value* sum = shared_operand(x, *a, *c)) return sum;
    if (is_same_extremum(*a, *c)) return a;
    return is_same_extremum(*c, *a) ? c : chosen_extremum(*x, a, c);
  }
  if (is_int(*c, 0) || c == x) return is_int(*a, 1) ? x : b.op(Opcode::and_, {x, a});
  if (is_int(*a, 1) || a == x) return b.op(Opcode::or_, {x, c});
  if (is_int(*a, 0) && is_int(*c, 1)) return negated(x);
  if (is_int(*a, 0)) return b.op(Opcode::and_, {negated(x), c});
  if (is_int(*c, 1)) return b.op(Opcode::or_, {negated(x), a});
  return nullptr;
}

}  // namespace appy::passes
