#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/pool.h"

namespace appy::runtime {
namespace {

struct Count {
  std::atomic<int> calls{0};
  std::atomic<uint64_t> workers{0};
  std::atomic<int> idles{0};
  int nested = -1;
};

void count(void* data, int worker) {
  auto& c = *static_cast<Count*>(data);
  c.calls++;
  c.workers |= uint64_t{1} << worker;
}
void idle(void* data) { static_cast<Count*>(data)->idles++; }

TEST(Pool, RunsEveryWorkerOnce) {
  for (int threads : {2, 3, 2, 8, 2}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      Count c;
      ASSERT_TRUE(fork_join(threads, count, idle, &c));
      EXPECT_EQ(c.calls, threads);
      EXPECT_EQ(c.workers, (uint64_t{1} << threads) - 1);
    }
  }
}

TEST(Pool, SleepersWake) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    Count c;
    ASSERT_TRUE(fork_join(2, count, idle, &c));
    EXPECT_EQ(c.calls, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

TEST(Pool, OneThreadIsTheCallers) {
  Count c;
  EXPECT_FALSE(fork_join(1, count, idle, &c));
  EXPECT_EQ(c.calls, 0);
}

TEST(Pool, NestedLoopsStayInTheirWorker) {
  Count c;
  auto outer = [](void* data, int worker) {
    Count inner;
    if (worker == 0) static_cast<Count*>(data)->nested = fork_join(2, count, idle, &inner);
  };
  ASSERT_TRUE(fork_join(2, outer, idle, &c));
  EXPECT_EQ(c.nested, 0);
}

TEST(Pool, BusyPoolIsRefused) {
  std::atomic<bool> entered{false}, leave{false};
  struct Both {
    std::atomic<bool>*entered, *leave;
  } both{&entered, &leave};
  std::thread other([&] {
    fork_join(
        2,
        [](void* data, int) {
          auto* b = static_cast<Both*>(data);
          *b->entered = true;
          while (!*b->leave) std::this_thread::yield();
        },
        [](void*) {}, &both);
  });
  while (!entered) std::this_thread::yield();
  Count c;
  EXPECT_FALSE(fork_join(2, count, idle, &c));
  leave = true;
  other.join();
  EXPECT_TRUE(fork_join(2, count, idle, &c));
}

TEST(Pool, WaitingCallerIsIdle) {
  Count c;
  auto slow = [](void*, int worker) {
    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  ASSERT_TRUE(fork_join(2, slow, idle, &c));
  EXPECT_GE(c.idles, 5);
}

TEST(Pool, SurvivesFork) {
  Count c;
  ASSERT_TRUE(fork_join(2, count, idle, &c));
  pid_t child = fork();
  if (child == 0) {
    Count mine;
    bool ran = fork_join(2, count, idle, &mine);
    _exit(ran && mine.calls == 2 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(fork_join(2, count, idle, &c));
}

TEST(Pool, ThreadsAreAtLeastOne) { EXPECT_GE(default_threads(), 1); }

}  // namespace
}  // namespace appy::runtime
