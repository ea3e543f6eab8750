#include "gpu/tiling.h"

#include <algorithm>
#include <vector>

namespace appy::gpu {

namespace {

/// Of a struct of these.
size_t bytes_of(const std::vector<const ir::Value*>& values) {
  size_t bytes = 0, largest = 1;
  for (const ir::Value* v : values) {
    const auto size = static_cast<size_t>(ir::size_of(v->type.dtype));
    largest = std::max(largest, size);
    bytes = (bytes + size - 1) / size * size + size;
  }
  return (bytes + largest - 1) / largest * largest;
}

}  // namespace

Tiling tiling_of(const passes::Product& product, TileSize size, int block) {
  constexpr int deep = 16, apart = 4;  // as in appy_product.h
  const size_t x = bytes_of(product.of_row), y = bytes_of(product.of_column);
  const bool large = size == TileSize::large;
  Tiling t;
  t.tensor = product.multiplies && product.steps->result()->type.dtype == ir::DType::f64_ &&
             product.of_row[0]->type.dtype == ir::DType::f64_ && block >= 32;
  int across, down, rows_each, columns_each;
  if (t.tensor) {
    const int warps = block / 32;
    across = warps >= 8 ? 2 : 1;
    down = warps / across;
    rows_each = large ? 2 : 1;
    columns_each = large ? 4 : 2;
    t.rows = down * rows_each * 16;
    t.columns = across * columns_each * 8;
  } else {
    across = block >= 256 ? 16 : block >= 64 ? 8 : 4;
    down = block / across;
    const bool narrow = x <= 4 && y <= 4 && product.steps->results.size() == 1;
    rows_each = columns_each = (large ? 4 : 2) * (narrow ? 2 : 1);
    t.rows = down * rows_each;
    t.columns = across * columns_each;
  }
  t.type = std::string(t.tensor ? "TensorTile" : "SumTile") + "<kBlock, " + std::to_string(rows_each) + ", " +
           std::to_string(columns_each) + ">";
  t.shared_bytes = deep * (static_cast<size_t>(t.rows + apart) * x + static_cast<size_t>(t.columns + apart) * y);
  return t;
}

}  // namespace appy::gpu
