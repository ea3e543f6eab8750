#include "runtime/arrays.h"

#include <algorithm>
#include <array>

#include "runtime/numpy.h"

namespace appy::runtime {

void* NumpyArrays::make(int slot, ir::DType type, int rank, const ir::Word* extents) {
  std::array<npy_intp, NPY_MAXDIMS> shape;
  if (rank > NPY_MAXDIMS) return nullptr;
  std::transform(extents, extents + rank, shape.begin(), [](ir::Word n) { return static_cast<npy_intp>(n); });
  const PyGILState_STATE state = PyGILState_Ensure();
  // No array may be left of an earlier execution, and its destruction is no Python code: it has one owner.
  std::erase_if(made_, [slot](const auto& entry) { return entry.first == slot; });
  const bool complex = std::find(complex_.begin(), complex_.end(), slot) != complex_.end();
  const int number = complex ? complex_type_number(type) : type_number(type);
  PyObject* array = PyArray_SimpleNew(rank - complex, shape.data(), number);
  void* data = nullptr;
  if (array) {
    made_.emplace_back(slot, Ref::steal(array));
    data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
  } else {
    PyErr_Clear();
  }
  PyGILState_Release(state);
  return data;
}

PyObject* NumpyArrays::at(int slot) const {
  for (const auto& [known, array] : made_) {
    if (known == slot) return array.get();
  }
  return nullptr;
}

}  // namespace appy::runtime
