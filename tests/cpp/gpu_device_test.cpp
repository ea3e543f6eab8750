#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "gpu/device.h"
#include "gpu/prelude.h"
#include "gpu_emulator.h"

namespace appy::gpu::test {
namespace {

const bool ready = use_emulator();

struct AddParameters {
  CUdeviceptr out, a, b;
  long long n;
};
constexpr const char* kAdd = R"(
  struct P { double* out; const double* a; const double* b; long long n; };
  extern "C" __global__ void __launch_bounds__(128) add(const P p) {
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += gridDim.x * blockDim.x)
      p.out[i] = p.a[i] + p.b[i];
  }
)";

/// One block's sum through shared memory and shuffles, then the blocks' sum by the last of them at a grid barrier.
struct SumParameters {
  CUdeviceptr values, partial, arrived, result;
  int n;
};
constexpr const char* kSum = R"(
  #include "appy_ptx.h"
  struct P { const int* values; int* partial; unsigned* arrived; int* result; int n; };
  extern "C" __global__ void sum(const P p) {
    int* shared = reinterpret_cast<int*>(appy_shared());
    int own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += gridDim.x * blockDim.x) own += p.values[i];
    for (int d = 16; d > 0; d >>= 1) own += __shfl_down_sync(0xffffffffu, own, d);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x < 32) {
      own = threadIdx.x < blockDim.x / 32 ? shared[threadIdx.x] : 0;
      own = __reduce_add_sync(0xffffffffu, own);
      if (threadIdx.x == 0) {
        p.partial[blockIdx.x] = own;
        appy_add_acq_rel(p.arrived, 1);
      }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
      while (appy_load_acquire(p.arrived) < gridDim.x) appy_pause();
      int total = 0;
      for (unsigned b = 0; b < gridDim.x; ++b) total += p.partial[b];
      *p.result = total;
    }
  }
)";

Image compiled(const char* text) {
  return compile({"test.cu", text, {{"appy_ptx.h", "not for the emulator"}}, {}}, 90);
}

TEST(Device, Properties) {
  const Properties& p = device(0).properties();
  EXPECT_EQ(p.name, "Emulated device");
  EXPECT_EQ(p.compute_capability, 90);
  EXPECT_EQ(p.multiprocessors, 2);
  EXPECT_EQ(p.max_threads_per_block, 1024);
  EXPECT_GT(p.shared_bytes_per_block_opt_in, p.shared_bytes_per_block);
  EXPECT_TRUE(p.cooperative_launch);
  EXPECT_EQ(devices().size(), 4u);
  EXPECT_EQ(&device(0), &device(0));
  EXPECT_NE(&device(0), &device(1));
  expect_error(ErrorKind::no_device, "no device 4: the driver shows 4", [] { device(4); });
  expect_error(ErrorKind::no_device, "no device -1", [] { device(-1); });
  expect_error(ErrorKind::no_device, "no device 1000", [] { device(1000); });
}

TEST(Device, LaunchAddsOnSeveralBlocks) {
  Device& d = device(0);
  const auto module = d.load(compiled(kAdd));
  const Function add = module->function("add");
  EXPECT_GT(add.registers, 0);
  constexpr int n = 1000;
  std::vector<double> a(n), b(n), out(n);
  std::iota(a.begin(), a.end(), 0.0);
  std::iota(b.begin(), b.end(), 0.5);
  DeviceMemory da = d.allocate(n * 8, 0), db = d.allocate(n * 8, 0), dout = d.allocate(n * 8, 0);
  d.copy_in(da.address(), a.data(), n * 8, 0);
  d.copy_in(db.address(), b.data(), n * 8, 0);
  AddParameters p{dout.address(), da.address(), db.address(), n};
  Launch how;
  how.blocks[0] = 3;
  how.threads[0] = 128;
  d.launch(add, how, 0, &p);
  std::memset(&p, 0xff, sizeof p);  // copied when launch() returned
  d.copy_out(out.data(), dout.address(), n * 8, 0);
  for (int i = 0; i < n; ++i) ASSERT_EQ(out[i], a[i] + b[i]) << i;
  how.blocks[0] = 0;
  d.launch(add, how, 0, &p);  // nothing to do
  expect_error(ErrorKind::other, "kernel subtract: cuModuleGetFunction", [&] { module->function("subtract"); });
}

