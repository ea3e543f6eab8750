#include "trace/arithmetic.h"

#include <cmath>

#include "runtime/numpy.h"
#include "trace/complex.h"
#include "trace/tagged.h"
#include "trace/tensor.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

PyObject* power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }

PyObject* (*const python_functions[])(PyObject*, PyObject*) = {
    PyNumber_Add,      PyNumber_And,        PyNumber_FloorDivide, PyNumber_Lshift, PyNumber_MatrixMultiply,
    PyNumber_Multiply, PyNumber_Remainder,  PyNumber_Or,          power,           PyNumber_Rshift,
    PyNumber_Subtract, PyNumber_TrueDivide, PyNumber_Xor};
constexpr const char* symbols[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};

/// What this CPython says when an int or a float is divided by zero.
std::string zero_text(PyObject* (*call)(PyObject*, PyObject*), bool real) {
  const Ref one = Ref::steal(real ? PyFloat_FromDouble(1) : PyLong_FromLong(1));
  const Ref zero = Ref::steal(real ? PyFloat_FromDouble(0) : PyLong_FromLong(0));
  return error_text([&] { return call(one.get(), zero.get()); });
}

[[noreturn]] void refuse_operands(const Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  refuse(c, AbortId::operands_, describe(a) + " " + symbols[static_cast<size_t>(op)] + " " + describe(b));
}

Value* int_of(Emit& e, const Traced& t) { return e.cast(t.value, DType::i64_); }
Value* float_of(Emit& e, const Traced& t) { return e.cast(t.as_float ? t.as_float : t.value, DType::f64_); }

/// INT_MIN // -1 is the one quotient that leaves 64 bits.
void check_quotient(Emit& e, Value* a, Value* b) {
  e.check(CheckKind::overflow_, e.either(e.ne(a, e.i64(INT64_MIN)), e.ne(b, e.i64(-1))));
}

Quotient python_quotient(Emit& e, const Traced& a, const Traced& b, PyObject* (*call)(PyObject*, PyObject*), bool floor,
                         bool remainder) {
  const bool real = a.is_py_float() || b.is_py_float();
  Value* x = real ? float_of(e, a) : int_of(e, a);
  Value* y = real ? float_of(e, b) : int_of(e, b);
  Value* ok = e.non_zero(y);
  if (!known_true(ok)) e.check(CheckKind::zero_division_, ok, zero_text(call, real));
  if (!real && floor) check_quotient(e, x, y);
  Quotient q;
  if (floor) q.floor = e.op(Opcode::floordiv_, {x, y});
  if (remainder) q.remainder = e.op(Opcode::mod_, {x, y});
  return q;
}

Value* true_divide(Emit& e, const Traced& a, const Traced& b) {
  const bool real = a.is_py_float() || b.is_py_float();
  Value* ok = e.non_zero(b.value);
  if (!known_true(ok)) e.check(CheckKind::zero_division_, ok, zero_text(PyNumber_TrueDivide, real));
  if (!real) {
    // Both convert exactly, so that the division rounds once; Python's long division is not traced.
    for (const Traced* t : {&a, &b}) {
      if (t->is_py_bool()) continue;
      Value* limit = e.i64(int64_t{1} << 53);
      e.check(CheckKind::decline_, e.both(e.ge(t->value, e.i64(-(int64_t{1} << 53))), e.le(t->value, limit)));
    }
  }
  return e.op(Opcode::div_, {float_of(e, a), float_of(e, b)});
}

Value* is_infinite_from(Emit& e, Value* result, Value* a, Value* b) {
  return e.both(e.op(Opcode::isinf_, {result}), e.both(e.op(Opcode::isfinite_, {a}), e.op(Opcode::isfinite_, {b})));
}

/// float_pow() of CPython: its special cases are C's, its errors are not.
Value* python_float_power(Context& c, Value* a, Value* b) {
  Emit e(c);
  Value* zero = e.f64(0);
  Value* bad = e.both(e.is_zero(a), e.both(e.lt(b, zero), e.op(Opcode::isfinite_, {b})));  // 0 ** -inf is inf
  if (!known_false(bad)) {
    const Ref base = Ref::steal(PyFloat_FromDouble(0)), exponent = Ref::steal(PyFloat_FromDouble(-1));
    e.check(CheckKind::zero_division_, e.negate(bad), error_text([&] { return power(base.get(), exponent.get()); }));
  }
  // A negative base with a fractional exponent is complex.
  Value* fractional = e.ne(b, e.op(Opcode::floor_, {b}));
  Value* finite = e.both(e.op(Opcode::isfinite_, {a}), e.op(Opcode::isfinite_, {b}));
  Value* complex = e.both(fractional, e.both(e.lt(a, zero), finite));
  if (!known_false(complex)) e.check(CheckKind::decline_, e.negate(complex));
  Value* result = float_power(c, a, b);
  Value* overflow = is_infinite_from(e, result, a, b);
  if (!known_false(overflow)) {
    const Ref base = Ref::steal(PyFloat_FromDouble(10)), exponent = Ref::steal(PyFloat_FromDouble(400));
    e.check(CheckKind::range_error_, e.negate(overflow), error_text([&] { return power(base.get(), exponent.get()); }));
  }
  return result;
}

