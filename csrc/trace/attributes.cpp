#include <cstring>

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/functions.h"
#include "trace/handlers.h"
#include "trace/tensor.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;

Traced dtype_object(Context& c, DType t) {
  if (c.library() == runtime::Library::torch) {
    PyObject* own = runtime::dtype_object(runtime::Library::torch, t, false);
    if (own) return constant(c, own);
    PyErr_Clear();
    refuse(c, AbortId::attribute_, "dtype");
  }
  const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(runtime::type_number(t))));
  return constant(c, descr.get());
}

Traced method(const Traced& self, std::string_view name) {
  Traced t;
  t.kind = Kind::method;
  t.name = std::string(name);
  t.items = {self};
  return t;
}

std::optional<Traced> array_attribute(Context& c, const Traced& array, std::string_view name) {
  Emit e(c);
  const TensorRef& part = array.tensor;  // null: the whole of an array
  const int rank = part ? part->rank() : array.value->type.rank;
  const DType dtype = part ? part->dtype : array.value->type.dtype;
  const auto extent = [&](int d) {
    return part ? part->shape[static_cast<size_t>(d)] : c.builder().dim(array.value, d);
  };
  auto product = [&] {
    Value* size = e.i64(1);
    for (int d = 0; d < rank; d++) size = d == 0 ? extent(d) : e.op(Opcode::mul_, {size, extent(d)});
    return size;
  };
  if (name == "shape") {
    std::vector<Traced> extents;
    for (int d = 0; d < rank; d++) extents.push_back(py_int(extent(d)));
    return tuple_of(std::move(extents));
  }
  if (name == "ndim") return py_int(e.i64(rank));
  if (name == "itemsize") return py_int(e.i64(ir::size_of(dtype)));
  if (name == "size") return py_int(product());
  if (name == "nbytes") return py_int(e.op(Opcode::mul_, {product(), e.i64(ir::size_of(dtype))}));
  if (name == "dtype") return dtype_object(c, dtype);
  if (name == "real") return array;
  if (name == "T") return tensor(transposed(c, as_tensor(c, array)));
  return {};
}

std::optional<Traced> scalar_attribute(Context& c, const Traced& t, std::string_view name) {
  Emit e(c);
  const DType type = t.value->type.dtype;
  if (t.tag) return {};
  if (name == "real" || name == "imag") {
    Value* v = t.is_py_bool() ? e.cast(t.value, DType::i64_) : t.value;
    if (name == "imag") v = e.number(v->type.dtype, 0);
    return t.is_py_bool() ? py_int(v) : make(t.type, v);
  }
  const bool python_int = t.is_py_int() || t.is_py_bool();
  if (python_int && name == "numerator") return py_int(e.cast(t.value, DType::i64_));
  if (python_int && name == "denominator") return py_int(e.i64(1));
  if (!t.is_np()) return {};
  if (name == "dtype") return dtype_object(c, type);
  if (name == "ndim") return py_int(e.i64(0));
  if (name == "size") return py_int(e.i64(1));
  if (name == "itemsize" || name == "nbytes") return py_int(e.i64(ir::size_of(type)));
  if (name == "shape") return tuple_of({});
  if (name == "T" || (name == "numerator" && ir::is_int(type))) return t;
  return {};
}

/// Objects whose attributes do not change, or are guarded by the recorder (modules and classes).
bool has_plain_attributes(PyObject* o) {
  if (PyModule_Check(o) || PyType_Check(o) || PyArray_DescrCheck(o)) return true;
  const char* type = Py_TYPE(o)->tp_name;
  return std::strcmp(type, "finfo") == 0 || std::strcmp(type, "iinfo") == 0;
}

Value* bit_length(Emit& e, Value* x) {
  // The bits below the highest one are filled; then they are counted.
  Value* v = e.cast(e.op(Opcode::abs_, {x}), DType::u64_);
  for (int n = 1; n < 64; n *= 2) v = e.op(Opcode::or_, {v, e.op(Opcode::shr_, {v, e.integer(DType::u64_, n)})});
  return e.cast(e.op(Opcode::popcount_, {v}), DType::i64_);
}

enum class Method : uint8_t { astype, bit_count, bit_length, conjugate, is_integer, item, round };
struct MethodRow {
  const char* name;
  Method method;
  size_t args;
};
constexpr MethodRow methods[] = {
    {"astype", Method::astype, 1},       {"bit_count", Method::bit_count, 0},   {"bit_length", Method::bit_length, 0},
    {"conjugate", Method::conjugate, 0}, {"is_integer", Method::is_integer, 0}, {"item", Method::item, 0},
    {"round", Method::round, 0},
};

