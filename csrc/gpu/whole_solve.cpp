#include "gpu/whole_solve.h"

#include <algorithm>

#include "gpu/operands.h"
#include "gpu/solution.h"

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
  if (!take_solution(device, stream, is_double, solve.of.unit, matrix, memory.address(), arguments[solve.x])) return {};
  return name_of(*library);
}

}  // namespace appy::gpu
