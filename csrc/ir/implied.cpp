#include "ir/implied.h"

#include <cmath>

#include "ir/eval.h"

namespace appy::ir {

namespace {

/// x of `not isnan(x)` and of `not isinf(x)`.
const Value* tested_number(const Value& condition) {
  if (!condition.op || condition.op->code != Opcode::not_) return nullptr;
  const Op* test = condition.op->operands[0]->op;
  return test && (test->code == Opcode::isnan_ || test->code == Opcode::isinf_) ? test->operands[0] : nullptr;
}

bool is_finite_constant(const Value& v) { return std::isfinite(known_real(v).value_or(INFINITY)); }

/// On which side of a constant the comparison says that x lies: -1, 1, or 0 where it says nothing.
int side(const Value& condition, const Value& x) {
  const Op* op = condition.op;
  if (!op || op->operands.size() != 2) return 0;
  const bool above = op->code == Opcode::gt_ || op->code == Opcode::ge_;
  const bool below = op->code == Opcode::lt_ || op->code == Opcode::le_;
  if (!above && !below) return 0;
  if (op->operands[0] == &x && is_finite_constant(*op->operands[1])) return above ? 1 : -1;
  if (op->operands[1] == &x && is_finite_constant(*op->operands[0])) return above ? -1 : 1;
  return 0;
}

bool is_bounded(const Value& condition, const Value& x) {
  const Op* both = condition.op;
  if (!both || both->code != Opcode::and_) return false;
  return side(*both->operands[0], x) * side(*both->operands[1], x) == -1;
}

}  // namespace

const Op* implied_by(const Op& check) {
  const Value* x = tested_number(*check.operands[0]);
  if (!x) return nullptr;
  for (const Op* op = check.next; op; op = op->next) {
    if (op->code == Opcode::check_) {
      if (is_bounded(*op->operands[0], *x)) return op;
      if (tested_number(*op->operands[0]) != x) return nullptr;
    } else if (!is_pure(op->code)) {
      return nullptr;
    }
  }
  return nullptr;
}

}  // namespace appy::ir
