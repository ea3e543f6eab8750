// Regions that are one product of matrices and nothing else: a library may compute them.
#pragma once

#include <optional>

#include "gpu/host_part.h"
#include "ir/ir.h"

namespace appy::gpu {

struct WholeProduct {
  /// An operand's element at the beginning of the loops, and which of its dimensions runs along the rows of its matrix.
  struct Operand {
    const ir::Value* view = nullptr;
    int64_t first[2] = {0, 0};
    size_t rows = 0;
  };
  Operand c, a, b;
  bool adds = false;  // to what c holds
};

/// c = a b or c += a b, of float64 or float32, with sums that may be reassociated; all else the host knows.
std::optional<WholeProduct> whole_product_of(const ir::Graph&, const HostPart&);

}  // namespace appy::gpu
