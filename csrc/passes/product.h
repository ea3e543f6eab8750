// Nests of the form of a matrix product: for each row and column, a loop in which each step combines something of the
// row with something of the column. `C[i, j] = sum of A[i, k] * B[k, j]` is one, so is the nearest of many points to
// many others. A device computes tiles of rows by columns from pieces of both, which the tile's threads share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// What of the nest's variables a value depends on.
enum class Side : uint8_t { neither = 0, row = 1, column = 2, both = 3 };

struct Product {
  std::vector<const ir::Op*> nest;  // outermost first; the last two are rows and columns, those before them repeat it
  const ir::Op* steps = nullptr;    // the loop inside, with carried values
  /// Values of the steps' loop that depend on the row, or the column, and that its other values are made of.
  std::vector<const ir::Value*> of_row, of_column;
  /// As many columns for each row.
  bool rectangular = true;
  /// Of the rows or the columns, where their steps begin, or end, at a place of their own (never both): in a triangle.
  Side uneven = Side::neither;
  /// A step adds so many products, of a value of the row and one of the column each, in any order; 0: it does not. Of
  /// two `crossed` are those of the first value of the row and the second one of the column, and the other way round.
  uint8_t terms = 0;
  bool crossed = false;
  std::vector<Side> sides;  // by Value::id, of values defined in the nest

  const ir::Op& rows() const { return *nest[nest.size() - 2]; }
  const ir::Op& columns() const { return *nest.back(); }
  /// The (first) sum begins with 0.
  bool from_zero() const {
    const ir::Op* first = steps->operands[3]->op;
    return first && first->code == ir::Opcode::const_ && first->imm == 0;
  }
  Side side(const ir::Value& v) const { return v.id < sides.size() ? sides[v.id] : Side::neither; }
};

/// What each row and column stores it alone touches, wherever in the nest: they may be computed in any order.
std::optional<Product> product_of(const ir::Op& outermost);

}  // namespace appy::passes
