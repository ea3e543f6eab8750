// What is asked of the arrays' library: its stream, its dtypes, new arrays.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/cupy_api.h"
#include "runtime/device_arrays.h"
#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

using ir::DType;

bool as_handle(const Ref& number, uintptr_t* out) {
  if (!number) return false;
  *out = reinterpret_cast<uintptr_t>(PyLong_AsVoidPtr(number.get()));
  return !PyErr_Occurred();
}

/// Makes arrays of CuPy on one device for as long as it lives.
class OnCupyDevice {
 public:
  explicit OnCupyDevice(int device) {
    const Ref cls = module_attribute("cupy", "cuda.Device");
    if (cls) context_ = Ref::steal(PyObject_CallFunction(cls.get(), "i", device));
    if (context_) entered_ = Ref::steal(PyObject_CallMethod(context_.get(), "__enter__", nullptr));
  }
  ~OnCupyDevice() {
    if (!entered_) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Ref::steal(PyObject_CallMethod(context_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    PyErr_Restore(type, value, traceback);
  }
  OnCupyDevice(const OnCupyDevice&) = delete;
  OnCupyDevice& operator=(const OnCupyDevice&) = delete;
  bool ok() const { return static_cast<bool>(entered_); }

 private:
  Ref context_, entered_;
};

Ref torch_device(int device) {
  return Ref::steal(device < 0 ? PyUnicode_FromString("cpu") : PyUnicode_FromFormat("cuda:%d", device));
}

/// function(value, dtype=..., device=...) of torch's.
PyObject* call_torch(const char* function, PyObject* value, int device, PyObject* dtype) {
  const Ref callable = module_attribute("torch", function), args = Ref::steal(PyTuple_Pack(1, value));
  const Ref where = torch_device(device);
  const Ref keywords = Ref::steal(where ? Py_BuildValue("{s:O,s:O}", "dtype", dtype, "device", where.get()) : nullptr);
  if (!callable || !args || !keywords) return nullptr;
  return PyObject_Call(callable.get(), args.get(), keywords.get());
}

PyObject* call_cupy(const char* function, PyObject* value, int device, PyObject* dtype) {
  const Ref callable = module_attribute("cupy", function);
  const OnCupyDevice current(device);
  if (!callable || !current.ok()) return nullptr;
  return PyObject_CallFunctionObjArgs(callable.get(), value, dtype, nullptr);
}

PyObject* make(Library library, const char* function, int device, DType dtype, bool complex, PyObject* value) {
  const Ref type = Ref::borrow(dtype_object(library, dtype, complex));
  PyObject* made = nullptr;
  if (type && library == Library::cupy) made = call_cupy(function, value, device, type.get());
  if (type && library == Library::torch) made = call_torch(function, value, device, type.get());
  if (!made && !PyErr_Occurred()) PyErr_Format(PyExc_RuntimeError, "%s cannot make an array", name_of(library));
  return made;
}

/// A new reference, or null with an exception set.
PyObject* tuple_of(std::span<const int64_t> numbers) {
  Ref made = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
  for (size_t i = 0; made && i < numbers.size(); i++) {
    PyObject* number = PyLong_FromLongLong(numbers[i]);
    if (!number) return nullptr;
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), number);
  }
  return made.release();
}

}  // namespace

