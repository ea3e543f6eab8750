#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/semantics.h"
#include "trace/tagged.h"
#include "trace/tensor.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;

constexpr const char* symbols[] = {"-", "+", "~", "not "};
PyObject* (*const python_functions[])(PyObject*) = {PyNumber_Negative, PyNumber_Positive, PyNumber_Invert, nullptr};

}  // namespace

Traced unary(Context& c, UnaryOp op, const Traced& t) {
  if (is_complex(t)) return complex_unary(c, op, t);
  Emit e(c);
  if (op == UnaryOp::negative && is_torch(c, t) && !t.tag) {
    const DType dtype = is_tensor(t) ? as_tensor(c, t)->dtype : t.value->type.dtype;
    const bool wide = dtype == DType::u16_ || dtype == DType::u32_ || dtype == DType::u64_;
    if (dtype == DType::bool_ || wide) refuse(c, AbortId::operands_, "the negative of such a tensor");
  }
  if (is_tensor(t) && op != UnaryOp::not_) {
    const Traced operands[] = {t};
    return map(c, operands, [op](Context& context, Scalars x) { return unary(context, op, x[0]); });
  }
  if (op == UnaryOp::not_) return py_bool(e.negate(truth(c, t)));
  if (t.tag && t.is_scalar()) {
    return per_alternative(c, t, [&](Context& g, const Traced& x) { return unary(g, op, x); });
  }
  // ~True is folded by hand: CPython 3.12 warns about it each time.
  if (!(t.is_py_bool() && op == UnaryOp::invert)) {
    if (std::optional<Traced> folded = fold(c, python_functions[static_cast<size_t>(op)], t)) return *folded;
  }
  Traced x = number(c, t);
  if (x.is_py_bool()) x = py_int(e.cast(x.value, DType::i64_));
  const DType type = x.value->type.dtype;
  const bool invalid = op == UnaryOp::invert ? ir::is_real(type) : type == DType::bool_;
  if (invalid) refuse(c, AbortId::operands_, symbols[static_cast<size_t>(op)] + describe(t));
  switch (op) {
    case UnaryOp::positive:
      return make(x.type, x.value);
    case UnaryOp::invert:
      return make(x.type, e.op(Opcode::not_, {x.value}));
    default:
      if (x.is_py_int() && !t.is_py_bool()) e.check(ir::CheckKind::overflow_, e.ne(x.value, e.i64(INT64_MIN)));
      return make(x.type, e.op(Opcode::neg_, {x.value}));
  }
}

Value* truth(Context& c, const Traced& t) {
  Emit e(c);
  switch (t.kind) {
    case Kind::scalar:
    case Kind::zero_d:
      return t.value->type.dtype == DType::bool_ ? t.value : e.non_zero(t.value);
    case Kind::complex:
      return complex_truth(c, t);
    case Kind::tuple:
      return e.boolean(!t.items.empty());
    case Kind::range: {
      Value *start = t.items[0].value, *stop = t.items[1].value, *step = t.items[2].value;
      return e.select(e.gt(step, e.i64(0)), e.lt(start, stop), e.gt(start, stop));
    }
    case Kind::object: {
      PyObject* o = t.object.get();
      // Other objects may be mutable, or run code to find out.
      if (o == Py_None || PyLong_CheckExact(o) || PyUnicode_CheckExact(o) || PyFunction_Check(o) ||
          PyCFunction_Check(o) || PyModule_Check(o)) {
        return e.boolean(PyObject_IsTrue(o) == 1);
      }
      [[fallthrough]];
    }
    default:
      refuse(c, AbortId::operands_, "the truth value of " + describe(t));
  }
}

}  // namespace appy::trace
