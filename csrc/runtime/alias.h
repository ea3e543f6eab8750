// Do two strided arrays share memory? Exact for the shapes that occur; "yes" past a limit of work.
#pragma once

#include <cstdint>

namespace appy::runtime {

/// An array as it lies in memory. Strides are in bytes and may be negative or zero.
struct Extent {
  const char* data = nullptr;
  int rank = 0;
  const int64_t* shape = nullptr;
  const int64_t* strides = nullptr;
  int64_t item_size = 1;
};

/// Could some byte belong to both? Never "no" wrongly.
bool overlap(const Extent& a, const Extent& b);

/// Could two different indices of the array be one element? Never "no" wrongly.
bool overlaps_itself(const Extent& a);

}  // namespace appy::runtime
