#include "gpu/solution.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "gpu/cache.h"

namespace appy::gpu {

namespace {

constexpr unsigned kThreads = 1024;

/// One block. A zero of x is followed by a column of the matrix, some 2 us of the block's time.
constexpr const char* kText = R"(
constexpr int kThreads = 1024, kMostZeros = 8;
typedef long long i64;

struct Told {
  int taken, zeros;
  i64 at[kMostZeros];
};

struct Params {
  const T* a;
  i64 row, column, rows;
  const T* x;
  T* to;
  Told* told;
  i64 unit;
};

__device__ bool is_finite(T value) { return value - value == 0; }

extern "C" __global__ void __launch_bounds__(kThreads) take_solution(const Params p) {
  volatile Told& told = *p.told;
  const i64 thread = threadIdx.x;
  int refused = 0;
#pragma unroll 4
  for (i64 i = thread; i < p.rows; i += kThreads) {
    const T value = p.x[i];
    if (!is_finite(value)) refused = 1;
    if (value == 0) {
      const int k = atomicAdd(&p.told->zeros, 1);
      if (k < kMostZeros) told.at[k] = i;
    }
  }
  if (__syncthreads_or(refused)) return;
  const int zeros = told.zeros;
  if (zeros > kMostZeros) return;
  for (int k = 0; k < zeros; ++k) {
    const i64 j = told.at[k];
    if (thread == 0 && !p.unit && !(p.a[j * p.row + j * p.column] > 0)) refused = 1;
#pragma unroll 8
    for (i64 i = j + thread + (p.unit ? 1 : 0); i < p.rows; i += kThreads) {
      if (!is_finite(p.a[i * p.row + j * p.column])) refused = 1;
    }
  }
  if (__syncthreads_or(refused)) return;
#pragma unroll 4
  for (i64 i = thread; i < p.rows; i += kThreads) p.to[i] = p.x[i];
  if (thread == 0) told.taken = 1;
}
)";

struct Told {
  int32_t taken, zeros;
  int64_t at[8];
};

struct Params {
  uint64_t a;
  int64_t row, column, rows;
  uint64_t x, to, told;
  int64_t unit;
};

/// Compiled, or read from disk, once for a device and a type. Never unloaded: the driver may be gone by then.
Function kernel_of(Device& device, bool is_double) {
  struct Loaded {
    std::shared_ptr<Module> module;
    Function function;
  };
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<const Device*, bool>, Loaded>;
  const std::lock_guard lock(mutex);
  Loaded& loaded = all[{&device, is_double}];
  if (!loaded.module) {
    std::shared_ptr<Module> module =
        device.load(cached_compile(solution_source(is_double), device.properties().compute_capability));
    loaded.function = module->function("take_solution");
    loaded.module = std::move(module);
  }
  return loaded.function;
}

}  // namespace

Source solution_source(bool is_double) {
  return {"take_solution.cu", std::string("typedef ") + (is_double ? "double" : "float") + " T;\n" + kText, {}, {}};
}

bool take_solution(Device& device, Stream stream, bool is_double, bool unit, const Matrix& a, uint64_t x, uint64_t to) {
  const Function kernel = kernel_of(device, is_double);
  const DeviceMemory memory = device.allocate(sizeof(Told), stream);
  device.set_bytes(memory.address(), 0, sizeof(Told), stream);
  const Params params{a.at, a.row, a.column, a.rows, x, to, memory.address(), unit};
  Launch how;
  how.threads[0] = kThreads;
  device.launch(kernel, how, stream, &params);
  Told told;
  device.copy_out(&told, memory.address(), sizeof told, stream);
  return told.taken != 0;
}

}  // namespace appy::gpu
