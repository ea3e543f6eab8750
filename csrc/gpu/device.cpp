#include "gpu/device.h"

#include <cstring>
#include <utility>

#include "gpu/staging.h"

namespace appy::gpu {

namespace {

/// Numbers of the driver's interface.
enum Attribute : int {
  kMaxThreadsPerBlock = 1,
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kRegistersPerBlock = 12,
  kMultiprocessors = 16,
  kL2 = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kCooperativeLaunch = 95,
  kSharedPerBlockOptIn = 97,
  kBlocksPerMultiprocessor = 106,
  kMemoryPools = 115,
};
enum FunctionAttribute : int { kFunctionThreads = 0, kFunctionShared = 1, kFunctionLocal = 3, kFunctionRegisters = 4 };
constexpr int kFunctionDynamicShared = 8;
constexpr int kPoolReleaseThreshold = 4;
constexpr int kPointerMemoryType = 2, kPointerOrdinal = 9;
constexpr unsigned kMemoryTypeHost = 1, kMemoryTypeDevice = 2;
constexpr unsigned kHostPortable = 1, kHostMapped = 2;
constexpr unsigned kEventNoTiming = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
constexpr CUresult kOutOfMemory = 2, kNotReady = 600;

/// Of pinned memory, and of what a kernel has of it for faults and a few results.
constexpr size_t kPage = 4096, kPart = 256;

/// The oldest architecture with the memory model (acquire and release) that generated kernels are written for.
constexpr int kOldestCapability = 70;

CUstream stream_of(Stream stream) { return reinterpret_cast<CUstream>(stream); }

Properties read_properties(const Driver& driver, int ordinal, CUdevice handle) {
  Properties out;
  out.ordinal = ordinal;
  char name[256] = "";
  check(driver.device_name(name, sizeof name, handle), "cuDeviceGetName");
  out.name = name;
  size_t bytes = 0;
  check(driver.device_total_memory(&bytes, handle), "cuDeviceTotalMem");
  out.memory_bytes = static_cast<int64_t>(bytes);
  const auto get = [&](int attribute) {
    int value = 0;
    check(driver.device_attribute(&value, attribute, handle), "cuDeviceGetAttribute");
    return value;
  };
  out.compute_capability = get(kCapabilityMajor) * 10 + get(kCapabilityMinor);
  out.multiprocessors = get(kMultiprocessors);
  out.max_threads_per_block = get(kMaxThreadsPerBlock);
  out.max_threads_per_multiprocessor = get(kThreadsPerMultiprocessor);
  out.max_blocks_per_multiprocessor = get(kBlocksPerMultiprocessor);
  out.warp_size = get(kWarpSize);
  out.shared_bytes_per_block = get(kSharedPerBlock);
  out.shared_bytes_per_block_opt_in = get(kSharedPerBlockOptIn);
  out.shared_bytes_per_multiprocessor = get(kSharedPerMultiprocessor);
  out.registers_per_block = get(kRegistersPerBlock);
  out.l2_bytes = get(kL2);
  out.cooperative_launch = get(kCooperativeLaunch) != 0;
  out.memory_pools = get(kMemoryPools) != 0;
  return out;
}

std::mutex devices_mutex;
std::atomic<Device*> made[64];

}  // namespace

// The device itself

Device::Device(int ordinal) {
  const Driver& driver = gpu::driver();
  int count = 0;
  gpu::check(driver.device_count(&count), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= count) {
    throw Error(ErrorKind::no_device,
                "there is no device " + std::to_string(ordinal) + ": the driver shows " + std::to_string(count),
                "nvidia-smi lists the devices of the machine, CUDA_VISIBLE_DEVICES hides some");
  }
  gpu::check(driver.device_get(&handle_, ordinal), "cuDeviceGet");
  properties_ = read_properties(driver, ordinal, handle_);
  if (properties_.compute_capability < kOldestCapability) {
    throw Error(ErrorKind::architecture,
                "device " + std::to_string(ordinal) + " (" + properties_.name + ") has compute capability " +
                    capability_text(properties_.compute_capability) + "; 7.0 is needed",
                "Use a device of the Volta generation or later, or backend=\"cpu\"");
  }
  gpu::check(driver.primary_retain(&context_, handle_), "cuDevicePrimaryCtxRetain",
             "the context of device " + std::to_string(ordinal));
}

CUmemoryPool Device::pool() {
  std::call_once(pool_asked_, [this] {
    if (!properties_.memory_pools) return;
    const Driver& driver = gpu::driver();
    CUmemoryPool found = nullptr;
    // Keep what is freed: giving it back at each synchronisation costs more than a small kernel.
    uint64_t all = UINT64_MAX;
    if (driver.default_pool(&found, handle_) == 0 && driver.pool_set_attribute(found, kPoolReleaseThreshold, &all) == 0)
      pool_ = found;
  });
  return pool_;
}

void Device::check(CUresult result, const char* call, const std::string& detail) const {
  if (result == 0) return;
  if (is_sticky(result)) lost_.store(result, std::memory_order_relaxed);
  gpu::check(result, call, detail);
}

Device::Current::Current(const Device& device) {
  const Driver& driver = gpu::driver();
  const CUresult lost = device.lost_.load(std::memory_order_relaxed);
  if (lost != 0) gpu::check(lost, "an earlier call", "device " + std::to_string(device.properties_.ordinal));
  CUcontext current = nullptr;
  gpu::check(driver.context_current(&current), "cuCtxGetCurrent");
  if (current == device.context_) return;
  gpu::check(driver.context_push(device.context_), "cuCtxPushCurrent");
  pushed_ = true;
}

Device::Current::~Current() {
  CUcontext ours = nullptr;
  if (pushed_ && !is_forked()) gpu::driver().context_pop(&ours);  // driver() throws in a forked child
}

std::vector<Properties> devices() {
  std::vector<Properties> out;
  try {
    const Driver& driver = gpu::driver();
    int count = 0;
    check(driver.device_count(&count), "cuDeviceGetCount");
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      CUdevice handle = 0;
      check(driver.device_get(&handle, ordinal), "cuDeviceGet");
      out.push_back(read_properties(driver, ordinal, handle));
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::no_device) throw;
  }
  return out;
}

