// The NumPy arrays that one run of a region makes, by slot.
#pragma once

#include <Python.h>

#include <utility>
#include <vector>

#include "ir/ir.h"
#include "runtime/kernel.h"
#include "support/ref.h"

namespace appy::runtime {

class NumpyArrays final : public Arrays {
 public:
  /// The slots of arrays of pairs that are to be complex arrays.
  explicit NumpyArrays(std::vector<int> complex) : complex_(std::move(complex)) {}
  NumpyArrays() = default;
  void* make(int slot, ir::DType, int rank, const ir::Word* extents) override;

  /// The array of the slot (borrowed), or null where none was made.
  PyObject* at(int slot) const;

 private:
  std::vector<int> complex_;
  std::vector<std::pair<int, Ref>> made_;
};

}  // namespace appy::runtime
