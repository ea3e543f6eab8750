// What a kernel has on each stream that it is launched on: launches on one stream come one after the other, those on
// two streams may run at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "gpu/device.h"
#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::gpu {

class KernelState {
 public:
  /// Kernels that neither meet nor tell anything need no memory.
  KernelState(Device& device, Stream stream, size_t result_words, bool needs_memory);

  Stream stream() const { return stream_; }
  /// Is it that of the stream which the calling thread means by this handle?
  bool serves(Stream stream) const {
    return stream == stream_ && (stream != per_thread_stream || thread_ == std::this_thread::get_id());
  }
  /// Writes the four words of the kernel's Control (prelude.cpp), with room for that much of partial results.
  void write_control(ir::Word* words, size_t partial_bytes);
  /// Memory for the region's array of this number, the same in each launch as long as it is large enough.
  CUdeviceptr array(size_t number, size_t bytes);
  /// What the device told, once somebody has waited for it.
  const ir::Word* results() const { return static_cast<const ir::Word*>(control_.host()) + fault_words; }

  /// Has a check failed? The record stays what it is until forget().
  bool failed() const;
  runtime::LateFailure failure() const;
  /// Launches after this tell of failures again.
  void forget();

  /// Nobody waits for the last launch any more: it may end at its next barrier, unless there are others, of statements
  /// that are done.
  void leave();
  bool is_leaving() const { return leaving_; }
  /// It is over, left or done. Launches after this run to their end, and tell of failures again.
  void left();

  uint64_t launches = 0, waited = 0;  // all, and those that somebody has waited for
  /// A launch that nobody has waited for yet may still use the memory.
  bool in_flight = false;

 private:
  /// CU_STREAM_PER_THREAD: each thread's own default stream, by one handle.
  static constexpr Stream per_thread_stream = 2;
  static constexpr size_t fault_words = 6 + ir::kMaxInfo;

  /// What was in it is lost where it is too small.
  void grow(DeviceMemory&, size_t bytes);

  Device& device_;
  Stream stream_;
  std::thread::id thread_ = std::this_thread::get_id();  // that it was made in
  MappedMemory control_;
  DeviceMemory barrier_, partials_;
  std::vector<DeviceMemory> arrays_;
  bool leaving_ = false;
};

}  // namespace appy::gpu
