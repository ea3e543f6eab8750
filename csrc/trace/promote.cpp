#include "trace/promote.h"

#include <algorithm>

#include "runtime/numpy.h"

namespace appy::trace {

using ir::Value;

DType promote(DType a, DType b) {
  if (a == b || b == DType::bool_) return a;
  if (a == DType::bool_) return b;
  if (ir::is_real(a) || ir::is_real(b)) {
    const DType x = float_type(a), y = float_type(b);
    return ir::is_half(x) && ir::is_half(y) && x != y ? DType::f32_ : std::max(x, y);
  }
  if (ir::class_of(a) == ir::class_of(b)) return ir::size_of(a) > ir::size_of(b) ? a : b;
  if (!ir::is_signed(a)) std::swap(a, b);
  if (ir::size_of(a) > ir::size_of(b)) return a;
  constexpr DType wider[] = {DType::i16_, DType::i32_, DType::i64_, DType::f64_};
  return wider[std::countr_zero(static_cast<unsigned>(ir::size_of(b)))];
}

DType common_type(std::span<const Traced* const> operands) {
  DType result = DType::bool_;
  for (const Traced* t : operands) {
    if (t->type.kind == ScalarKind::np_scalar) result = promote(result, t->type.dtype);
  }
  for (const Traced* t : operands) {
    if (t->is_py_float() && !ir::is_real(result)) return DType::f64_;
  }
  for (const Traced* t : operands) {
    if (t->is_py_int() && result == DType::bool_) return DType::i64_;
  }
  return result;
}

DType common_type(const Traced& a, const Traced& b) {
  const Traced* both[] = {&a, &b};
  return common_type(both);
}

Value* to_dtype(Context& context, const Traced& t, DType to) {
  Emit e(context);
  if (t.as_float && ir::is_real(to)) return e.cast(t.as_float, to);
  if (t.is_py_int()) {
    // NumPy reads Python ints as C doubles before it rounds.
    if (ir::is_real(to) && to != DType::f64_) return e.cast(e.cast(t.value, DType::f64_), to);
    if (ir::is_int(to) && to != DType::i64_) {
      const ir::Range range = bounds_of(to);
      Value* ok = e.ge(t.value, e.i64(range.lo));
      if (to != DType::u64_) ok = e.both(ok, e.le(t.value, e.i64(range.hi)));
      e.check(ir::CheckKind::fits_, ok, runtime::numpy_name(to), {t.value});
    }
  }
  return e.cast(t.value, to);
}

DType float_type(DType t) {
  if (ir::is_real(t)) return t;
  const int size = ir::size_of(t);
  return size == 1 ? DType::f16_ : size == 2 ? DType::f32_ : DType::f64_;
}

DType float_type(const Traced& a, const Traced& b) {
  const DType common = common_type(a, b);
  if (ir::is_real(common)) return common;
  const DType x = a.is_py_int() ? common : a.value->type.dtype, y = b.is_py_int() ? common : b.value->type.dtype;
  return float_type(ir::size_of(x) > ir::size_of(y) ? x : y);
}

PyObject* big_int(const Traced& t) {
  return t.kind == Kind::object && PyLong_CheckExact(t.object.get()) ? t.object.get() : nullptr;
}

Traced number(Context& context, const Traced& t, const Traced* other) {
  if (t.kind == Kind::scalar) return t;
  if (t.kind == Kind::zero_d) return make(t.type, t.value);
  if (t.kind == Kind::array && t.value->type.rank == 0) return np_scalar(context.builder().load(t.value, {}));
  PyObject* big = big_int(t);
  if (!big || !other) refuse(context, AbortId::unsupported_type_, describe(t));
  if ((other->kind == Kind::scalar || other->kind == Kind::zero_d) && !other->tag) {
    if (ir::is_real(other->type.dtype)) {
      const double value = PyLong_AsDouble(big);
      if (!PyErr_Occurred()) return py_float(context.builder().f64(value));
      PyErr_Clear();
    } else if (other->type == PyScalarType{ScalarKind::np_scalar, DType::u64_}) {
      const uint64_t value = PyLong_AsUnsignedLongLong(big);
      if (!PyErr_Occurred()) return np_scalar(context.builder().constant(DType::u64_, value));
      PyErr_Clear();
    }
  }
  refuse(context, AbortId::unsupported_type_, "int beyond 64 bits");
}

}  // namespace appy::trace
