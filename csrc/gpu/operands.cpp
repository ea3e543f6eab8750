#include "gpu/operands.h"

namespace appy::gpu {

using ir::Word;

size_t first_word(const ir::Graph& graph, uint32_t parameter) {
  size_t word = 0;
  for (uint32_t k = 0; k < parameter; ++k) word += ir::words_of(graph.body->args[k]->type);
  return word;
}

size_t word_of(const ir::Graph& graph, const ir::Length& length) {
  return first_word(graph, length.parameter) + static_cast<size_t>(length.dim + 1);
}

Matrix corner(std::span<const Word> arguments, size_t first, ir::DType type, int64_t n, bool transposed) {
  const auto stride = [&](size_t d) {
    const auto bytes = static_cast<int64_t>(arguments[first + 3 + d]);
    return bytes % ir::size_of(type) == 0 ? bytes / ir::size_of(type) : 0;
  };
  const Matrix m = {arguments[first], n, n, stride(0), stride(1)};
  return transposed ? m.transposed() : m;
}

}  // namespace appy::gpu