/// a ** n for a known n >= 0 by squaring; every product that counts is checked.
Value* int_power(Context& c, Value* a, int64_t n) {
  Value* result = nullptr;
  for (Value* square = a; n;) {
    if (n & 1) result = result ? checked(c, Opcode::ovf_mul_, Opcode::mul_, result, square) : square;
    if (n >>= 1) square = checked(c, Opcode::ovf_mul_, Opcode::mul_, square, square);
  }
  return result ? result : Emit(c).i64(1);
}

Traced python_int_power(Context& c, const Traced& a, const Traced& b) {
  Emit e(c);
  Value* x = int_of(e, a);
  Value* n = int_of(e, b);
  if (std::optional<int64_t> exponent = known_integer(n)) {
    if (*exponent < 0) return py_float(python_float_power(c, e.cast(x, DType::f64_), e.cast(n, DType::f64_)));
    if (*exponent <= 64) return py_int(int_power(c, x, *exponent));
  }
  if (!b.is_py_bool()) e.check(CheckKind::decline_, e.ge(n, e.i64(0)));  // a negative exponent gives a float
  const std::optional<int64_t> base = known_integer(x);
  if (base == 2) {
    e.check(CheckKind::overflow_, e.le(n, e.i64(62)));
    return py_int(e.op(Opcode::shl_, {e.i64(1), n}));
  }
  if (!a.is_py_bool() && !b.is_py_bool() && !(base && std::abs(*base) <= 1)) {
    // No power with n >= 2 lies so near to 2^63 that the rounding of pow could decide.
    Value* estimate = e.op(Opcode::pow_, {e.cast(x, DType::f64_), e.cast(n, DType::f64_)});
    Value* inside = e.both(e.ge(estimate, e.f64(-0x1p63)), e.lt(estimate, e.f64(0x1p63)));
    e.check(CheckKind::overflow_, e.either(e.le(n, e.i64(1)), inside));
  }
  return py_int(e.op(Opcode::pow_, {x, n}));
}

Traced shift(Context& c, bool left, const Traced& a, const Traced& b) {
  Emit e(c);
  Value* x = int_of(e, a);
  Value* n = int_of(e, b);
  Value* ok = b.is_py_bool() ? e.boolean(true) : e.ge(n, e.i64(0));
  if (!known_true(ok)) {
    const Ref one = Ref::steal(PyLong_FromLong(1)), minus = Ref::steal(PyLong_FromLong(-1));
    e.check(CheckKind::value_, ok, error_text([&] { return PyNumber_Lshift(one.get(), minus.get()); }));
  }
  if (!left) return py_int(e.op(Opcode::shr_, {x, n}));
  Value* result = e.op(Opcode::shl_, {x, n});
  e.check(CheckKind::overflow_, e.eq(e.op(Opcode::shr_, {result, n}), x));
  return py_int(result);
}

std::optional<Opcode> bitwise(BinaryOp op) {
  if (op == BinaryOp::and_) return Opcode::and_;
  if (op == BinaryOp::or_) return Opcode::or_;
  if (op == BinaryOp::xor_) return Opcode::xor_;
  return {};
}

Value* numpy_int_power(Context& c, Value* x, Value* n, bool signed_exponent) {
  Emit e(c);
  if (signed_exponent) {
    e.check(CheckKind::value_, e.ge(n, e.integer(n->type.dtype, 0)),
            "Integers to negative integer powers are not allowed.");
  }
  std::optional<int64_t> exponent = known_integer(n);
  if (!exponent || *exponent < 0 || *exponent > 64) return e.op(Opcode::pow_, {x, n});
  Value* result = nullptr;
  for (Value* square = x; *exponent;) {
    if (*exponent & 1) result = result ? e.op(Opcode::mul_, {result, square}) : square;
    if (*exponent >>= 1) square = e.op(Opcode::mul_, {square, square});
  }
  return result ? result : e.integer(x->type.dtype, 1);
}

}  // namespace

PyObject* python_constant(const Traced& t) {
  PyObject* o = t.object.get();
  if (!o || t.tag) return nullptr;
  if (t.kind == Kind::scalar) return t.is_np() ? nullptr : o;
  return PyLong_CheckExact(o) || PyUnicode_CheckExact(o) || o == Py_None ? o : nullptr;
}