Device& device(int ordinal) {
  gpu::driver();  // throws in a forked child, whatever the parent had made
  const bool known = ordinal >= 0 && ordinal < static_cast<int>(std::size(made));
  if (known) {
    if (Device* found = made[ordinal].load(std::memory_order_acquire)) return *found;
  }
  std::lock_guard lock(devices_mutex);
  if (known) {
    if (Device* found = made[ordinal].load(std::memory_order_acquire)) return *found;
  }
  Device* fresh = new Device(ordinal);
  made[ordinal].store(fresh, std::memory_order_release);
  return *fresh;
}

std::vector<Device*> devices_used() {
  std::vector<Device*> out;
  if (is_forked()) return out;
  for (const std::atomic<Device*>& one : made) {
    if (Device* found = one.load(std::memory_order_acquire)) out.push_back(found);
  }
  return out;
}

// Modules and launches

std::shared_ptr<Module> Device::load(const Image& image) {
  const Driver& driver = gpu::driver();
  if (image.version / 1000 > driver.version / 1000 ||
      (image.ptx && image.version > driver.version)) {  // machine code runs on every driver of its major version
    throw Error(ErrorKind::driver_too_old,
                "the driver is for CUDA " + version_text(driver.version) + ", and NVRTC " +
                    version_text(image.version) + " compiled the kernel",
                "Update the driver, or install an NVRTC that is no newer than it; `python -m appy doctor` shows both");
  }
  const Current current(*this);
  char log[4096] = "";
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  const CUresult result = driver.module_load(&module, image.code.c_str(), image.ptx ? 2 : 0, options, values);
  if (result != 0) {
    check(result, "cuModuleLoadDataEx",
          std::string(image.ptx ? "PTX for compute_" : "machine code for sm_") + std::to_string(image.architecture) +
              " on a device of " + capability_text(properties_.compute_capability) +
              (log[0] ? std::string(" (") + log + ")" : ""));
  }
  return std::shared_ptr<Module>(new Module(*this, module));
}

