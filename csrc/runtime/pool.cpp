#include "runtime/pool.h"

#include <dlfcn.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace appy::runtime {

namespace {

thread_local bool inside_job = false;
thread_local Job* pending_job = nullptr;

long futex(std::atomic<uint32_t>* word, int op, uint32_t value) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), op | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, 0);
}

int affinity_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
}

bool read_line(const std::string& path, char* line, int size) {
  FILE* file = std::fopen(path.c_str(), "r");
  if (!file) return false;
  const bool ok = std::fgets(line, size, file) != nullptr;
  std::fclose(file);
  return ok;
}

/// The process's group in one hierarchy ("" is the unified one), as a path below its mount point.
std::string cgroup_path(const char* controller) {
  std::string found;
  FILE* file = std::fopen("/proc/self/cgroup", "r");
  if (!file) return found;
  char line[4096];
  while (std::fgets(line, sizeof line, file)) {
    char* names = std::strchr(line, ':');
    char* path = names ? std::strchr(names + 1, ':') : nullptr;
    if (!path) continue;
    *path++ = 0;
    path[std::strcspn(path, "\n")] = 0;
    const std::string list = std::string(",") + (names + 1) + ",";
    if (*controller ? list.find(std::string(",") + controller + ",") != std::string::npos : list == ",,") found = path;
  }
  std::fclose(file);
  return found;
}

double quota_v2(const std::string& directory) {
  char line[256];
  double quota = 0, period = 0;
  if (read_line(directory + "/cpu.max", line, sizeof line) && std::sscanf(line, "%lf %lf", &quota, &period) == 2 &&
      period > 0) {
    return quota / period;
  }
  return INFINITY;
}

double quota_v1(const std::string& directory) {
  char quota[256], period[256];
  if (!read_line(directory + "/cpu.cfs_quota_us", quota, sizeof quota)) return INFINITY;
  if (!read_line(directory + "/cpu.cfs_period_us", period, sizeof period)) return INFINITY;
  const double q = std::atof(quota), p = std::atof(period);
  return q > 0 && p > 0 ? q / p : INFINITY;
}

/// CPUs that the quotas of the process's groups, and the groups around them, amount to.
int read_quotas() {
  double least = INFINITY;
  auto climb = [&](const std::string& mount, std::string path, double (*quota)(const std::string&)) {
    // Inside a container the mount shows the own group at its root.
    least = std::min(least, quota(mount));
    while (!path.empty() && path != "/") {
      least = std::min(least, quota(mount + path));
      path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
    }
  };
  climb("/sys/fs/cgroup", cgroup_path(""), quota_v2);
  for (const char* mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"})
    climb(mount, cgroup_path("cpu"), quota_v1);
  return std::isinf(least) ? INT_MAX : std::max(1, static_cast<int>(std::ceil(least)));
}

int cgroup_threads() {
  static const int known = read_quotas();
  return known;
}

int variable(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return INT_MAX;
  const int n = std::atoi(text);
  return n > 0 ? n : INT_MAX;
}

/// Is the caller inside somebody else's OpenMP parallel region? The runtime may be loaded at any time, so it is looked
/// for now and then.
bool in_openmp() {
  using Query = int (*)();
  static std::atomic<Query> query{nullptr};
  static std::atomic<uint32_t> calls{0};
  Query known = query.load(std::memory_order_relaxed);
  // Not one atomic operation: it would wait for all that the caller has stored, some of it for its workers.
  const uint32_t before = calls.load(std::memory_order_relaxed);
  calls.store(before + 1, std::memory_order_relaxed);
  if (!known && before % 256 == 0) {
    known = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "omp_in_parallel"));
    query.store(known, std::memory_order_relaxed);
  }
  return known && known();
}

/// Cycles that workers spin before they sleep: about 100 us, less where threads outnumber CPUs.
uint64_t spin_cycles(int threads) { return threads > affinity_threads() ? 4'000 : 250'000; }

/// How far a share is. It is given to a worker by idle -> offered; whoever changes `offered` first has the share: the
/// worker, who then runs it (-> running -> idle), or the caller, who found it still waiting (-> idle).
enum State : uint32_t { kIdle, kOffered, kRunning, kStopped };

struct alignas(64) Share {
  std::atomic<uint32_t> state{kIdle};  // what the worker sleeps on
  Job* job = nullptr;                  // these two come with the line that the worker looks at
  Note note{};

  void offer(State how, Job* what) {
    job = what;
    note.clear();
    for (size_t i = 0; what && i < what->note->count; ++i) note.add(what->note->where[i], what->note->words[i]);
    state.store(how, std::memory_order_release);
  }
  bool take(State next) {
    uint32_t expected = kOffered;
    return state.compare_exchange_strong(expected, next, std::memory_order_acquire, std::memory_order_relaxed);
  }
};

