// The inside of simplify, shared by simplify.cpp (numbers) and simplify_choices.cpp (comparisons, conditions,
// selections).
#pragma once

#include <bit>
#include <cmath>
#include <optional>

#include "ir/builder.h"
#include "ir/eval.h"
#include "passes/loops.h"

namespace appy::passes {

/// One op with what its rules ask: its operands, whether they are constants, and of which value.
struct Rules {
  ir::Op& op;
  ir::Builder& b;
  ir::DType type;  // of operand 0, or of the result where there is none
  ir::Value* x;
  ir::Value* y;

  Rules(ir::Op& o, ir::Builder& builder) : op(o), b(builder) {
    x = o.operands.empty() ? nullptr : o.operands[0];
    y = o.operands.size() < 2 ? nullptr : o.operands[1];
    type = (x ? x : o.result())->type.dtype;
  }

  bool real() const { return ir::is_real(type); }
  bool same() const { return x == y; }
  static const ir::Op* made_by(const ir::Value* v, ir::Opcode code) {
    return v->op && v->op->code == code ? v->op : nullptr;
  }

  static bool is_int(const ir::Value& v, int64_t n) { return constant(v) == n; }
  /// Equal to this number, with this sign of zero.
  static bool is_real(const ir::Value& v, double n) {
    const auto found = ir::known_real(v);
    return found && *found == n && std::signbit(*found) == std::signbit(n);
  }
  bool is_one(const ir::Value& v) const { return real() ? is_real(v, 1.0) : is_int(v, 1); }

  ir::Value* zero() { return b.constant(op.result()->type.dtype, 0); }
  ir::Value* real_constant(double v) {
    const ir::Word word[] = {std::bit_cast<ir::Word>(v)};
    return b.constant(type, ir::evaluate_op(ir::Opcode::cast_, type, ir::DType::f64_, word));
  }

  ir::Value* arithmetic();
  ir::Value* reassociate();
  ir::Value* division();
  ir::Value* power();
  ir::Value* bits();
  ir::Value* comparison();
  ir::Value* compared_extremum(ir::Value* extremum, ir::Value* v);
  ir::Value* choice();
  ir::Value* negated(ir::Value* v);
  ir::Value* opposite(const ir::Value& v);
  ir::Value* negative(ir::Value*);
  ir::Value* shared_operand(ir::Value* condition, const ir::Value& yes, const ir::Value& no);
  ir::Value* chosen_extremum(const ir::Value& condition, ir::Value* yes, ir::Value* no);
  static bool chooses_free(const ir::Value&, ir::DType to, int depth = 0);
  ir::Value* chosen(ir::Value*, ir::DType to);
  ir::Value* conversion();
  ir::Value* extremum();
  ir::Value* run();
};

}  // namespace appy::passes