Module::~Module() {
  if (is_forked() || device_.lost_) return;
  try {
    const Device::Current current(device_);
    gpu::driver().module_unload(module_);
  } catch (const Error&) {  // the process ends
  }
}

Function Module::function(const std::string& name) const {
  const Driver& driver = gpu::driver();
  const Device::Current current(device_);
  Function out;
  out.name = name;
  device_.check(driver.module_function(&out.handle, module_, name.c_str()), "cuModuleGetFunction", "kernel " + name);
  const auto get = [&](int attribute) {
    int value = 0;
    device_.check(driver.function_attribute(&value, attribute, out.handle), "cuFuncGetAttribute", "kernel " + name);
    return value;
  };
  out.registers = get(kFunctionRegisters);
  out.local_bytes = get(kFunctionLocal);
  out.shared_bytes = get(kFunctionShared);
  out.max_threads = get(kFunctionThreads);
  return out;
}

void Device::allow_shared(const Function& function, int bytes) {
  const Current current(*this);
  check(gpu::driver().function_set_attribute(function.handle, kFunctionDynamicShared, bytes), "cuFuncSetAttribute",
        std::to_string(bytes) + " bytes of shared memory for kernel " + function.name);
}

int Device::max_active_blocks(const Function& function, int threads, size_t shared_bytes) const {
  const Current current(*this);
  int blocks = 0;
  check(gpu::driver().max_active_blocks(&blocks, function.handle, threads, shared_bytes),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor", "kernel " + function.name);
  return blocks;
}

void Device::launch(const Function& function, const Launch& how, Stream stream, const void* parameters) {
  const Current current(*this);
  launch(current, function, how, stream, parameters);
}

void Device::launch(const Current&, const Function& function, const Launch& how, Stream stream,
                    const void* parameters) {
  const auto [bx, by, bz] = how.blocks;
  const auto [tx, ty, tz] = how.threads;
  if (bx == 0 || by == 0 || bz == 0) return;
  const Driver& driver = gpu::driver();
  void* list[] = {const_cast<void*>(parameters)};
  const CUresult result = how.cooperative ? driver.launch_cooperative(function.handle, bx, by, bz, tx, ty, tz,
                                                                      how.shared_bytes, stream_of(stream), list)
                                          : driver.launch(function.handle, bx, by, bz, tx, ty, tz, how.shared_bytes,
                                                          stream_of(stream), list, nullptr);
  if (result == 0) return;
  const auto shape = [](unsigned x, unsigned y, unsigned z) {
    return std::to_string(x) + "x" + std::to_string(y) + "x" + std::to_string(z);
  };
  check(result, how.cooperative ? "cuLaunchCooperativeKernel" : "cuLaunchKernel",
        "kernel " + function.name + " with " + shape(bx, by, bz) + " blocks of " + shape(tx, ty, tz) + " threads and " +
            std::to_string(how.shared_bytes) + " bytes of shared memory");
}

// Memory

DeviceMemory Device::allocate(size_t bytes, Stream stream) { return allocate(bytes, stream, pool() != nullptr); }

DeviceMemory Device::allocate_kept(size_t bytes, Stream stream) {
  return allocate(bytes, stream, is_capturing(stream) && pool());
}

DeviceMemory Device::allocate(size_t wanted, Stream stream, bool pooled) {
  const size_t bytes = (wanted + 3) & ~size_t{3};  // updates of bytes exchange the word around them
  DeviceMemory out;
  out.state_ = {this, 0, wanted, stream, pooled};
  if (bytes == 0) return out;
  const Driver& driver = gpu::driver();
  const Current current(*this);
  const auto attempt = [&] {
    return out.state_.pooled ? driver.alloc_async(&out.state_.address, bytes, stream_of(stream))
                             : driver.alloc(&out.state_.address, bytes);
  };
  CUresult result = attempt();
  if (result == kOutOfMemory && !is_capturing(stream)) {
    // What was freed on other streams, or lies in pieces, is there once the pool has given it back.
    check(driver.context_synchronize(), "cuCtxSynchronize");
    if (pool_) driver.pool_trim(pool_, 0);
    result = attempt();
  }
  if (result != 0) {
    size_t free = 0, total = 0;
    if (result == kOutOfMemory) driver.memory_info(&free, &total);
    check(result, out.state_.pooled ? "cuMemAllocAsync" : "cuMemAlloc",
          std::to_string(bytes) + " bytes were asked for" +
              (total ? ", " + std::to_string(free) + " of " + std::to_string(total) + " are free" : ""));
  }
  return out;
}

void DeviceMemory::reset() noexcept {
  const State old = std::exchange(state_, {});
  if (!old.address || is_forked() || old.device->lost_) return;
  try {
    const Driver& driver = gpu::driver();
    const Device::Current current(*old.device);
    // The stream may have been destroyed by its owner; free() waits for all of them.
    if (!old.pooled || driver.free_async(old.address, stream_of(old.stream)) != 0) driver.free(old.address);
  } catch (const Error&) {  // the process ends
  }
}

MappedMemory Device::pin(size_t bytes) {
  const Driver& driver = gpu::driver();
  const Current current(*this);
  MappedMemory out;
  out.state_.device = this;
  check(driver.host_alloc(&out.state_.host, bytes, kHostPortable | kHostMapped), "cuMemHostAlloc",
        std::to_string(bytes) + " bytes of pinned memory");
  out.state_.bytes = bytes;
  std::memset(out.state_.host, 0, bytes);
  check(driver.host_device_pointer(&out.state_.address, out.state_.host, 0), "cuMemHostGetDevicePointer");
  return out;
}

void Device::divide_page() {
  MappedMemory page = pin(kPage);
  for (size_t at = 0; at < kPage; at += kPart) {
    parts_.push_back({static_cast<char*>(page.state_.host) + at, page.state_.address + at});
  }
  page.state_ = {};  // the parts keep it for as long as the process lives
}

MappedMemory Device::allocate_mapped(size_t bytes) {
  if (bytes > kPart) return pin(bytes);
  std::lock_guard lock(mapped_mutex_);
  if (parts_.empty()) divide_page();
  MappedMemory out;
  out.state_ = {this, parts_.back().host, parts_.back().address, bytes, true};
  parts_.pop_back();
  std::memset(out.state_.host, 0, bytes);
  return out;
}

void Device::pin_ahead() noexcept {
  try {
    std::lock_guard lock(mapped_mutex_);
    if (parts_.empty()) divide_page();
  } catch (const Error&) {  // said when the memory is needed
  }
}

void MappedMemory::reset() noexcept {
  const State old = std::exchange(state_, {});
  if (!old.host || is_forked() || old.device->lost_) return;
  if (old.part) {
    std::lock_guard lock(old.device->mapped_mutex_);
    old.device->parts_.push_back({old.host, old.address});
    return;
  }
  try {
    const Device::Current current(*old.device);
    gpu::driver().host_free(old.host);
  } catch (const Error&) {  // the process ends
  }
}

std::pair<size_t, size_t> Device::memory_info() const {
  const Current current(*this);
  size_t free = 0, total = 0;
  check(gpu::driver().memory_info(&free, &total), "cuMemGetInfo");
  return {free, total};
}

void Device::trim() {
  const Current current(*this);
  if (pool()) check(gpu::driver().pool_trim(pool_, 0), "cuMemPoolTrimTo");
}

Device::Place Device::place_of(const void* address) {
  int attributes[] = {kPointerMemoryType, kPointerOrdinal};
  unsigned type = 0;
  int ordinal = -1;
  void* values[] = {&type, &ordinal};
  // Of memory that CUDA knows nothing about it gives zeros; the form for one attribute would be an error, which
  // compute-sanitizer counts.
  gpu::check(gpu::driver().pointer_attributes(2, attributes, values, reinterpret_cast<CUdeviceptr>(address)),
             "cuPointerGetAttributes");
  return {type == kMemoryTypeHost, type == kMemoryTypeDevice ? ordinal : -1};
}

// Copies

Staging& Device::staging() {
  std::lock_guard lock(staging_mutex_);
  if (!staging_) staging_ = new Staging(*this);
  return *staging_;
}

void Device::copy_in(CUdeviceptr to, const void* from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current current(*this);
  staging().copy_in(to, from, bytes, stream);
}

void Device::copy_out(void* to, CUdeviceptr from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current current(*this);
  staging().copy_out(to, from, bytes, stream);
}

void Device::copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current current(*this);
  check(gpu::driver().copy_on_device(to, from, bytes, stream_of(stream)), "cuMemcpyDtoDAsync",
        "a copy of " + std::to_string(bytes) + " bytes");
}

