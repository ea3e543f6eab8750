// Memory of the arrays that a region makes: one place a slot, used again each time the alloc is executed, and returned
// to a cache of the thread when the region, or the thread's part of a parallel loop, ends in whatever way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/context.h"

namespace appy::cpu {

/// A block that begins at a cache line.
struct MemoryBlock {
  void* data = nullptr;
  size_t size = 0;
};

constexpr size_t kMostKept = size_t{128} << 20;
constexpr size_t kMostKeptByWorker = size_t{8} << 20;  // there are many of them

class Memory {
 public:
  /// Of what it had, the thread keeps up to `most_kept` bytes when this ends.
  explicit Memory(size_t most_kept = kMostKept) : most_kept_(most_kept) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// At least `bytes` bytes for the slot, with unspecified contents; what it had before is gone. Null: there is no
  /// memory.
  void* reserve(size_t slot, size_t bytes);

 private:
  size_t most_kept_;
  std::vector<MemoryBlock> blocks_;
};

/// Bytes that the calling thread keeps for its next region.
size_t cached_bytes();

/// Bytes in front of and behind an array that does not escape, which vectors of its first and last elements may read.
constexpr size_t kReadAround = ir::kCacheLine;

/// What generated code says of an alloc, in one word.
struct ArrayKind {
  uint32_t slot;
  int8_t rank;
  ir::DType dtype;
  uint8_t lead;  // bytes
  uint8_t escapes : 1;
  uint8_t declines : 1;  // nothing was written yet
  uint8_t columns : 1;   // in Fortran's order
  uint8_t unused : 5 = 0;
};
static_assert(sizeof(ArrayKind) == 8);

/// Makes the array whose extents stand in `words`, as an argument's do, and fills in its address and strides. Returns
/// a Status: done, or what to leave the region with where there is no memory.
int64_t make_array(Context*, ir::Word* words, int64_t kind);

}  // namespace appy::cpu
