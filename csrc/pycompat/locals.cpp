#include "pycompat/locals.h"

#include <cstring>

#include "support/ref.h"

namespace appy::pycompat {

bool is_cell(PyCodeObject* code, int index) {
  // Bits of co_localspluskinds, the same in all supported versions; CPython names them in an internal header.
  constexpr int fast_cell = 0x40, fast_free = 0x80;
  return PyBytes_AS_STRING(code->co_localspluskinds)[index] & (fast_cell | fast_free);
}

bool copy_kinds(PyCodeObject* code, PyCodeObject* other) {
  const int equal = PyObject_RichCompareBool(code->co_localsplusnames, other->co_localsplusnames, Py_EQ);
  if (equal < 0) PyErr_Clear();
  const auto size = static_cast<size_t>(PyBytes_GET_SIZE(code->co_localspluskinds));
  if (equal <= 0 || size != static_cast<size_t>(PyBytes_GET_SIZE(other->co_localspluskinds))) return false;
  const char* kinds = PyBytes_AS_STRING(other->co_localspluskinds);
  if (std::memcmp(PyBytes_AS_STRING(code->co_localspluskinds), kinds, size) == 0) return true;
  Ref copy = Ref::steal(PyBytes_FromStringAndSize(kinds, static_cast<Py_ssize_t>(size)));
  if (!copy) {
    PyErr_Clear();
    return false;
  }
  Py_SETREF(code->co_localspluskinds, copy.release());
  return true;
}

}  // namespace appy::pycompat
