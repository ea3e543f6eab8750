#include "runtime/arrays.h"

#include <algorithm>
#include <array>

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "runtime/recycled.h"

namespace appy::runtime {

/// A new reference, or null with an exception set.
PyObject* MadeArrays::fresh(ir::Type type, bool complex, const ir::Word* extents, void** data) const {
  const int rank = type.rank - complex;
  if (signature_.library == Library::numpy) {
    std::array<npy_intp, NPY_MAXDIMS> shape;
    if (rank > NPY_MAXDIMS) return nullptr;
    std::transform(extents, extents + rank, shape.begin(), [](ir::Word n) { return static_cast<npy_intp>(n); });
    const int number = complex ? complex_type_number(type.dtype) : type_number(type.dtype);
    const Recycling recycling;
    PyObject* made = PyArray_EMPTY(rank, shape.data(), number, type.layout == ir::Layout::f);
    if (made) *data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(made));
    return made;
  }
  const bool columns = type.layout == ir::Layout::f;
  static_assert(sizeof(ir::Word) == sizeof(int64_t));
  const auto* shape = reinterpret_cast<const int64_t*>(extents);
  Ref made = Ref::steal(make_array(signature_.library, signature_.device, type.dtype, complex, columns,
                                   {shape, static_cast<size_t>(rank)}));
  ForeignArray array;
  if (!made || read_array(signature_.library, made.get(), &array) || !array.is_contiguous(columns)) return nullptr;
  *data = array.data;
  return made.release();
}

void* MadeArrays::make(int slot, ir::Type type, const ir::Word* extents) {
  const PyGILState_STATE state = PyGILState_Ensure();
  // No array may be left of an earlier execution, and its destruction is no Python code: it has one owner.
  std::erase_if(made_, [slot](const auto& entry) { return entry.first == slot; });
  const std::vector<int>& pairs = signature_.complex_arrays;
  const bool complex = std::find(pairs.begin(), pairs.end(), slot) != pairs.end();
  void* data = nullptr;
  if (PyObject* array = fresh(type, complex, extents, &data)) {
    made_.emplace_back(slot, Ref::steal(array));
    // An array without elements may have no address, and needs none.
    static char nothing;
    if (!data) data = &nothing;
  } else {
    PyErr_Clear();
  }
  PyGILState_Release(state);
  return data;
}

PyObject* MadeArrays::at(int slot) const {
  for (const auto& [known, array] : made_) {
    if (known == slot) return array.get();
  }
  return nullptr;
}

}  // namespace appy::runtime