/// The method of that name which the scalar's type has.
const MethodRow* method_of(const Traced& self, std::string_view name) {
  if (self.kind != Kind::scalar || self.tag) return nullptr;
  const bool integer = ir::is_int(self.value->type.dtype), python_int = self.is_py_int() || self.is_py_bool();
  for (const MethodRow& row : methods) {
    if (name != row.name) continue;
    switch (row.method) {
      case Method::astype:
      case Method::item:
        return self.is_np() ? &row : nullptr;
      case Method::round:
        return self.is_np() && self.type.dtype != DType::bool_ ? &row : nullptr;
      case Method::bit_count:
        return python_int || (self.is_np() && integer) ? &row : nullptr;
      case Method::bit_length:
        return python_int ? &row : nullptr;
      case Method::conjugate:
        return self.is_np() && self.type.dtype == DType::bool_ ? nullptr : &row;
      case Method::is_integer:
        // int.is_integer is new in 3.12.
        if (python_int)
          return PyObject_HasAttrString(reinterpret_cast<PyObject*>(&PyLong_Type), row.name) ? &row : nullptr;
        return self.is_np() && self.type.dtype == DType::bool_ ? nullptr : &row;
    }
  }
  return nullptr;
}

/// A ufunc of two operands that functions.def has.
bool is_ufunc_of_two(const Traced& t) {
  if (t.kind != Kind::object || std::strcmp(Py_TYPE(t.object.get())->tp_name, "numpy.ufunc") != 0) return false;
  const Function* row = find_function(t.object.get());
  return row && row->min_args == 2 && row->max_args == 2;
}

}  // namespace

bool has_method(const Traced& self, std::string_view name) { return method_of(self, name) != nullptr; }

Traced call_method(Context& c, const Traced& self, const std::string& name, Args args) {
  Emit e(c);
  const MethodRow* row = method_of(self, name);
  if (!row || args.size() != row->args) refuse(c, AbortId::call_, describe(self) + "." + name);
  const DType type = self.value->type.dtype;
  switch (row->method) {
    case Method::astype: {
      const std::optional<DType> to = args[0].object ? dtype_named(args[0].object.get()) : std::nullopt;
      if (!to) refuse(c, AbortId::call_, describe(self) + "." + name);
      return np_scalar(*to == DType::bool_ ? truth(c, self) : unsafe_cast(c, self.value, *to));
    }
    case Method::bit_count: {
      Value* x = self.is_py_bool() ? e.cast(self.value, DType::i64_) : self.value;
      return py_int(e.cast(e.op(Opcode::popcount_, {x}), DType::i64_));
    }
    case Method::bit_length:
      return py_int(bit_length(e, e.cast(self.value, DType::i64_)));
    case Method::conjugate:
      return self.is_py_bool() ? py_int(e.cast(self.value, DType::i64_)) : make(self.type, self.value);
    case Method::is_integer: {
      if (!ir::is_real(type)) return py_bool(e.boolean(true));
      Value* whole = e.eq(self.value, e.op(Opcode::floor_, {self.value}));
      return py_bool(e.both(whole, e.op(Opcode::isfinite_, {self.value})));
    }
    case Method::item:
      if (type == DType::bool_) return py_bool(self.value);
      if (ir::is_real(type)) return py_float(e.cast(self.value, DType::f64_));
      if (type == DType::u64_) e.check(ir::CheckKind::overflow_, e.le(self.value, e.constant(type, INT64_MAX)));
      return py_int(e.cast(self.value, DType::i64_));
    case Method::round:
      break;
  }
  return np_scalar(ir::is_real(type) ? e.op(Opcode::rint_, {self.value}) : self.value);
}

Traced getattr(Context& c, const Traced& t, std::string_view name) {
  if (is_complex(t)) return complex_attribute(c, t, name);
  if (is_torch(c, t)) {
    const bool matrix = !is_tensor(t) || as_tensor(c, t)->rank() == 2;
    if (has_torch_method(name)) return method(t, name);
    if (name == "real" || (name == "T" && !matrix)) refuse(c, AbortId::attribute_, std::string(name) + " of a tensor");
  }
  std::optional<Traced> found;
  if (t.kind == Kind::array || t.kind == Kind::tensor) found = array_attribute(c, t, name);
  if (t.kind == Kind::scalar) found = scalar_attribute(c, t, name);
  if (found) return *found;
  if (has_method(t, name)) return method(t, name);
  if ((t.kind == Kind::array || t.kind == Kind::tensor) && has_tensor_method(name)) return method(t, name);
  if ((name == "outer" || name == "at") && is_ufunc_of_two(t)) return method(t, name);
  if (t.kind == Kind::object && has_plain_attributes(t.object.get())) {
    const Ref value = Ref::steal(PyObject_GetAttrString(t.object.get(), std::string(name).c_str()));
    if (value) return constant(c, value.get());
    PyErr_Clear();
  }
  refuse(c, AbortId::attribute_, describe(t) + "." + std::string(name));
}

}  // namespace appy::trace
