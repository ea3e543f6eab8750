#include "gpu/whole_factor.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>

#include "gpu/error.h"
#include "gpu/operands.h"
#include "gpu/solver.h"

namespace appy::gpu {

using ir::Word;

namespace {

/// Of 250 columns of float64 the kernel takes 0.35 ms on an H200, and the library 0.28 even of a triangle that it is
/// slower with than with this one; of 2000 columns 3.8, and the library 0.9. Of fewer nothing was measured.
constexpr int64_t kLeastColumns = 250;

int64_t columns_of(const WholeFactor& factor, std::span<const Word> arguments) {
  return static_cast<int64_t>(arguments[factor.columns]);
}

Matrix matrix_of(const WholeFactor& factor, std::span<const Word> arguments) {
  return corner(arguments, factor.matrix, factor.type, columns_of(factor, arguments), factor.of.transposed);
}

Matrix contiguous(uint64_t at, int64_t n) { return {at, n, n, 1, n}; }

/// What says whether the factor is to be written.
struct Told {
  int32_t minor;  // the first one that is not positive, or zero
  double diagonal;
  float diagonal_of_floats;
};

/// A row of the factor with something infinite or no number in it has no number on the diagonal, which is the square
/// root of what the squares of the others leave.
bool is_finite(const Told& told) {
  return told.minor == 0 && std::isfinite(told.diagonal) && std::isfinite(told.diagonal_of_floats);
}

/// Works in a copy, of which nothing but the triangle goes back. Columns are contiguous there: of rows, whose triangle
/// is the upper one to cuSOLVER, it takes 2.3 times as long (2.0 ms and 0.9 of 2000 on an H200).
bool compute(const WholeFactor& factor, Device& device, Stream stream, const Matrix& matrix) {
  const bool is_double = factor.type == ir::DType::f64_;
  const int64_t n = matrix.rows;
  const auto all = static_cast<size_t>(n * n * ir::size_of(factor.type));
  const DeviceMemory first = device.allocate(all, stream), second = device.allocate(all, stream);
  const DeviceMemory memory = device.allocate(sizeof(Told), stream);
  device.set_bytes(memory.address(), 0, sizeof(Told), stream);
  const uint64_t diagonal =
      memory.address() + (is_double ? offsetof(Told, diagonal) : offsetof(Told, diagonal_of_floats));
  Matrix own = contiguous(first.address(), n);
  uint64_t packed = second.address();
  std::string problem;
  if (!copy(device, stream, is_double, own, matrix, problem) ||
      !gpu::factor(device, stream, is_double, own, memory.address(), problem) ||
      !add_magnitudes(device, stream, is_double, {own.at, n, n + 1}, diagonal, problem))
    return false;
  // Packed as it is stored.
  if (stored(matrix).transposed) {
    const Matrix across = contiguous(second.address(), n);
    if (!copy(device, stream, is_double, across, own.transposed(), problem)) return false;
    own = across.transposed();
    packed = first.address();
  }
  if (!pack(device, stream, is_double, own, packed, problem)) return false;
  Told told;
  device.copy_out(&told, memory.address(), sizeof told, stream);
  return is_finite(told) && unpack(device, stream, is_double, packed, matrix, problem);
}

}  // namespace

std::optional<WholeFactor> whole_factor_of(const ir::Graph& graph, const HostPart& part,
                                           const std::vector<bool>& unaligned) {
  if (!graph.factorization || std::find(part.known.begin(), part.known.end(), false) != part.known.end()) return {};
  const ir::Factorization& of = *graph.factorization;
  if (of.matrix < unaligned.size() && unaligned[of.matrix]) return {};
  return WholeFactor{of, graph.body->args[of.matrix]->type.dtype, ir::first_word(graph, of.matrix),
                     ir::word_of(graph, of.columns)};
}

bool takes(const WholeFactor& factor, std::span<const Word> arguments) {
  const int64_t n = columns_of(factor, arguments);
  for (size_t d = 0; d < 2; ++d) {
    if (static_cast<int64_t>(arguments[factor.matrix + 1 + d]) < n) return false;
  }
  // The library counts what it packs by an int.
  return n > 0 && n < (int64_t{1} << 16) && n * (n + 1) / 2 <= INT_MAX && takes(matrix_of(factor, arguments));
}

bool pays(const WholeFactor& factor, std::span<const Word> arguments) {
  return columns_of(factor, arguments) >= kLeastColumns;
}

std::string factor(const WholeFactor& factor, Device& device, Stream stream, std::span<const Word> arguments) {
  std::string problem;
  const FoundLibrary* const library = blas(problem) ? solver(problem) : nullptr;
  if (!library) return {};
  try {
    return compute(factor, device, stream, matrix_of(factor, arguments)) ? name_of(*library) : "";
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    return {};  // the kernel needs less
  }
}

}  // namespace appy::gpu
