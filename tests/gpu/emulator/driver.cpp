// A libcuda.so.1 without a device: device memory is host memory, kernels run as fibers (fibers.h).
//
// What is given to a stream waits in a queue, in one order for all streams, until something waits for it; so what would
// be read too early, or freed too early, on a device is so here.
//
//   APPY_EMULATOR_FAIL=cuMemAllocAsync:2[:719],...  the second call fails: out of memory, or with this number
//   APPY_EMULATOR_DRIVER=11080          the driver's version; default 13000
//   APPY_EMULATOR_DEVICES=2             how many devices; default 1
//   APPY_EMULATOR_CAPABILITY=80         their compute capability; default 90
//   APPY_EMULATOR_POOLS=0               without stream-ordered memory
//   APPY_EMULATOR_BUSY=SECONDS          how long a device is busy after a launch
//   APPY_EMULATOR_EAGER=1               nothing waits in a queue
//   APPY_EMULATOR_GUARD=1               memory ends at a page that cannot be touched
//   APPY_EMULATOR_ORDER                 see fibers.h
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fibers.h"
#include "queue.h"

using namespace appy_emulator;

namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNotInitialized = 3, kNoDevice = 100, kInvalidDevice = 101,
              kInvalidImage = 200, kInvalidContext = 201, kNoBinary = 209, kUnsupportedPtx = 222, kInvalidHandle = 400,
              kNotFound = 500, kOutOfResources = 701, kCooperativeTooLarge = 720;
constexpr int kMaxDevices = 4, kMultiprocessors = 2, kThreadsPerBlock = 1024, kThreadsPerMultiprocessor = 2048,
              kBlocksPerMultiprocessor = 32;
constexpr size_t kShared = 48 << 10, kSharedOptIn = 227 << 10, kSharedPerMultiprocessor = 228 << 10;
constexpr size_t kMemory = size_t{4} << 30;

struct Context {
  int ordinal;
};
struct Function {
  Kernel kernel;
  const size_t* sizes;  // of its parameters; 0 ends them
  int ordinal;
  size_t dynamic_shared = kShared;
};
struct Module {
  void* library;
  int ordinal;
  std::map<std::string, Function> functions;
};
struct Event {
  bool done = true;
  bool timing = false;
  std::chrono::steady_clock::time_point time;
};
struct Stream {
  int unused = 0;
};
struct Argument {
  alignas(64) char bytes[4096];
};
struct Pool {};
struct Memory {
  size_t bytes;
  int ordinal;  // -1: pinned host memory
  char* mapping;
  size_t mapped;
};

auto& mutex = *new std::recursive_mutex;
using Lock = std::lock_guard<std::recursive_mutex>;
bool initialised = false;
pid_t owner = 0;
int sticky = 0;
Context contexts[kMaxDevices] = {{0}, {1}, {2}, {3}};
Pool pools[kMaxDevices];
thread_local std::vector<Context*> stack;
size_t used = 0;
// Never destroyed: what is freed at exit comes later.
auto& memory = *new std::map<uintptr_t, Memory>;  // by its first address
auto& calls = *new std::map<std::string, long>;
auto& since_failures = *new std::map<std::string, long>;
auto& failures = *new std::string;
std::chrono::steady_clock::time_point busy_until;
auto& queue = *new std::deque<std::function<int()>>;

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

/// What every entry point asks first: counts the call, and answers with an error where one is to be.
int enter(const char* name, bool needs_context = true) {
  ++calls[name];
  const char* wanted = std::getenv("APPY_EMULATOR_FAIL");
  if ((wanted ? wanted : "") != failures) {
    failures = wanted ? wanted : "";
    since_failures.clear();
  }
  if (!failures.empty()) {
    const long count = ++since_failures[name];
    for (size_t at = 0; at < failures.size();) {
      const size_t end = std::min(failures.find(',', at), failures.size());
      const std::string rule = failures.substr(at, end - at);
      at = end + 1;
      const size_t colon = rule.find(':');
      if (rule.substr(0, colon) != name || colon == std::string::npos) continue;
      const size_t second = rule.find(':', colon + 1);
      if (std::atol(rule.c_str() + colon + 1) != count) continue;
      const int code = second == std::string::npos ? kOutOfMemory : std::atoi(rule.c_str() + second + 1);
      if (code >= 700 && code < 720 && code != kOutOfResources) sticky = code;
      return code;
    }
  }
  if (!initialised || owner != getpid()) return kNotInitialized;
  if (sticky) return sticky;
  if (needs_context && (stack.empty() || !stack.back())) return kInvalidContext;
  return 0;
}

