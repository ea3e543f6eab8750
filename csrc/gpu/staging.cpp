#include "gpu/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "runtime/pool.h"

namespace appy::gpu {

namespace {

/// Pieces of a transfer: long enough to hide what each costs, and pinning one takes milliseconds.
constexpr size_t kPiece = size_t{8} << 20;
constexpr size_t kSmallest = size_t{64} << 10;
/// From here on several threads copy between the user's array and a buffer; one does not keep up with PCIe 5.
constexpr size_t kParallel = size_t{1} << 20;
constexpr int kThreads = 4;

/// Has somebody pinned it, from the first byte to the last?
bool is_pinned(const void* memory, size_t bytes) {
  const auto* first = static_cast<const char*>(memory);
  return Device::place_of(first).pinned && Device::place_of(first + bytes - 1).pinned;
}

struct CopyJob : runtime::Job {
  char* to;
  const char* from;
  size_t bytes;
  int threads;
};

void copy_bytes(void* to, const void* from, size_t bytes) {
  const int threads = std::min(kThreads, runtime::default_threads());
  if (bytes >= kParallel && threads > 1) {
    CopyJob job;
    job.to = static_cast<char*>(to);
    job.from = static_cast<const char*>(from);
    job.bytes = bytes;
    job.threads = threads;
    job.run = [](runtime::Job* base, int share, int, const runtime::Note&) {
      const CopyJob& of = *static_cast<CopyJob*>(base);
      const size_t begin = of.bytes * share / of.threads, end = of.bytes * (share + 1) / of.threads;
      std::memcpy(of.to + begin, of.from + begin, end - begin);
    };
    if (runtime::run_job(job, threads)) return;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace

Staging::Buffer& Staging::take(Lane& lane, int which, size_t bytes) {
  Buffer& buffer = lane.buffers[which];
  if (buffer.busy) {
    buffer.free.synchronize();
    buffer.busy = false;
  }
  if (!buffer.free) buffer.free = device_.make_event();
  if (buffer.memory.bytes() < bytes) {
    buffer.memory.reset();
    buffer.memory = device_.allocate_mapped(std::clamp(std::bit_ceil(bytes), kSmallest, kPiece));
  }
  return buffer;
}

void Staging::copy_in(CUdeviceptr to, const void* from, size_t bytes, Stream stream) {
  const auto handle = reinterpret_cast<CUstream>(stream);
  const auto start = [&](size_t offset, const void* source, size_t size) {
    device_.check(driver().copy_to_device(to + offset, source, size, handle), "cuMemcpyHtoDAsync",
                  "a copy of " + std::to_string(bytes) + " bytes to the device");
  };
  const bool direct = is_pinned(from, bytes);
  std::lock_guard lock(in_.mutex);
  if (direct) {
    if (!in_.direct) in_.direct = device_.make_event();
    start(0, from, bytes);
    in_.direct.record(stream);
    in_.direct.synchronize();
    return;
  }
  int which = 0;
  for (size_t done = 0; done < bytes; which ^= 1) {
    const size_t size = std::min(kPiece, bytes - done);
    Buffer& buffer = take(in_, which, size);
    copy_bytes(buffer.memory.host(), static_cast<const char*>(from) + done, size);
    start(done, buffer.memory.host(), size);
    buffer.busy = true;
    buffer.free.record(stream);
    done += size;
  }
}

void Staging::copy_out(void* to, CUdeviceptr from, size_t bytes, Stream stream) {
  const auto handle = reinterpret_cast<CUstream>(stream);
  const auto start = [&](void* target, size_t offset, size_t size) {
    device_.check(driver().copy_to_host(target, from + offset, size, handle), "cuMemcpyDtoHAsync",
                  "a copy of " + std::to_string(bytes) + " bytes from the device");
  };
  const bool direct = is_pinned(to, bytes);
  std::lock_guard lock(out_.mutex);
  if (direct) {
    start(to, 0, bytes);
    device_.synchronize(stream);
    return;
  }
  const size_t pieces = (bytes + kPiece - 1) / kPiece;
  const auto size_of = [&](size_t piece) { return std::min(kPiece, bytes - piece * kPiece); };
  const auto fetch = [&](size_t piece) {
    Buffer& buffer = take(out_, piece & 1, size_of(piece));
    start(buffer.memory.host(), piece * kPiece, size_of(piece));
    buffer.busy = true;
    buffer.free.record(stream);
  };
  fetch(0);
  for (size_t piece = 0; piece < pieces; ++piece) {
    if (piece + 1 < pieces) fetch(piece + 1);
    Buffer& buffer = take(out_, piece & 1, size_of(piece));
    copy_bytes(static_cast<char*>(to) + piece * kPiece, buffer.memory.host(), size_of(piece));
  }
}

}  // namespace appy::gpu
