// Waiting for a device, with signals handled meanwhile.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>

#include "gpu/device.h"
#include "runtime/poll.h"

namespace appy::gpu {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

/// What is short is not slept for.
constexpr microseconds spin{50};
constexpr microseconds shortest{10}, longest{2000};
constexpr CUresult kNotReady = 600;

bool interrupted() { return *runtime::poll_flag() && runtime::poll(); }

}  // namespace

bool Device::wait(Stream stream) const {
  const Current current(*this);
  const Driver& driver = gpu::driver();
  const auto handle = reinterpret_cast<CUstream>(stream);
  const Clock::time_point begun = Clock::now();
  for (;;) {
    const CUresult result = driver.stream_query(handle);
    if (result != kNotReady) {
      check(result, "cuStreamQuery", "waiting for device " + std::to_string(properties_.ordinal));
      return true;
    }
    if (interrupted()) return false;
    const auto waited = std::chrono::duration_cast<microseconds>(Clock::now() - begun);
    if (waited > spin) std::this_thread::sleep_for(std::clamp(waited / 16, shortest, longest));
  }
}

bool Device::wait() const {
  // The driver answers whether one stream is done, not whether all are, and streams of others may be gone.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::optional<Error> error;
  };
  const auto shared = std::make_shared<Shared>();
  try {
    std::thread([this, shared] {
      std::optional<Error> error;
      try {
        synchronize();
      } catch (const Error& e) {
        error = e;
      }
      const std::lock_guard lock(shared->mutex);
      shared->done = true;
      shared->error = std::move(error);
      shared->changed.notify_one();
    }).detach();
  } catch (const std::system_error&) {  // no thread to be had
    synchronize();
    return true;
  }
  std::unique_lock lock(shared->mutex);
  while (!shared->changed.wait_for(lock, 5 * longest, [&] { return shared->done; })) {
    lock.unlock();
    if (interrupted()) return false;
    lock.lock();
  }
  if (shared->error) throw *shared->error;
  return true;
}

}  // namespace appy::gpu