class Order : public testing::TestWithParam<const char*> {};

TEST_P(Order, CooperativeSumByBarriers) {
  const Variable order("APPY_EMULATOR_ORDER", GetParam());
  Device& d = device(0);
  const auto module = d.load(compiled(kSum));
  const Function kernel = module->function("sum");
  const int blocks = d.max_active_blocks(kernel, 256, 4096) * d.properties().multiprocessors;
  std::vector<int> values(12345);
  std::iota(values.begin(), values.end(), -3);
  DeviceMemory in = d.allocate(values.size() * 4, 0), partial = d.allocate(blocks * 4, 0), rest = d.allocate(8, 0);
  d.copy_in(in.address(), values.data(), values.size() * 4, 0);
  d.set_bytes(rest.address(), 0, 8, 0);
  const SumParameters p{in.address(), partial.address(), rest.address(), rest.address() + 4,
                        static_cast<int>(values.size())};
  Launch how;
  how.blocks[0] = static_cast<unsigned>(blocks);
  how.threads[0] = 256;
  how.shared_bytes = 4096;
  how.cooperative = true;
  d.launch(kernel, how, 0, &p);
  int out = 0;
  d.copy_out(&out, rest.address() + 4, 4, 0);
  EXPECT_EQ(out, std::accumulate(values.begin(), values.end(), 0));
}

INSTANTIATE_TEST_SUITE_P(Device, Order, testing::Values("forward", "reverse", "1", "2"));

/// A loop may go through it for days: what barriers leave in the word must not add up to the bits that say who leaves.
TEST(Device, BarriersOfAllThreadsPutTheirWordBack) {
  Device& d = device(0);
  const char* const text = R"(
    #include "appy_device.h"
    struct P { u64* barrier; int count; };
    extern "C" __global__ void barriers(const P p) {
      const Control control = {nullptr, nullptr, p.barrier, nullptr, 0};
      Team team = team_of<64, 1>();
      for (int k = 0; k < p.count; ++k) barrier_workers(team, control);
    }
  )";
  const auto module = d.load(compile({"test.cu", text, {{"appy_device.h", std::string(device_header)}}, {}}, 90));
  const Function kernel = module->function("barriers");
  DeviceMemory word = d.allocate(8, 0);
  d.set_bytes(word.address(), 0, 8, 0);
  struct {
    CUdeviceptr barrier;
    int count;
  } p{word.address(), 2};
  Launch how;
  how.blocks[0] = 3;
  how.threads[0] = 64;
  how.cooperative = true;
  uint64_t found = 1, before = 0;
  for (int launch = 0; launch < 3; ++launch) {
    d.launch(kernel, how, 0, &p);
    d.copy_out(&found, word.address(), 8, 0);
    EXPECT_EQ(found, before);
    if (launch != 1) continue;
    // After an odd number it is another one, and that one comes back as well.
    p.count = 1;
    d.launch(kernel, how, 0, &p);
    d.copy_out(&before, word.address(), 8, 0);
    EXPECT_NE(found, before);
    p.count = 4;
  }
}

/// 2^53 and 1 is 2^53: what came one by one would leave it.
TEST(Device, WarpsAddWhatTheyHaveForOneElement) {
  Device& d = device(0);
  const char* const text = R"(
    #include "appy_update.h"
    struct P { double* out; };
    extern "C" __global__ void sums(const P p) {
      atomic_sum(p.out, 1.0);
      atomic_sum((float*)(p.out + 4), 1.0f);
      if (threadIdx.x < 32) atomic_sum(p.out + 1 + threadIdx.x % 2, 1.0);  // two elements
      if (threadIdx.x < 31) atomic_sum(p.out + 3, 1.0);                    // not all lanes
    }
  )";
  const auto module =
      d.load(compile({"test.cu",
                      text,
                      {{"appy_device.h", std::string(device_header)}, {"appy_update.h", std::string(update_header)}},
                      {}},
                     90));
  std::vector<double> values(5, 0x1p53);
  const float start = 0x1p24f;
  std::memcpy(&values[4], &start, sizeof start);
  DeviceMemory out = d.allocate(values.size() * 8, 0);
  d.copy_in(out.address(), values.data(), values.size() * 8, 0);
  Launch how;
  how.threads[0] = 64;
  const CUdeviceptr p = out.address();
  d.launch(module->function("sums"), how, 0, &p);
  d.copy_out(values.data(), out.address(), values.size() * 8, 0);
  EXPECT_EQ(values[0], 0x1p53 + 64);
  for (int k = 1; k < 4; ++k) EXPECT_EQ(values[static_cast<size_t>(k)], 0x1p53);
  float sum = 0;
  std::memcpy(&sum, &values[4], sizeof sum);
  EXPECT_EQ(sum, 0x1p24f + 64);
}

