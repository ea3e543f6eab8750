#include "gpu/whole_solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gpu/operands.h"

namespace appy::gpu {

using ir::Word;

namespace {

/// Of 16000 rows of float64 the kernel takes 2.2 ms on an H200, 0.14 us a row, and the library 1.2. The wait, two
/// copies and two allocations are 20 to 30 us, what 500 rows gain if its share of fewer rows is less in proportion:
/// which is not known of fewer, so that they leave a wide margin.
constexpr int64_t kLeastRows = 4000;

int64_t rows_of(const WholeSolve& solve, std::span<const Word> arguments) {
  return static_cast<int64_t>(arguments[solve.rows]);
}

/// Nothing that is in memory once more: its elements have no gaps.
bool is_contiguous(const WholeSolve& solve, size_t vector, std::span<const Word> arguments) {
  return static_cast<int64_t>(arguments[vector + 2]) == ir::size_of(solve.type);
}

Matrix matrix_of(const WholeSolve& solve, std::span<const Word> arguments) {
  return corner(arguments, solve.matrix, solve.type, rows_of(solve, arguments), solve.of.transposed);
}

/// Neither infinite nor no number, and no zero.
template <class T>
bool is_ordinary(const std::vector<T>& values) {
  bool all = true;
  for (const T v : values) all &= std::abs(v) > 0 && std::abs(v) <= std::numeric_limits<T>::max();
  return all;
}

template <class T>
bool is_ordinary(Device& device, Stream stream, uint64_t at, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  device.copy_out(values.data(), at, values.size() * sizeof(T), stream);
  return is_ordinary(values);
}

}  // namespace

std::optional<WholeSolve> whole_solve_of(const ir::Graph& graph, const HostPart& part,
                                         const std::vector<bool>& unaligned) {
  if (!graph.solve || std::find(part.known.begin(), part.known.end(), false) != part.known.end()) return {};
  const ir::Solve& of = *graph.solve;
  for (const uint32_t index : {of.matrix, of.x, of.b}) {
    if (index < unaligned.size() && unaligned[index]) return {};
  }
  return WholeSolve{of,
                    graph.body->args[of.x]->type.dtype,
                    first_word(graph, of.matrix),
                    first_word(graph, of.x),
                    first_word(graph, of.b),
                    word_of(graph, of.rows)};
}

bool takes(const WholeSolve& solve, std::span<const Word> arguments) {
  const int64_t n = rows_of(solve, arguments);
  // A slice may end with the matrix, before the diagonal.
  for (const size_t extent : {solve.matrix + 1, solve.matrix + 2, solve.x + 1, solve.b + 1}) {
    if (static_cast<int64_t>(arguments[extent]) < n) return false;
  }
  return n > 0 && is_contiguous(solve, solve.x, arguments) && is_contiguous(solve, solve.b, arguments) &&
         takes(matrix_of(solve, arguments));
}

bool pays(const WholeSolve& solve, std::span<const Word> arguments) { return rows_of(solve, arguments) >= kLeastRows; }

std::string solve(const WholeSolve& solve, Device& device, Stream stream, std::span<const Word> arguments) {
  std::string problem;
  const FoundLibrary* const library = blas(problem);
  if (!library) return {};
  const bool is_double = solve.type == ir::DType::f64_;
  const size_t bytes = static_cast<size_t>(rows_of(solve, arguments) * ir::size_of(solve.type));
  const DeviceMemory memory = device.allocate(bytes, stream);
  device.copy(memory.address(), arguments[solve.b], bytes, stream);
  if (!gpu::solve(device, stream, is_double, solve.of.unit, matrix_of(solve, arguments), memory.address(), problem))
    return {};
  const int64_t n = rows_of(solve, arguments);
  const bool ordinary = is_double ? is_ordinary<double>(device, stream, memory.address(), n)
                                  : is_ordinary<float>(device, stream, memory.address(), n);
  if (!ordinary) return {};
  device.copy(arguments[solve.x], memory.address(), bytes, stream);
  return name_of(*library);
}

}  // namespace appy::gpu
