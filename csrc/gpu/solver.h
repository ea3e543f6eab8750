// cuSOLVER, found like cuBLAS and used for regions that are one factorization.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/blas.h"
#include "gpu/device.h"

namespace appy::gpu {

/// cuSOLVER, or the library that APPY_LIBCUSOLVER names; null, and why in `problem`, where there is none.
const FoundLibrary* solver(std::string& problem);

/// Overwrites the triangle with the diagonal of a square matrix by its Cholesky factor; what is above the diagonal is
/// not read, but may change. The int at `told` becomes 0, or says which leading minor is the first that is not
/// positive. True, or false and why in `problem`; then the triangle may have changed, too. The device's context is
/// current.
bool factor(Device&, Stream, bool is_double, const Matrix& a, uint64_t told, std::string& problem);

}  // namespace appy::gpu
