#include "runtime/numpy.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/semantics.h"
#include "trace/tagged.h"
#include "trace/tensor.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;

constexpr Opcode codes[] = {Opcode::lt_, Opcode::le_, Opcode::eq_, Opcode::ne_, Opcode::gt_, Opcode::ge_};
constexpr int rich[] = {Py_LT, Py_LE, Py_EQ, Py_NE, Py_GT, Py_GE};

CompareOp swapped(CompareOp op) {
  constexpr CompareOp table[] = {CompareOp::gt, CompareOp::ge, CompareOp::eq,
                                 CompareOp::ne, CompareOp::lt, CompareOp::le};
  return table[static_cast<size_t>(op)];
}

Value* apply(Emit& e, CompareOp op, Value* a, Value* b) { return e.op(codes[static_cast<size_t>(op)], {a, b}); }

/// Exact, whatever the two integer types are.
Value* compare_ints(Emit& e, CompareOp op, Value* a, Value* b) {
  const DType ta = a->type.dtype, tb = b->type.dtype;
  if (ta == tb) return apply(e, op, a, b);
  // A constant joins the other's type where it fits, so that lanes stay narrow.
  for (auto [constant, other] : {std::pair{a, tb}, std::pair{b, ta}}) {
    const std::optional<int64_t> k = known_integer(constant);
    if (k && other != DType::bool_ && *k >= bounds_of(other).lo && *k <= bounds_of(other).hi) {
      return apply(e, op, e.cast(a, other), e.cast(b, other));
    }
  }
  const DType common = promote(ta, tb);
  if (ir::is_int(common)) return apply(e, op, e.cast(a, common), e.cast(b, common));
  if (ta == DType::u64_) return compare_ints(e, swapped(op), b, a);
  // a is signed, b is u64.
  Value* negative = e.lt(a, e.integer(ta, 0));
  Value* unsigned_result = apply(e, op, e.cast(a, DType::u64_), b);
  if (op == CompareOp::lt || op == CompareOp::le || op == CompareOp::ne) return e.either(negative, unsigned_result);
  return e.both(e.negate(negative), unsigned_result);
}

/// A Python int against a Python float, exactly: the rounded int decides unless it equals the float; then the float is
/// an integer and is compared as one (2^63 is none of i64, but greater than all).
Value* compare_int_float(Emit& e, CompareOp op, Value* i, Value* f) {
  Value* rounded = e.cast(i, DType::f64_);
  const std::optional<int64_t> k = known_integer(i);
  if (i->type.dtype == DType::bool_ || (k && std::abs(*k) <= (int64_t{1} << 53))) return apply(e, op, rounded, f);
  Value* top = e.eq(f, e.f64(0x1p63));
  Value* truncated = e.op(Opcode::select_, {top, e.i64(INT64_MAX), e.cast(f, DType::i64_)});
  switch (op) {
    case CompareOp::eq:
      return e.both(e.eq(rounded, f), e.both(e.negate(top), e.eq(i, truncated)));
    case CompareOp::ne:
      return e.either(e.ne(rounded, f), e.either(top, e.ne(i, truncated)));
    default: {
      const bool less = op == CompareOp::lt || op == CompareOp::le;
      Value* strictly = less ? e.lt(rounded, f) : e.gt(rounded, f);
      Value* tie = apply(e, op, i, truncated);
      tie = less ? e.either(top, tie) : e.both(e.negate(top), tie);
      return e.either(strictly, e.both(e.eq(rounded, f), tie));
    }
  }
}

Value* python_compare(Context& c, CompareOp op, const Traced& a, const Traced& b) {
  Emit e(c);
  if (a.is_py_float() && b.is_py_float()) return apply(e, op, a.value, b.value);
  if (b.is_py_float()) return compare_int_float(e, op, a.value, b.value);
  if (a.is_py_float()) return compare_int_float(e, swapped(op), b.value, a.value);
  return compare_ints(e, op, a.value, b.value);
}

/// A Python int beyond 64 bits against a NumPy or Python integer.
std::optional<bool> compare_big(CompareOp op, PyObject* big, const Traced& other) {
  if (other.kind != Kind::scalar || ir::is_real(other.type.dtype)) return {};
  const Ref zero = Ref::steal(PyLong_FromLong(0));
  const bool positive = PyObject_RichCompareBool(big, zero.get(), Py_GT) == 1;
  if (positive && other.type.dtype == DType::u64_) {
    const uint64_t fits = PyLong_AsUnsignedLongLong(big);
    if (!PyErr_Occurred()) return static_cast<void>(fits), std::nullopt;
    PyErr_Clear();
  }
  switch (op) {
    case CompareOp::eq:
      return false;
    case CompareOp::ne:
      return true;
    default:
      return positive == (op == CompareOp::gt || op == CompareOp::ge);
  }
}

/// Is it certain whether the two are one object? Scalars are compared with None, True and False only.
std::optional<Value*> same_object(Context& c, const Traced& a, const Traced& b) {
  Emit e(c);
  const auto is_array = [](const Traced& t) { return t.kind == Kind::object && PyArray_Check(t.object.get()); };
  if (is_array(a) && is_array(b)) return {};  // guarded by their fields only
  if (a.kind == Kind::object && b.kind == Kind::object) return e.boolean(a.object.get() == b.object.get());
  for (auto [x, y] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
    if (x->kind == Kind::object && y->kind != Kind::unbound && y->kind != Kind::null && y->kind != Kind::method) {
      if (!PyLong_CheckExact(x->object.get()) && !PyTuple_CheckExact(x->object.get())) return e.boolean(false);
    }
    PyObject* singleton = python_constant(*x);
    if (singleton != Py_True && singleton != Py_False) continue;
    if (y->kind != Kind::scalar || y->tag) return {};
    if (!y->is_py_bool()) return e.boolean(false);
    return e.eq(x->value, y->value);
  }
  return {};
}

}  // namespace

