// The arrays that one run of a region makes, by slot: NumPy's, or those of the library that its arrays are of.
#pragma once

#include <Python.h>

#include <utility>
#include <vector>

#include "ir/ir.h"
#include "runtime/kernel.h"
#include "runtime/signature.h"
#include "support/ref.h"

namespace appy::runtime {

class MadeArrays final : public Arrays {
 public:
  /// What the region's signature says of them: their library, where they lie, and which slots of arrays of pairs are to
  /// be complex arrays.
  explicit MadeArrays(const Signature& signature) : signature_(signature) {}
  void* make(int slot, ir::Type, const ir::Word* extents) override;

  /// The array of the slot (borrowed), or null where none was made.
  PyObject* at(int slot) const;

 private:
  PyObject* fresh(ir::Type, bool complex, const ir::Word* extents, void** data) const;

  const Signature& signature_;
  std::vector<std::pair<int, Ref>> made_;
};

}  // namespace appy::runtime
