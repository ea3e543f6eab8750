// LAPACK as the process has it: the OpenBLAS that NumPy computes with.
#pragma once

#include <cstdint>
#include <string>

namespace appy::cpu {

struct Lapack {
  std::string name;            // "OpenBLAS 0.3.29"
  bool wide = false;           // its integers have 64 bits
  int (*threads)() = nullptr;  // that it uses
  void* dpotrf = nullptr;
  void* spotrf = nullptr;
};

/// Nothing is loaded for it: null as long as the process has no OpenBLAS, and where APPY_LAPACK is "none".
const Lapack* lapack();

/// Overwrites a triangle, column after column `leading` elements apart, by its Cholesky factor; what is on the other
/// side of the diagonal is neither read nor written. True, or false, and the triangle holds anything, where the matrix
/// is not positive definite.
bool factor(const Lapack&, bool upper, int64_t n, double* a, int64_t leading);
bool factor(const Lapack&, bool upper, int64_t n, float* a, int64_t leading);

}  // namespace appy::cpu
