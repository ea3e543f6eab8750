// Copies between pageable host memory and a device, through pinned buffers: two a direction, so that the processor
// fills or empties one while the device transfers the other.
#pragma once

#include <cstddef>
#include <mutex>

#include "gpu/device.h"

namespace appy::gpu {

class Staging {
 public:
  explicit Staging(Device& device) : device_(device) {}

  /// Both with the device's context current.
  void copy_in(CUdeviceptr to, const void* from, size_t bytes, Stream);
  void copy_out(void* to, CUdeviceptr from, size_t bytes, Stream);

 private:
  struct Buffer {
    MappedMemory memory;
    Event free;  // recorded after the transfer that uses the memory
    bool busy = false;
  };
  struct Lane {
    std::mutex mutex;
    Buffer buffers[2];
    Event direct;  // after a copy without a buffer
  };

  /// The buffer, at least this large, when no transfer uses it any more.
  Buffer& take(Lane&, int which, size_t bytes);

  Device& device_;
  Lane in_, out_;
};

}  // namespace appy::gpu