int flush() {
  while (!queue.empty() && !sticky) {
    const std::function<int()> next = std::move(queue.front());
    queue.pop_front();
    const int result = next();
    if (result) sticky = result;
  }
  if (sticky) queue.clear();
  return sticky;
}

int enqueue(std::function<int()> what) {
  queue.push_back(std::move(what));
  if (queue.size() > 1000 || number("APPY_EMULATOR_EAGER", 0)) return flush();
  return 0;
}

bool touches(uintptr_t address, size_t bytes) {
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return false;
  const auto& [start, block] = *--next;
  return address + bytes <= start + block.bytes;
}

/// Memory of no defined content; 256-byte aligned, or as far to the end of its pages as 16 bytes allow.
uintptr_t allocate(size_t bytes, int ordinal) {
  if (ordinal >= 0 && used + bytes > kMemory) return 0;
  Memory block{bytes, ordinal, nullptr, 0};
  char* start;
  const size_t page = 4096, rounded = (bytes + page - 1) / page * page;
  if (number("APPY_EMULATOR_GUARD", 0)) {
    block.mapped = rounded + page;
    void* mapping = mmap(nullptr, block.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return 0;
    block.mapping = static_cast<char*>(mapping);
    mprotect(block.mapping + rounded, page, PROT_NONE);
    start = block.mapping + rounded - (bytes + 15) / 16 * 16;
  } else {
    start = static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    if (!start) return 0;
  }
  std::memset(start, 0xa5, bytes);
  if (ordinal >= 0) used += bytes;
  memory.emplace(reinterpret_cast<uintptr_t>(start), block);
  return reinterpret_cast<uintptr_t>(start);
}

int release(uintptr_t address, bool host) {
  const auto found = memory.find(address);
  if (found == memory.end() || (found->second.ordinal < 0) != host) return kInvalidValue;
  if (!host) used -= found->second.bytes;
  if (found->second.mapping) {
    munmap(found->second.mapping, found->second.mapped);
  } else {
    std::free(reinterpret_cast<void*>(address));
  }
  memory.erase(found);
  return 0;
}

int occupancy(int threads, size_t shared) {
  if (threads < 1 || threads > kThreadsPerBlock) return 0;
  int blocks = std::min(kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / ((threads + 31) / 32 * 32));
  if (shared) blocks = std::min<int>(blocks, static_cast<int>(kSharedPerMultiprocessor / (shared + 1024)));
  return blocks;
}

int launch(Function* function, const Grid& grid, void** arguments) {
  const size_t threads = size_t{grid.threads[0]} * grid.threads[1] * grid.threads[2];
  const size_t blocks = size_t{grid.blocks[0]} * grid.blocks[1] * grid.blocks[2];
  if (!function || function->ordinal != stack.back()->ordinal) return kInvalidHandle;
  if (threads == 0 || threads > kThreadsPerBlock || blocks == 0 || grid.blocks[1] > 65535 || grid.blocks[2] > 65535 ||
      grid.threads[2] > 64 || grid.shared_bytes > function->dynamic_shared)
    return kInvalidValue;
  const auto resident = static_cast<size_t>(kMultiprocessors * occupancy(static_cast<int>(threads), grid.shared_bytes));
  if (grid.cooperative && blocks > resident) return kCooperativeTooLarge;
  busy_until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1000 * number("APPY_EMULATOR_BUSY", 0));
  auto copies = std::make_shared<std::vector<Argument>>();
  for (const size_t* size = function->sizes; *size; ++size) {
    const size_t at = copies->size();
    copies->resize(at + 1);
    if (*size > sizeof(Argument)) return kInvalidValue;  // 4 KiB, as on a device
    std::memcpy((*copies)[at].bytes, arguments[at], *size);
  }
  return enqueue([copies, grid, kernel = function->kernel] {
    std::vector<void*> list;
    for (Argument& argument : *copies) list.push_back(argument.bytes);
    std::string why;
    const int result = run_grid(grid, kernel, list.data(), why);
    if (result) std::fprintf(stderr, "emulated device: %s\n", why.c_str());
    return result;
  });
}

