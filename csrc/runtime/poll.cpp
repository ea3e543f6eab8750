#include "runtime/poll.h"

#include <atomic>

namespace appy::runtime {

namespace {

const volatile int never = 0;
std::atomic<const volatile int*> current_flag{&never};
std::atomic<PollHandler> current_handler{nullptr};

}  // namespace

void set_poll(const volatile int* flag, PollHandler handler) {
  current_handler = handler;
  current_flag = flag ? flag : &never;
}

const volatile int* poll_flag() { return current_flag.load(std::memory_order_relaxed); }

int poll() {
  const PollHandler handler = current_handler.load(std::memory_order_relaxed);
  return handler ? handler() : 0;
}

}  // namespace appy::runtime
