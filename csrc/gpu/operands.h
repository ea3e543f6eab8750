// Parameters of a region as operands of a library.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/blas.h"
#include "ir/ir.h"

namespace appy::gpu {

/// The first `n` rows and columns of the matrix whose words begin at `first`, or of its transpose. Strides that are no
/// whole elements come out as ones that no library takes.
Matrix corner(std::span<const ir::Word> arguments, size_t first, ir::DType, int64_t n, bool transposed);

}  // namespace appy::gpu
