// The ufuncs of `numpy` and `scipy.special` on scalars: types by NEP 50, never an exception for a value.
#include <numbers>

#include "runtime/scalar.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/handlers.h"

namespace appy::trace {
namespace {

using ir::Value;

[[noreturn]] void refuse_types(const Context& c, const Function& f, Args args) {
  std::string text = std::string(f.module) + "." + f.name + "(";
  for (const Traced& t : args) text += (&t == args.data() ? "" : ", ") + describe(t);
  refuse(c, AbortId::call_, text + ")");
}

/// The argument in the float type that the elementary functions use for it.
Value* real_argument(Context& c, const Traced& t) {
  const Traced x = as_numpy(c, t);
  return Emit(c).cast(x.value, float_type(x.type.dtype));
}

struct Operands {
  Traced a, b;
};

/// Numbers as the ufunc sees them: Python's stay weak beside NumPy's.
Operands operands(Context& c, Args args) { return {number(c, args[0], &args[1]), number(c, args[1], &args[0])}; }

struct Pair {
  Value* x;
  Value* y;
};

Pair common(Context& c, const Operands& o, DType t) { return {to_dtype(c, o.a, t), to_dtype(c, o.b, t)}; }

Pair real_pair(Context& c, Args args) {
  const Operands o = operands(c, args);
  return common(c, o, float_type(o.a, o.b));
}

/// Functions of several operations compute halves in float32.
Value* at_least_f32(Emit& e, Value* x) { return ir::is_half(x->type.dtype) ? e.cast(x, DType::f32_) : x; }

/// x * (a / b), the quotient rounded in the type of x.
Value* scaled(Emit& e, Value* given, double a, double b) {
  Value* x = at_least_f32(e, given);
  const DType t = x->type.dtype;
  Value* product = e.op(Opcode::mul_, {x, e.op(Opcode::div_, {e.number(t, a), e.number(t, b)})});
  return e.cast(product, given->type.dtype);
}

}  // namespace

Traced operator_of_numpy(Context& c, Args args, BinaryOp op) {
  const Operands o = operands(c, args);
  return numpy_binary(c, op, o.a, o.b);
}

Traced comparison_of_numpy(Context& c, Args args, CompareOp op) {
  const Operands o = operands(c, args);
  return np_scalar(numpy_compare(c, op, o.a, o.b));
}

Traced unary_of_numpy(Context& c, Args args, UnaryOp op) { return unary(c, op, as_numpy(c, args[0])); }

Traced numpy_absolute(Context& c, const Function& f, Args args) {
  const Traced x[] = {as_numpy(c, args[0])};
  return builtin_abs(c, f, x);
}

Traced numpy_real(Context& c, const Function& f, Args args) {
  return np_scalar(Emit(c).op(f.code, {real_argument(c, args[0])}));
}

Traced numpy_elementary(Context& c, const Function& f, Args args) {
  require_inexact(c, f);
  return numpy_real(c, f, args);
}

namespace {

/// Of equal halves np.nextafter gives the second one since NumPy 2.5, the first one before: zeros tell.
bool gives_second_of_equals(const Function& f) {
  static const bool second = [&] {
    const runtime::PyScalarType half{runtime::ScalarKind::np_scalar, DType::f16_};
    const Ref minus = Ref::steal(runtime::make_scalar(half, 0x8000)), zero = Ref::steal(runtime::make_scalar(half, 0));
    const Ref next = Ref::steal(PyObject_CallFunctionObjArgs(callable_of(f), minus.get(), zero.get(), nullptr));
    ir::Word word = 0;
    const bool known = next && runtime::read_word(next.get(), half, &word);
    PyErr_Clear();
    return !known || word == 0;
  }();
  return second;
}

/// The half next to x in the direction of y, by their words.
Value* half_after(Context& c, const Function& f, Value* x, Value* y) {
  Emit e(c);
  const auto word = [&](int64_t w) { return e.integer(DType::u16_, w); };
  Value* bits = c.builder().bitcast(x, DType::u16_);
  Value* sign = e.op(Opcode::and_, {c.builder().bitcast(y, DType::u16_), word(0x8000)});
  Value* up = e.op(Opcode::add_, {bits, word(1)});
  Value* down = e.op(Opcode::sub_, {bits, word(1)});
  Value* inwards = e.select(e.gt(x, e.number(DType::f16_, 0)), e.lt(y, x), e.gt(y, x));
  Value* moved = e.select(inwards, down, up);
  moved = e.select(e.is_zero(x), e.op(Opcode::or_, {sign, word(1)}), moved);
  Value* unordered = e.either(e.op(Opcode::isnan_, {x}), e.op(Opcode::isnan_, {y}));
  Value* same = gives_second_of_equals(f) ? y : x;
  Value* result = e.select(e.eq(x, y), same, c.builder().bitcast(moved, DType::f16_));
  return e.select(unordered, e.op(Opcode::add_, {x, y}), result);
}

}  // namespace

Traced numpy_real2(Context& c, const Function& f, Args args) {
  const Pair p = real_pair(c, args);
  if (f.code == Opcode::nextafter_ && p.x->type.dtype == DType::f16_) return np_scalar(half_after(c, f, p.x, p.y));
  return np_scalar(Emit(c).op(f.code, {p.x, p.y}));
}

Traced numpy_elementary2(Context& c, const Function& f, Args args) {
  require_inexact(c, f);
  return numpy_real2(c, f, args);
}

Traced numpy_float_power(Context& c, const Function& f, Args args) {
  require_inexact(c, f);
  const Pair p = common(c, operands(c, args), DType::f64_);
  return np_scalar(float_power(c, p.x, p.y));
}

/// Unlike the operator of scalars, the ufunc has loops of its own for floats; they take 0.5 for a square root, that of
/// halves does not.
Traced numpy_power(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Operands o = operands(c, args);
  const DType t = common_type(o.a, o.b);
  if (!ir::is_real(t)) return numpy_binary(c, BinaryOp::power, o.a, o.b);
  require_inexact(c, f);
  const Pair p = common(c, o, t);
  Value* half = t == DType::f16_ ? e.boolean(false) : e.eq(p.y, e.number(t, 0.5));
  Value* root = known_false(half) ? p.x : e.op(Opcode::sqrt_, {p.x});
  return np_scalar(e.select(half, root, known_true(half) ? root : float_power(c, p.x, p.y)));
}

Traced numpy_integral(Context& c, const Function& f, Args args) {
  const Traced x = as_numpy(c, args[0]);
  return ir::is_real(x.type.dtype) ? np_scalar(Emit(c).op(f.code, {x.value})) : x;
}

Traced numpy_round(Context& c, const Function& f, Args args) {
  const Traced x = as_numpy(c, args[0]);
  if (x.type.dtype == DType::bool_) return np_scalar(Emit(c).cast(x.value, DType::f16_));
  return numpy_integral(c, f, args);
}

Traced numpy_bitwise_count(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = as_numpy(c, args[0]);
  if (ir::is_real(x.type.dtype)) refuse_types(c, f, args);
  if (x.type.dtype == DType::bool_) return np_scalar(e.cast(x.value, DType::u8_));
  return np_scalar(e.cast(e.op(f.code, {x.value}), DType::u8_));
}

Traced numpy_clip(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = number(c, args[0]);
  std::vector<Traced> bounds;
  for (const Traced& t : args.subspan(1)) {
    if (t.kind == Kind::object && t.object.get() == Py_None) refuse_types(c, f, args);
    bounds.push_back(number(c, t, &x));
  }
  const Traced* all[] = {&x, &bounds[0], &bounds[1]};
  const DType t = common_type(all);
  Value* result = to_dtype(c, x, t);
  for (int i = 0; i < 2; i++) {
    const Traced& bound = bounds[static_cast<size_t>(i)];
    // A Python int outside the type is no bound.
    if (bound.is_py_int() && ir::is_int(t) && t != DType::i64_) {
      const std::optional<int64_t> k = known_integer(bound.value);
      if (!k) refuse_types(c, f, args);
      const bool without = i == 0 ? *k < bounds_of(t).lo : *k > bounds_of(t).hi && t != DType::u64_;
      if (without) continue;
    }
    result = e.op(i == 0 ? Opcode::maximum_ : Opcode::minimum_, {result, to_dtype(c, bound, t)});
  }
  return np_scalar(result);
}

Traced numpy_conjugate(Context& c, const Function&, Args args) {
  const Traced x = as_numpy(c, args[0]);
  return x.type.dtype == DType::bool_ ? np_scalar(Emit(c).cast(x.value, DType::i8_)) : x;
}

Traced numpy_degrees(Context& c, const Function&, Args args) {
  Emit e(c);
  return np_scalar(scaled(e, real_argument(c, args[0]), 180, std::numbers::pi));
}

Traced numpy_radians(Context& c, const Function&, Args args) {
  Emit e(c);
  return np_scalar(scaled(e, real_argument(c, args[0]), std::numbers::pi, 180));
}

Traced numpy_divmod(Context& c, const Function&, Args args) {
  const Operands o = operands(c, args);
  return tuple_of({numpy_binary(c, BinaryOp::floor_divide, o.a, o.b), numpy_binary(c, BinaryOp::remainder, o.a, o.b)});
}

Traced numpy_extremum(Context& c, const Function& f, Args args) {
  const Operands o = operands(c, args);
  const Pair p = common(c, o, common_type(o.a, o.b));
  Emit e(c);
  // Of equal zeros the op gives the second; NumPy's loop for halves keeps the first.
  if (p.x->type.dtype == DType::f16_) return np_scalar(e.op(f.code, {p.y, p.x}));
  return np_scalar(e.op(f.code, {p.x, p.y}));
}

namespace {

/// The more extreme one, where one is NaN the other. Of equal zeros NumPy's loops keep the first double, the second
/// float.
Traced extremum_but_nan(Context& c, Args args, Opcode keeps, Opcode keeps_f32) {
  Emit e(c);
  const Operands o = operands(c, args);
  const Pair p = common(c, o, common_type(o.a, o.b));
  Value* keep = e.op(p.x->type.dtype == DType::f32_ ? keeps_f32 : keeps, {p.x, p.y});
  if (ir::is_real(p.x->type.dtype)) keep = e.either(keep, e.op(Opcode::isnan_, {p.y}));
  return np_scalar(e.select(keep, p.x, p.y));
}

}  // namespace

Traced numpy_fmax(Context& c, const Function&, Args args) {
  return extremum_but_nan(c, args, Opcode::ge_, Opcode::gt_);
}
Traced numpy_fmin(Context& c, const Function&, Args args) {
  return extremum_but_nan(c, args, Opcode::le_, Opcode::lt_);
}

Traced numpy_fmod(Context& c, const Function& f, Args args) {
  const Operands o = operands(c, args);
  DType t = common_type(o.a, o.b);
  if (t == DType::bool_) t = DType::i8_;
  const Pair p = common(c, o, t);
  return np_scalar(Emit(c).op(f.code, {p.x, p.y}));
}

Traced numpy_heaviside(Context& c, const Function&, Args args) {
  Emit e(c);
  const Pair p = real_pair(c, args);
  const DType t = p.x->type.dtype;
  Value* zero = e.number(t, 0);
  Value* step = e.select(e.lt(p.x, zero), zero, e.number(t, 1));
  Value* result = e.select(e.eq(p.x, zero), p.y, step);
  return np_scalar(e.select(e.op(Opcode::isnan_, {p.x}), p.x, result));
}

Traced numpy_test(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = as_numpy(c, args[0]);
  if (ir::is_real(x.type.dtype)) return np_scalar(e.op(f.code, {x.value}));
  if (f.code != Opcode::signbit_) return np_scalar(e.boolean(f.code == Opcode::isfinite_));
  if (!ir::is_signed(x.type.dtype)) return np_scalar(e.boolean(false));
  return np_scalar(e.lt(x.value, e.integer(x.type.dtype, 0)));
}

Traced numpy_logaddexp(Context& c, const Function& f, Args args) {
  require_inexact(c, f);
  Emit e(c);
  const Pair given = real_pair(c, args);
  const Pair p = {at_least_f32(e, given.x), at_least_f32(e, given.y)};
  const DType t = p.x->type.dtype;
  Value* larger = e.op(Opcode::maximum_, {p.x, p.y});
  Value* distance = e.op(Opcode::abs_, {e.op(Opcode::sub_, {p.x, p.y})});
  Value* tail = e.op(Opcode::log1p_, {e.op(Opcode::exp_, {e.op(Opcode::neg_, {distance})})});
  // Equal arguments first: the difference of two infinities is NaN.
  Value* twice = e.op(Opcode::add_, {p.x, e.number(t, std::numbers::ln2)});
  Value* sum = e.select(e.eq(p.x, p.y), twice, e.op(Opcode::add_, {larger, tail}));
  return np_scalar(e.cast(sum, given.x->type.dtype));
}

Traced numpy_logical(Context& c, const Function& f, Args args) {
  const Operands o = operands(c, args);
  return np_scalar(Emit(c).op(f.code, {truth(c, o.a), truth(c, o.b)}));
}

Traced numpy_logical_not(Context& c, const Function&, Args args) {
  return np_scalar(Emit(c).negate(truth(c, number(c, args[0]))));
}

Traced numpy_reciprocal(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = as_numpy(c, args[0]);
  if (!ir::is_real(x.type.dtype)) refuse_types(c, f, args);
  return np_scalar(e.op(f.code, {e.number(x.type.dtype, 1), x.value}));
}

Traced numpy_sign(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = as_numpy(c, args[0]);
  const DType t = x.type.dtype;
  if (t == DType::bool_) refuse_types(c, f, args);
  Value *zero = e.number(t, 0), *one = e.number(t, 1);
  Value* positive = e.gt(x.value, zero);
  if (ir::is_int(t) && !ir::is_signed(t)) return np_scalar(e.cast(positive, t));
  Value* rest = ir::is_real(t) ? e.select(e.eq(x.value, zero), zero, x.value) : zero;
  return np_scalar(e.select(positive, one, e.select(e.lt(x.value, zero), e.number(t, -1), rest)));
}

Traced numpy_square(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = as_numpy(c, args[0]);
  Value* v = x.type.dtype == DType::bool_ ? e.cast(x.value, DType::i8_) : x.value;
  return np_scalar(e.op(f.code, {v, v}));
}

Traced numpy_where(Context& c, const Function&, Args args) {
  const Operands o = operands(c, args.subspan(1));
  const Pair p = common(c, o, common_type(o.a, o.b));
  Traced result = np_scalar(Emit(c).select(truth(c, number(c, args[0])), p.x, p.y));
  result.kind = Kind::zero_d;  // also of scalars, NumPy returns an array
  return result;
}

namespace {

/// scipy.special has loops for float32 and float64; which one an integer takes depends on its version, so it is asked.
Value* special_argument(Context& c, const Function& f, const Traced& t) {
  require_inexact(c, f);
  const Traced x = number(c, t);
  const Ref sample = Ref::steal(runtime::make_scalar(x.type, 0));
  const Ref result = sample ? Ref::steal(PyObject_CallOneArg(callable_of(f), sample.get())) : Ref();
  PyErr_Clear();
  const std::optional<PyScalarType> type = result ? runtime::scalar_type_of(result.get()) : std::nullopt;
  if (!type || !ir::is_real(type->dtype)) refuse_types(c, f, std::span(&t, 1));
  return Emit(c).cast(x.value, type->dtype);
}

}  // namespace

Traced special_elementary(Context& c, const Function& f, Args args) {
  return np_scalar(Emit(c).op(f.code, {special_argument(c, f, args[0])}));
}

Traced special_expit(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* x = special_argument(c, f, args[0]);
  Value* one = e.number(x->type.dtype, 1);
  Value* power = e.op(f.code, {e.op(Opcode::neg_, {x})});
  return np_scalar(e.op(Opcode::div_, {one, e.op(Opcode::add_, {one, power})}));
}

/// NaN at the poles, where C has NaN or an infinity: at -inf and the negative integers.
Traced special_gamma(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* x = special_argument(c, f, args[0]);
  const DType t = x->type.dtype;
  Value* pole = e.both(e.lt(x, e.number(t, 0)), e.eq(x, e.op(Opcode::floor_, {x})));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return np_scalar(e.select(pole, e.number(t, nan), e.op(f.code, {x})));
}

}  // namespace appy::trace
