#include "runtime/recycled.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "runtime/numpy.h"
#include "runtime/pages.h"

namespace appy::runtime {
namespace {

/// Arrays are freed until the process ends, so this is never destroyed.
struct Used {
  std::mutex mutex;
  std::unordered_map<void*, size_t> bytes;  // of blocks: NumPy does not always know how many it asked for
};
Used& used() {
  static Used& all = *new Used;
  return all;
}

/// `cleared`: all its bytes are 0.
void* allocate(size_t bytes, bool& cleared) {
  cleared = false;
  if (bytes < kFewestPages) return std::malloc(std::max<size_t>(bytes, 1));
  const Pages pages = take_pages(bytes);
  cleared = pages.cleared;
  const std::lock_guard lock(used().mutex);
  if (pages.at) used().bytes[pages.at] = pages.bytes;
  return pages.at;
}

/// Of a block; 0: malloc() has it.
size_t bytes_of(void* at) {
  const std::lock_guard lock(used().mutex);
  const auto found = used().bytes.find(at);
  return found == used().bytes.end() ? 0 : found->second;
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
  size_t bytes = 0;
  {
    const std::lock_guard lock(used().mutex);
    if (const auto block = used().bytes.extract(at)) bytes = block.mapped();
  }
  bytes == 0 ? std::free(at) : give_pages(at, bytes);
}

/// ndarray.resize().
void* reallocate(void* context, void* at, size_t bytes) {
  size_t before = bytes_of(at);
  if (before == 0 && bytes < kFewestPages) return std::realloc(at, std::max<size_t>(bytes, 1));
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
