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

// As in appy_product.h.
constexpr int kDeep = 16, kApart = 4, kBands = 128;

Tiling with_order(Tiling t, const passes::Product& product, size_t bytes) {
  t.order_at = (bytes + 3) / 4 * 4;
  t.shared_bytes = product.rectangular ? bytes : t.order_at + 4 * (kBands + 1);
  return t;
}

/// By the tensor cores: each warp has 32 x 32 sums, and the two halves of a small tile's warps half of the steps each,
/// the quarters of the least one's a quarter.
Tiling tensor_tiling(const passes::Product& product, TileSize size, int block, size_t stages) {
  const int warps = block / 32;
  const bool quarters = size == TileSize::least && warps % 4 == 0;
  const int shares = quarters ? 4 : warps % 2 == 0 && (size != TileSize::large || warps >= 16) ? 2 : 1;
  const int across = warps / shares % 2 == 0 ? 2 : 1, down = warps / shares / across;
  Tiling t;
  t.tensor = true;
  t.rows = 32 * down;
  t.columns = 32 * across;
  t.type = "TensorTile<kBlock, " + std::to_string(down) + ", " + std::to_string(across) + ", " +
           std::to_string(shares) + ", " + std::to_string(product.terms) + ", " + std::to_string(stages) + ">";
  // If both operands' lines are rows.
  const size_t terms = product.terms, deep = static_cast<size_t>(quarters ? 2 * kDeep : kDeep),
               piece = static_cast<size_t>(t.rows + t.columns) * (deep / terms + kApart) * terms;
  return with_order(t, product,
                    8 * std::max(stages * piece, static_cast<size_t>(t.rows) * static_cast<size_t>(t.columns)));
}

}  // namespace

Tiling tiling_of(const passes::Product& product, TileSize size, int block, bool beside_arrays) {
  const bool large = size == TileSize::large;
  const bool doubles =
      product.steps->result()->type.dtype == ir::DType::f64_ && product.of_row[0]->type.dtype == ir::DType::f64_;
  const size_t x = bytes_of(product.of_row), y = bytes_of(product.of_column);
  const bool tensor = product.terms && doubles && block >= 32;
  // Pieces that have a place: one is computed, the others are on their way. H200, a factorisation beside 64 KiB of
  // arrays: 5.4 ms with two blocks on a multiprocessor, 6.9 with one.
  const size_t stages = beside_arrays || (x + y > 16 && !tensor) ? 2 : 3;
  if (tensor) return tensor_tiling(product, size, block, stages);
  const int across = block >= 256 ? 16 : block >= 64 ? 8 : 4, down = block / across;
  const bool narrow = x <= 4 && y <= 4 && product.steps->results.size() == 1;
  const int each = (large ? 4 : 2) * (narrow ? 2 : 1);
  Tiling t;
  t.rows = down * each;
  t.columns = across * each;
  t.type =
      "SumTile<kBlock, " + std::to_string(each) + ", " + std::to_string(each) + ", " + std::to_string(stages) + ">";
  const size_t piece = kDeep * (static_cast<size_t>(t.rows + kApart) * x + static_cast<size_t>(t.columns + kApart) * y);
  return with_order(t, product, stages * piece);
}

}  // namespace appy::gpu
