#include "cpu/memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "runtime/pages.h"

namespace appy::cpu {

using runtime::Status;

namespace {

constexpr size_t kAlign = ir::kCacheLine;
constexpr size_t kPage = 4096;
constexpr size_t kMostBlocks = 64;

/// Filling a new array takes a page fault a page: large ones are in large pages where the system has them.
MemoryBlock fresh(size_t bytes) {
  if (bytes < runtime::kFewestPages) return {std::aligned_alloc(kAlign, bytes), bytes};
  const runtime::Pages pages = runtime::take_pages(bytes);
  return {pages.at, pages.bytes};
}

void release(MemoryBlock block) {
  if (block.size < runtime::kFewestPages) return std::free(block.data);
  runtime::give_pages(block.data, block.size);
}

/// Blocks that the thread does not use at the moment, oldest first.
class Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  ~Cache() {
    for (const MemoryBlock& block : free_) release(block);
  }

  MemoryBlock take(size_t bytes) {
    auto best = free_.end();
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      // A far larger block would be missing where it is needed.
      const bool fits = at->size >= bytes && at->size / 4 <= bytes + kPage;
      if (fits && (best == free_.end() || at->size < best->size)) best = at;
    }
    if (best == free_.end()) return fresh(bytes);
    const MemoryBlock block = *best;
    free_.erase(best);
    bytes_ -= block.size;
    return block;
  }

  void give(MemoryBlock block, size_t most) {
    if (block.size > most) return release(block);
    while (free_.size() == kMostBlocks || bytes_ + block.size > most) {
      bytes_ -= free_.front().size;
      release(free_.front());
      free_.erase(free_.begin());
    }
    free_.push_back(block);
    bytes_ += block.size;
  }

  size_t bytes() const { return bytes_; }

 private:
  std::vector<MemoryBlock> free_;
  size_t bytes_ = 0;
};

Cache& cache() {
  static thread_local Cache blocks;
  return blocks;
}

}  // namespace

size_t cached_bytes() { return cache().bytes(); }

Memory::~Memory() {
  for (const MemoryBlock& block : blocks_) {
    if (block.data) cache().give(block, most_kept_);
  }
}

void* Memory::reserve(size_t slot, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  if (blocks_.size() <= slot) blocks_.resize(slot + 1);
  MemoryBlock& block = blocks_[slot];
  if (block.data && block.size >= bytes) return block.data;
  const size_t unit = bytes < 16 * kPage ? kAlign : kPage;
  // A place that grows from one execution to the next does so in few steps.
  const size_t wanted = std::max({bytes, block.size + block.size / 2, kAlign});
  const size_t rounded = (wanted + unit - 1) / unit * unit;
  if (block.data) cache().give(block, most_kept_);
  block = cache().take(rounded);
  if (!block.data) block = {};
  return block.data;
}

int64_t make_array(Context* context, ir::Word* words, int64_t bits) {
  const auto kind = std::bit_cast<ArrayKind>(bits);
  const ir::Type type{kind.dtype, kind.rank, kind.columns ? ir::Layout::f : ir::Layout::c};
  const auto rank = static_cast<size_t>(kind.rank);
  int64_t stride = ir::size_of(kind.dtype);
  bool empty = false, fits = true;
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = ir::by_speed(type, k);
    const auto extent = static_cast<int64_t>(words[1 + d]);
    words[1 + rank + d] = static_cast<ir::Word>(stride);
    empty |= extent <= 0;
    if (extent > 0) fits &= !__builtin_mul_overflow(stride, extent, &stride);
  }
  void* data = nullptr;
  if (kind.escapes) {
    data = context->arrays->make(static_cast<int>(kind.slot), type, words + 1);
  } else if (fits || empty) {
    const size_t elements = empty ? 0 : static_cast<size_t>(stride);
    data = context->memory->reserve(kind.slot, kReadAround + kind.lead + elements + kReadAround);
    if (data) data = static_cast<std::byte*>(data) + kReadAround + kind.lead;
  }
  words[0] = reinterpret_cast<ir::Word>(data);
  if (data) return static_cast<int64_t>(Status::done);
  if (kind.declines) return static_cast<int64_t>(Status::declined);
  context->no_memory = true;
  return static_cast<int64_t>(Status::interrupted);
}

}  // namespace appy::cpu