void Device::set_bytes(CUdeviceptr at, unsigned char value, size_t bytes, Stream stream) {
  if (bytes == 0) return;
  const Current current(*this);
  check(gpu::driver().set_bytes(at, value, bytes, stream_of(stream)), "cuMemsetD8Async");
}

// Streams and events

Stream Device::make_stream() {
  const Current current(*this);
  CUstream out = nullptr;
  check(gpu::driver().stream_create(&out, kStreamNonBlocking), "cuStreamCreate");
  return reinterpret_cast<Stream>(out);
}

void Device::synchronize(Stream stream) const {
  const Current current(*this);
  check(gpu::driver().stream_synchronize(stream_of(stream)), "cuStreamSynchronize");
}

void Device::synchronize() const {
  const Current current(*this);
  check(gpu::driver().context_synchronize(), "cuCtxSynchronize");
}

bool Device::is_capturing(Stream stream) const {
  const Current current(*this);
  int status = 0;
  // The default stream answers with an error while another one is captured, which invalidates nothing.
  return gpu::driver().stream_capturing(stream_of(stream), &status) == 0 && status != 0;
}

Event Device::make_event(bool timing) {
  const Current current(*this);
  Event out;
  out.state_.device = this;
  check(gpu::driver().event_create(&out.state_.event, timing ? 0 : kEventNoTiming), "cuEventCreate");
  return out;
}