TEST(Device, LaunchErrorsLeaveTheDeviceUsable) {
  Device& d = device(0);
  const auto module = d.load(compiled(kSum));
  const Function sum = module->function("sum");
  const SumParameters p{};
  Launch how;
  how.threads[0] = 2048;
  expect_error(ErrorKind::launch, "kernel sum with 1x1x1 blocks of 2048x1x1 threads",
               [&] { d.launch(sum, how, 0, &p); });
  how.threads[0] = 32;
  how.shared_bytes = 100 << 10;
  expect_error(ErrorKind::launch, "102400 bytes of shared memory", [&] { d.launch(sum, how, 0, &p); });
  d.allow_shared(sum, 100 << 10);
  expect_error(ErrorKind::launch, "cuFuncSetAttribute", [&] { d.allow_shared(sum, 300 << 10); });
  how.shared_bytes = 0;
  how.blocks[0] = 1000;
  how.cooperative = true;
  expect_error(ErrorKind::launch, "cuLaunchCooperativeKernel", [&] { d.launch(sum, how, 0, &p); });
  d.synchronize();
}

TEST(Device, ContextOfTheCallerIsPutBack) {
  Device& d = device(0);
  CUcontext other = nullptr, now = nullptr;
  ASSERT_EQ(driver().primary_retain(&other, 1), 0);
  ASSERT_EQ(driver().context_push(other), 0);
  {
    DeviceMemory memory = d.allocate(64, 0);
    d.set_bytes(memory.address(), 7, 64, 0);
    unsigned char out[64];
    d.copy_out(out, memory.address(), 64, 0);
    EXPECT_EQ(out[63], 7);
    const Event event = d.make_event();
    expect_error(ErrorKind::out_of_memory, "asked for", [&] { d.allocate(size_t{1} << 50, 0); });
  }
  ASSERT_EQ(driver().context_current(&now), 0);
  EXPECT_EQ(now, other);
  ASSERT_EQ(driver().context_pop(&now), 0);
  {
    const Device::Current outer(d);
    const long before = calls("cuMemcpyDtoDAsync_v2");
    DeviceMemory memory = d.allocate(64, 0);
    d.copy(memory.address(), memory.address() + 32, 32, 0);
    EXPECT_EQ(calls("cuMemcpyDtoDAsync_v2"), before + 1);
  }
  ASSERT_EQ(driver().context_current(&now), 0);
  EXPECT_EQ(now, nullptr);
}

TEST(Device, CopiesOfEverySize) {
  Device& d = device(0);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{65537}, (size_t{8} << 20) - 1, size_t{8} << 20,
                             (size_t{8} << 20) + 1, (size_t{33} << 20) + 5}) {
    std::vector<unsigned char> in(bytes), out(bytes);
    for (size_t i = 0; i < bytes; ++i) in[i] = static_cast<unsigned char>(i * 7 + (i >> 11));
    DeviceMemory memory = d.allocate(bytes, 0);
    const std::vector<unsigned char> expected = in;
    d.copy_in(memory.address(), in.data(), bytes, 0);
    std::fill(in.begin(), in.end(), 0);  // the source may change at once
    d.copy_out(out.data(), memory.address(), bytes, 0);
    EXPECT_TRUE(out == expected) << bytes;
  }
}

