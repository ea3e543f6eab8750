#include "passes/simplify.h"

#include <vector>

#include "ir/typing.h"
#include "passes/simplify_rules.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;
using ir::Word;

namespace {

/// A constant in another type; nothing where the value is none, or is unspecified and left to the machine, so that
/// there is one answer: a real number out of an integer's range.
std::optional<Word> converted_constant(const Value& v, DType to) {
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
}  // namespace

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

namespace {

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
    const auto converted = converted_constant(*op.operands[0], to);
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
