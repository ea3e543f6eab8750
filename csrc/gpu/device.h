// One device: its primary context, which CuPy and torch share, memory, copies, modules and launches.
//
// Every member makes the context current for as long as it runs and puts back what was; callers need no context. A
// stream is the driver's handle as CuPy and torch give it out, 0 being the default stream. Members throw Error. All of
// it is thread-safe, and is called without the GIL where it may take time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gpu/driver.h"
#include "gpu/nvrtc.h"

namespace appy::gpu {

using Stream = uintptr_t;

struct Properties {
  std::string name;
  int ordinal = 0;
  int compute_capability = 0;  // 90 is 9.0
  int multiprocessors = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int max_blocks_per_multiprocessor = 0;
  int warp_size = 32;
  int shared_bytes_per_block = 0;         // without opt-in
  int shared_bytes_per_block_opt_in = 0;  // the most after allow_shared()
  int shared_bytes_per_multiprocessor = 0;
  int registers_per_block = 0;
  int l2_bytes = 0;
  int64_t memory_bytes = 0;
  bool cooperative_launch = false;
  bool memory_pools = false;
};

class Device;
class Staging;

/// Memory of a device, freed in the order of its stream.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { std::swap(state_, other.state_); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~DeviceMemory() { reset(); }

  CUdeviceptr address() const { return state_.address; }
  size_t bytes() const { return state_.bytes; }
  explicit operator bool() const { return state_.address != 0; }
  /// Frees it now; never throws.
  void reset() noexcept;

 private:
  friend class Device;
  struct State {
    Device* device = nullptr;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    Stream stream = 0;
    bool pooled = false;
  } state_;
};

/// Page-locked host memory that kernels read and write at device_address(): for faults and small results. Zeroed.
class MappedMemory {
 public:
  MappedMemory() = default;
  MappedMemory(MappedMemory&& other) noexcept { std::swap(state_, other.state_); }
  MappedMemory& operator=(MappedMemory&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~MappedMemory() { reset(); }

  void* host() const { return state_.host; }
  CUdeviceptr device_address() const { return state_.address; }
  size_t bytes() const { return state_.bytes; }
  explicit operator bool() const { return state_.host != nullptr; }
  void reset() noexcept;

 private:
  friend class Device;
  struct State {
    Device* device = nullptr;
    void* host = nullptr;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    bool part = false;  // of a page
  } state_;
};

/// A point in the order of a stream.
class Event {
 public:
  Event() = default;
  Event(Event&& other) noexcept { std::swap(state_, other.state_); }
  Event& operator=(Event&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Event() { reset(); }

  explicit operator bool() const { return state_.event != nullptr; }
  void record(Stream);
  /// What the stream is given from now on runs after the event.
  void order(Stream later) const;
  /// Has everything before it finished? Throws what a kernel before it failed with.
  bool done() const;
  void synchronize() const;
  /// Milliseconds between two events that were made with `timing`.
  float since(const Event& earlier) const;
  void reset() noexcept;

 private:
  friend class Device;
  struct State {
    Device* device = nullptr;
    CUevent event = nullptr;
  } state_;
};

class Module;

/// A kernel of a module; valid as long as the module.
struct Function {
  CUfunction handle = nullptr;
  std::string name;
  int registers = 0;     // a thread
  int local_bytes = 0;   // a thread: spills and arrays that did not fit into registers
  int shared_bytes = 0;  // a block, static
  int max_threads = 0;   // a block
};

/// A loaded image; unloaded with the last reference.
class Module {
 public:
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  ~Module();

  /// Throws Error where there is no such kernel.
  Function function(const std::string& name) const;

 private:
  friend class Device;
  Module(Device& device, CUmodule module) : device_(device), module_(module) {}

  Device& device_;
  CUmodule module_;
};

struct Launch {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads[3] = {1, 1, 1};
  unsigned shared_bytes = 0;  // dynamic; past shared_bytes_per_block call allow_shared() first
  bool cooperative = false;   // all blocks are resident at once, so that they may wait for each other
};

class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Properties& properties() const { return properties_; }

  /// Makes the device's context current in this thread for a scope, and puts back what was. Members do so themselves;
  /// around several calls it saves time.
  class Current {
   public:
    explicit Current(const Device&);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    bool pushed_ = false;
  };

