#include "trace/torch.h"

#include <algorithm>

#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::Value;

enum class Category : uint8_t { boolean, integer, real };

Category category(DType t) {
  return t == DType::bool_ ? Category::boolean : ir::is_real(t) ? Category::real : Category::integer;
}

bool has_arithmetic(DType t) { return t != DType::u16_ && t != DType::u32_ && t != DType::u64_; }

DType promoted(const Context& c, DType a, DType b) {
  if (a == b) return a;
  if (!has_arithmetic(a) || !has_arithmetic(b)) refuse(c, AbortId::operands_, "torch's promotion of unsigned integers");
  if (ir::is_real(a) != ir::is_real(b)) return ir::is_real(a) ? a : b;
  return promote(a, b);
}

/// The type of those that count first, unless the others are of a higher category.
std::optional<DType> combined(const Context& c, std::optional<DType> first, std::optional<DType> second) {
  if (!first || !second) return first ? first : second;
  return category(*second) > category(*first) ? promoted(c, *first, *second) : *first;
}

std::optional<DType> dtype_of(const Traced& t) {
  if (t.kind == Kind::tensor) return t.tensor->dtype;
  if (t.kind == Kind::array) return t.value->type.dtype;
  const bool zero_d = (t.is_scalar() && !t.tag && t.is_np()) || t.kind == Kind::zero_d;
  return zero_d ? std::optional(t.value->type.dtype) : std::nullopt;
}

std::optional<std::pair<Traced, Traced>> in_type(Context& c, DType type, const Traced& a, const Traced& b) {
  if (!has_arithmetic(type)) refuse(c, AbortId::operands_, "torch's arithmetic of unsigned integers");
  if (dtype_of(a) == type && dtype_of(b) == type) return {};
  return std::pair{torch_cast(c, a, type), torch_cast(c, b, type)};
}

bool is_bool(const Traced& t) { return t.is_py_bool() || dtype_of(t) == DType::bool_; }

bool concerns(Context& c, const Traced& a, const Traced& b) {
  if (c.library() != runtime::Library::torch || (!is_torch(c, a) && !is_torch(c, b))) return false;
  if (is_complex(a) || is_complex(b)) refuse(c, AbortId::operands_, "a complex number beside a tensor");
  // Alternatives are taken one by one.
  return is_tensor(a) || is_tensor(b) || (!a.tag && !b.tag);
}

}  // namespace

bool is_torch(const Context& c, const Traced& t) {
  if (c.library() != runtime::Library::torch) return false;
  if (t.is_scalar() && t.tag) {
    return std::any_of(t.types.begin(), t.types.end(),
                       [](const PyScalarType& type) { return type.kind == ScalarKind::np_scalar; });
  }
  return dtype_of(t).has_value();
}

DType torch_type(Context& c, Args operands) {
  std::optional<DType> with_dims, zero_d, python;
  const auto add = [&](std::optional<DType>& to, DType t) { to = to ? promoted(c, *to, t) : t; };
  for (const Traced& t : operands) {
    if (t.is_scalar() && t.tag) {
      for (const PyScalarType& type : t.types) {
        add(type.kind == ScalarKind::np_scalar ? zero_d : python,
            type.kind == ScalarKind::py_float ? DType::f32_ : type.dtype);
      }
    } else if (const std::optional<DType> type = dtype_of(t)) {
      add(is_tensor(t) ? with_dims : zero_d, *type);
    } else if (t.is_scalar()) {
      add(python, t.is_py_float() ? DType::f32_ : t.is_py_bool() ? DType::bool_ : DType::i64_);
    } else {
      refuse(c, AbortId::operands_, describe(t) + " beside a tensor");
    }
  }
  // Where the types of a tag make a difference, nothing can be said.
  const bool tagged = std::any_of(operands.begin(), operands.end(), [](const Traced& t) { return t.tag != nullptr; });
  const std::optional<DType> rest = combined(c, zero_d, python), type = combined(c, with_dims, rest);
  if (!type || (tagged && (!with_dims || !ir::is_real(*with_dims)))) {
    refuse(c, AbortId::operands_, "an operand beside a tensor whose type depends on the path");
  }
  return *type;
}

