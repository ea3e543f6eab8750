// Short names for the arithmetic of sizes and bounds that a pass emits much of.
#pragma once

#include "ir/builder.h"

namespace appy::passes {

/// On i64 values, where the builder stands.
class Arithmetic {
 protected:
  using Value = ir::Value;
  explicit Arithmetic(ir::Graph& graph) : b_(graph) {}

  Value* i64(int64_t v) { return b_.i64(v); }
  Value* add(Value* x, Value* y) { return b_.op(ir::Opcode::add_, {x, y}); }
  Value* add(Value* x, int64_t y) { return y == 0 ? x : add(x, i64(y)); }
  Value* sub(Value* x, Value* y) { return b_.op(ir::Opcode::sub_, {x, y}); }
  Value* mul(Value* x, Value* y) { return b_.op(ir::Opcode::mul_, {x, y}); }
  Value* times(Value* x, int64_t y) { return y == 1 ? x : mul(x, i64(y)); }
  Value* over(Value* x, Value* y) { return b_.op(ir::Opcode::floordiv_, {x, y}); }
  Value* over_up(Value* x, Value* y) { return over(add(x, add(y, -1)), y); }
  Value* least(Value* x, Value* y) { return b_.op(ir::Opcode::pymin_, {x, y}); }
  Value* most(Value* x, Value* y) { return b_.op(ir::Opcode::pymax_, {x, y}); }

  ir::Builder b_;
};

}  // namespace appy::passes
