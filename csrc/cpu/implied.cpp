#include "cpu/implied.h"

#include <cmath>

#include "cpu/cpu.h"
#include "ir/eval.h"

namespace appy::cpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// A number's bounds: low <= number < high. NaN where there is none.
struct Bounds {
  double low = NAN, high = NAN;
};

/// x of `not isnan(x)` and of `not isinf(x)`.
const Value* tested_number(const Value& condition) {
  if (!condition.op || condition.op->code != Opcode::not_) return nullptr;
  const Op* test = condition.op->operands[0]->op;
  return test && (test->code == Opcode::isnan_ || test->code == Opcode::isinf_) ? test->operands[0] : nullptr;
}

/// What the comparison with a constant says of x; whether it may be that constant is not told.
void add_bound(const Value& condition, const Value& x, Bounds& bounds) {
  const Op* op = condition.op;
  if (!op || op->operands.size() != 2) return;
  const bool above = op->code == Opcode::gt_ || op->code == Opcode::ge_;
  const bool below = op->code == Opcode::lt_ || op->code == Opcode::le_;
  const size_t at = op->operands[0] == &x ? 0 : 1;
  const auto bound = ir::known_real(*op->operands[1 - at]);
  if ((!above && !below) || op->operands[at] != &x || !bound) return;
  (above == (at == 0) ? bounds.low : bounds.high) = *bound;
}

Bounds bounds_of(const Value& condition, const Value& x) {
  Bounds bounds;
  if (!condition.op || condition.op->code != Opcode::and_) return bounds;
  for (const Value* side : condition.op->operands) add_bound(*side, x, bounds);
  return bounds;
}

/// x of `-2^63 <= x and x < 2^63`: an i64 has room for it.
const Value* number_that_fits(const Value& condition) {
  const Op* both = condition.op;
  const Op* one = both && both->code == Opcode::and_ ? both->operands[0]->op : nullptr;
  if (!one || one->operands.size() != 2) return nullptr;
  for (const Value* x : one->operands) {
    const Bounds bounds = bounds_of(condition, *x);
    if (bounds.low == -0x1p63 && bounds.high == 0x1p63) return x;
  }
  return nullptr;
}

/// x where the condition is that its cast to an i64, from the end where it is negative, is an index.
const Value* number_of_index(const Value& condition) {
  const auto test = ir::index_test(condition);
  const Op* extent = test ? test->extent->op : nullptr;
  if (!extent || extent->code != Opcode::dim_) return nullptr;
  const Op* op = test->index->op;
  if (op && op->code == Opcode::wrap_ && op->operands[1] == test->extent) op = op->operands[0]->op;
  const bool converts = op && op->code == Opcode::cast_ && op->result()->type.dtype == ir::DType::i64_ &&
                        is_float(op->operands[0]->type.dtype);
  return converts ? op->operands[0] : nullptr;
}

}  // namespace

const Op* implied_by(const Op& check) {
  const Value* any = tested_number(*check.operands[0]);
  const Value* x = any ? any : number_that_fits(*check.operands[0]);
  if (!x) return nullptr;
  for (const Op* op = check.next; op; op = op->next) {
    if (op->code == Opcode::check_) {
      const Value& condition = *op->operands[0];
      if (number_of_index(condition) == x) return op;
      const Bounds bounds = bounds_of(condition, *x);
      if (!any || !std::isfinite(bounds.low) || !std::isfinite(bounds.high)) continue;
      const Op* made = implied_by(*op);
      return made ? made : op;
    }
    if (!ir::is_pure(op->code) && op->code != Opcode::load_) return nullptr;
  }
  return nullptr;
}

}  // namespace appy::cpu
