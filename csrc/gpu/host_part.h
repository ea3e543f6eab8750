// What of a region the host computes before a kernel runs: everything that follows from its scalars and extents alone.
// Checks that may be made before anything is written are made there, so that a region declines at no cost; results that
// the host knows need no transfer; and it computes how many iterations and how large arrays there will be.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "ir/ir.h"
#include "passes/product.h"

namespace appy::gpu {

/// Word numbers in the results of the host's graph; -1 is "only the device knows".
struct NestSize {
  ir::Mapping mapping = ir::Mapping::none;  // threads, workers or columns
  std::vector<int> trips;                   // of each loop of the nest, outermost first
  std::vector<int> lane_trips;              // workers: of the loops for lanes inside
  /// workers: the largest extent of an array that lanes run along, where their trip counts are not known.
  int lane_extent = -1;
  /// columns: of the elements that lanes store, the least; 0 where they store none.
  int stored_bytes = 0;
};

/// A nest that may have tiles.
struct ProductSize {
  passes::Product product;
  std::vector<int> repeats;  // of the loops around rows
  int rows = -1, columns = -1, steps = -1;
  /// What is stored is its sum alone, times a number or divided by one that the host knows: that number, and which
  /// store.
  const ir::Op* store = nullptr;
  int scale = -1;
  bool divides = false;
};

struct ArraySize {
  const ir::Op* alloc = nullptr;
  std::vector<int> extents;
  std::vector<int> most;  // bounds of the extents; the same numbers where those are known
};

/// Two versions of some loops, in an `if` that is not in a loop: the host knows which one runs.
struct Version {
  const ir::Op* op = nullptr;
  int word = -1;
};

struct HostPart {
  /// Same parameters; results: those of the region (zero where not known), then the words above.
  std::unique_ptr<ir::Graph> graph;
  std::vector<bool> known;       // the region's results
  std::set<const ir::Op*> made;  // checks
  std::vector<NestSize> nests;
  std::vector<ProductSize> products;  // in the graph's order
  std::vector<ArraySize> arrays;      // in walk order
  std::vector<Version> versions;
};

HostPart host_part_of(const ir::Graph&);

}  // namespace appy::gpu