/// Runs what was given to streams, then this.
int now(const char* name, bool needs_context, const std::function<int()>& what) {
  const Lock lock(mutex);
  if (const int result = enter(name, needs_context)) return result;
  if (const int result = flush()) return result;
  return what();
}

}  // namespace

int appy_emulator_enqueue(std::function<int()> what) {
  const Lock lock(mutex);
  return enqueue(std::move(what));
}

#define EXPORT extern "C" __attribute__((visibility("default"))) int
#define ENTER(needs_context) \
  const Lock lock(mutex);    \
  if (const int result = enter(__func__, needs_context)) return result

extern "C" __attribute__((visibility("default"))) long appy_emulator_calls(const char* name) {
  const Lock lock(mutex);
  return calls[name];
}
extern "C" __attribute__((visibility("default"))) long appy_emulator_used_bytes() {
  const Lock lock(mutex);
  flush();
  return static_cast<long>(used);
}
/// A context that nobody lost, for the next test.
extern "C" __attribute__((visibility("default"))) void appy_emulator_reset() {
  const Lock lock(mutex);
  sticky = 0;
  queue.clear();
  calls.clear();
  since_failures.clear();
}

EXPORT cuInit(unsigned) {
  const Lock lock(mutex);
  ++calls["cuInit"];
  if (owner && owner != getpid()) return kNotInitialized;
  if (number("APPY_EMULATOR_DEVICES", 1) < 1) return kNoDevice;
  if (const int code = number("APPY_EMULATOR_INIT", 0)) return code;
  initialised = true;
  owner = getpid();
  return 0;
}

EXPORT cuDriverGetVersion(int* version) {
  *version = number("APPY_EMULATOR_DRIVER", 13000);
  return 0;
}

