// Products of matrices inside of a region: a library may compute their sums between two launches of the kernel, which
// then does with them what the nest does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/whole_product.h"

namespace appy::gpu {

struct GivenProduct {
  size_t nest = 0;  // its number among those of the form of a product
  WholeProduct::Operand a, b;
  /// Where nothing but a multiple of the sums is stored, and of all, or that and a multiple of what was there: so may
  /// the library do.
  std::optional<WholeProduct::Operand> c;
  std::optional<WholeProduct::Update> update;  // else the host has computed the multiple
  ir::DType type = ir::DType::f64_;
  /// A sum is that of its row and column and the one of its column and row.
  bool mirrored = false;
};

/// Nests whose sums may be given: they stand at the top of the region, what comes before them leaves nothing but arrays
/// and what follows from scalars, and their sums may be reassociated.
std::vector<GivenProduct> given_products(const ir::Graph&, const HostPart&, const std::vector<bool>& unaligned);

/// Are its operands for a library?
bool takes(const GivenProduct&, const Sizes&, std::span<const ir::Word> arguments);
/// Is the library expected to be faster than tiles?
bool pays(const GivenProduct&, const Sizes&);

/// May the library store it all itself?
bool stores(const GivenProduct&, const Sizes&, std::span<const ir::Word> arguments);

/// Elements from one row of the sums to the next, and how many there are in all.
struct GivenSums {
  int64_t leading = 0, elements = 0;
};
GivenSums sums_of(const GivenProduct&, const Sizes&);

/// Computes the sums, or with `sums` 0 stores what there is to store; false, and why in `problem`, where the library
/// cannot. As multiply() of whole_product.h.
bool multiply(const GivenProduct&, const Device&, Stream, const Sizes&, std::span<const ir::Word> arguments,
              std::span<const ir::Word> made, uint64_t sums, std::string& problem);

}  // namespace appy::gpu
