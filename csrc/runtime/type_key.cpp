#include "runtime/type_key.h"

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

void add(TypeKey& key, PyObject* object, int depth) {
  if (!object) {
    key.push_back(0);
    return;
  }
  PyTypeObject* type = Py_TYPE(object);
  key.push_back(reinterpret_cast<uintptr_t>(type));
  if (PyArray_CheckExact(object)) {
    auto* array = reinterpret_cast<PyArrayObject*>(object);
    constexpr int flags = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_F_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    key.push_back(static_cast<uintptr_t>(PyArray_FLAGS(array) & flags));
    key.push_back(static_cast<uintptr_t>(PyArray_TYPE(array)));
    key.push_back(static_cast<uintptr_t>(PyArray_NDIM(array)) * 2 + PyArray_ISNBO(PyArray_DESCR(array)->byteorder));
  } else if (type == &PyTuple_Type) {
    Py_ssize_t size = PyTuple_GET_SIZE(object);
    key.push_back(static_cast<uintptr_t>(size));
    for (Py_ssize_t i = 0; depth < 3 && i < size && i < 16; i++) add(key, PyTuple_GET_ITEM(object, i), depth + 1);
  } else if (type == &PyLong_Type) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(object, &overflow);
    key.push_back(static_cast<uintptr_t>(overflow));
  } else if (const std::optional<Library> library = library_of(object)) {
    ForeignArray a;
    const char* why = read_array(*library, object, &a);
    key.push_back(reinterpret_cast<uintptr_t>(why));
    if (why) return;
    key.push_back(static_cast<uintptr_t>(a.device));
    key.push_back(static_cast<uintptr_t>(a.dtype) * 2 + a.complex);
    key.push_back(static_cast<uintptr_t>(a.rank));
    key.push_back(static_cast<uintptr_t>(a.is_contiguous(false)) | static_cast<uintptr_t>(a.is_contiguous(true)) << 1 |
                  static_cast<uintptr_t>(a.is_aligned()) << 2 | static_cast<uintptr_t>(a.writeable) << 3);
  } else if (PyModule_CheckExact(object) || PyFunction_Check(object) || PyCFunction_CheckExact(object) ||
             PyType_Check(object)) {
    key.push_back(reinterpret_cast<uintptr_t>(object));
  }
}

}  // namespace

TypeKey type_key(const Scope& scope) {
  TypeKey key;
  PyCodeObject* code = scope.code;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_localsplusnames); i++) {
    PyObject* object = scope.localsplus[i];
    add(key, object && PyCell_Check(object) ? PyCell_GET(object) : object, 0);
  }
  for (Py_ssize_t i = 0; PyDict_Check(scope.globals) && i < PyTuple_GET_SIZE(code->co_names); i++) {
    PyObject* object = PyDict_GetItemWithError(scope.globals, PyTuple_GET_ITEM(code->co_names, i));
    if (!object && PyErr_Occurred()) PyErr_Clear();
    add(key, object, 0);
  }
  return key;
}

}  // namespace appy::runtime
