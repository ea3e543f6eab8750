// cuBLAS, found like NVRTC and used for products of matrices, triangular substitutions and triangles.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/device.h"
#include "gpu/functions.h"

namespace appy::gpu {

/// cuBLAS, or the library that APPY_LIBCUBLAS names; null, and why in `problem`, where there is none.
const FoundLibrary* blas(std::string& problem);

/// An operand as it lies in memory: element [i, j] is `row` * i + `column` * j elements from `at`.
struct Matrix {
  uint64_t at = 0;
  int64_t rows = 0, columns = 0;
  int64_t row = 0, column = 0;

  Matrix transposed() const { return {at, columns, rows, column, row}; }
};

/// May the library be given these? Rows or columns are contiguous, the others do not overlap, numbers fit into an int.
bool takes(const Matrix& c, const Matrix& a, const Matrix& b);

/// c = alpha a b + beta c in the precision of its elements; with a factor of 0 its matrices are not read. True, or
/// false and why in `problem`; then nothing was done. The device's context is current.
bool multiply(const Device&, Stream, bool is_double, double alpha, double beta, const Matrix& c, const Matrix& a,
              const Matrix& b, std::string& problem);

/// The same of c = alpha a a^T + beta c, of which the elements above the diagonal are neither read nor written.
bool multiply_by_itself(const Device&, Stream, bool is_double, double alpha, double beta, const Matrix& c,
                        const Matrix& a, std::string& problem);

/// A matrix as the library's column after column, or its transpose.
struct Stored {
  bool transposed = false;
  int64_t leading = 0;  // elements from one column to the next; 0: not to be had
};
Stored stored(const Matrix&);

/// May the library be given such a triangle?
bool takes(const Matrix& triangle);

/// Overwrites x by the solution of a x = x, of whose square matrix only what is not above the diagonal is read, nor
/// that with `unit`, which says 1. What is multiplied by a zero of x may be left out. Otherwise as multiply(), but
/// where it fails x may have changed.
bool solve(const Device&, Stream, bool is_double, bool unit, const Matrix& a, uint64_t x, std::string& problem);

/// Copies a matrix to where columns are contiguous. A zero may lose its sign.
bool copy(const Device&, Stream, bool is_double, const Matrix& to, const Matrix& from, std::string& problem);
/// Numbers in memory, `step` elements from one to the next; all of it fits into an int.
struct Elements {
  uint64_t at = 0;
  int64_t count = 0, step = 0;
};
/// Their sum without signs, to an address on the device: infinite or no number where one of them is.
bool add_magnitudes(const Device&, Stream, bool is_double, const Elements& of, uint64_t sum, std::string& problem);

/// Copies what is not above the diagonal of a square matrix, without gaps.
bool pack(const Device&, Stream, bool is_double, const Matrix& a, uint64_t packed, std::string& problem);
/// Copies it back; nothing above the diagonal is written.
bool unpack(const Device&, Stream, bool is_double, uint64_t packed, const Matrix& a, std::string& problem);

}  // namespace appy::gpu
