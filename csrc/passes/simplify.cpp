#include "passes/simplify.h"

#include <bit>
#include <cmath>
#include <optional>

#include "ir/eval.h"
#include "ir/typing.h"
#include "passes/comparisons.h"
#include "passes/loops.h"

namespace appy::passes {

namespace {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;
using ir::Word;

/// One op with what its rules ask: its operands, whether they are constants, and of which value.
struct Rules {
  Op& op;
  Builder& b;
  DType type;  // of operand 0, or of the result where there is none
  Value* x;
  Value* y;

  Rules(Op& o, Builder& builder) : op(o), b(builder) {
    x = o.operands.empty() ? nullptr : o.operands[0];
    y = o.operands.size() < 2 ? nullptr : o.operands[1];
    type = (x ? x : o.result())->type.dtype;
  }

  bool real() const { return ir::is_real(type); }
  bool same() const { return x == y; }
  static const Op* made_by(const Value* v, Opcode code) { return v->op && v->op->code == code ? v->op : nullptr; }

  /// A constant in another type; nothing where the value is none, or is unspecified and left to the machine, so that
  /// there is one answer: a real number out of an integer's range.
  static std::optional<Word> converted_constant(const Value& v, DType to) {
    if (!v.op || v.op->code != Opcode::const_) return std::nullopt;
    const DType from = v.type.dtype;
    if (ir::is_real(from) && ir::is_int(to)) {
      const double real = *ir::known_real(v);
      if (!(real > -9.2e18 && real < 9.2e18)) return std::nullopt;
      const Word as_i64 = static_cast<Word>(static_cast<int64_t>(real));
      if (ir::canonical(to, as_i64) != as_i64) return std::nullopt;
    }
    const Word word[] = {v.op->imm};
    return ir::evaluate_op(Opcode::cast_, to, from, word);
  }
  static bool is_int(const Value& v, int64_t n) { return constant(v) == n; }
  /// Equal to this number, with this sign of zero.
  static bool is_real(const Value& v, double n) {
    const auto found = ir::known_real(v);
    return found && *found == n && std::signbit(*found) == std::signbit(n);
  }
  bool is_one(const Value& v) const { return real() ? is_real(v, 1.0) : is_int(v, 1); }

  Value* zero() { return b.constant(op.result()->type.dtype, 0); }
  Value* real_constant(double v) {
    const Word word[] = {std::bit_cast<Word>(v)};
    return b.constant(type, ir::evaluate_op(Opcode::cast_, type, DType::f64_, word));
  }