  std::shared_ptr<Module> load(const Image&);
  /// Lets a kernel use this much dynamic shared memory.
  void allow_shared(const Function&, int bytes);
  /// Blocks that one multiprocessor holds at once.
  int max_active_blocks(const Function&, int threads, size_t shared_bytes) const;
  /// `parameters` points to the kernel's one parameter, a struct by value, which is copied before this returns.
  void launch(const Function&, const Launch&, Stream, const void* parameters);
  /// The same where the caller has made the context current.
  void launch(const Current&, const Function&, const Launch&, Stream, const void* parameters);

  /// Not from the pool, whose first use takes 9 ms: for what is kept from launch to launch. Giving it back waits for
  /// the device. While a stream is captured it is the pool's all the same.
  DeviceMemory allocate_kept(size_t bytes, Stream);
  /// From the stream-ordered pool where the device has one. Zero bytes give memory without an address.
  DeviceMemory allocate(size_t wanted, Stream);
  MappedMemory allocate_mapped(size_t bytes);
  /// Pins a page for what allocate_mapped will be asked for, where there is none: two milliseconds the first time.
  void pin_ahead() noexcept;
  /// {free, total} bytes.
  std::pair<size_t, size_t> memory_info() const;
  /// Gives what the pool keeps back to the device.
  void trim();

  /// `from` may be changed when this returns; the copy itself is in the order of the stream. Pageable memory goes
  /// through pinned buffers, in pieces that overlap with the transfer.
  void copy_in(CUdeviceptr to, const void* from, size_t bytes, Stream);
  /// `to` holds the bytes when this returns: it waits for the stream.
  void copy_out(void* to, CUdeviceptr from, size_t bytes, Stream);
  /// Within the device, in the order of the stream.
  void copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, Stream);
  void set_bytes(CUdeviceptr, unsigned char value, size_t bytes, Stream);

  Event make_event(bool timing = false);
  /// A stream of our own, which the default stream does not wait for; lives as long as the process.
  Stream make_stream();
  void synchronize(Stream) const;
  /// Waits for all streams.
  void synchronize() const;
  /// The same, but signals are handled meanwhile: false where a handler has raised. Called without the GIL.
  bool wait(Stream) const;
  bool wait() const;
  /// Is the stream part of a CUDA graph that is being captured? Then nothing may wait for it.
  bool is_capturing(Stream) const;

  /// Where some library's memory is.
  struct Place {
    bool pinned;  // host memory that is page-locked: transfers need no copy of it
    int device;   // or -1
  };
  static Place place_of(const void* address);

 private:
  friend Device& device(int ordinal);
  friend class DeviceMemory;
  friend class MappedMemory;
  friend class Event;
  friend class Module;
  friend class Staging;

  explicit Device(int ordinal);
  ~Device() = delete;  // the process's end: the driver goes first
  /// As check() of driver.h; remembers what ended the context, and says so from then on.
  void check(CUresult, const char* call, const std::string& detail = {}) const;
  Staging& staging();
  /// The pool of memory in the order of streams, found at the first call: processes whose arrays are all made by other
  /// libraries need none. Null where there is none.
  CUmemoryPool pool();
  DeviceMemory allocate(size_t wanted, Stream, bool pooled);
  MappedMemory pin(size_t bytes);
  /// A page in parts, each as good as memory of its own; with the mutex.
  void divide_page();

  Properties properties_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  std::once_flag pool_asked_;
  mutable std::atomic<CUresult> lost_{0};
  std::mutex mapped_mutex_;
  struct Part {
    void* host;
    CUdeviceptr address;
  };
  std::vector<Part> parts_;  // that nobody has
  std::mutex staging_mutex_;
  Staging* staging_ = nullptr;
};

/// Devices that the driver shows, without making contexts; throws Error where there is no driver, empty where there is
/// no device.
std::vector<Properties> devices();

/// The device with this ordinal, made at the first call: throws Error (no_driver, driver_too_old, no_device, forked).
Device& device(int ordinal);

/// The devices that have been made, in order: there may be something to wait for. None in a forked child.
std::vector<Device*> devices_used();

}  // namespace appy::gpu