TEST(Device, PinnedMemoryIsCopiedDirectly) {
  Device& d = device(0);
  MappedMemory pinned = d.allocate_mapped(1000);
  EXPECT_EQ(static_cast<char*>(pinned.host())[999], 0);
  DeviceMemory memory = d.allocate(1000, 0);
  std::memset(pinned.host(), 3, 1000);
  const long before = calls("cuMemHostAlloc");
  d.copy_in(memory.address(), pinned.host(), 1000, 0);
  std::memset(pinned.host(), 4, 1000);
  d.copy_out(pinned.host(), memory.address(), 1000, 0);
  EXPECT_EQ(calls("cuMemHostAlloc"), before);
  EXPECT_EQ(static_cast<char*>(pinned.host())[999], 3);
  EXPECT_EQ(Device::place_of(pinned.host()).device, -1);
  EXPECT_TRUE(Device::place_of(pinned.host()).pinned);
  EXPECT_EQ(Device::place_of(reinterpret_cast<void*>(memory.address() + 999)).device, 0);
  EXPECT_FALSE(Device::place_of(reinterpret_cast<void*>(memory.address())).pinned);
  EXPECT_EQ(Device::place_of(&d).device, -1);
  EXPECT_FALSE(Device::place_of(&d).pinned);
}

TEST(Device, MappedMemoryIsWrittenByKernels) {
  Device& d = device(0);
  const auto module = d.load(compiled(kAdd));
  const Function add = module->function("add");
  MappedMemory flag = d.allocate_mapped(24);
  double* words = static_cast<double*>(flag.host());
  words[1] = 2;
  words[2] = 3;
  const CUdeviceptr at = flag.device_address();
  const AddParameters p{at, at + 8, at + 16, 1};
  Event done = d.make_event();
  d.launch(add, {}, 0, &p);
  done.record(0);
  while (!done.done()) {
  }
  EXPECT_EQ(words[0], 5);
}

TEST(Device, MemoryIsGivenBack) {
  const long before = used_bytes();
  {
    DeviceMemory a = device(0).allocate(1000, 0);
    DeviceMemory b = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(b.bytes(), 1000u);
    a = device(0).allocate(500, 0);
    EXPECT_EQ(used_bytes(), before + 1500);
    EXPECT_FALSE(device(0).allocate(0, 0));
  }
  EXPECT_EQ(used_bytes(), before);
  const long frees = calls("cuMemFreeAsync");
  EXPECT_GE(frees, 2);
}

TEST(Device, WithoutPoolsMemoryComesFromCuMemAlloc) {
  const Variable pools("APPY_EMULATOR_POOLS", "0");
  Device& d = device(2);
  EXPECT_FALSE(d.properties().memory_pools);
  const long async = calls("cuMemAllocAsync"), plain = calls("cuMemAlloc_v2");
  { DeviceMemory memory = d.allocate(100, 0); }
  EXPECT_EQ(calls("cuMemAllocAsync"), async);
  EXPECT_EQ(calls("cuMemAlloc_v2"), plain + 1);
}

TEST(Device, OutOfMemoryIsTriedAgainAfterTrimming) {
  Device& d = device(0);
  {
    const Variable fail("APPY_EMULATOR_FAIL", "cuMemAllocAsync:1");
    EXPECT_TRUE(d.allocate(100, 0));
  }
  const Variable fail("APPY_EMULATOR_FAIL", "cuMemAllocAsync:1,cuMemAllocAsync:2");
  expect_error(ErrorKind::out_of_memory, "100 bytes were asked for, ", [&] { d.allocate(100, 0); });
  EXPECT_TRUE(d.allocate(100, 0));
}

TEST(Device, PinnedMemoryRunsOut) {
  Device& d = device(0);
  const auto small = [&] {
    std::vector<MappedMemory> kept;
    for (int k = 0; k < 100; ++k) kept.push_back(d.allocate_mapped(100));
  };
  {
    const Variable fail("APPY_EMULATOR_FAIL", "cuMemHostAlloc:1,cuMemHostAlloc:2");
    expect_error(ErrorKind::out_of_memory, "bytes of pinned memory", [&] { d.allocate_mapped(1000); });
    expect_error(ErrorKind::out_of_memory, "bytes of pinned memory", small);
  }
  small();
}

TEST(Device, LittlePinnedMemoryIsPartOfAPage) {
  Device& d = device(0);
  d.pin_ahead();
  const Variable fail("APPY_EMULATOR_FAIL", "cuMemHostAlloc:1");
  MappedMemory first = d.allocate_mapped(256);
  void* const at = first.host();
  std::memset(at, 0x55, 256);
  {
    const MappedMemory second = d.allocate_mapped(8);
    EXPECT_GE(std::abs(static_cast<char*>(second.host()) - static_cast<char*>(at)), 256);
    EXPECT_EQ(second.device_address() - first.device_address(),
              static_cast<CUdeviceptr>(static_cast<char*>(second.host()) - static_cast<char*>(at)));
  }
  first.reset();
  const MappedMemory again = d.allocate_mapped(256);
  ASSERT_EQ(again.host(), at);
  EXPECT_EQ(std::count(static_cast<char*>(at), static_cast<char*>(at) + 256, 0), 256);
}