  Value* arithmetic();
  Value* reassociate();
  Value* division();
  Value* power();
  Value* bits();
  Value* comparison();
  Value* compared_extremum(Value* extremum, Value* v);
  Value* choice();
  Value* negated(Value* v);
  Value* opposite(const Value& v);
  Value* chosen_extremum(const Value& condition, Value* yes, Value* no);
  static bool chooses_free(const Value&, DType to, int depth = 0);
  Value* chosen(Value*, DType to);
  Value* conversion();
  Value* extremum();
  Value* run();
};

/// (x + c1) + c2 -> x + (c1 + c2) for integers, and the same for mul, and, or, xor; constants come second.
Value* Rules::reassociate() {
  if (real() || !constant(*y)) return nullptr;
  const Op* inner = made_by(x, op.code);
  if (!inner || !constant(*inner->operands[1])) return nullptr;
  const Word words[] = {inner->operands[1]->op->imm, y->op->imm};
  return b.op(op.code, {inner->operands[0], b.constant(type, ir::evaluate_op(op.code, type, type, words))});
}

Value* Rules::arithmetic() {
  switch (op.code) {
    case Opcode::add_:
      if (real() ? is_real(*y, -0.0) : is_int(*y, 0)) return x;
      if (real()) return nullptr;
      if (const Op* difference = made_by(x, Opcode::sub_); difference && difference->operands[1] == y) {
        return difference->operands[0];  // (a - y) + y
      }
      return reassociate();
    case Opcode::sub_:
      if (real() ? is_real(*y, 0.0) : is_int(*y, 0)) return x;
      if (real()) return nullptr;
      if (same()) return zero();
      if (is_int(*x, 0)) return b.op(Opcode::neg_, {y});
      if (const Op* sum = made_by(x, Opcode::add_)) {
        if (sum->operands[1] == y) return sum->operands[0];
        if (sum->operands[0] == y) return sum->operands[1];
        if (constant(*y) && constant(*sum->operands[1])) {  // (a + c1) - c2
          const Word words[] = {sum->operands[1]->op->imm, y->op->imm};
          return b.op(Opcode::add_,
                      {sum->operands[0], b.constant(type, ir::evaluate_op(Opcode::sub_, type, type, words))});
        }
      }
      return nullptr;
    case Opcode::mul_:
      if (is_one(*y)) return x;
      if (real()) return nullptr;
      if (is_int(*y, 0)) return zero();
      return reassociate();
    default:
      break;
  }
  // neg, abs
  if (const Op* inner = made_by(x, op.code)) return op.code == Opcode::neg_ ? inner->operands[0] : x;
  if (op.code == Opcode::neg_ && !real()) {
    if (const Op* difference = made_by(x, Opcode::sub_)) {
      return b.op(Opcode::sub_, {difference->operands[1], difference->operands[0]});
    }
  }
  return nullptr;
}

Value* Rules::division() {
  if (op.code == Opcode::div_) {
    if (is_one(*y)) return x;
    // The reciprocal of a power of two is exact, and so is the product, denormals included.
    const auto divisor = ir::known_real(*y);
    int exponent = 0;
    if (!divisor || !std::isfinite(*divisor) || std::fabs(std::frexp(*divisor, &exponent)) != 0.5) return nullptr;
    const int limit = type == DType::f16_ ? 14 : type == DType::f64_ ? 1000 : 120;
    return std::abs(exponent) < limit ? b.op(Opcode::mul_, {x, real_constant(1.0 / *divisor)}) : nullptr;
  }
  const auto divisor = constant(*y);
  if (!divisor) return nullptr;
  if (*divisor == 0) return zero();
  if (*divisor == 1) return op.code == Opcode::floordiv_ ? x : zero();
  const bool power_of_two = *divisor > 0 && (*divisor & (*divisor - 1)) == 0;
  if (!power_of_two || op.code == Opcode::rem_) return nullptr;
  const auto log = static_cast<Word>(std::countr_zero(static_cast<uint64_t>(*divisor)));
  if (op.code == Opcode::floordiv_) return b.op(Opcode::shr_, {x, b.constant(type, log)});
  return b.op(Opcode::and_, {x, b.constant(type, static_cast<Word>(*divisor - 1))});
}

Value* Rules::power() {
  if (!real()) {
    const auto exponent = constant(*y);
    if (!exponent) return nullptr;
    if (*exponent == 0) return b.constant(type, 1);
    if (*exponent == 1) return x;
    if (*exponent == 2) return b.op(Opcode::mul_, {x, x});
    if (*exponent == 3) return b.op(Opcode::mul_, {b.op(Opcode::mul_, {x, x}), x});
    return nullptr;
  }
  if (ir::known_real(*y) == 0.0) return real_constant(1.0);
  if (is_real(*y, 1.0)) return x;
  if (op.graph->exact) return nullptr;  // libm's pow need not round as the product does
  if (is_real(*y, 2.0)) return b.op(Opcode::mul_, {x, x});
  if (is_real(*y, 3.0)) return b.op(Opcode::mul_, {b.op(Opcode::mul_, {x, x}), x});
  if (is_real(*y, -1.0)) return b.op(Opcode::div_, {real_constant(1.0), x});
  return nullptr;
}

Value* Rules::bits() {
  const int64_t ones = type == DType::bool_ ? 1 : static_cast<int64_t>(ir::canonical(type, ~Word{0}));
  switch (op.code) {
    case Opcode::and_:
      if (same() || is_int(*y, ones)) return x;
      if (is_int(*y, 0)) return zero();
      return reassociate();
    case Opcode::or_:
      if (same() || is_int(*y, 0)) return x;
      if (is_int(*y, ones)) return y;
      return reassociate();
    case Opcode::xor_:
      if (same()) return zero();
      if (is_int(*y, 0)) return x;
      if (is_int(*y, ones)) return b.op(Opcode::not_, {x});
      return reassociate();
    case Opcode::shl_:
    case Opcode::shr_:
      return is_int(*y, 0) ? x : nullptr;
    default:
      return nullptr;
  }
}

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

/// Is it chosen from constants, and from what was of the type before?
bool Rules::chooses_free(const Value& v, DType to, int depth) {
  constexpr int kDeepest = 4;
  if (const Op* choice = made_by(&v, Opcode::select_)) {
    return depth < kDeepest && chooses_free(*choice->operands[1], to, depth + 1) &&
           chooses_free(*choice->operands[2], to, depth + 1);
  }
  if (const Op* cast = made_by(&v, Opcode::cast_))
    return cast->operands[0]->type.dtype == to && widens(to, v.type.dtype);
  return converted_constant(v, to).has_value();
}

/// The same of that type.
Value* Rules::chosen(Value* v, DType to) {
  if (const Op* choice = made_by(v, Opcode::select_))
    return b.select(choice->operands[0], chosen(choice->operands[1], to), chosen(choice->operands[2], to));
  if (const Op* cast = made_by(v, Opcode::cast_)) return cast->operands[0];
  return b.constant(to, *converted_constant(*v, to));
}

Value* Rules::conversion() {
  const DType to = op.result()->type.dtype;
  if (op.code == Opcode::bitcast_) {
    if (type == to) return x;
    const Op* inner = made_by(x, Opcode::bitcast_);
    return inner ? b.bitcast(inner->operands[0], to) : nullptr;
  }
  if (type == to) return x;
  if (made_by(x, Opcode::select_) && chooses_free(*x, to)) return chosen(x, to);
  const Op* inner = made_by(x, Opcode::cast_);
  if (!inner) return nullptr;
  Value* source = inner->operands[0];
  // Nothing was lost on the way, and the second conversion of the same number gives the same.
  if (widens(source->type.dtype, type)) return b.cast(source, to);
  // Integer truncation in two steps.
  const bool integers = ir::is_int(source->type.dtype) && ir::is_int(type) && ir::is_int(to);
  if (integers && ir::size_of(to) <= ir::size_of(type)) return b.cast(source, to);
  return nullptr;
}

Value* Rules::extremum() { return same() ? x : nullptr; }

Value* Rules::run() {
  switch (op.code) {
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::neg_:
    case Opcode::abs_:
      return arithmetic();
    case Opcode::div_:
      return division();
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::rem_:
      return real() ? nullptr : division();
    case Opcode::pow_:
      return power();
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::shl_:
    case Opcode::shr_:
      return bits();
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_:
      return comparison();
    case Opcode::not_:
    case Opcode::select_:
      return choice();
    case Opcode::cast_:
    case Opcode::bitcast_:
      return conversion();
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_:
      return extremum();
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
      return is_int(*y, 0) ? b.boolean(false) : nullptr;
    case Opcode::ovf_mul_:
      return is_int(*y, 0) || is_int(*y, 1) ? b.boolean(false) : nullptr;
    default:
      return nullptr;
  }
}

bool constants_first(Op& op) {
  switch (op.code) {
    case Opcode::add_:
    case Opcode::mul_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::ovf_add_:
    case Opcode::ovf_mul_:
      break;
    default:
      return false;
  }
  const auto is_const = [](const Value* v) { return v->op && v->op->code == Opcode::const_; };
  return is_const(op.operands[0]) && !is_const(op.operands[1]);
}

/// Functions whose last bit depends on who computes it.
bool is_elementary(const Op& op) {
  return (op.code >= Opcode::cbrt_ && op.code <= Opcode::lgamma_) || op.code == Opcode::atan2_ ||
         op.code == Opcode::hypot_ || op.code == Opcode::pow_;
}

Value* fold_constants(Op& op, Builder& b) {
  if (op.graph->exact && is_elementary(op)) return nullptr;
  std::vector<Word> words;
  for (const Value* v : op.operands) {
    if (!v->op || v->op->code != Opcode::const_) return nullptr;
    words.push_back(v->op->imm);
  }
  if (words.empty()) return nullptr;
  const DType to = op.result()->type.dtype;
  if (op.code == Opcode::cast_) {
    const auto converted = Rules::converted_constant(*op.operands[0], to);
    return converted ? b.constant(to, *converted) : nullptr;
  }
  return b.constant(to, ir::evaluate_op(op.code, to, op.operands[0]->type.dtype, words));
}

}  // namespace

Value* simplify(Op& op, Builder& b) {
  if (op.code == Opcode::const_ || op.code == Opcode::dim_) return nullptr;
  b.set_before(&op);
  b.set_loc(op.loc);
  if (Value* folded = fold_constants(op, b)) return folded;
  if (constants_first(op)) std::swap(op.operands[0], op.operands[1]);
  return Rules(op, b).run();
}

}  // namespace appy::passes