struct ErrorName {
  int code;
  const char *name, *text;
};
constexpr ErrorName kErrorNames[] = {{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
                                     {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
                                     {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
                                     {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
                                     {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
                                     {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
                                     {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
                                     {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available"},
                                     {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "unsupported PTX version"},
                                     {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
                                     {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
                                     {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
                                     {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested"},
                                     {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
                                     {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
                                     {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks"},
                                     {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported driver"}};

EXPORT cuGetErrorName(int code, const char** name) {
  *name = nullptr;
  for (const ErrorName& one : kErrorNames) {
    if (one.code == code) *name = one.name;
  }
  return *name ? 0 : kInvalidValue;
}
EXPORT cuGetErrorString(int code, const char** text) {
  *text = nullptr;
  for (const ErrorName& one : kErrorNames) {
    if (one.code == code) *text = one.text;
  }
  return *text ? 0 : kInvalidValue;
}

// Devices and contexts

EXPORT cuDeviceGetCount(int* count) {
  ENTER(false);
  *count = std::min(kMaxDevices, number("APPY_EMULATOR_DEVICES", 1));
  return 0;
}
EXPORT cuDeviceGet(int* device, int ordinal) {
  ENTER(false);
  if (ordinal < 0 || ordinal >= std::min(kMaxDevices, number("APPY_EMULATOR_DEVICES", 1))) return kInvalidDevice;
  *device = ordinal;
  return 0;
}
EXPORT cuDeviceGetName(char* name, int length, int) {
  ENTER(false);
  std::snprintf(name, static_cast<size_t>(length), "Emulated device");
  return 0;
}
EXPORT cuDeviceTotalMem_v2(size_t* bytes, int) {
  ENTER(false);
  *bytes = kMemory;
  return 0;
}
EXPORT cuDeviceGetAttribute(int* value, int attribute, int) {
  ENTER(false);
  const int capability = number("APPY_EMULATOR_CAPABILITY", 90);
  switch (attribute) {
    case 1:
      *value = kThreadsPerBlock;
      return 0;
    case 8:
      *value = kShared;
      return 0;
    case 10:
      *value = 32;
      return 0;
    case 12:
      *value = 65536;
      return 0;
    case 16:
      *value = kMultiprocessors;
      return 0;
    case 38:
      *value = 1 << 20;
      return 0;
    case 39:
      *value = kThreadsPerMultiprocessor;
      return 0;
    case 75:
      *value = capability / 10;
      return 0;
    case 76:
      *value = capability % 10;
      return 0;
    case 81:
      *value = kSharedPerMultiprocessor;
      return 0;
    case 95:
      *value = 1;
      return 0;
    case 97:
      *value = kSharedOptIn;
      return 0;
    case 106:
      *value = kBlocksPerMultiprocessor;
      return 0;
    case 115:
      *value = number("APPY_EMULATOR_POOLS", 1);
      return 0;
    default:
      return kInvalidValue;
  }
}
EXPORT cuDeviceGetDefaultMemPool(Pool** pool, int device) {
  ENTER(false);
  *pool = &pools[device];
  return 0;
}
EXPORT cuMemPoolSetAttribute(Pool*, int, void*) {
  ENTER(false);
  return 0;
}
EXPORT cuMemPoolTrimTo(Pool*, size_t) {
  ENTER(false);
  return 0;
}
EXPORT cuDevicePrimaryCtxRetain(Context** context, int device) {
  ENTER(false);
  *context = &contexts[device];
  return 0;
}
EXPORT cuCtxGetCurrent(Context** context) {
  *context = stack.empty() ? nullptr : stack.back();
  return owner == getpid() ? 0 : kNotInitialized;
}
EXPORT cuCtxPushCurrent_v2(Context* context) {
  stack.push_back(context);
  return 0;
}
EXPORT cuCtxPopCurrent_v2(Context** context) {
  if (stack.empty()) return kInvalidContext;
  *context = stack.back();
  stack.pop_back();
  return 0;
}
EXPORT cuCtxSynchronize() {
  std::this_thread::sleep_until(busy_until);
  return now(__func__, true, [] { return 0; });
}

// Modules

EXPORT cuModuleLoadDataEx(Module** module, const void* image, unsigned, int*, void**) {
  ENTER(true);
  Prologue head;
  std::memcpy(&head, image, sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) return kInvalidImage;
  const int capability = number("APPY_EMULATOR_CAPABILITY", 90);
  if (head.ptx ? head.architecture > capability : head.architecture != capability)
    return head.ptx ? kUnsupportedPtx : kNoBinary;
  // A file of its own for each: the loader takes two of one name for the same library.
  char path[] = "/tmp/appy-emulator-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return kOutOfMemory;
  const char* bytes = static_cast<const char*>(image) + sizeof head;
  const bool written = write(file, bytes, head.bytes) == static_cast<ssize_t>(head.bytes);
  close(file);
  void* library = written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) std::fprintf(stderr, "emulated device: %s\n", written ? dlerror() : "cannot write to /tmp");
  unlink(path);
  if (!library) return kInvalidImage;
  if (void* at = dlsym(library, "appy_emulator_api")) *static_cast<const Api**>(at) = api();
  *module = new Module{library, stack.back()->ordinal, {}};
  return 0;
}
EXPORT cuModuleUnload(Module* module) {
  return now(__func__, true, [&] {
    dlclose(module->library);
    delete module;
    return 0;
  });
}
EXPORT cuModuleGetFunction(Function** function, Module* module, const char* name) {
  ENTER(true);
  void* call = dlsym(module->library, (std::string("appy_emulator_call_") + name).c_str());
  void* sizes = dlsym(module->library, (std::string("appy_emulator_sizes_") + name).c_str());
  if (!call || !sizes) return kNotFound;
  Function& made = module->functions[name];
  made.kernel = reinterpret_cast<Kernel>(call);
  made.sizes = reinterpret_cast<const size_t* (*)()>(sizes)();
  made.ordinal = module->ordinal;
  *function = &made;
  return 0;
}
EXPORT cuFuncGetAttribute(int* value, int attribute, Function* function) {
  ENTER(true);
  switch (attribute) {
    case 0:
      *value = kThreadsPerBlock;
      return 0;
    case 1:
      *value = 0;
      return 0;
    case 3:
      *value = 0;
      return 0;
    case 4:
      *value = 32;
      return 0;
    case 8:
      *value = static_cast<int>(function->dynamic_shared);
      return 0;
    default:
      return kInvalidValue;
  }
}
EXPORT cuFuncSetAttribute(Function* function, int attribute, int value) {
  ENTER(true);
  if (attribute != 8 || value < 0 || static_cast<size_t>(value) > kSharedOptIn) return kInvalidValue;
  function->dynamic_shared = static_cast<size_t>(value);
  return 0;
}
EXPORT cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int threads, size_t shared) {
  ENTER(true);
  *blocks = occupancy(threads, shared);
  return 0;
}
EXPORT cuLaunchKernel(Function* function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                      unsigned shared, Stream*, void** parameters, void**) {
  ENTER(true);
  return launch(function, {{bx, by, bz}, {tx, ty, tz}, shared, false}, parameters);
}
EXPORT cuLaunchCooperativeKernel(Function* function, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty,
                                 unsigned tz, unsigned shared, Stream*, void** parameters) {
  ENTER(true);
  return launch(function, {{bx, by, bz}, {tx, ty, tz}, shared, true}, parameters);
}

// Memory

EXPORT cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER(true);
  *free = kMemory - used;
  *total = kMemory;
  return 0;
}
EXPORT cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  ENTER(true);
  if (bytes == 0) return kInvalidValue;
  *address = allocate(bytes, stack.back()->ordinal);
  return *address ? 0 : kOutOfMemory;
}
EXPORT cuMemAllocAsync(unsigned long long* address, size_t bytes, Stream*) {
  ENTER(true);
  if (bytes == 0) return kInvalidValue;
  *address = allocate(bytes, stack.back()->ordinal);
  return *address ? 0 : kOutOfMemory;
}
EXPORT cuMemFree_v2(unsigned long long address) {
  return now(__func__, true, [&] { return release(address, false); });
}
EXPORT cuMemFreeAsync(unsigned long long address, Stream*) {
  ENTER(true);
  if (!memory.count(address)) return kInvalidValue;
  return enqueue([address] { return release(address, false); });
}
EXPORT cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  ENTER(true);
  *address = reinterpret_cast<void*>(allocate(bytes, -1));
  return *address ? 0 : kOutOfMemory;
}
EXPORT cuMemFreeHost(void* address) {
  return now(__func__, true, [&] { return release(reinterpret_cast<uintptr_t>(address), true); });
}
EXPORT cuMemHostGetDevicePointer_v2(unsigned long long* address, void* host, unsigned) {
  ENTER(true);
  *address = reinterpret_cast<uintptr_t>(host);
  return touches(*address, 1) ? 0 : kInvalidValue;
}
EXPORT cuPointerGetAttributes(unsigned count, int* attributes, void** values, unsigned long long address) {
  ENTER(false);
  auto next = memory.upper_bound(address);
  const Memory* block = nullptr;
  if (next != memory.begin() && address < (--next)->first + next->second.bytes) block = &next->second;
  for (unsigned k = 0; k < count; ++k) {
    if (attributes[k] == 2) {
      *static_cast<unsigned*>(values[k]) = !block ? 0 : block->ordinal < 0 ? 1 : 2;
    } else if (attributes[k] == 9) {
      *static_cast<int*>(values[k]) = block ? std::max(0, block->ordinal) : -2;  // as NVIDIA's driver does
    } else {
      return kInvalidValue;
    }
  }
  return 0;
}
EXPORT cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, Stream*) {
  ENTER(true);
  if (!touches(to, bytes)) return kInvalidValue;
  auto* target = reinterpret_cast<void*>(to);
  if (!touches(reinterpret_cast<uintptr_t>(from), bytes)) {  // pageable: read before this returns
    const auto* first = static_cast<const char*>(from);
    return enqueue([=, copy = std::vector<char>(first, first + bytes)] {
      std::memcpy(target, copy.data(), bytes);
      return 0;
    });
  }
  return enqueue([=] {
    std::memcpy(target, from, bytes);
    return 0;
  });
}
EXPORT cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, Stream*) {
  ENTER(true);
  if (!touches(from, bytes)) return kInvalidValue;
  const int result = enqueue([=] {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return 0;
  });
  return result || touches(reinterpret_cast<uintptr_t>(to), bytes) ? result : flush();
}
EXPORT cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, Stream*) {
  ENTER(true);
  if (!touches(from, bytes) || !touches(to, bytes)) return kInvalidValue;
  return enqueue([=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return 0;
  });
}
EXPORT cuMemsetD8Async(unsigned long long at, unsigned char value, size_t bytes, Stream*) {
  ENTER(true);
  if (!touches(at, bytes)) return kInvalidValue;
  return enqueue([=] {
    std::memset(reinterpret_cast<void*>(at), value, bytes);
    return 0;
  });
}

// Streams and events

EXPORT cuStreamCreate(Stream** stream, unsigned) {
  ENTER(true);
  *stream = new Stream;
  return 0;
}
EXPORT cuStreamDestroy_v2(Stream* stream) {
  return now(__func__, true, [&] {
    delete stream;
    return 0;
  });
}
EXPORT cuStreamQuery(Stream*) {
  ENTER(true);
  if (std::chrono::steady_clock::now() < busy_until) return 600;
  if (queue.empty()) return 0;
  const int result = flush();
  return result ? result : 600;  // it has finished when it is asked the next time
}
EXPORT cuStreamSynchronize(Stream*) {
  std::this_thread::sleep_until(busy_until);
  return now(__func__, true, [] { return 0; });
}
EXPORT cuStreamWaitEvent(Stream*, Event*, unsigned) {
  ENTER(true);
  return 0;  // the queue has one order
}
EXPORT cuStreamIsCapturing(Stream*, int* status) {
  ENTER(true);
  *status = 0;
  return 0;
}
EXPORT cuEventCreate(Event** event, unsigned flags) {
  ENTER(true);
  *event = new Event;
  (*event)->timing = !(flags & 2);
  return 0;
}
EXPORT cuEventDestroy_v2(Event* event) {
  return now(__func__, true, [&] {
    delete event;
    return 0;
  });
}
EXPORT cuEventRecord(Event* event, Stream*) {
  ENTER(true);
  event->done = false;
  return enqueue([event] {
    event->done = true;
    event->time = std::chrono::steady_clock::now();
    return 0;
  });
}
EXPORT cuEventQuery(Event* event) {
  ENTER(true);
  if (event->done) return 0;
  const int result = flush();
  return result ? result : 600;  // it has finished when it is asked the next time
}
EXPORT cuEventSynchronize(Event*) {
  return now(__func__, true, [] { return 0; });
}
EXPORT cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
  ENTER(true);
  if (!from->timing || !to->timing) return kInvalidHandle;
  if (!from->done || !to->done) return 600;
  *milliseconds = std::chrono::duration<float, std::milli>(to->time - from->time).count();
  return 0;
}