static_assert(sizeof(Share) == 64);

/// A worker looks at its two shares in turn: the other one can be on offer while it is still running one.
struct Worker {
  std::array<Share, 2> shares;
  // The caller's; workers would take the line of the cache that they are in.
  alignas(64) size_t turn = 0;  // the share that the worker looks at, or runs
  bool passed = false;          // the pending job's share is the other one: the caller has taken the one before it
  std::atomic<uint32_t> asleep{0};
  int index = 0;

  /// The one whose turn it is, or the other one.
  Share& share(bool other) { return shares[turn ^ (other ? 1 : 0)]; }
};

struct Pool {
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<pthread_t> threads;
  std::atomic<uint64_t> spin{0};
  std::atomic<int> caller{-1};  // the CPU that the caller was on when it last woke a sleeping worker
  size_t pending = 0;           // workers of the pending job

  std::span<const std::unique_ptr<Worker>> pending_workers() const { return std::span(workers).first(pending); }
};

/// Linux often wakes a thread on the CPU of the one that wakes it, and leaves the two there for many milliseconds where
/// both sleep now and then: a worker that finds itself on its caller's CPU moves to another one that it may use.
void step_aside(int caller) {
  cpu_set_t all;
  if (caller < 0 || sched_getcpu() != caller || sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(static_cast<size_t>(caller), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof all, &all);
}

std::atomic<Pool*> current{nullptr};
std::atomic_flag busy = ATOMIC_FLAG_INIT;

struct Start {
  Pool* pool;
  Worker* worker;
};

constexpr uint32_t kLooks = 16;  // of who waits, between two at the clock

/// Returns true when the worker has the share, false at the end of the process. It does not look before it takes: the
/// line of the cache would have to come once to be read and once to be written.
bool take(Share& share, Worker& me, const Pool& pool, bool& slept) {
  uint64_t begin = __rdtsc();
  for (uint32_t looks = 1; !share.take(kRunning); ++looks) {
    if (share.state.load(std::memory_order_relaxed) == kStopped) return false;
    _mm_pause();
    if (looks % kLooks != 0 || __rdtsc() - begin < pool.spin.load(std::memory_order_relaxed)) continue;
    me.asleep.store(1, std::memory_order_seq_cst);
    if (share.state.load(std::memory_order_seq_cst) == kIdle) futex(&share.state, FUTEX_WAIT, kIdle);
    me.asleep.store(0, std::memory_order_relaxed);
    slept = true;
    begin = __rdtsc();  // the share may be the caller's by now, and the next one near
  }
  return true;
}

void* work(void* argument) {
  const std::unique_ptr<Start> start(static_cast<Start*>(argument));
  Pool& pool = *start->pool;
  Worker& me = *start->worker;
  const int index = me.index;
  inside_job = true;  // whatever this thread runs is part of a job
  bool slept = true;
  for (size_t turn = 0; take(me.shares[turn], me, pool, slept); turn ^= 1) {
    if (std::exchange(slept, false)) step_aside(pool.caller.load(std::memory_order_relaxed));
    Share& share = me.shares[turn];
    share.job->run(share.job, index, index, share.note);
    share.state.store(kIdle, std::memory_order_release);
  }
  return nullptr;
}

/// Tells the first so many workers, `behind` their shares of the pending job.
void tell(std::span<const std::unique_ptr<Worker>> workers, State state, Job* job, bool behind) {
  for (const auto& worker : workers) worker->share(behind).offer(state, job);
}

/// To be called when they were told. The lines that they look at are all on their way before the first answer is waited
/// for: with a fence for each, fifteen workers took the caller more than a microsecond.
void wake(std::span<const std::unique_ptr<Worker>> workers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (const auto& worker : workers) {
    if (worker->asleep.load(std::memory_order_relaxed)) futex(&worker->share(worker->passed).state, FUTEX_WAKE, 1);
  }
}

/// Shares of the pending job that nobody has begun are the caller's. The next one may be on offer `behind` it.
void take_over(std::span<const std::unique_ptr<Worker>> workers, Job& job, bool behind) {
  // What was woken last is the least likely to have begun.
  for (size_t i = workers.size(); i-- > 0;) {
    Worker& worker = *workers[i];
    Share& share = worker.share(worker.passed);
    if (share.state.load(std::memory_order_acquire) == kOffered && share.take(kIdle)) {
      worker.passed = behind;
      job.run(&job, static_cast<int>(i) + 1, 0, *job.note);
    } else {
      worker.turn ^= 1;
    }
  }
}

/// Returns when the shares that workers have begun are done. Meanwhile `next` is told.
void wait_for(std::span<const std::unique_ptr<Worker>> workers, Job& next, uint64_t spin) {
  uint64_t begin = __rdtsc();
  for (const auto& worker : workers) {
    const Share& last = worker->share(true);
    for (uint32_t looks = 1; last.state.load(std::memory_order_acquire) == kRunning; ++looks) {
      _mm_pause();
      if (looks % kLooks != 0 || __rdtsc() - begin < spin) continue;
      if (next.wait) next.wait(&next);
      sched_yield();
      begin = __rdtsc() - spin / 2;
    }
  }
}

/// Returns when all shares of the pending job are done.
void finish(const Pool& pool, Job& job, Job& next) {
  take_over(pool.pending_workers(), job, false);
  wait_for(pool.pending_workers(), next, pool.spin);
}

/// The threads are gone in the child; the memory they may have held is left alone.
void after_fork_in_child() {
  current.store(nullptr);
  busy.clear();
  inside_job = false;
  pending_job = nullptr;
}

void shut_down() {
  if (busy.test_and_set(std::memory_order_acquire)) return;  // a job is running: its threads die with the process
  if (Pool* pool = current.exchange(nullptr)) {
    tell(pool->workers, kStopped, nullptr, false);
    wake(pool->workers);
    for (pthread_t thread : pool->threads) pthread_join(thread, nullptr);
    delete pool;
  }
  // `busy` stays set: jobs of later exit handlers run alone.
}

Pool* grow(size_t workers) {
  static const bool registered = [] {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
    std::atexit(shut_down);
    return true;
  }();
  (void)registered;
  Pool* pool = current.load(std::memory_order_acquire);
  if (!pool) {
    pool = new Pool;
    current.store(pool, std::memory_order_release);
  }
  // Signals belong to the threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  if (pool->workers.size() < workers) {
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->workers.size() < workers) {
      auto worker = std::make_unique<Worker>();
      worker->index = static_cast<int>(pool->workers.size()) + 1;
      pthread_t thread;
      auto start = std::make_unique<Start>(Start{pool, worker.get()});
      if (pthread_create(&thread, nullptr, work, start.get()) != 0) break;
      (void)start.release();
      pthread_setname_np(thread, "appy");
      pool->workers.push_back(std::move(worker));
      pool->threads.push_back(thread);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  return pool;
}

}  // namespace

