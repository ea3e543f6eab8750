#include <dirent.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/pool.h"

namespace appy::runtime {
namespace {

struct Count : Job {
  Count() {
    run = [](Job* job, int share, int worker, const Note&) {
      auto& c = *static_cast<Count*>(job);
      c.calls++;
      c.shares |= uint64_t{1} << share;
      if (worker != share) c.taken_over++;
      if (worker != 0 && worker != share) c.wrong++;
      if ((worker == 0) != (std::this_thread::get_id() == c.caller)) c.wrong++;
    };
    wait = [](Job* job) { static_cast<Count*>(job)->waits++; };
  }
  std::atomic<int> calls{0};
  std::atomic<uint64_t> shares{0};
  std::atomic<int> taken_over{0}, wrong{0};
  std::atomic<int> waits{0};
  std::thread::id caller = std::this_thread::get_id();
  bool nested = true;
};

TEST(Pool, RunsEveryShareOnce) {
  for (int threads : {2, 3, 2, 8, 2}) {
    for (int repeat = 0; repeat < 200; ++repeat) {
      Count c;
      ASSERT_TRUE(run_job(c, threads));
      EXPECT_EQ(c.calls, threads);
      EXPECT_EQ(c.shares, (uint64_t{1} << threads) - 1);
      EXPECT_EQ(c.wrong, 0);
    }
  }
}

/// Threads of the pool, by the name that it gives them.
std::vector<pid_t> workers() {
  std::vector<pid_t> found;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    char name[32] = "";
    if (FILE* file = std::fopen((std::string("/proc/self/task/") + entry->d_name + "/comm").c_str(), "r")) {
      if (!std::fgets(name, sizeof name, file)) name[0] = 0;
      std::fclose(file);
    }
    if (std::strcmp(name, "appy\n") == 0) found.push_back(std::atoi(entry->d_name));
  }
  closedir(tasks);
  return found;
}

/// All threads share the caller's CPU, where the workers run only when nobody else wants to.
struct OneCpu {
  OneCpu() {
    sched_getaffinity(0, sizeof before, &before);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
    for (pid_t id : workers()) set(id, one, SCHED_IDLE);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OneCpu() {
    sched_setaffinity(0, sizeof before, &before);
    for (pid_t id : workers()) set(id, before, SCHED_OTHER);
  }
  static void set(pid_t id, const cpu_set_t& cpus, int policy) {
    const sched_param none{};
    EXPECT_EQ(sched_setaffinity(id, sizeof cpus, &cpus), 0);
    EXPECT_EQ(sched_setscheduler(id, policy, &none), 0);
  }
  cpu_set_t before;
};

TEST(Pool, SharesOfWorkersThatDoNotRunAreTheCallers) {
  const int threads = 3;
  Count first;
  ASSERT_TRUE(run_job(first, threads));
  ASSERT_GE(workers().size(), 2U);
  int taken_over = 0;
  {
    const OneCpu only;
    for (int repeat = 0; repeat < 2000; ++repeat) {
      Count c;
      ASSERT_TRUE(run_job(c, threads));
      EXPECT_EQ(c.calls, threads);
      EXPECT_EQ(c.shares, (uint64_t{1} << threads) - 1);
      EXPECT_EQ(c.wrong, 0);
      taken_over += c.taken_over;
    }
  }
  EXPECT_GT(taken_over, 2000);  // most of the 4000
  // Workers that were passed over are there for later jobs.
  for (int repeat = 0, helped = 0; helped == 0; ++repeat) {
    ASSERT_LT(repeat, 1000);
    Count c;
    c.run = [](Job* job, int, int worker, const Note&) {
      auto& of = *static_cast<Count*>(job);
      if (worker != 0) of.calls++;
      for (int wait = 0; worker == 0 && wait < 1000 && of.calls == 0; ++wait) std::this_thread::yield();
    };
    ASSERT_TRUE(run_job(c, threads));
    helped = c.calls;
  }
}

/// The caller and the workers race for shares; each job lies where the one before did.
TEST(Pool, RacesForShares) {
  struct Sum : Job {
    int64_t spins[4];
    int64_t done[4] = {};  // plain: a share that two threads ran, or that is still running, is a race
  };
  for (int repeat = 0; repeat < 20000; ++repeat) {
    Sum sum;
    for (int k = 0; k < 4; ++k) sum.spins[k] = (repeat * 7919 + k * 104729) % 61 * (k == 0 ? 4 : 1);
    sum.run = [](Job* job, int share, int, const Note&) {
      Sum& of = *static_cast<Sum*>(job);
      for (int64_t n = 0; n < of.spins[share]; ++n) _mm_pause();
      of.done[share] += share + 1;
    };
    ASSERT_TRUE(run_job(sum, 4));
    for (int k = 0; k < 4; ++k) ASSERT_EQ(sum.done[k], k + 1);
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

TEST(Pool, JobsAreToldOfSleepersBeforeTheirSharesBegin) {
  struct Told : Count {
    Told() {
      waking = [](Job* job) {
        auto& of = *static_cast<Told*>(job);
        of.told++;
        if (of.calls > 0 || std::this_thread::get_id() != of.caller) of.wrong++;
      };
    }
    int told = 0;
  };
  int told = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    Told job;
    ASSERT_TRUE(run_job(job, 2));
    EXPECT_LE(job.told, 1);
    EXPECT_EQ(job.wrong, 0);
    told += job.told;
  }
  EXPECT_GT(told, 0);
}

TEST(Pool, JobsOfManyCallersWhileThePoolGrows) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int n = 0; n < 4; ++n) {
    callers.emplace_back([&wrong, n] {
      for (int threads = 2; threads < 24; ++threads) {
        Count c;
        c.waking = [](Job* job) { static_cast<Count*>(job)->waits += 100; };
        if (run_job(c, threads + n)) wrong += c.wrong + (c.calls != threads + n);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Pool, OneThreadIsTheCallers) {
  Count c;
  EXPECT_FALSE(run_job(c, 1));
  EXPECT_EQ(c.calls, 0);
}

TEST(Pool, NestedJobsStayInTheirWorker) {
  Count c;
  c.run = [](Job* job, int, int worker, const Note&) {
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
  held.run = [](Job* job, int, int, const Note&) {
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
  c.run = [](Job* job, int share, int, const Note&) {
    auto& of = *static_cast<Count*>(job);
    // The caller is through only when the worker has begun.
    for (int wait = 0; share == 0 && wait < 1000 && of.calls == 0; ++wait) usleep(1000);
    if (share == 0) return;
    of.calls++;
    usleep(20000);
  };
  ASSERT_TRUE(run_job(c, 2));
  EXPECT_GE(c.waits, 1);
}

/// A share that begins before all of the job in front are done is early, and one whose note is not the job's misled.
struct Behind : Job {
  Behind() {
    note = &noted;
    run = [](Job* job, int share, int, const Note& read) {
      Behind& of = *static_cast<Behind*>(job);
      if (read.count != of.noted.count) of.misled = true;
      for (size_t i = 0; i < read.count; ++i) {
        if (read.where[i] != of.noted.where[i] || read.words[i] != of.noted.words[i]) of.misled = true;
      }
      if (of.before && of.before->done != of.before->shares) of.early = true;
      for (int n = 0; n < of.spins[static_cast<size_t>(share)]; ++n) _mm_pause();
      ++of.done;
    };
  }
  const Behind* before = nullptr;
  int shares = 0;
  std::array<int, 4> spins{};
  std::atomic<int> done{0};
  Note noted{};
  std::atomic<bool> early{false}, misled{false};
};

/// Three jobs in turn, as often as that: the third one is made while the second, which looks at the first, is pending.
void run_behind_each_other(int times, uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  std::array<Behind, 3> jobs;
  const Behind* pending = nullptr;
  for (int n = 0; n < times; ++n) {
    Behind& job = jobs[static_cast<size_t>(n) % jobs.size()];
    job.before = pending;
    job.shares = pick(4) ? 2 : 2 + pick(3);
    job.done = 0;
    for (int& spins : job.spins) spins = pick(8) ? pick(20) : pick(300);
    job.noted.clear();
    for (int words = pick(Note::kMost + 2); words > 0; --words) {
      const bool full = job.noted.count == Note::kMost;
      ASSERT_NE(job.noted.add(static_cast<size_t>(pick(256)), random()), full);
    }
    const bool waits = pick(20) == 0;
    ASSERT_TRUE(run_job(job, job.shares, waits ? Return::when_done : Return::when_through));
    ASSERT_FALSE(job.early) << n;
    ASSERT_FALSE(job.misled) << n;
    if (pending) {
      ASSERT_EQ(pending->done, pending->shares) << n;
    }
    if (waits) {
      ASSERT_EQ(job.done, job.shares) << n;
    }
    pending = waits ? nullptr : &job;
    if (pick(50) == 0) {
      finish_job();
      ASSERT_EQ(job.done, job.shares) << n;
      pending = nullptr;
    }
    if (pick(2000) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // workers fall asleep
  }
  finish_job();
  for (const Behind& job : jobs) {
    ASSERT_FALSE(job.early);
    ASSERT_FALSE(job.misled);
    ASSERT_EQ(job.done, job.shares);
  }
}

TEST(Pool, SharesBeginWhenThoseOfTheJobInFrontAreDone) { run_behind_each_other(40'000, 1); }

TEST(Pool, SharesOfPendingJobsThatNobodyHasBegunAreTheCallers) {
  Count first;
  ASSERT_TRUE(run_job(first, 4));
  {
    const OneCpu only;
    run_behind_each_other(3'000, 2);
  }
  run_behind_each_other(3'000, 3);
}

TEST(Pool, APendingJobKeepsThePool) {
  Behind job;
  job.shares = 2;
  job.spins = {0, 1000};
  const auto elsewhere = [] {
    Count c;
    bool ran = false;
    std::thread([&] { ran = run_job(c, 2); }).join();
    return ran;
  };
  ASSERT_TRUE(run_job(job, 2, Return::when_through));
  EXPECT_FALSE(in_job());
  EXPECT_FALSE(elsewhere());
  finish_job();
  EXPECT_EQ(job.done, 2);
  EXPECT_TRUE(elsewhere());
  finish_job();  // there is none
  // A job that cannot run is still waited in front of.
  job.done = 0;
  ASSERT_TRUE(run_job(job, 2, Return::when_through));
  Count c;
  EXPECT_FALSE(run_job(c, 1));
  EXPECT_EQ(job.done, 2);
  EXPECT_TRUE(elsewhere());
}

std::atomic<bool> begun{false}, released{false};

struct Told : Behind {
  Told() {
    shares = 2;
    wait = [](Job* job) {
      Told& of = *static_cast<Told*>(job);
      ++of.told;
      Count c;
      of.refused &= in_job() && !run_job(c, 2);
      released = true;
    };
  }
  int told = 0;
  bool refused = true;
};

TEST(Pool, TheNextJobIsToldWhileAPendingOneIsWaitedFor) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::array<Told, 2> jobs;
    begun = released = false;
    jobs[1].before = &jobs[0];
    jobs[0].run = [](Job* job, int share, int worker, const Note&) {
      // The caller is through only when the worker has begun, and the worker when the next job is told.
      if (share == 1) begun = true;
      while (worker == 0 && !begun) std::this_thread::yield();
      while (worker == 1 && !released) std::this_thread::yield();
      ++static_cast<Told*>(job)->done;
    };
    ASSERT_TRUE(run_job(jobs[0], 2, Return::when_through));
    ASSERT_TRUE(run_job(jobs[1], 2));
    EXPECT_EQ(jobs[0].told, 0);
    EXPECT_GE(jobs[1].told, 1);
    EXPECT_TRUE(jobs[1].refused);
    EXPECT_FALSE(jobs[1].early);
    EXPECT_EQ(jobs[1].done, 2);
  }
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