std::optional<Traced> fold(Context& c, PyObject* (*call)(PyObject*, PyObject*), const Traced& a, const Traced& b) {
  PyObject *x = python_constant(a), *y = python_constant(b);
  if (!x || !y) return {};
  // Ints of a size that makes Python itself slow are no constants that anybody writes.
  const Ref result = Ref::steal(call(x, y));
  if (result) return constant(c, result.get());
  PyErr_Clear();
  return {};
}

std::optional<Traced> fold(Context& c, PyObject* (*call)(PyObject*), const Traced& a) {
  PyObject* x = python_constant(a);
  if (!x) return {};
  const Ref result = Ref::steal(call(x));
  if (result) return constant(c, result.get());
  PyErr_Clear();
  return {};
}

Value* checked(Context& c, Opcode overflow, Opcode code, Value* a, Value* b) {
  Emit e(c);
  e.check(CheckKind::overflow_, e.negate(e.op(overflow, {a, b})));
  return e.op(code, {a, b});
}

Value* float_power(Context& c, Value* x, Value* y) {
  Emit e(c);
  if (c.exact() || !known(y) || known(x)) return e.op(Opcode::pow_, {x, y});
  for (int n = 1; n <= 4; n++) {
    if (known(y) != known(e.number(y->type.dtype, n))) continue;
    if (n == 1) return x;
    Value* square = e.op(Opcode::mul_, {x, x});
    return n == 2 ? square : e.op(Opcode::mul_, {square, n == 3 ? x : square});
  }
  return e.op(Opcode::pow_, {x, y});
}

Traced python_binary(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  Emit e(c);
  const bool real = a.is_py_float() || b.is_py_float();
  if (std::optional<Opcode> code = bitwise(op)) {
    if (real) refuse_operands(c, op, a, b);
    if (a.is_py_bool() && b.is_py_bool()) return py_bool(e.op(*code, {a.value, b.value}));
    return py_int(e.op(*code, {int_of(e, a), int_of(e, b)}));
  }
  auto arithmetic = [&](Opcode overflow, Opcode code) {
    if (real) return py_float(e.op(code, {float_of(e, a), float_of(e, b)}));
    if (a.is_py_bool() && b.is_py_bool()) return py_int(e.op(code, {int_of(e, a), int_of(e, b)}));
    return py_int(checked(c, overflow, code, int_of(e, a), int_of(e, b)));
  };
  switch (op) {
    case BinaryOp::add:
      return arithmetic(Opcode::ovf_add_, Opcode::add_);
    case BinaryOp::subtract:
      return arithmetic(Opcode::ovf_sub_, Opcode::sub_);
    case BinaryOp::multiply:
      return arithmetic(Opcode::ovf_mul_, Opcode::mul_);
    case BinaryOp::true_divide:
      return py_float(true_divide(e, a, b));
    case BinaryOp::floor_divide: {
      Value* q = python_quotient(e, a, b, PyNumber_FloorDivide, true, false).floor;
      return real ? py_float(q) : py_int(q);
    }
    case BinaryOp::remainder: {
      Value* r = python_quotient(e, a, b, PyNumber_Remainder, false, true).remainder;
      return real ? py_float(r) : py_int(r);
    }
    case BinaryOp::power:
      if (real) return py_float(python_float_power(c, float_of(e, a), float_of(e, b)));
      return python_int_power(c, a, b);
    case BinaryOp::lshift:
    case BinaryOp::rshift:
      if (real) refuse_operands(c, op, a, b);
      return shift(c, op == BinaryOp::lshift, a, b);
    default:
      refuse_operands(c, op, a, b);
  }
}

