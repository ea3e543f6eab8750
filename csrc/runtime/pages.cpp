#include "runtime/pages.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace appy::runtime {
namespace {

/// Blocks begin and end at such addresses, so that the system can use pages of this size.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMostBlocks = 64;

struct Block {
  char* at = nullptr;
  size_t bytes = 0;
};

struct Kept {
  std::mutex mutex;
  std::vector<Block> blocks;  // the one that was given back last at the end
  size_t bytes = 0;

  Kept();
};

/// Threads give blocks back until the process ends, so this is never destroyed.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

/// The child of a fork finds the lock open, whoever had it.
Kept::Kept() {
  pthread_atfork([] { kept().mutex.lock(); }, [] { kept().mutex.unlock(); }, [] { kept().mutex.unlock(); });
}

/// Nothing where the process may have so much address space and no more: others would miss what is kept.
size_t most_bytes() {
  static const size_t bytes =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 4;
  rlimit limit;
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? 0 : bytes;
}

size_t rounded(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

Block map(size_t bytes) {
  void* const got = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return {};
  char* const begin = static_cast<char*>(got);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before) munmap(begin, before);
  munmap(begin + before + bytes, kHugePage - before);
  madvise(begin + before, bytes, MADV_HUGEPAGE);  // what NumPy says of its large arrays, too
  return {begin + before, bytes};
}

/// The smallest of the kept blocks that are large enough and at most a third larger; with the lock.
Block take(Kept& all, size_t bytes) {
  auto best = all.blocks.end();
  for (auto at = all.blocks.begin(); at != all.blocks.end(); ++at) {
    const bool fits = at->bytes >= bytes && at->bytes - bytes <= bytes / 3;
    if (fits && (best == all.blocks.end() || at->bytes <= best->bytes)) best = at;
  }
  if (best == all.blocks.end()) return {};
  const Block block = *best;
  all.blocks.erase(best);
  all.bytes -= block.bytes;
  return block;
}

}  // namespace

Pages take_pages(size_t bytes) {
  const size_t size = rounded(bytes);
  if (size < bytes || size + kHugePage < size) return {};
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  if (const Block block = take(all, size); block.at) return {block.at, block.bytes, false};
  Block block = map(size);
  if (!block.at && !all.blocks.empty()) {
    for (const Block& each : all.blocks) munmap(each.at, each.bytes);
    all.blocks.clear();
    all.bytes = 0;
    block = map(size);
  }
  return {block.at, block.bytes, true};
}

void give_pages(void* at, size_t bytes) {
  // The pages stay until they are needed elsewhere. A system that does not know that gets them back now.
  if (bytes > most_bytes() || madvise(at, bytes, MADV_FREE) != 0) {
    munmap(at, bytes);
    return;
  }
  Kept& all = kept();
  const std::lock_guard lock(all.mutex);
  all.blocks.push_back({static_cast<char*>(at), bytes});
  all.bytes += bytes;
  while (all.bytes > most_bytes() || all.blocks.size() > kMostBlocks) {
    const Block oldest = all.blocks.front();
    all.blocks.erase(all.blocks.begin());
    all.bytes -= oldest.bytes;
    munmap(oldest.at, oldest.bytes);
  }
}

}  // namespace appy::runtime
