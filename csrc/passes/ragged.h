// Sums of rows that lie one behind the other, of any number of terms each: `for i: for j in range(p[i], p[i + 1]):`.
#pragma once

#include <optional>
#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// Where a row begins or ends: an element, maybe as an i64.
struct Bound {
  ir::Op* load = nullptr;
  ir::Op* cast = nullptr;
  ir::Value* value() const { return (cast ? cast : load)->result(); }
};

/// A loop over rows, in any order, and one in it that adds up terms which are no row's own but by where they stand.
struct Ragged {
  ir::Op *rows = nullptr, *sums = nullptr;
  Bound begin, end;
  /// The sum counts from 0, and `low` says everywhere where the row begins.
  bool counts = false;
  ir::Value* low = nullptr;
  /// The two are those elements where those are not negative, if so, and no more than these.
  bool wraps = false;
  std::vector<ir::Value*> caps;
  std::vector<ir::Value*> terms;  // of each sum, in its body
  /// Checks in its body that an index is within an extent, which is known before the rows.
  struct Tested {
    ir::Op* check;
    ir::Value *index, *extent;
  };
  std::vector<Tested> tested;
};

/// Sums at `rows`, as far as what they need is found in the graph: whether p ascends only the region knows.
std::optional<Ragged> find_ragged(ir::Op& rows);

}  // namespace appy::passes
