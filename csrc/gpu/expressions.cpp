#include "gpu/expressions.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "support/check.h"

namespace appy::gpu {

using ir::DType;
using ir::Opcode;

const char* type_of(DType t) {
  switch (t) {
    case DType::bool_:
      return "bool";
    case DType::f32_:
      return "float";
    case DType::f64_:
      return "double";
    default:
      return ir::name_of(t).data();
  }
}

const char* memory_type_of(DType t) { return t == DType::bool_ ? "u8" : type_of(t); }

namespace {

using Arguments = std::vector<std::string>;

std::string call(std::string name, const Arguments& arguments) {
  std::string text = std::move(name) + "(";
  for (size_t k = 0; k < arguments.size(); ++k) text += (k ? ", " : "") + arguments[k];
  return text + ")";
}

std::string infix(const char* op, const Arguments& a) { return a[0] + " " + op + " " + a[1]; }

/// Operators of C++ that mean the same for every type they are given.
const char* comparison(Opcode code) {
  switch (code) {
    case Opcode::eq_:
      return "==";
    case Opcode::ne_:
      return "!=";
    case Opcode::lt_:
      return "<";
    case Opcode::le_:
      return "<=";
    case Opcode::gt_:
      return ">";
    case Opcode::ge_:
      return ">=";
    default:
      return nullptr;
  }
}

std::string real(Opcode code, const Arguments& a) {
  switch (code) {
    case Opcode::add_:
      return infix("+", a);
    case Opcode::sub_:
      return infix("-", a);
    case Opcode::mul_:
      return infix("*", a);
    case Opcode::div_:
      return infix("/", a);
    case Opcode::neg_:
      return "-" + a[0];
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_:
      return call(std::string(ir::info(code).name), a);
    default:
      return call("f_" + std::string(ir::info(code).name), a);
  }
}

std::string boolean(Opcode code, const Arguments& a) {
  switch (code) {
    case Opcode::and_:
    case Opcode::pymin_:
    case Opcode::minimum_:
      return infix("&&", a);
    case Opcode::or_:
    case Opcode::pymax_:
    case Opcode::maximum_:
      return infix("||", a);
    case Opcode::xor_:
      return infix("!=", a);
    case Opcode::not_:
      return "!" + a[0];
    default:
      APPY_CHECK(false, "not an operation on bool: " + std::string(ir::info(code).name));
      return {};
  }
}

std::string integer(Opcode code, DType t, const Arguments& a) {
  const std::string type = type_of(t), name(ir::info(code).name);
  // C++ promotes narrow types; what comes out is cut off again.
  const auto cut = [&](const std::string& text) { return ir::size_of(t) < 4 ? "(" + type + ")(" + text + ")" : text; };
  switch (code) {
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::neg_:
    case Opcode::abs_:
      if (code == Opcode::abs_ && !ir::is_signed(t)) return a[0];
      return call("wrap_" + name, a);
    case Opcode::floordiv_:
    case Opcode::mod_:
    case Opcode::rem_:
    case Opcode::pow_:
    case Opcode::shl_:
    case Opcode::shr_:
    case Opcode::popcount_:
      return call("int_" + name, a);
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_:
    case Opcode::pymin_:
    case Opcode::pymax_:
      return call(name, a);
    case Opcode::minimum_:
      return call("pymin", a);
    case Opcode::maximum_:
      return call("pymax", a);
    case Opcode::and_:
      return cut(infix("&", a));
    case Opcode::or_:
      return cut(infix("|", a));
    case Opcode::xor_:
      return cut(infix("^", a));
    case Opcode::not_:
      return cut("~" + a[0]);
    case Opcode::wrap_:
      return a[0] + " < 0 ? " + a[0] + " + " + a[1] + " : " + a[0];
    default:
      APPY_CHECK(false, "not an operation on integers: " + name);
      return {};
  }
}

}  // namespace

std::string cast(DType to, DType from, const std::string& a) {
  const std::string type = type_of(to);
  if (to == from) return a;
  if (to == DType::f16_) {
    if (from == DType::f32_) return "appy_float_to_half(" + a + ")";
    if (from == DType::f64_) return "appy_double_to_half(" + a + ")";
    return "appy_double_to_half((double)" + a + ")";
  }
  if (to == DType::bf16_) return "appy_float_to_bfloat(" + cast(DType::f32_, from, a) + ")";
  if (from == DType::f16_) return cast(to, DType::f32_, "appy_half_to_float(" + a + ")");
  if (from == DType::bf16_) return cast(to, DType::f32_, "appy_bfloat_to_float(" + a + ")");
  if (to == DType::bool_) return a + " != 0";
  if (ir::is_real(from) && !ir::is_real(to)) {
    // Truncation to 32 signed bits and fewer is the low part of that to 64.
    return "(" + type + ")word_of_real(" + a + ")";
  }
  return "(" + type + ")" + a;
}

namespace {

std::string bitcast(DType to, DType from, const std::string& a) {
  if (to == DType::f64_) return "bits_double((u64)" + a + ")";
  if (to == DType::f32_) return "bits_float((u32)" + a + ")";
  if (from == DType::f64_ || from == DType::f32_) return "(" + std::string(type_of(to)) + ")word_of(" + a + ")";
  return "(" + std::string(type_of(to)) + ")" + a;
}

}  // namespace

std::string literal(DType t, ir::Word word) {
  char text[64];
  switch (t) {
    case DType::bool_:
      return word ? "true" : "false";
    case DType::f16_:
    case DType::bf16_:
      std::snprintf(text, sizeof text, "(%s)0x%llx", type_of(t), static_cast<unsigned long long>(word));
      return text;
    case DType::f32_:
    case DType::f64_: {
      const bool wide = t == DType::f64_;
      const double value = wide ? std::bit_cast<double>(word) : std::bit_cast<float>(static_cast<uint32_t>(word));
      if (!std::isfinite(value)) {
        std::snprintf(text, sizeof text, wide ? "bits_double(0x%llxull)" : "bits_float(0x%llxu)",
                      static_cast<unsigned long long>(word));
        return text;
      }
      const auto end = wide ? std::to_chars(text, std::end(text), value)
                            : std::to_chars(text, std::end(text), static_cast<float>(value));
      std::string s(text, end.ptr);
      if (s.find_first_of(".e") == std::string::npos) s += ".0";
      if (!wide) s += "f";
      return s[0] == '-' ? "(" + s + ")" : s;
    }
    default:
      break;
  }
  const auto value = static_cast<int64_t>(word);
  std::string s;
  if (t == DType::u64_) {
    s = std::to_string(word) + "ull";
  } else if (value == INT64_MIN) {
    s = "(-9223372036854775807ll - 1)";
  } else {
    s = std::to_string(value) + (ir::size_of(t) == 8 ? "ll" : t == DType::u32_ ? "u" : "");
    if (value < 0) s = "(" + s + ")";
  }
  return ir::size_of(t) < 4 ? "(" + std::string(type_of(t)) + ")" + s : s;
}

std::string expression(Opcode code, DType t, const Arguments& a) {
  if (const char* op = comparison(code)) return infix(op, a);
  if (t == DType::bool_) return boolean(code, a);
  if (ir::is_real(t)) {
    APPY_CHECK(!ir::is_half(t), "arithmetic on halves is done in f32");
    return real(code, a);
  }
  return integer(code, t, a);
}

std::string expression(const ir::Op& op, const Arguments& a) {
  const DType from = op.operands[0]->type.dtype, to = op.result()->type.dtype;
  switch (op.code) {
    case Opcode::select_:
      return a[0] + " ? " + a[1] + " : " + a[2];
    case Opcode::cast_:
      return cast(to, from, a[0]);
    case Opcode::bitcast_:
      return bitcast(to, from, a[0]);
    default:
      return expression(op.code, from, a);
  }
}

}  // namespace appy::gpu
