#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "runtime/pool.h"

namespace appy::runtime {
namespace {

struct Count : Job {
  Count() {
    run = [](Job* job, int worker) {
      auto& c = *static_cast<Count*>(job);
      c.calls++;
      c.workers |= uint64_t{1} << worker;
    };
    wait = [](Job* job) { static_cast<Count*>(job)->waits++; };
  }
  std::atomic<int> calls{0};
  std::atomic<uint64_t> workers{0};
  std::atomic<int> waits{0};
  bool nested = true;
};

TEST(Pool, RunsEveryWorkerOnce) {
  for (int threads : {2, 3, 2, 8, 2}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      Count c;
      ASSERT_TRUE(run_job(c, threads));
      EXPECT_EQ(c.calls, threads);
      EXPECT_EQ(c.workers, (uint64_t{1} << threads) - 1);
    }
  }
}

TEST(Pool, SleepersWake) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    Count c;
    ASSERT_TRUE(run_job(c, 2));
    EXPECT_EQ(c.calls, 2);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

TEST(Pool, OneThreadIsTheCallers) {
  Count c;
  EXPECT_FALSE(run_job(c, 1));
  EXPECT_EQ(c.calls, 0);
}

TEST(Pool, NestedJobsStayInTheirWorker) {
  Count c;
  c.run = [](Job* job, int worker) {
    Count inner;
    if (worker == 0) static_cast<Count*>(job)->nested = run_job(inner, 2);
    EXPECT_TRUE(in_job());
  };
  ASSERT_TRUE(run_job(c, 2));
  EXPECT_FALSE(c.nested);
  EXPECT_FALSE(in_job());
}

TEST(Pool, BusyPoolIsRefused) {
  struct Held : Job {
    std::atomic<bool> entered{false}, leave{false};
  } held;
  held.run = [](Job* job, int) {
    auto& h = *static_cast<Held*>(job);
    h.entered = true;
    while (!h.leave) std::this_thread::yield();
  };
  std::thread other([&] { run_job(held, 2); });
  while (!held.entered) std::this_thread::yield();
  Count c;
  EXPECT_FALSE(run_job(c, 2));
  held.leave = true;
  other.join();
  EXPECT_TRUE(run_job(c, 2));
}

TEST(Pool, WaitingCallerIsTold) {
  Count c;
  c.run = [](Job*, int worker) {
    if (worker == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  ASSERT_TRUE(run_job(c, 2));
  EXPECT_GE(c.waits, 1);
}

TEST(Pool, SurvivesFork) {
  Count c;
  ASSERT_TRUE(run_job(c, 2));
  pid_t child = fork();
  if (child == 0) {
    Count mine;
    bool ran = run_job(mine, 2);
    _exit(ran && mine.calls == 2 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(run_job(c, 2));
}

TEST(Pool, ThreadsAreAtLeastOne) { EXPECT_GE(default_threads(), 1); }

}  // namespace
}  // namespace appy::runtime