std::optional<uintptr_t> current_stream(Library library, int device) {
  if (device < 0) return 0;
  Ref handle;
  if (const CupyApi* const api = library == Library::cupy ? cupy_api() : nullptr) {
    void* stream = nullptr;
    if (api->current_stream(device, &stream) == 0) return reinterpret_cast<uintptr_t>(stream);
    PyErr_Clear();
    return {};
  }
  if (library == Library::cupy) {
    static const auto* const function = new Ref(module_attribute("cupy", "cuda.get_current_stream"));
    if (!*function) return {};
    Ref stream = Ref::steal(PyObject_CallFunction(function->get(), "i", device));
    if (!stream && PyErr_ExceptionMatches(PyExc_TypeError)) {  // before CuPy 13 of the current device only
      PyErr_Clear();
      stream = Ref::steal(PyObject_CallNoArgs(function->get()));
    }
    if (stream) handle = Ref::steal(PyObject_GetAttrString(stream.get(), "ptr"));
  } else if (library == Library::torch) {
    static const auto* const function = new Ref(module_attribute("torch", "_C._cuda_getCurrentRawStream"));
    if (!*function) return {};
    handle = Ref::steal(PyObject_CallFunction(function->get(), "i", device));
  } else {
    return 0;
  }
  uintptr_t stream = 0;
  const bool ok = as_handle(handle, &stream);
  PyErr_Clear();
  return ok ? std::optional(stream) : std::nullopt;
}

PyObject* make_array(Library library, int device, DType dtype, bool complex, bool columns,
                     std::span<const int64_t> extents) {
  std::vector<int64_t> order(extents.size()), shape(extents.begin(), extents.end());
  if (columns) std::reverse(shape.begin(), shape.end());
  const Ref wanted = Ref::steal(tuple_of(shape));
  Ref made = Ref::steal(wanted ? make(library, "empty", device, dtype, complex, wanted.get()) : nullptr);
  if (!columns || !made) return made.release();
  std::iota(order.rbegin(), order.rend(), 0);
  const Ref reversed = Ref::steal(tuple_of(order));
  const char* turn = library == Library::torch ? "permute" : "transpose";
  return reversed ? PyObject_CallMethod(made.get(), turn, "(O)", reversed.get()) : nullptr;
}

PyObject* make_zero_d(Library library, int device, DType dtype, bool complex, PyObject* number) {
  if (library == Library::cupy) return make(library, "array", device, dtype, complex, number);
  // torch takes Python's numbers only.
  const bool is_python = PyFloat_CheckExact(number);
  const Ref python = is_python ? Ref::borrow(number) : Ref::steal(PyObject_CallMethod(number, "item", nullptr));
  return python ? make(library, "tensor", device, dtype, complex, python.get()) : nullptr;
}

PyObject* dtype_object(Library library, DType dtype, bool complex) {
  static auto* const known = new std::vector<std::pair<int, Ref>>;  // outlives the interpreter
  const int key = (static_cast<int>(library) * 2 + complex) * 64 + static_cast<int>(dtype);
  for (const auto& [k, object] : *known) {
    if (k == key) return object.get();
  }
  Ref object;
  if (library == Library::torch) {
    object = module_attribute("torch", complex ? complex_name(dtype) : numpy_name(dtype));
    if (!object) PyErr_Format(PyExc_TypeError, "torch has no %s", complex ? complex_name(dtype) : numpy_name(dtype));
  } else {
    const int number = complex ? complex_type_number(dtype) : type_number(dtype);
    object = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
  }
  if (!object) return nullptr;
  known->emplace_back(key, object);
  return object.get();
}

std::optional<DType> torch_dtype_named(PyObject* object) {
  for (int i = 0; i <= static_cast<int>(DType::f64_); i++) {
    if (dtype_object(Library::torch, static_cast<DType>(i), false) == object) return static_cast<DType>(i);
    PyErr_Clear();
  }
  return {};
}

std::optional<DType> torch_complex_part_named(PyObject* object) {
  for (DType part : {DType::f32_, DType::f64_}) {
    if (module_attribute("torch", complex_name(part)).get() == object) return part;
  }
  return {};
}

bool torch_defaults_to_float32() {
  const Ref ask = module_attribute("torch", "get_default_dtype");
  const Ref answer = Ref::steal(ask ? PyObject_CallNoArgs(ask.get()) : nullptr);
  const bool known = answer && answer.get() == dtype_object(Library::torch, DType::f32_, false);
  PyErr_Clear();
  return known;
}

}  // namespace appy::runtime
