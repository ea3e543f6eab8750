#include "gpu/kernel_state.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "runtime/late.h"

namespace appy::gpu {

namespace {

constexpr size_t barrier_bytes = 64;
enum Word : size_t { kSet, kCheck, kIteration, kTime, kFlag, kLeaves, kInfo };

/// The word that all devices set when a check has failed: entering a region looks at nothing else. Never freed.
const MappedMemory& fault_flag(Device& device) {
  static const MappedMemory& flag = [&]() -> const MappedMemory& {
    auto* const made = new MappedMemory(device.allocate_mapped(sizeof(int64_t)));
    runtime::set_fault_flag(static_cast<int64_t*>(made->host()));
    // The driver's memory need not be there in a forked child.
    pthread_atfork(nullptr, nullptr, [] { runtime::set_fault_flag(nullptr); });
    return *made;
  }();
  return flag;
}

}  // namespace

KernelState::KernelState(Device& device, Stream stream, size_t result_words, bool needs_memory)
    : device_(device), stream_(stream) {
  // Pinning memory takes two milliseconds the first time.
  if (!needs_memory) return;
  control_ = device.allocate_mapped((fault_words + result_words) * sizeof(ir::Word));
  barrier_ = device.allocate_kept(barrier_bytes, stream);
  device.set_bytes(barrier_.address(), 0, barrier_bytes, stream);
  static_cast<ir::Word*>(control_.host())[kFlag] = fault_flag(device).device_address();
}

void KernelState::write_control(ir::Word* words, size_t partial_bytes) {
  if (!control_) {
    std::fill_n(words, 4, 0);
    return;
  }
  grow(partials_, partial_bytes);
  words[0] = control_.device_address() + fault_words * sizeof(ir::Word);
  words[1] = control_.device_address();
  words[2] = barrier_.address();
  words[3] = partials_.address();
}

CUdeviceptr KernelState::array(size_t number, size_t bytes) {
  if (arrays_.size() <= number) arrays_.resize(number + 1);
  grow(arrays_[number], bytes);
  return arrays_[number].address();
}

void KernelState::grow(DeviceMemory& memory, size_t bytes) {
  if (memory.bytes() >= bytes) return;
  memory.reset();
  memory = device_.allocate_kept(bytes, stream_);
}

bool KernelState::failed() const {
  return control_ && std::atomic_ref(static_cast<int64_t*>(control_.host())[kSet]).load(std::memory_order_acquire) != 0;
}

runtime::LateFailure KernelState::failure() const {
  const auto* const record = static_cast<const int64_t*>(control_.host());
  runtime::LateFailure out;
  out.failure.check = static_cast<int32_t>(record[kCheck]);
  out.failure.iteration = record[kIteration];
  std::copy_n(record + kInfo, ir::kMaxInfo, out.failure.info.begin());
  out.time = static_cast<uint64_t>(record[kTime]);
  out.device = device_.properties().ordinal;
  out.stream = stream_;
  return out;
}

void KernelState::forget() {
  // A kernel tells of a failure when it is the first to set this word.
  device_.set_bytes(barrier_.address() + sizeof(ir::Word), 0, sizeof(ir::Word), stream_);
  std::atomic_ref(static_cast<int64_t*>(control_.host())[kSet]).store(0, std::memory_order_release);
}

void KernelState::leave() {
  if (!control_ || launches - waited != 1) return;
  std::atomic_ref(static_cast<int64_t*>(control_.host())[kLeaves]).store(1, std::memory_order_release);
  leaving_ = true;
}

void KernelState::left() {
  // Where it has left, the barrier still says so.
  device_.set_bytes(barrier_.address(), 0, barrier_bytes, stream_);
  for (const Word word : {kSet, kLeaves})
    std::atomic_ref(static_cast<int64_t*>(control_.host())[word]).store(0, std::memory_order_release);
  leaving_ = false;
}

}  // namespace appy::gpu
