// Parameters of a region as operands of a library: their argument words, and what those say.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/blas.h"
#include "ir/ir.h"

namespace appy::gpu {

/// The first argument word of a parameter.
size_t first_word(const ir::Graph&, uint32_t parameter);
/// The argument word that says how long it is.
size_t word_of(const ir::Graph&, const ir::Length&);

/// The first `n` rows and columns of the matrix whose words begin at `first`, or of its transpose. Strides that are no
/// whole elements come out as ones that no library takes.
Matrix corner(std::span<const ir::Word> arguments, size_t first, ir::DType, int64_t n, bool transposed);

}  // namespace appy::gpu
