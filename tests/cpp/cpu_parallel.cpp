// Parallel loops: schedules, reductions, nesting, failures, the pool.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "cpu_samples.h"
#include "runtime/poll.h"
#include "runtime/pool.h"

namespace appy::cpu::testing {
namespace {

std::string reduction(const std::string& kind, const std::string& carry, const std::string& type,
                      const std::string& op) {
  return "region @r(%x: " + type + "[1,c], %o: " + type + "[1,c], %n: i64, %init: " + type +
         ") {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
         "  %s = for " +
         kind + " %i = %zero to %n step %one carry(" + carry + " %acc = %init) : " + type +
         " {\n    %a = load %x[%i] : " + type + "\n    %t = " + op + " %acc, %a : " + type +
         "\n    store %a, %o[%i]\n    yield %t\n  }\n  yield %s\n}\n";
}

TEST(CpuParallel, ReductionsUnderEverySchedule) {
  for (const char* kind :
       {"parallel", "parallel simd", "parallel schedule(dynamic, 700)", "parallel simd schedule(dynamic)",
        "parallel schedule(static, 1000)", "parallel simd threads(2) schedule(dynamic, 37)"}) {
    for (auto [carry, op] : {std::pair{"sum", "add"}, {"maximum", "maximum"}, {"xor", "xor"}}) {
      const std::string text = reduction(kind, carry, "i64", op);
      for (int64_t n : {0, 1, 63, 1000, 100000}) {
        std::vector<int64_t> x;
        for (int64_t i = 0; i < n; ++i) x.push_back((i * 7919) % 10007 - 5000);
        expect_same(text,
                    {array_arg(x), array_arg(std::vector<int64_t>(x.size())), scalar_arg(word(n)),
                     scalar_arg(word(int64_t{17}))},
                    0, 2);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuParallel, FloatSumsAreRepeatable) {
  auto graph = ir::parse(reduction("parallel simd schedule(dynamic)", "sum", "f64", "add"));
  std::vector<double> x;
  for (int64_t i = 0; i < 300000; ++i) x.push_back(1.0 / static_cast<double>(i + 1));
  std::vector<Arg> args = {array_arg(x), array_arg(std::vector<double>(x.size())), scalar_arg(word(int64_t{300000})),
                           scalar_arg(word(0.25))};
  for (Isa isa : isas()) {
    const Word first = machine(*graph, args, isa, 2).results[0];
    for (int i = 0; i < 5; ++i) EXPECT_EQ(machine(*graph, args, isa, 2).results[0], first);
    EXPECT_TRUE(same(first, reference(*graph, args).results[0], DType::f64_, 64));
  }
}

TEST(CpuParallel, CapturedValuesAndNestedLoops) {
  constexpr const char* kText = R"(region @r(%a: f64[2,c], %x: f64[1,c], %o: f64[1,c], %n: i64, %m: i64, %k: f32) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %f0 = const 0.0 : f64
    %scale = cast %k : f64
    %m1 = sub %m, %one : i64
    for parallel annotated %i = %zero to %n step %one {
      %s = for parallel simd annotated %j = %zero to %m step %one carry(sum %acc = %f0) : f64 {
        %v = load %a[%i, %j] : f64
        %w = load %x[-%j + %m1] : f64
        %p = mul %v, %w : f64
        %t = add %acc, %p : f64
        yield %t
      }
      %r = mul %s, %scale : f64
      store %r, %o[%i]
      yield
    }
    yield
  })";
  for (int64_t n : {1, 5, 200}) {
    std::vector<double> a, x;
    for (int64_t i = 0; i < n * 300; ++i) a.push_back(static_cast<double>(i % 17));
    for (int64_t i = 0; i < 300; ++i) x.push_back(static_cast<double>(i % 5));
    expect_same(kText,
                {array_arg(a, {n, 300}), array_arg(x), array_arg(std::vector<double>(static_cast<size_t>(n))),
                 scalar_arg(word(n)), scalar_arg(word(int64_t{300})), scalar_arg(word(2.5f))},
                0, 2);
  }
}

TEST(CpuParallel, HistogramWithAtomics) {
  for (const char* kind : {"parallel", "parallel simd", "simd"}) {
    for (const char* type : {"i64", "f64", "f32", "i32"}) {
      const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
      const std::string text = "region @r(%h: " + std::string(type) + "[1,c], %k: i64[1,c], %n: i64, %w: " + type +
                               ") {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
                               "  for " +
                               kind +
                               " %i = %zero to %n step %one {\n    %b = load %k[%i] : i64\n    atomic sum %w, %h[%b]\n "
                               "   yield\n  }\n  yield\n}\n";
      std::vector<int64_t> k;
      for (int64_t i = 0; i < 50000; ++i) k.push_back((i * i) % 13);
      const Word one = t == DType::f64_ ? word(1.0) : t == DType::f32_ ? word(1.0f) : 1;
      expect_same(
          text,
          {words_arg(t, std::vector<Word>(13, 0)), array_arg(k), scalar_arg(word(int64_t{50000})), scalar_arg(one)}, 0,
          2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuParallel, TheFirstFailingIterationWins) {
  for (const char* kind : {"parallel", "parallel simd", "parallel schedule(dynamic, 64)"}) {
    const std::string text =
        "region @r(%x: i64[1,c], %o: i64[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
        "  for " +
        std::string(kind) +
        " %i = %zero to %n step %one {\n    %a = load %x[%i] : i64\n    %ok = ne %a, %zero : bool\n"
        "    check bounds %ok info(%i, %a, %n)\n    store %a, %o[%i]\n    poll\n    yield\n  }\n  yield\n}\n";
    auto graph = ir::parse(text);
    const int64_t n = 60000;
    for (int64_t bad : {int64_t{0}, int64_t{31}, int64_t{20000}, int64_t{59999}}) {
      std::vector<int64_t> x(static_cast<size_t>(n), 1);
      x[static_cast<size_t>(bad)] = 0;
      x[59999] = 0;
      x[static_cast<size_t>(std::min<int64_t>(bad + 7, n - 1))] = 0;
      for (Isa isa : isas()) {
        const auto got =
            machine(*graph, {array_arg(x), array_arg(std::vector<int64_t>(x.size())), scalar_arg(word(n))}, isa, 2);
        ASSERT_EQ(got.status, runtime::Status::failed);
        EXPECT_EQ(got.failure.iteration, bad) << kind;
        EXPECT_EQ(got.failure.info[0], bad);
        const auto* o = reinterpret_cast<const int64_t*>(got.memory[1].data());
        for (int64_t i = 0; i < bad; ++i) ASSERT_EQ(o[i], 1) << i;
      }
    }
  }
}

std::atomic<int> polls{0};
int flag = 0;

TEST(CpuParallel, PollsInterrupt) {
  const std::string text =
      "region @r(%x: i64[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  for parallel %i = %zero "
      "to %n step %one {\n"
      "    while {\n      poll\n      yield\n    }\n    yield\n  }\n  yield\n}\n";
  runtime::set_poll(&flag, [] { return ++polls > 3 ? 1 : 0; });
  flag = 1;
  auto graph = ir::parse(text);
  for (Isa isa : isas()) {
    polls = 0;
    EXPECT_EQ(machine(*graph, {array_arg(std::vector<int64_t>(4)), scalar_arg(word(int64_t{100000}))}, isa, 2).status,
              runtime::Status::interrupted);
    EXPECT_EQ(polls, 4);
  }
  flag = 0;
  runtime::set_poll(nullptr, nullptr);
}

struct Count : runtime::Job {
  std::atomic<int> runs{0};
  std::atomic<int> workers{0};
};

TEST(Pool, RunsEveryWorkerOnceManyTimes) {
  Count job;
  job.run = [](runtime::Job* j, int worker) {
    static_cast<Count*>(j)->runs.fetch_add(1);
    static_cast<Count*>(j)->workers.fetch_or(1 << worker);
  };
  for (int threads : {2, 4, 3, 2}) {
    for (int i = 0; i < 1000; ++i) {
      job.runs = 0;
      job.workers = 0;
      ASSERT_TRUE(runtime::run_job(job, threads));
      ASSERT_EQ(job.runs, threads);
      ASSERT_EQ(job.workers, (1 << threads) - 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // let them fall asleep
  }
}

TEST(Pool, ABusyPoolRefusesAndNestedJobsRunAlone) {
  Count job;
  job.run = [](runtime::Job* j, int) {
    Count inner;
    inner.run = [](runtime::Job* k, int) { static_cast<Count*>(k)->runs++; };
    static_cast<Count*>(j)->runs += runtime::run_job(inner, 2) ? 100 : 1;
  };
  ASSERT_TRUE(runtime::run_job(job, 2));
  EXPECT_EQ(job.runs, 2);
}

TEST(Pool, SurvivesForkAndExits) {
  Count job;
  job.run = [](runtime::Job* j, int) { static_cast<Count*>(j)->runs++; };
  ASSERT_TRUE(runtime::run_job(job, 2));
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    Count again;
    again.run = job.run;
    const bool ok = runtime::run_job(again, 2) && again.runs == 2;
    std::exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GE(runtime::default_threads(), 1);
}

}  // namespace
}  // namespace appy::cpu::testing
