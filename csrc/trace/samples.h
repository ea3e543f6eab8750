// What a graph's parameters are in the frame that it was traced for. What is compiled may depend on it only where a
// guard or a check tells other frames apart.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ir/ir.h"

namespace appy::trace {

class Samples {
 public:
  void scalar(const ir::Value* param, int64_t value) { scalars_[param->index] = value; }
  void array(const ir::Value* param, std::vector<int64_t> extents) { extents_[param->index] = std::move(extents); }
  /// The integer where it follows from parameters and extents alone.
  std::optional<int64_t> of(const ir::Value*) const;
  /// As `Graph::given`.
  std::vector<ir::Word> words(const ir::Graph&) const;

 private:
  // By the parameter's number, as passes may give back another graph.
  std::map<uint32_t, int64_t> scalars_;
  std::map<uint32_t, std::vector<int64_t>> extents_;
};

/// How many arrays, and bytes in those whose size is known.
struct ArrayCount {
  int arrays = 0;
  int64_t bytes = 0;
  void add(const Samples&, ir::DType, std::span<ir::Value* const> shape);
};
/// Outside of the region's loops, and in one iteration of each.
struct ArrayCounts {
  ArrayCount once, each;
  ArrayCounts& operator+=(const ArrayCounts&);
};

/// The arrays that the graph makes.
ArrayCounts allocated(const ir::Graph&, const Samples&);

}  // namespace appy::trace