void Event::record(Stream stream) {
  const Device::Current current(*state_.device);
  state_.device->check(gpu::driver().event_record(state_.event, stream_of(stream)), "cuEventRecord");
}

void Event::order(Stream later) const {
  const Device::Current current(*state_.device);
  state_.device->check(gpu::driver().stream_wait(stream_of(later), state_.event, 0), "cuStreamWaitEvent");
}

bool Event::done() const {
  const Device::Current current(*state_.device);
  const CUresult result = gpu::driver().event_query(state_.event);
  if (result == kNotReady) return false;
  state_.device->check(result, "cuEventQuery");
  return true;
}

void Event::synchronize() const {
  const Device::Current current(*state_.device);
  state_.device->check(gpu::driver().event_synchronize(state_.event), "cuEventSynchronize");
}

float Event::since(const Event& earlier) const {
  const Device::Current current(*state_.device);
  float milliseconds = 0;
  state_.device->check(gpu::driver().event_elapsed(&milliseconds, earlier.state_.event, state_.event),
                       "cuEventElapsedTime");
  return milliseconds;
}

void Event::reset() noexcept {
  const State old = std::exchange(state_, {});
  if (!old.event || is_forked() || old.device->lost_) return;
  try {
    const Device::Current current(*old.device);
    gpu::driver().event_destroy(old.event);
  } catch (const Error&) {  // the process ends
  }
}

}  // namespace appy::gpu
