#include "trace/value.h"

#include "runtime/scalar.h"
#include "trace/emit.h"

namespace appy::trace {

const ir::Value any_array;

Traced scalar(ScalarKind kind, ir::Value* value) { return make({kind, value->type.dtype}, value); }

Traced np_scalar(ir::Value* value) { return scalar(ScalarKind::np_scalar, value); }

Traced object(PyObject* borrowed) {
  Traced t;
  t.kind = Kind::object;
  t.object = Ref::borrow(borrowed);
  return t;
}

Traced constant(Context& context, PyObject* o) {
  if (std::optional<PyScalarType> type = runtime::scalar_type_of(o)) {
    ir::Word word = 0;
    // An int beyond 64 bits stays an object; the operators know it.
    if (!runtime::read_word(o, *type, &word)) return object(o);
    Traced t = make(*type, context.builder().constant(runtime::graph_type(*type), word));
    t.object = Ref::borrow(o);
    return t;
  }
  runtime::ComplexValue parts;
  if (runtime::read_complex(o, &parts)) {
    const auto part = [&](double v) {
      Emit e(context);
      return parts.type.kind == ScalarKind::py_float ? py_float(e.f64(v)) : np_scalar(e.number(parts.type.dtype, v));
    };
    Traced t;
    t.kind = Kind::complex;
    t.items = {part(parts.re), part(parts.im)};
    return t;
  }
  Traced t = object(o);
  if (!PyTuple_CheckExact(o)) return t;
  t.kind = Kind::tuple;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++) t.items.push_back(constant(context, PyTuple_GET_ITEM(o, i)));
  return t;
}

}  // namespace appy::trace