void read_machine() { cgroup_threads(); }

int default_threads() {
  static const int known = std::max(
      1, std::min({affinity_threads(), cgroup_threads(), variable("OMP_NUM_THREADS"), variable("APPY_NUM_THREADS")}));
  return known;
}

bool in_job() { return inside_job; }

bool run_job(Job& job, int threads, Return when) {
  if (threads < 2 || inside_job || in_openmp() || (!pending_job && busy.test_and_set(std::memory_order_acquire))) {
    finish_job();
    return false;
  }
  const auto others = static_cast<size_t>(threads) - 1;
  Pool* pool = current.load(std::memory_order_acquire);
  const bool grows = !pool || pool->workers.size() < others;
  if (grows) {
    pool = grow(others);
    if (pool->workers.size() < others) {
      if (!pending_job) busy.clear(std::memory_order_release);
      finish_job();
      return false;
    }
    pool->spin = spin_cycles(static_cast<int>(pool->workers.size()) + 1);
  }
  inside_job = true;  // also for what hooks run
  Job* before = std::exchange(pending_job, nullptr);
  const std::span workers = std::span(pool->workers).first(others);
  const bool asleep =
      std::ranges::any_of(workers, [](const auto& w) { return w->asleep.load(std::memory_order_relaxed) != 0; });
  if (asleep) pool->caller.store(sched_getcpu(), std::memory_order_relaxed);
  if ((asleep || grows) && job.waking) job.waking(&job);
  // The only worker of both jobs knows by itself when its part of the first one is done, and by the offer that the
  // caller's is. Of several, some would have to know of others.
  const bool behind = before && pool->pending == 1 && others == 1 && !pool->workers[0]->passed;
  const std::span had = pool->pending_workers();
  if (before && !behind) finish(*pool, *before, job);
  tell(workers, kOffered, &job, behind);
  if (behind) take_over(had, *before, true);  // before the fence of wake(), which waits for other lines meanwhile
  wake(workers);
  if (behind) wait_for(had, job, pool->spin);
  pool->pending = others;
  job.run(&job, 0, 0, *job.note);
  inside_job = false;
  pending_job = &job;
  if (when == Return::when_done) finish_job();
  return true;
}

void finish_job() {
  Job* job = std::exchange(pending_job, nullptr);
  if (!job) return;
  inside_job = true;
  Pool& pool = *current.load(std::memory_order_acquire);
  finish(pool, *job, *job);
  pool.pending = 0;
  inside_job = false;
  busy.clear(std::memory_order_release);
}

}  // namespace appy::runtime
