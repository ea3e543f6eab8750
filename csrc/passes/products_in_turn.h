// Sums that add two products in each iteration, one after the other.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

/// `add` adds to the carried value what `second`, an fma, makes of the product `first`. Nothing else uses any of them.
struct Products {
  ir::Op *add = nullptr, *first = nullptr, *second = nullptr;
};

/// The products that carried value k of the `for` loop adds up.
std::optional<Products> products_of(const Uses&, const ir::Op& loop, size_t k);

/// Do sums of the loop add their products in turn once it has so many?
bool takes_turns(const ir::Op& loop, int64_t sums);

}  // namespace appy::passes
