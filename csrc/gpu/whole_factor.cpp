#include "gpu/whole_factor.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "gpu/error.h"
#include "gpu/operands.h"
#include "gpu/solver.h"

namespace appy::gpu {

using ir::Word;

namespace {

/// Of 2000 columns of float64 the kernel takes 3.8 ms on an H200, and the library 1.2. Of 1500 that is 1.6 at least, if
/// all of the kernel's time goes by the cube, and 0.9 at most, if all of the library's goes by the number.
constexpr int64_t kLeastColumns = 1500;

int64_t columns_of(const WholeFactor& factor, std::span<const Word> arguments) {
  return static_cast<int64_t>(arguments[factor.columns]);
}

Matrix matrix_of(const WholeFactor& factor, std::span<const Word> arguments) {
  return corner(arguments, factor.matrix, factor.type, columns_of(factor, arguments), factor.of.transposed);
}

/// Works in a copy, of which nothing but the triangle goes back.
bool compute(const WholeFactor& factor, Device& device, Stream stream, const Matrix& matrix) {
  const bool is_double = factor.type == ir::DType::f64_;
  const int64_t size = ir::size_of(factor.type), n = matrix.rows;
  const auto bytes = [&](int64_t elements) { return static_cast<size_t>(elements * size); };
  const size_t all = bytes((n - 1) * stored(matrix).leading + n);
  const DeviceMemory copy = device.allocate(all, stream);
  const DeviceMemory packed = device.allocate(bytes(n * (n + 1) / 2), stream);
  int minor = 0;
  const DeviceMemory told = device.allocate(sizeof minor, stream);
  device.copy(copy.address(), matrix.at, all, stream);
  Matrix own = matrix;
  own.at = copy.address();
  std::string problem;
  double magnitudes = 0;
  if (!gpu::factor(device, stream, is_double, own, told.address(), problem) ||
      !pack(device, stream, is_double, own, packed.address(), magnitudes, problem))
    return false;
  device.copy_out(&minor, told.address(), sizeof minor, stream);
  return minor == 0 && std::isfinite(magnitudes) &&
         unpack(device, stream, is_double, packed.address(), matrix, problem);
}

}  // namespace

std::optional<WholeFactor> whole_factor_of(const ir::Graph& graph, const HostPart& part,
                                           const std::vector<bool>& unaligned) {
  if (!graph.factorization || std::find(part.known.begin(), part.known.end(), false) != part.known.end()) return {};
  const ir::Factorization& of = *graph.factorization;
  if (of.matrix < unaligned.size() && unaligned[of.matrix]) return {};
  return WholeFactor{of, graph.body->args[of.matrix]->type.dtype, first_word(graph, of.matrix),
                     word_of(graph, of.columns)};
}

bool takes(const WholeFactor& factor, std::span<const Word> arguments) {
  const int64_t n = columns_of(factor, arguments);
  for (size_t d = 0; d < 2; ++d) {
    if (static_cast<int64_t>(arguments[factor.matrix + 1 + d]) < n) return false;
  }
  // The copy has as much between its columns, and the library counts what it packs by an int.
  const Matrix matrix = matrix_of(factor, arguments);
  return n > 0 && n < (int64_t{1} << 16) && n * (n + 1) / 2 <= INT_MAX && takes(matrix) &&
         stored(matrix).leading <= 2 * n;
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