Value* numpy_compare(Context& c, CompareOp op, const Traced& a, const Traced& b) {
  Emit e(c);
  if (!ir::is_real(a.value->type.dtype) && !ir::is_real(b.value->type.dtype)) {
    return compare_ints(e, op, a.value, b.value);
  }
  const DType t = common_type(a, b);
  return apply(e, op, to_dtype(c, a, t), to_dtype(c, b, t));
}

Traced compare(Context& c, CompareOp op, const Traced& a, const Traced& b) {
  if (auto cast = torch_comparands(c, a, b)) return compare(c, op, cast->first, cast->second);
  if (is_complex(a) || is_complex(b)) return complex_compare(c, op, a, b);
  Emit e(c);
  if (is_tensor(a) || is_tensor(b)) {
    const Traced operands[] = {a, b};
    return map(c, operands, [op](Context& context, Scalars x) { return compare(context, op, x[0], x[1]); });
  }
  if (a.tag && a.is_scalar()) {
    return per_alternative(c, a, [&](Context& g, const Traced& x) { return compare(g, op, x, b); });
  }
  if (b.tag && b.is_scalar()) {
    return per_alternative(c, b, [&](Context& g, const Traced& y) { return compare(g, op, a, y); });
  }
  if (PyObject* x = python_constant(a), *y = python_constant(b); x && y) {
    const Ref result = Ref::steal(PyObject_RichCompare(x, y, rich[static_cast<size_t>(op)]));
    if (result) return constant(c, result.get());
    PyErr_Clear();
  }
  const bool equality = op == CompareOp::eq || op == CompareOp::ne;
  if (equality && a.kind == Kind::object && b.kind == Kind::object) {
    const int result = PyObject_RichCompareBool(a.object.get(), b.object.get(), rich[static_cast<size_t>(op)]);
    if (result >= 0) return constant(c, result ? Py_True : Py_False);
    PyErr_Clear();
  }
  if (equality && a.kind == Kind::tuple && b.kind == Kind::tuple) {
    Value* equal = e.boolean(a.items.size() == b.items.size());
    for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); i++) {
      equal = e.both(equal, truth(c, compare(c, CompareOp::eq, a.items[i], b.items[i])));
    }
    return py_bool(op == CompareOp::eq ? equal : e.negate(equal));
  }
  for (auto [big, other, forward] : {std::tuple{&a, &b, true}, std::tuple{&b, &a, false}}) {
    if (!big_int(*big)) continue;
    if (std::optional<bool> result = compare_big(forward ? op : swapped(op), big_int(*big), *other)) {
      return make({other->is_np() ? ScalarKind::np_scalar : ScalarKind::py_bool, DType::bool_}, e.boolean(*result));
    }
    if (other->is_py_float()) refuse(c, AbortId::unsupported_type_, "int beyond 64 bits");
  }
  const Traced x = number(c, a, &b), y = number(c, b, &a);
  if (x.is_np() || y.is_np()) return np_scalar(numpy_compare(c, op, x, y));
  return py_bool(python_compare(c, op, x, y));
}

Traced identity(Context& c, const Traced& a, const Traced& b, bool negated) {
  Emit e(c);
  std::optional<Value*> same = same_object(c, a, b);
  if (!same) refuse(c, AbortId::operands_, describe(a) + (negated ? " is not " : " is ") + describe(b));
  return py_bool(negated ? e.negate(*same) : *same);
}

Traced contains(Context& c, const Traced& item, const Traced& container, bool negated) {
  Emit e(c);
  Value* found = nullptr;
  if (container.kind == Kind::tuple) {
    found = e.boolean(false);
    for (const Traced& member : container.items) {
      // Python takes an object as equal to itself, which shows where it is NaN.
      if (member.is_scalar() && member.value == item.value && ir::is_real(item.type.dtype)) {
        refuse(c, AbortId::operands_, describe(item) + " in " + describe(container));
      }
      found = e.either(found, truth(c, compare(c, CompareOp::eq, member, item)));
    }
  } else if (container.kind == Kind::range && (item.is_py_int() || item.is_py_bool())) {
    Value* x = e.cast(item.value, DType::i64_);
    Value *start = container.items[0].value, *stop = container.items[1].value, *step = container.items[2].value;
    const std::optional<int64_t> by = known_integer(step);
    if (by != 1 && by != -1) refuse(c, AbortId::operands_, describe(item) + " in range with a step");
    found = by == 1 ? e.both(e.le(start, x), e.lt(x, stop)) : e.both(e.ge(start, x), e.gt(x, stop));
  } else if (PyObject* x = python_constant(item), *y = python_constant(container); x && y) {
    const int result = PySequence_Contains(y, x);
    if (result < 0) PyErr_Clear();
    if (result >= 0) found = e.boolean(result);
  }
  if (!found) refuse(c, AbortId::operands_, describe(item) + " in " + describe(container));
  return py_bool(negated ? e.negate(found) : found);
}

}  // namespace appy::trace
