// What it costs to compute an array's elements where they are read, with everything shared that can be.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// How a nest computes the elements of an array.
struct Recipe {
  const ir::Value* array = nullptr;
  const ir::Value* stored = nullptr;      // the element
  std::vector<const ir::Value*> index;    // the variable that counts each dimension
  std::vector<const ir::Op*> expression;  // what the element is computed by, in order
};

/// Distinct operations and loads of an iteration.
struct Work {
  size_t producer = 0;  // of the nest that fills the array, its store included
  size_t consumer = 0;  // of the blocks that read it, the loads of the array included
  size_t fused = 0;     // of these blocks with the elements computed in place
};

/// Equal subexpressions count once, however the subscripts are spelled: of lap[i + 1] in one iteration nothing is new
/// where lap[i] of another statement's element is needed as well.
Work work_of(const Recipe&, const std::vector<const ir::Block*>& readers);

}  // namespace appy::passes
