// Booleans that stop: `found = found or c`, `ok = ok and c`. Once the value is what stops it, the rest of the
// expression is no longer evaluated, and whatever else the expression decides (the Python type of its value) stays as
// it is.
#pragma once

#include <optional>
#include <vector>

#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

struct Latch {
  size_t k = 0;                 // carried index of the Boolean
  bool stop = false;            // the value that it keeps
  ir::Op* test = nullptr;       // the conditional that evaluates the expression in one arm
  ir::Block* arm = nullptr;     // this arm
  ir::Value* update = nullptr;  // the value that it gives
  std::vector<size_t> members;  // other carried values, set in this arm and kept in the other one
  /// Members of which each execution of the arm makes the same.
  bool members_are_fixed = true;
};

/// The latch that carried value k of a `for` is, where iterations may evaluate the expression although an earlier one
/// has stopped it: nothing but loads, and checks that decline, can tell.
std::optional<Latch> find_latch(const Uses&, ir::Op& loop, size_t k);

/// Carries `key` of the iteration that decides the latch: of the first one that stops it, else of the last one. Partial
/// results are ordered by what it carries: `order` is least for that iteration, `tie` follows it.
struct LatchOrder {
  size_t order = 0, tie = 0;
};
/// `key` grows from iteration to iteration and is not negative.
LatchOrder add_order(ir::Graph&, ir::Op& loop, const Latch&, ir::Value* key);

}  // namespace appy::passes
