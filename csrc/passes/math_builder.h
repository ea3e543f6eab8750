// What the expansions of the elementary functions are written with: constants of the function's type, its bits as
// integers, and polynomials.
#pragma once

#include <cstdint>
#include <span>

#include "ir/builder.h"
#include "ir/ir.h"

namespace appy::passes {

/// Emits in front of the op that is expanded. Numbers are given as double and rounded to the type.
class MathBuilder {
 public:
  using Value = ir::Value;
  MathBuilder(ir::Builder& b, ir::DType t) : b_(b), type_(t) {}

  bool wide() const { return type_ == ir::DType::f64_; }
  /// One of two tables or numbers, for f64 and f32.
  template <class T>
  T pick(T f64, T f32) const {
    return wide() ? f64 : f32;
  }
  template <size_t N, size_t M>
  std::span<const double> table(const double (&f64)[N], const double (&f32)[M]) const {
    if (wide()) return f64;
    return f32;
  }
  int mantissa_bits() const { return wide() ? 52 : 23; }

  Value* number(double);
  Value* integer(uint64_t);  // of the unsigned type of this width
  Value* quiet_nan();
  Value* infinity();

  Value* add(Value* a, Value* b) { return b_.op(ir::Opcode::add_, {a, b}); }
  Value* sub(Value* a, Value* b) { return b_.op(ir::Opcode::sub_, {a, b}); }
  Value* mul(Value* a, Value* b) { return b_.op(ir::Opcode::mul_, {a, b}); }
  Value* div(Value* a, Value* b) { return b_.op(ir::Opcode::div_, {a, b}); }
  Value* fma(Value* a, Value* b, Value* c) { return b_.op(ir::Opcode::fma_, {a, b, c}); }
  Value* neg(Value* a) { return b_.op(ir::Opcode::neg_, {a}); }
  Value* abs(Value* a) { return b_.op(ir::Opcode::abs_, {a}); }
  Value* mantissa(Value* a) { return b_.op(ir::Opcode::mantissa_, {a}); }
  Value* exponent(Value* a) { return b_.op(ir::Opcode::exponent_, {a}); }
  Value* sqrt(Value* a) { return b_.op(ir::Opcode::sqrt_, {a}); }
  Value* copysign(Value* size, Value* sign) { return b_.op(ir::Opcode::copysign_, {size, sign}); }
  /// NaN stays NaN.
  Value* at_most(Value* a, double limit) { return b_.op(ir::Opcode::pymin_, {a, number(limit)}); }
  Value* at_least(Value* a, double limit) { return b_.op(ir::Opcode::pymax_, {a, number(limit)}); }
  Value* lt(Value* a, Value* b) { return b_.op(ir::Opcode::lt_, {a, b}); }
  Value* le(Value* a, Value* b) { return b_.op(ir::Opcode::le_, {a, b}); }
  Value* gt(Value* a, Value* b) { return b_.op(ir::Opcode::gt_, {a, b}); }
  Value* eq(Value* a, Value* b) { return b_.op(ir::Opcode::eq_, {a, b}); }
  Value* select(Value* c, Value* a, Value* b) { return b_.select(c, a, b); }
  /// a * 2**n, n whole.
  Value* scale(Value* a, Value* n) { return b_.op(ir::Opcode::scale_, {a, n}); }

  Value* bits(Value* real);
  Value* real(Value* bits);
  Value* shl(Value* a, int count) { return b_.op(ir::Opcode::shl_, {a, integer(static_cast<uint64_t>(count))}); }
  Value* shr(Value* a, int count) { return b_.op(ir::Opcode::shr_, {a, integer(static_cast<uint64_t>(count))}); }
  Value* bit_and(Value* a, Value* b) { return b_.op(ir::Opcode::and_, {a, b}); }
  Value* bit_or(Value* a, Value* b) { return b_.op(ir::Opcode::or_, {a, b}); }
  Value* bit_xor(Value* a, Value* b) { return b_.op(ir::Opcode::xor_, {a, b}); }

  /// The word of a number of this type.
  uint64_t word(double) const;

  /// c[0] + c[1] * x + ..., even and odd powers apart where that shortens the chain (Estrin).
  Value* polynomial(Value* x, std::span<const double> c);

  /// x * factor rounded to a whole number: in the low bits of `shifted`, and as a number.
  struct Whole {
    Value* shifted;
    Value* n;
  };
  Whole nearest(Value* x, double factor, double offset = 0);
  /// 2**n times `factor`, a power of two with a sign, for `shifted` as above; the exponent must stay in range.
  Value* power_of_two(Value* shifted, double factor);

 private:
  ir::Builder& b_;
  ir::DType type_;
};

/// x = 2**k * mantissa, the mantissa in [3/4, 3/2): the ops `exponent` and `mantissa`, which backends emit best as
/// neighbours.
struct Split {
  ir::Value* k;
  ir::Value* mantissa;
};
inline Split split(MathBuilder& m, ir::Value* x) {
  ir::Value* mantissa = m.mantissa(x);
  return {m.exponent(x), mantissa};
}

/// By family; each returns the function of x, or null where the op is not of the family.
ir::Value* expand_exponential(MathBuilder&, ir::Opcode, ir::Value* x);
ir::Value* expand_logarithm(MathBuilder&, ir::Opcode, ir::Value* x);
ir::Value* expand_trigonometric(MathBuilder&, ir::Opcode, ir::Value* x);
ir::Value* expand_error_function(MathBuilder&, ir::Opcode, ir::Value* x);
ir::Value* expand_root(MathBuilder&, ir::Opcode, ir::Value* x);

/// The argument size from which on the expansion does not hold and the op itself must be used; 0 where it always holds.
double expansion_limit(ir::Opcode);

}  // namespace appy::passes
