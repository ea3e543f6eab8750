// What a region reads and writes, array by array.
#pragma once

#include <string>
#include <vector>

#include "ir/ir.h"

namespace appy::ir {

/// One access with the loops around it, outermost first. `affine` is false where a term is neither a variable of those
/// loops nor invariant in all of them.
struct FootprintAccess {
  const Op* op = nullptr;
  bool writes = false;
  bool affine = false;
  std::vector<const Op*> loops;
};

struct ArrayFootprint {
  const Value* view = nullptr;
  bool read = false;
  bool written = false;
  std::vector<FootprintAccess> accesses;
};

/// One entry a view parameter, in parameter order.
std::vector<ArrayFootprint> footprint(const Graph&);
/// A store or atomic that `op` executes, but for those to arrays of the region's own.
bool writes_to_parameter(const Op&);
/// Nothing that the interpreter would find is written before `op` executes, in earlier iterations either: the region's
/// own arrays do not count.
bool nothing_written_before(const Op& op);
std::string print(const Graph&, const std::vector<ArrayFootprint>&);

}  // namespace appy::ir
