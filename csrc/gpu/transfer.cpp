#include "gpu/transfer.h"

#include <algorithm>

namespace appy::gpu {

void Transfer::add(ir::Word* words, const ir::Value& array, bool written) {
  const ir::Type& type = array.type;
  const auto rank = static_cast<size_t>(type.rank);
  char* const data = reinterpret_cast<char*>(words[0]);
  char *begin = data, *end = data + ir::size_of(type.dtype);
  for (size_t d = 0; d < rank; ++d) {
    const auto extent = static_cast<int64_t>(words[1 + d]), stride = static_cast<int64_t>(words[1 + rank + d]);
    if (extent == 0) end = begin;
    if (extent <= 1 || begin == end) continue;
    const int64_t span = (extent - 1) * stride;
    span < 0 ? begin += span : end += span;
  }
  arrays_.push_back({words, &array, begin, end, data, written});
}

void Transfer::move_in() {
  std::vector<Array*> sorted;
  for (Array& array : arrays_) sorted.push_back(&array);
  std::sort(sorted.begin(), sorted.end(), [](const Array* a, const Array* b) { return a->begin < b->begin; });
  for (Array* array : sorted) {
    if (blocks_.empty() || array->begin >= blocks_.back().end) {
      blocks_.push_back({array->begin, array->end, array->written, {}});
    } else {
      Block& shared = blocks_.back();
      shared.end = std::max(shared.end, array->end);
      shared.written |= array->written;
    }
    array->block = blocks_.size() - 1;
  }
  for (Block& block : blocks_) {
    const auto bytes = static_cast<size_t>(block.end - block.begin);
    // Elements stay as far from multiples of their size as they are.
    const size_t skew = reinterpret_cast<uintptr_t>(block.begin) % 256;
    block.memory = device_.allocate(bytes + skew, stream_);
    if (bytes) device_.copy_in(block.memory.address() + skew, block.begin, bytes, stream_);
  }
  for (Array& array : arrays_) {
    const Block& block = blocks_[array.block];
    const size_t skew = reinterpret_cast<uintptr_t>(block.begin) % 256;
    array.words[0] = block.memory.address() + skew + static_cast<size_t>(array.data - block.begin);
  }
}

std::vector<Transfer::Move> Transfer::moves() const {
  std::vector<Move> out;
  for (const bool back : {false, true}) {
    for (size_t k = 0; k < blocks_.size(); ++k) {
      if (back && !blocks_[k].written) continue;
      const auto first =
          std::find_if(arrays_.begin(), arrays_.end(), [&](const Array& array) { return array.block == k; });
      out.push_back({first->value, static_cast<size_t>(blocks_[k].end - blocks_[k].begin), back});
    }
  }
  return out;
}

void Transfer::move_out() {
  for (const Block& block : blocks_) {
    const auto bytes = static_cast<size_t>(block.end - block.begin);
    const size_t skew = reinterpret_cast<uintptr_t>(block.begin) % 256;
    if (block.written && bytes) device_.copy_out(block.begin, block.memory.address() + skew, bytes, stream_);
  }
}

}  // namespace appy::gpu
