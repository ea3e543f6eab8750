#include "trace/torch.h"

#include <algorithm>

#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::Value;

enum class Category : uint8_t { boolean, integer, real, complex };

Category category(DType t) {
  return t == DType::bool_ ? Category::boolean : ir::is_real(t) ? Category::real : Category::integer;
}
Category category(const TorchType& t) { return t.complex ? Category::complex : category(t.dtype); }

bool has_arithmetic(DType t) { return t != DType::u16_ && t != DType::u32_ && t != DType::u64_; }

DType promoted(const Context& c, DType a, DType b) {
  if (a == b) return a;
  if (!has_arithmetic(a) || !has_arithmetic(b)) refuse(c, AbortId::operands_, "torch's promotion of unsigned integers");
  if (ir::is_real(a) != ir::is_real(b)) return ir::is_real(a) ? a : b;
  return promote(a, b);
}

/// The least type of the parts of complex numbers that holds the type.
DType part_type(DType t) { return ir::is_real(t) ? std::max(t, DType::f32_) : DType::f32_; }

TorchType promoted(const Context& c, const TorchType& a, const TorchType& b) {
  if (a.complex || b.complex) return {std::max(part_type(a.dtype), part_type(b.dtype)), true};
  return {promoted(c, a.dtype, b.dtype), false};
}

using MaybeType = std::optional<TorchType>;

/// The type of those that count first, unless the others are of a higher category.
MaybeType combined(const Context& c, const MaybeType& first, const MaybeType& second) {
  if (!first || !second) return first ? first : second;
  if (category(*second) <= category(*first)) return first;
  if (!second->complex || !ir::is_real(first->dtype)) return promoted(c, *first, *second);
  if (ir::is_half(first->dtype)) refuse(c, AbortId::operands_, "torch's complex numbers of two halves");
  return TorchType{part_type(first->dtype), true};
}

MaybeType dtype_of(const Traced& t) {
  if (is_complex(t)) {
    const Traced* part = t.value ? nullptr : &t.items[0];
    const MaybeType type = part ? dtype_of(*part) : TorchType{t.value->type.dtype};
    return type ? MaybeType({type->dtype, true}) : type;
  }
  if (t.kind == Kind::tensor) return TorchType{t.tensor->dtype};
  if (t.kind == Kind::array) return TorchType{t.value->type.dtype};
  const bool zero_d = (t.is_scalar() && !t.tag && t.is_np()) || t.kind == Kind::zero_d;
  return zero_d ? MaybeType({t.value->type.dtype, false}) : std::nullopt;
}

bool has_dimensions(const Traced& t) { return is_tensor(t) || is_complex_tensor(t); }

/// The scalar whose tag says of which type the number is.
const Traced& tagged_part(const Traced& t) { return is_complex(t) && !t.value ? t.items[0] : t; }
bool is_tagged(const Traced& t) { return tagged_part(t).is_scalar() && tagged_part(t).tag; }

std::optional<std::pair<Traced, Traced>> in_type(Context& c, DType type, const Traced& a, const Traced& b) {
  if (!has_arithmetic(type)) refuse(c, AbortId::operands_, "torch's arithmetic of unsigned integers");
  if (dtype_of(a) == TorchType{type} && dtype_of(b) == TorchType{type}) return {};
  return std::pair{torch_cast(c, a, type), torch_cast(c, b, type)};
}

bool is_bool(const Traced& t) { return t.is_py_bool() || dtype_of(t) == TorchType{DType::bool_}; }

bool concerns(Context& c, const Traced& a, const Traced& b) {
  if (c.library() != runtime::Library::torch || (!is_torch(c, a) && !is_torch(c, b))) return false;
  // Alternatives are taken one by one.
  return has_dimensions(a) || has_dimensions(b) || (!is_tagged(a) && !is_tagged(b));
}

/// Both in the common complex type.
std::optional<std::pair<Traced, Traced>> in_complex_type(Context& c, const Traced& a, const Traced& b) {
  const Traced both[] = {a, b};
  const TorchType type = torch_result_type(c, both);
  if (dtype_of(a) == type && dtype_of(b) == type) return {};
  return std::pair{complex_cast(c, a, type.dtype), complex_cast(c, b, type.dtype)};
}

}  // namespace

bool is_torch(const Context& c, const Traced& t) {
  if (c.library() != runtime::Library::torch) return false;
  if (is_tagged(t)) {
    const std::vector<PyScalarType>& types = tagged_part(t).types;
    return std::any_of(types.begin(), types.end(),
                       [](const PyScalarType& type) { return type.kind == ScalarKind::np_scalar; });
  }
  return dtype_of(t).has_value();
}

