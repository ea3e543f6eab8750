// The threads that run parallel loops: fork-join over a range of shares, the calling thread takes part. It waits for
// nobody who has not begun: where the system has no CPU for a worker, its share is the caller's.
//
// Workers spin for a bounded time after their last job and then sleep, so that a loop nest of short regions finds them
// awake and an idle program costs nothing. One job runs at a time; a caller that finds the pool busy, or is a worker
// itself, runs its job alone. A forked child starts with an empty pool.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace appy::runtime {

/// Reads what default_threads() needs of the system and what takes time, so that the first region does not wait.
void read_machine();

/// Threads that a region may use: the least of affinity mask, cgroup quota, OMP_NUM_THREADS and APPY_NUM_THREADS, as
/// they were at the first call.
int default_threads();

/// A few words that differ from what a job says itself. They come to a worker with the line of the cache by which it is
/// told: a job that has been run before, and is as it was but for them, costs it no other one.
struct Note {
  static constexpr size_t kMost = 5;
  std::array<uint64_t, kMost> words;
  std::array<uint8_t, kMost> where;  // which of the job's each one stands for
  uint8_t count;

  void clear() { count = 0; }
  /// False: it is full.
  bool add(size_t which, uint64_t word) {
    if (count == kMost) return false;
    where[count] = static_cast<uint8_t>(which);
    words[count++] = word;
    return true;
  }
};
inline constexpr Note kNothingToNote{};

/// One job of as many shares as threads: `run(job, share, worker, note)` is called once for each share, by the worker
/// of that number, or by worker 0, the caller, where that worker has not begun when the caller is through with what it
/// has.
struct Job {
  void (*run)(Job*, int share, int worker, const Note&) = nullptr;
  /// Called on the calling thread before anybody has a share, where threads have to be started or woken for theirs.
  void (*waking)(Job*) = nullptr;
  /// Called on the calling thread while it waits for the others, or in front of this job for the pending one.
  void (*wait)(Job*) = nullptr;
  const Note* note = &kNothingToNote;
};

enum class Return : uint8_t { when_done, when_through };

/// Runs the job on up to `threads` threads and returns when every share is done or, if so asked, when the caller is
/// through with its own: until finish_job() the job is then pending, and the pool the caller's. Shares of a job behind
/// a pending one begin when all of that one's are done; two threads need no word from each other between the two. When
/// this returns the one that was pending is done. Returns false, with nothing run and nothing pending, if the pool is
/// in use by another thread, the caller is part of a job or of an OpenMP parallel region, or threads cannot be started.
bool run_job(Job&, int threads, Return = Return::when_done);

/// Waits until the pending job, if there is one, is done.
void finish_job();

/// Is this thread running part of a job?
bool in_job();

}  // namespace appy::runtime
