#include "runtime/recycled.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

/// Blocks begin and end at such addresses, so that the system can use pages of this size.
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMostBlocks = 16;
/// Smaller arrays are left to malloc(), which keeps their memory itself.
constexpr size_t kSmall = size_t{4} << 20;

struct Block {
  char* at = nullptr;
  size_t bytes = 0;
};

/// Arrays are freed until the process ends, so this is never destroyed.
struct Blocks {
  std::mutex mutex;
  std::unordered_map<void*, size_t> used;  // to their bytes: NumPy does not always know how many it asked for
  std::vector<Block> kept;                 // the one that was freed last at the end
  size_t bytes = 0;                        // kept
};
Blocks& blocks() {
  static Blocks& all = *new Blocks;
  return all;
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
Block take(Blocks& all, size_t bytes) {
  auto best = all.kept.end();
  for (auto at = all.kept.begin(); at != all.kept.end(); ++at) {
    const bool fits = at->bytes >= bytes && at->bytes - bytes <= bytes / 3;
    if (fits && (best == all.kept.end() || at->bytes <= best->bytes)) best = at;
  }
  if (best == all.kept.end()) return {};
  const Block block = *best;
  all.kept.erase(best);
  all.bytes -= block.bytes;
  return block;
}

/// `cleared`: all its bytes are 0.
void* allocate(size_t bytes, bool& cleared) {
  cleared = false;
  if (bytes < kSmall) return std::malloc(std::max<size_t>(bytes, 1));
  const size_t size = rounded(bytes);
  if (size < bytes || size + kHugePage < size) return nullptr;
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  Block block = take(all, size);
  if (!block.at) {
    block = map(size);
    cleared = true;
  }
  if (!block.at && !all.kept.empty()) {
    for (const Block& each : all.kept) munmap(each.at, each.bytes);
    all.kept.clear();
    all.bytes = 0;
    block = map(size);
  }
  if (block.at) all.used[block.at] = block.bytes;
  return block.at;
}

void* allocate(void*, size_t bytes) {
  bool cleared;
  return allocate(bytes, cleared);
}

void* allocate_cleared(void*, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  bool cleared;
  void* const at = allocate(bytes, cleared);
  if (at && !cleared) std::memset(at, 0, bytes);
  return at;
}

void release(void*, void* at, size_t) {
  Blocks& all = blocks();
  std::unique_lock lock(all.mutex);
  const auto used = all.used.find(at);
  if (used == all.used.end()) {
    lock.unlock();
    std::free(at);
    return;
  }
  const Block block{static_cast<char*>(at), used->second};
  all.used.erase(used);
  // The pages stay until they are needed elsewhere. A system that does not know that gets them back now.
  if (block.bytes > most_bytes() || madvise(block.at, block.bytes, MADV_FREE) != 0) {
    munmap(block.at, block.bytes);
    return;
  }
  all.kept.push_back(block);
  all.bytes += block.bytes;
  while (all.bytes > most_bytes() || all.kept.size() > kMostBlocks) {
    const Block oldest = all.kept.front();
    all.kept.erase(all.kept.begin());
    all.bytes -= oldest.bytes;
    munmap(oldest.at, oldest.bytes);
  }
}

/// ndarray.resize().
void* reallocate(void* context, void* at, size_t bytes) {
  size_t before = 0;
  {
    const std::lock_guard lock(blocks().mutex);
    const auto used = blocks().used.find(at);
    if (used != blocks().used.end()) before = used->second;
  }
  if (before == 0 && bytes < kSmall) return std::realloc(at, std::max<size_t>(bytes, 1));
  if (before == 0) before = malloc_usable_size(at);
  void* const to = allocate(context, bytes);
  if (!to || !at) return to;
  std::memcpy(to, at, std::min(before, bytes));
  release(context, at, before);
  return to;
}

PyDataMem_Handler handler = {"appy", 1, {nullptr, allocate, allocate_cleared, reallocate, release}};

/// Somebody else's handler is left in its place.
bool is_numpys() {
  const Ref current = Ref::steal(PyDataMem_GetHandler());
  const void* const found = current ? PyCapsule_GetPointer(current.get(), "mem_handler") : nullptr;
  return found && std::strcmp(static_cast<const PyDataMem_Handler*>(found)->name, "default_allocator") == 0;
}

}  // namespace

Recycling::Recycling() {
  static PyObject* const own = PyCapsule_New(&handler, "mem_handler", nullptr);
  // It may be the first thing that is done with an array.
  if (own && import_numpy() && is_numpys()) before_ = Ref::steal(PyDataMem_SetHandler(own));
  if (!before_) PyErr_Clear();
}

Recycling::~Recycling() {
  if (!before_) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  if (!Ref::steal(PyDataMem_SetHandler(before_.get()))) PyErr_Clear();
  PyErr_Restore(type, value, trace);
}

}  // namespace appy::runtime
