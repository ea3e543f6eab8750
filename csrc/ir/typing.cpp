#include "ir/typing.h"

namespace appy::ir {

namespace {

std::string expected(std::string_view what, const Value& got) {
  std::string text = "expected " + std::string(what) + ", got " + std::string(name_of(got.type.dtype));
  if (got.type.is_view()) text += " view";
  return text;
}

}  // namespace

bool accepts(Opcode code, DType t) {
  switch (code) {
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::not_:
      return !is_real(t);
    case Opcode::rem_:
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::neg_:
    case Opcode::abs_:
    case Opcode::pow_:
      return t != DType::bool_;
    case Opcode::shl_:
    case Opcode::shr_:
    case Opcode::popcount_:
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_:
      return is_int(t);
    case Opcode::isnan_:
    case Opcode::isinf_:
    case Opcode::isfinite_:
    case Opcode::signbit_:
      return is_real(t);
    case Opcode::wrap_:
      return t == DType::i64_;
    case Opcode::mantissa_:
    case Opcode::exponent_:
    case Opcode::scale_:
    case Opcode::nextafter_:
      return t == DType::f32_ || t == DType::f64_;
    default:
      return info(code).rule != Rule::real || is_real(t);
  }
}

DType inferred_type(Opcode code, std::span<Value* const> operands) {
  switch (info(code).rule) {
    case Rule::boolean:
      return DType::bool_;
    case Rule::index:
      return DType::i64_;
    case Rule::cond:
      return operands[1]->type.dtype;
    default:
      return operands[0]->type.dtype;
  }
}

std::string type_fault(Opcode code, DType result, std::span<Value* const> operands) {
  const OpInfo& row = info(code);
  if (row.arity >= 0 && operands.size() != static_cast<size_t>(row.arity)) {
    return "expected " + std::to_string(row.arity) + " operands, got " + std::to_string(operands.size());
  }
  if (code == Opcode::dim_) {
    if (!operands[0]->type.is_view()) return expected("a view", *operands[0]);
    return result == DType::i64_ ? "" : "result must be i64";
  }
  for (const Value* v : operands) {
    if (v->type.is_view()) return expected("a scalar", *v);
  }
  if (code == Opcode::const_ || code == Opcode::cast_) return "";
  if (code == Opcode::bitcast_) {
    if (result == DType::bool_) return "a bitcast cannot give bool";
    if (size_of(result) != size_of(operands[0]->type.dtype)) return "a bitcast keeps the width";
    return "";
  }
  const size_t start = row.rule == Rule::cond ? 1 : 0;
  if (start && operands[0]->type.dtype != DType::bool_) return expected("bool as operand 0", *operands[0]);
  const DType common = operands[start]->type.dtype;
  for (const Value* v : operands.subspan(start)) {
    if (v->type.dtype != common) return expected(std::string(name_of(common)) + " like the first operand", *v);
  }
  if (!accepts(code, common)) return "not defined for " + std::string(name_of(common));
  const DType wanted = inferred_type(code, operands);
  if (result != wanted) {
    return "result must be " + std::string(name_of(wanted)) + ", is " + std::string(name_of(result));
  }
  return "";
}

bool accepts(Combiner combiner, DType t) {
  const Opcode code = opcode_of(combiner);
  return code == Opcode::const_ || accepts(code, t);
}

bool widens(DType from, DType to) {
  if (from == to || from == DType::bool_) return true;
  const bool small = size_of(from) < size_of(to);
  if (is_real(to)) return small;  // 11 bits hold 8, 24 hold 16, 53 hold 32
  if (is_real(from)) return false;
  return small && (is_signed(to) || !is_signed(from));
}

Word quiet_nan(DType t) {
  switch (t) {
    case DType::f16_:
      return 0x7e00;
    case DType::bf16_:
      return 0x7fc0;
    case DType::f32_:
      return 0x7fc00000;
    default:
      return 0x7ff8000000000000;
  }
}

Word canonical(DType t, Word w) {
  const int shift = 64 - 8 * size_of(t);
  switch (class_of(t)) {
    case TypeClass::boolean:
      return w != 0;
    case TypeClass::sint:
      return static_cast<Word>(static_cast<int64_t>(w << shift) >> shift);
    default:
      return w << shift >> shift;
  }
}

}  // namespace appy::ir
