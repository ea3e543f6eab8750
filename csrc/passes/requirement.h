// What must hold before a loop so that a check in it cannot fail.
#pragma once

#include <vector>

#include "ir/ir.h"
#include "passes/extremes.h"
#include "passes/range.h"

namespace appy::passes {

/// Conditions, all of them needed, that imply a check's condition in every iteration.
class Requirement {
 public:
  Requirement(Extremes& extremes, Ranges& ranges, const ir::Op& where)
      : extremes_(extremes), ranges_(ranges), where_(where) {}

  /// False where there are none; code that was emitted until then is nobody's.
  bool add(ir::Value& condition, bool holds);

  /// They fail only if an iteration's condition does.
  bool exact() const { return exact_; }
  std::vector<ir::Value*> needed();

 private:
  ir::Builder& builder() { return extremes_.builder(); }
  ir::Value* negate(ir::Value& v) { return builder().op(ir::Opcode::not_, {&v}); }
  bool less(const ir::Value& a, const ir::Value& b, bool strict);
  bool equal(ir::Value& a, ir::Value& b);
  bool nonzero(const ir::Op&);
  bool fits(const ir::Op&);

  Extremes& extremes_;
  Ranges& ranges_;
  const ir::Op& where_;
  bool exact_ = true;
  std::vector<ir::Value*> needed_;
};

}  // namespace appy::passes