TorchType torch_result_type(Context& c, Args operands) {
  MaybeType with_dims, zero_d, python;
  const auto add = [&](MaybeType& to, TorchType t) { to = to ? promoted(c, *to, t) : t; };
  for (const Traced& t : operands) {
    if (is_tagged(t)) {
      for (const PyScalarType& type : tagged_part(t).types) {
        add(type.kind == ScalarKind::np_scalar ? zero_d : python,
            {type.kind == ScalarKind::py_float ? DType::f32_ : type.dtype, is_complex(t)});
      }
    } else if (const MaybeType type = dtype_of(t)) {
      add(has_dimensions(t) ? with_dims : zero_d, *type);
    } else if (is_complex(t)) {
      add(python, {DType::f32_, true});
    } else if (t.is_scalar()) {
      add(python, {t.is_py_float() ? DType::f32_ : t.is_py_bool() ? DType::bool_ : DType::i64_});
    } else {
      refuse(c, AbortId::operands_, describe(t) + " beside a tensor");
    }
  }
  // Where the types of a tag make a difference, nothing can be said.
  const bool tagged = std::any_of(operands.begin(), operands.end(), is_tagged);
  const MaybeType rest = combined(c, zero_d, python), type = combined(c, with_dims, rest);
  if (!type || (tagged && (!with_dims || !ir::is_real(with_dims->dtype)))) {
    refuse(c, AbortId::operands_, "an operand beside a tensor whose type depends on the path");
  }
  return *type;
}

DType torch_type(Context& c, Args operands) {
  const TorchType type = torch_result_type(c, operands);
  if (type.complex) refuse(c, AbortId::operands_, "a function of real tensors on complex ones");
  return type.dtype;
}

Traced torch_cast(Context& c, const Traced& t, DType to) {
  if (is_complex(t)) refuse(c, AbortId::operands_, "a complex tensor as a real one");
  if (dtype_of(t) == TorchType{to}) return t;
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
  if (is_complex(a) || is_complex(b)) {
    if (op == BinaryOp::subtract && (is_bool(a) || is_bool(b))) {
      refuse(c, AbortId::operands_, "a difference with a bool tensor");
    }
    // The exponent of a power is a small integer and stays one.
    return op == BinaryOp::power ? std::nullopt : in_complex_type(c, a, b);
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
      if (op == BinaryOp::floor_divide && ir::is_half(type)) {
        refuse(c, AbortId::operands_, "a floored quotient of tensors of 16 bits");  // torch rounds in between
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

std::optional<Traced> torch_half(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  // On the host torch rounds the number before sums and differences.
  const bool sums = op == BinaryOp::add || op == BinaryOp::subtract;
  const bool keeps_number = sums ? c.for_device() : op == BinaryOp::multiply || op == BinaryOp::true_divide;
  const auto is_number = [](const Traced& t) { return t.is_py_float() || t.is_py_int(); };
  if (!keeps_number || c.library() != runtime::Library::torch || is_number(a) == is_number(b)) return {};
  const Traced &number = is_number(a) ? a : b, &other = is_number(a) ? b : a;
  const MaybeType type = dtype_of(other);
  if (!type || type->complex || !ir::is_half(type->dtype) || holds(type->dtype, number)) return {};
  return torch_cast(c, binary(c, op, torch_cast(c, a, DType::f32_), torch_cast(c, b, DType::f32_)), type->dtype);
}

std::optional<Traced> torch_quotient(Context& c, const Traced& a, const Traced& b) {
  const Traced& part = is_complex(a) && !a.value ? a.items[0] : a;
  const bool number = part.is_scalar() && !part.tag && !part.is_np();
  if (!number || !is_torch(c, b) || is_tagged(b)) return {};
  if (is_complex(b)) {
    return binary(c, BinaryOp::multiply, complex_binary(c, BinaryOp::true_divide, py_float(Emit(c).f64(1)), b), a);
  }
  const DType type = torch_type(c, {&b, 1});
  const Traced divisor[] = {torch_cast(c, b, ir::is_real(type) ? type : DType::f32_)};
  return binary(c, BinaryOp::multiply, call_elementwise(c, "reciprocal", divisor), a);
}

bool torch_casts(DType from, DType to) { return category(from) <= category(to); }

std::optional<std::pair<Traced, Traced>> torch_comparands(Context& c, const Traced& a, const Traced& b) {
  if (!concerns(c, a, b)) return {};
  if (is_complex(a) || is_complex(b)) return in_complex_type(c, a, b);
  const Traced both[] = {a, b};
  return in_type(c, torch_type(c, both), a, b);
}

}  // namespace appy::trace
