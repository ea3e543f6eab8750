#include "gpu/whole_solve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "gpu/operands.h"

namespace appy::gpu {

using ir::Word;

namespace {

/// Of 16000 rows of float64 the kernel takes 2.2 ms on an H200, and the library with a copy, a wait and a copy 1.3; of
/// 1000 0.13 and 0.11, of 500 0.072 and 0.082.
constexpr int64_t kLeastRows = 1000;

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

/// A zero of x costs about 10 us: more of them are rather the kernel's.
constexpr size_t kMostZeros = 8;

/// Where x is zero, or nothing if something of it is infinite or no number, or it has too many zeros.
template <class T>
std::optional<std::vector<int64_t>> zeros_of(Device& device, Stream stream, uint64_t at, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  device.copy_out(values.data(), at, values.size() * sizeof(T), stream);
  bool finite = true;
  for (const T v : values) finite &= std::abs(v) <= std::numeric_limits<T>::max();
  if (!finite) return {};
  std::vector<int64_t> zeros;
  for (int64_t i = 0; i < count && zeros.size() <= kMostZeros; ++i) {
    if (values[static_cast<size_t>(i)] == 0) zeros.push_back(i);
  }
  if (zeros.size() > kMostZeros) return {};
  return zeros;
}

/// A library may leave out what is multiplied by a zero of x and what divides it. Would that be zero, too: is all of
/// those columns finite, and their diagonal positive, which keeps a zero's sign?
template <class T>
bool may_leave_out(const std::vector<int64_t>& zeros, Device& device, Stream stream, const Matrix& a, bool unit) {
  if (zeros.empty()) return true;
  // For each zero the magnitudes in its column, and its element of the diagonal.
  std::vector<T> told(2 * zeros.size());
  const size_t bytes = told.size() * sizeof(T);
  const DeviceMemory memory = device.allocate(bytes, stream);
  device.set_bytes(memory.address(), 0, bytes, stream);
  for (size_t k = 0; k < zeros.size(); ++k) {
    const int64_t j = zeros[k], first = j + (unit ? 1 : 0);
    const auto element = [&](int64_t i) { return a.at + static_cast<uint64_t>(i * a.row + j * a.column) * sizeof(T); };
    const uint64_t to = memory.address() + 2 * k * sizeof(T);
    std::string problem;
    if (first < a.rows && !add_magnitudes(device, stream, std::is_same_v<T, double>,
                                          {element(first), a.rows - first, a.row}, to, problem))
      return false;
    if (!unit) device.copy(to + sizeof(T), element(j), sizeof(T), stream);
  }
  device.copy_out(told.data(), memory.address(), bytes, stream);
  for (size_t k = 0; k < told.size(); k += 2) {
    if (!std::isfinite(told[k]) || !(unit || told[k + 1] > 0)) return false;
  }
  return true;
}

template <class T>
bool is_what_the_loop_has(const WholeSolve& solve, Device& device, Stream stream, const Matrix& a, uint64_t x) {
  const std::optional<std::vector<int64_t>> zeros = zeros_of<T>(device, stream, x, a.rows);
  return zeros && may_leave_out<T>(*zeros, device, stream, a, solve.of.unit);
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
                    ir::first_word(graph, of.matrix),
                    ir::first_word(graph, of.x),
                    ir::first_word(graph, of.b),
                    ir::word_of(graph, of.rows)};
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
  const Matrix matrix = matrix_of(solve, arguments);
  const size_t bytes = static_cast<size_t>(rows_of(solve, arguments) * ir::size_of(solve.type));
  const DeviceMemory memory = device.allocate(bytes, stream);
  device.copy(memory.address(), arguments[solve.b], bytes, stream);
  if (!gpu::solve(device, stream, is_double, solve.of.unit, matrix, memory.address(), problem)) return {};
  if (!(is_double ? is_what_the_loop_has<double>(solve, device, stream, matrix, memory.address())
                  : is_what_the_loop_has<float>(solve, device, stream, matrix, memory.address())))
    return {};
  device.copy(arguments[solve.x], memory.address(), bytes, stream);
  return name_of(*library);
}

}  // namespace appy::gpu