Traced torch_cast(Context& c, const Traced& t, DType to) {
  if (dtype_of(t) == to) return t;
  Emit e(c);
  if (is_tensor(t)) {
    const Traced operands[] = {t};
    return map(c, operands, [to](Context& context, Scalars x) { return np_scalar(cast_element(context, x[0], to)); });
  }
  if (t.is_scalar() && t.tag) {
    return per_alternative(c, t, [to](Context& g, const Traced& x) { return torch_cast(g, x, to); });
  }
  const Traced x = number(c, t);
  if (x.is_py_int() && ir::is_real(to)) return np_scalar(e.cast(e.cast(x.value, DType::f64_), to));
  if (x.is_np()) return np_scalar(cast_element(c, x, to));
  return np_scalar(to == DType::bool_ ? truth(c, x) : e.cast(x.value, to));  // an int that does not fit wraps
}

std::optional<std::pair<Traced, Traced>> torch_operands(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  if (!concerns(c, a, b)) return {};
  Emit e(c);
  const Traced both[] = {a, b};
  if (op == BinaryOp::matrix_multiply) {
    if (dtype_of(a) != dtype_of(b)) refuse(c, AbortId::operands_, "a product of tensors of two dtypes");
    return {};
  }
  DType type = torch_type(c, both);
  const bool booleans = type == DType::bool_;
  switch (op) {
    case BinaryOp::subtract:
      if (is_bool(a) || is_bool(b)) refuse(c, AbortId::operands_, "a difference with a bool tensor");
      break;
    case BinaryOp::true_divide:
      if (!ir::is_real(type)) type = DType::f32_;
      break;
    case BinaryOp::floor_divide:
    case BinaryOp::remainder:
      if (booleans) refuse(c, AbortId::operands_, "a division of bool tensors");
      if (op == BinaryOp::floor_divide && type == DType::f16_) {
        refuse(c, AbortId::operands_, "a floored quotient of float16 tensors");  // torch rounds in between
      }
      if (!ir::is_real(type) && !is_tensor(a) && !is_tensor(b)) {
        Value* ok = e.non_zero(torch_cast(c, b, type).value);
        if (!known_true(ok)) e.check(ir::CheckKind::raise_, ok, "RuntimeError: ZeroDivisionError");
      }
      break;
    case BinaryOp::power: {
      const std::optional<int64_t> exponent = b.is_scalar() && !b.tag ? known_integer(b.value) : std::nullopt;
      const bool fine = ir::is_real(type) || (!booleans && exponent && *exponent >= 0);
      if (!fine) refuse(c, AbortId::operands_, "an integer power in torch whose exponent is no constant");
      break;
    }
    case BinaryOp::lshift:
    case BinaryOp::rshift:
      refuse(c, AbortId::operands_, "a shift of tensors");
    default:
      break;
  }
  return in_type(c, type, a, b);
}

std::optional<Traced> torch_quotient(Context& c, const Traced& a, const Traced& b) {
  const bool number = a.is_scalar() && !a.tag && !a.is_np();
  if (!number || !is_torch(c, b) || b.tag) return {};
  const DType type = torch_type(c, {&b, 1});
  const Traced divisor[] = {torch_cast(c, b, ir::is_real(type) ? type : DType::f32_)};
  return binary(c, BinaryOp::multiply, call_elementwise(c, "reciprocal", divisor), a);
}

bool torch_casts(DType from, DType to) { return category(from) <= category(to); }

std::optional<std::pair<Traced, Traced>> torch_comparands(Context& c, const Traced& a, const Traced& b) {
  if (!concerns(c, a, b)) return {};
  const Traced both[] = {a, b};
  return in_type(c, torch_type(c, both), a, b);
}

}  // namespace appy::trace
