#include "runtime/describe.h"

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"

namespace appy::runtime {
namespace {

std::string array_type(const std::string& dtype, int rank, const char* layout) {
  std::string text = dtype + "[";
  for (int d = 0; d < rank; d++) text += d ? ", :" : ":";
  text += "]";
  return *layout ? text + " " + layout : text;
}

const char* name_of(ir::Layout layout) {
  switch (layout) {
    case ir::Layout::c:
    case ir::Layout::pairs:
      return "c";
    case ir::Layout::f:
      return "f";
    case ir::Layout::inner:
      return "inner";
    case ir::Layout::strided:
      break;
  }
  return "strided";
}

std::string place_of(Library library, int device) {
  if (library == Library::numpy) return {};
  return std::string(" of ") + name_of(library) + " " + place_name(device);
}

void append(std::string& text, const std::string& name, const std::string& type) {
  if (!text.empty()) text += ", ";
  text += name + ": " + type;
}

}  // namespace

std::string describe(const Signature& signature) {
  std::string text;
  for (const Input& in : signature.inputs) {
    if (in.guard == Input::Guard::scalar) {
      append(text, in.name, in.complex ? complex_class_of(in.type)->tp_name : name_of(in.type));
    } else if (in.guard == Input::Guard::array) {
      append(text, in.name,
             array_type(in.complex ? complex_name(in.dtype) : numpy_name(in.dtype), in.rank, name_of(in.layout)) +
                 place_of(in.library, in.device));
    } else if (in.guard == Input::Guard::constant) {
      Ref repr = Ref::steal(PyObject_Repr(in.object.get()));
      const char* value = repr ? PyUnicode_AsUTF8(repr.get()) : nullptr;
      if (!value) PyErr_Clear();
      if (!text.empty()) text += ", ";
      text += in.name + " = " + (value ? value : "?");
    }
  }
  return text;
}

std::string describe_type(PyObject* object) {
  if (auto scalar = scalar_type_of(object)) return name_of(*scalar);
  if (const std::optional<Library> library = library_of(object); library && *library != Library::numpy) {
    ForeignArray a;
    if (const char* why = read_array(*library, object, &a)) return std::string("an array that ") + why;
    const char* layout = a.is_contiguous(false) ? "c" : a.is_contiguous(true) ? "f" : "strided";
    return array_type(a.complex ? complex_name(a.dtype) : numpy_name(a.dtype), a.rank, layout) +
           place_of(*library, a.device) + (a.writeable ? "" : " read-only");
  }
  if (!PyArray_CheckExact(object)) return Py_TYPE(object)->tp_name;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  auto dtype = dtype_of(PyArray_TYPE(array));
  const char* layout = PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS)   ? "c"
                       : PyArray_CHKFLAGS(array, NPY_ARRAY_F_CONTIGUOUS) ? "f"
                                                                         : "strided";
  std::string name = dtype ? numpy_name(*dtype) : PyArray_DESCR(array)->typeobj->tp_name;
  if (!PyArray_ISNBO(PyArray_DESCR(array)->byteorder)) name = "byte-swapped " + name;
  return array_type(name, PyArray_NDIM(array), layout) + (PyArray_ISWRITEABLE(array) ? "" : " read-only");
}

std::string describe(const Scope& scope) {
  std::string text;
  PyCodeObject* code = scope.code;
  Py_ssize_t named = PyTuple_GET_SIZE(code->co_localsplusnames);
  for (Py_ssize_t i = 0; i < named; i++) {
    PyObject* object = scope.localsplus[i];
    if (object && PyCell_Check(object)) object = PyCell_GET(object);
    const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i));
    if (!name) PyErr_Clear();
    if (object && name) append(text, name, describe_type(object));
  }
  return text;
}

}  // namespace appy::runtime