TEST(Device, EventsAndStreams) {
  Device& d = device(0);
  const Stream own = d.make_stream();
  EXPECT_NE(own, 0u);
  Event from = d.make_event(true), to = d.make_event(true);
  from.record(own);
  to.record(own);
  to.order(0);
  to.synchronize();
  EXPECT_GE(to.since(from), 0);
  EXPECT_TRUE(to.done());
  EXPECT_FALSE(d.is_capturing(own));
  d.synchronize(own);
}

TEST(Device, SeveralThreads) {
  Device& d = device(0);
  const auto module = d.load(compiled(kAdd));
  const Function add = module->function("add");
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        std::vector<double> a(300, t), b(300, round), out(300);
        DeviceMemory da = d.allocate(2400, 0), db = d.allocate(2400, 0), dout = d.allocate(2400, 0);
        d.copy_in(da.address(), a.data(), 2400, 0);
        d.copy_in(db.address(), b.data(), 2400, 0);
        Launch how;
        how.threads[0] = 64;
        const AddParameters p{dout.address(), da.address(), db.address(), 300};
        d.launch(add, how, 0, &p);
        d.copy_out(out.data(), dout.address(), 2400, 0);
        for (double value : out) wrong[static_cast<size_t>(t)] += value != t + round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(Device, ArchitectureThatDoesNotFit) {
  Device& d = device(0);
  const Source source{"test.cu", kAdd, {}, {}};
  expect_error(ErrorKind::architecture, "machine code for sm_80 on a device of 9.0",
               [&] { d.load(compile(source, 80)); });
  Image image = compile(source, 90);
  image.version = 14000;
  expect_error(ErrorKind::driver_too_old, "the driver is for CUDA 13.0, and NVRTC 14.0", [&] { d.load(image); });
  image.version = 13010;
  EXPECT_TRUE(d.load(image));
  image.ptx = true;
  expect_error(ErrorKind::driver_too_old, "NVRTC 13.1 compiled", [&] { d.load(image); });
  image.ptx = false;
  image.code = std::string(1000, 'x');
  expect_error(ErrorKind::architecture, "CUDA_ERROR_INVALID_IMAGE", [&] { d.load(image); });
  const Variable old("APPY_EMULATOR_CAPABILITY", "61");
  expect_error(ErrorKind::architecture, "has compute capability 6.1; 7.0 is needed", [] { device(3); });
}

TEST(Device, MissingBarrierIsReported) {
  Device& d = device(1);
  const auto module = d.load(compiled(R"(
    struct P { int n; };
    extern "C" __global__ void half(const P p) { if (threadIdx.x < 16) __syncwarp(0xffffffffu); else while (true) __syncthreads(); }
  )"));
  const Function half = module->function("half");
  Launch how;
  how.threads[0] = 32;
  const int n = 0;
  testing::internal::CaptureStderr();
  d.launch(half, how, 0, &n);
  expect_error(ErrorKind::lost_device, "cuCtxSynchronize failed with CUDA_ERROR_LAUNCH_FAILED",
               [&] { d.synchronize(); });
  EXPECT_NE(testing::internal::GetCapturedStderr().find("32 of 32 threads wait"), std::string::npos);
  // From now on every use says so, and destructors are silent.
  expect_error(ErrorKind::lost_device, "the device is lost to this process, device 1", [&] { d.allocate(8, 0); });
  reset_emulator();
}

TEST(Device, ForkedChildIsToldSo) {
  Device& d = device(0);
  DeviceMemory memory = d.allocate(100, 0);
  EXPECT_EXIT(
      {
        try {
          device(0);
          _exit(1);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::forked) _exit(2);
        }
        try {
          d.allocate(8, 0);
          _exit(3);
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::forked) _exit(4);
        }
        memory.reset();
        _exit(devices_used().size() ? 5 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace appy::gpu::test
