// How a nest of the form of a matrix product is divided into tiles.
#pragma once

#include <cstddef>
#include <string>

#include "passes/product.h"

namespace appy::gpu {

/// `least`: for products by the tensor cores of which there are few tiles; others are small ones.
enum class TileSize : uint8_t { none, small, large, least };

struct Tiling {
  bool tensor = false;  // by the tensor cores
  int rows = 0, columns = 0;
  std::string type;  // of appy_product.h
  size_t shared_bytes = 0;
  size_t order_at = 0;  // where in them the order of the tiles is kept, unless all rows have as many columns
};

/// `size` is not none. `beside_arrays`: in shared memory, with which that has to be divided.
Tiling tiling_of(const passes::Product&, TileSize size, int block, bool beside_arrays);

}  // namespace appy::gpu
