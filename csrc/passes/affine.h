// Integer values as affine sums of other values.
#pragma once

#include <cstdint>
#include <utility>

#include "ir/builder.h"
#include "ir/ir.h"
#include "support/inline_vector.h"

namespace appy::passes {

/// Wide enough that sums and products of a few 64-bit numbers cannot overflow.
using Wide = __int128;

/// constant + sum of coef * atom, atoms distinct and sorted by id, no zero coefficients.
struct Affine {
  Wide constant = 0;
  InlineVector<std::pair<const ir::Value*, Wide>, 4> terms;

  bool is_constant() const { return terms.empty(); }
  bool operator==(const Affine&) const = default;
  /// The coefficient of a value, 0 if it does not occur.
  Wide coef(const ir::Value&) const;
  /// *this += factor * other.
  void add(const Affine& other, Wide factor);
  void add(const ir::Value& atom, Wide factor);
};

/// The sum as a value, where the builder stands; `of` says what stands for an atom.
template <class F>
ir::Value* emit(ir::Builder& b, const Affine& sum, F&& of) {
  ir::Value* total = nullptr;
  for (const auto& [atom, coef] : sum.terms) {
    ir::Value* v = of(*atom);
    if (coef != 1) v = b.op(ir::Opcode::mul_, {v, b.i64(static_cast<int64_t>(coef))});
    total = total ? b.op(ir::Opcode::add_, {total, v}) : v;
  }
  if (total && sum.constant == 0) return total;
  ir::Value* constant = b.i64(static_cast<int64_t>(sum.constant));
  return total ? b.op(ir::Opcode::add_, {total, constant}) : constant;
}
ir::Value* emit(ir::Builder& b, const Affine& sum);

/// The constant that the value is, if a `const` op defines it.
const ir::Op* constant_op(const ir::Value&);
/// The value of an integer or bool constant; `fallback` where it is none.
bool is_constant(const ir::Value&, int64_t& out);

}  // namespace appy::passes