Traced numpy_binary(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  Emit e(c);
  DType t = common_type(a, b);
  const bool booleans = t == DType::bool_;
  if (std::optional<Opcode> code = bitwise(op)) {
    if (ir::is_real(t)) refuse_operands(c, op, a, b);
    return np_scalar(e.op(*code, {to_dtype(c, a, t), to_dtype(c, b, t)}));
  }
  switch (op) {
    case BinaryOp::add:
      if (booleans) return np_scalar(e.op(Opcode::or_, {a.value, b.value}));
      return np_scalar(e.op(Opcode::add_, {to_dtype(c, a, t), to_dtype(c, b, t)}));
    case BinaryOp::multiply:
      if (booleans) return np_scalar(e.op(Opcode::and_, {a.value, b.value}));
      return np_scalar(e.op(Opcode::mul_, {to_dtype(c, a, t), to_dtype(c, b, t)}));
    case BinaryOp::subtract:
      if (booleans) refuse_operands(c, op, a, b);  // a TypeError
      return np_scalar(e.op(Opcode::sub_, {to_dtype(c, a, t), to_dtype(c, b, t)}));
    case BinaryOp::true_divide:
      if (!ir::is_real(t)) t = DType::f64_;
      return np_scalar(e.op(Opcode::div_, {to_dtype(c, a, t), to_dtype(c, b, t)}));
    case BinaryOp::matrix_multiply:
      refuse_operands(c, op, a, b);
    default:
      break;
  }
  if (booleans) t = DType::i8_;  // the ufuncs' first loop
  if ((op == BinaryOp::lshift || op == BinaryOp::rshift) && ir::is_real(t)) refuse_operands(c, op, a, b);
  Value* x = to_dtype(c, a, t);
  Value* y = to_dtype(c, b, t);
  switch (op) {
    case BinaryOp::floor_divide:
      return np_scalar(e.op(Opcode::floordiv_, {x, y}));
    case BinaryOp::remainder:
      return np_scalar(e.op(Opcode::mod_, {x, y}));
    case BinaryOp::power:
      if (ir::is_real(t)) {
        // Where neither operand is a scalar of that type, NumPy calls the ufunc, whose pow is not libm's.
        const bool libm = (a.is_np() && a.type.dtype == t) || (b.is_np() && b.type.dtype == t);
        if (c.exact() && !libm) refuse(c, AbortId::exact_function_, "numpy.power");
        return np_scalar(float_power(c, x, y));
      }
      return np_scalar(numpy_int_power(c, x, y, ir::is_signed(t) && b.type.dtype != DType::bool_));
    case BinaryOp::lshift:
      return np_scalar(e.op(Opcode::shl_, {x, y}));
    default: {
      // A negative count is a huge one: all that is left is the sign.
      Value* result = e.op(Opcode::shr_, {x, y});
      if (!ir::is_signed(t)) return np_scalar(result);
      Value* fill = e.op(Opcode::shr_, {x, e.integer(t, 8 * ir::size_of(t) - 1)});
      return np_scalar(e.select(e.lt(y, e.integer(t, 0)), fill, result));
    }
  }
}

Traced divide(Context& c, const Traced& a, const Traced& b) {
  Emit e(c);
  if (a.is_np() || b.is_np()) {
    return tuple_of({numpy_binary(c, BinaryOp::floor_divide, a, b), numpy_binary(c, BinaryOp::remainder, a, b)});
  }
  const bool real = a.is_py_float() || b.is_py_float();
  const Quotient q = python_quotient(e, a, b, PyNumber_Divmod, true, true);
  return tuple_of({real ? py_float(q.floor) : py_int(q.floor), real ? py_float(q.remainder) : py_int(q.remainder)});
}

Traced binary(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  if (op == BinaryOp::true_divide) {
    if (std::optional<Traced> quotient = torch_quotient(c, a, b)) return *quotient;
  }
  if (std::optional<Traced> result = torch_half(c, op, a, b)) return *result;
  if (auto cast = torch_operands(c, op, a, b)) return binary(c, op, cast->first, cast->second);
  if (is_complex(a) || is_complex(b)) return complex_binary(c, op, a, b);
  if (is_tensor(a) || is_tensor(b)) {
    if (op == BinaryOp::matrix_multiply) return matmul(c, a, b, false);
    const Traced operands[] = {a, b};
    return map(c, operands, [op](Context& context, Scalars x) { return binary(context, op, x[0], x[1]); });
  }
  if (a.tag && a.is_scalar()) {
    return per_alternative(c, a, [&](Context& g, const Traced& x) { return binary(g, op, x, b); });
  }
  if (b.tag && b.is_scalar()) {
    return per_alternative(c, b, [&](Context& g, const Traced& y) { return binary(g, op, a, y); });
  }
  const bool huge = op == BinaryOp::power || op == BinaryOp::lshift;
  if (!huge || !big_int(b)) {
    PyObject* count = huge ? python_constant(b) : nullptr;
    const bool small = !count || !PyLong_CheckExact(count) || PyLong_AsLongLong(count) <= 1024;
    if (small) {
      if (std::optional<Traced> folded = fold(c, python_functions[static_cast<size_t>(op)], a, b)) return *folded;
    }
  }
  if (op == BinaryOp::add && a.kind == Kind::tuple && b.kind == Kind::tuple) {
    std::vector<Traced> items = a.items;
    items.insert(items.end(), b.items.begin(), b.items.end());
    return tuple_of(std::move(items));
  }
  const Traced x = number(c, a, &b), y = number(c, b, &a);
  const bool numpy = x.is_np() || y.is_np();
  return numpy ? numpy_binary(c, op, x, y) : python_binary(c, op, x, y);
}

}  // namespace appy::trace
