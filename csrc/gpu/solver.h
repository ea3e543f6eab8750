// cuSOLVER, found like cuBLAS and used for regions that are one factorization.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/blas.h"
#include "gpu/device.h"

namespace appy::gpu {

struct Solver {
  std::string path;
  int version = 0;  // 12000 is 12.0, of CUDA 13.0
};

/// APPY_LIBCUSOLVER ("none": not to be used), or the first one that candidates() names; as blas() otherwise.
const Solver* solver(std::string& problem);

/// "cuSOLVER 12.0"
std::string name_of(const Solver&);

/// Overwrites the triangle with the diagonal of a square matrix by its Cholesky factor; what is above the diagonal is
/// not read, but may change. The int at `told` becomes 0, or says which leading minor is the first that is not
/// positive. True, or false and why in `problem`; then the triangle may have changed, too. The device's context is
/// current.
bool factor(Device&, Stream, bool is_double, const Matrix& a, uint64_t told, std::string& problem);

}  // namespace appy::gpu
