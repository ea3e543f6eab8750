// Cost of a fork-join on our pool; where the compiler has OpenMP also of a parallel region of that, for comparison.
// The target pool_bench, where Debian's libbenchmark-dev is installed.
#include <benchmark/benchmark.h>

#include <atomic>

#include "runtime/pool.h"

namespace {

struct Nothing : appy::runtime::Job {};

void pool_fork_join(benchmark::State& state) {
  Nothing job;
  job.run = [](appy::runtime::Job*, int worker) { benchmark::DoNotOptimize(worker); };
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    if (!appy::runtime::run_job(job, threads)) state.SkipWithError("the pool is busy");
  }
}
BENCHMARK(pool_fork_join)->Arg(2)->Arg(4)->UseRealTime();

#ifdef _OPENMP
void openmp_fork_join(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel num_threads(threads)
    {
      int worker = threads;
      benchmark::DoNotOptimize(worker);
    }
  }
}
BENCHMARK(openmp_fork_join)->Arg(2)->Arg(4)->UseRealTime();
#endif

}  // namespace

BENCHMARK_MAIN();
