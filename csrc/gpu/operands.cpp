#include "gpu/operands.h"

namespace appy::gpu {

using ir::Word;

Matrix corner(std::span<const Word> arguments, size_t first, ir::DType type, int64_t n, bool transposed) {
  const auto stride = [&](size_t d) {
    const auto bytes = static_cast<int64_t>(arguments[first + 3 + d]);
    return bytes % ir::size_of(type) == 0 ? bytes / ir::size_of(type) : 0;
  };
  const Matrix m = {arguments[first], n, n, stride(0), stride(1)};
  return transposed ? m.transposed() : m;
}

}  // namespace appy::gpu
