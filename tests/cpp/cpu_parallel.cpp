// Parallel loops: schedules, reductions, nesting, failures, polls.

#include <atomic>
#include <chrono>
#include <thread>

#include "cpu/context.h"
#include "cpu/memory.h"
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

/// In the order of one thread the sum of 1e16, 0, 1 and 1 is 1e16, in two chunks it is 1e16 + 2.
bool uses_threads(const std::string& lower, const std::string& upper, int64_t n, Isa isa,
                  const std::string& before = {}) {
  const std::string text = R"(region @r(%x: f64[1,c], %o: f64[1,c], %n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %two = const 2 : i64
    %four = const 4 : i64
    %all = mul %n, %four : i64
    %f0 = const 0.0 : f64
)" + before + R"(
    %s = for parallel annotated schedule(static) %i = %zero to %four step %one carry(sum %acc = %f0) : f64 {
      %i1 = add %i, %one : i64
      %at = mul %i, %n : i64
      %far = add %at, %n : i64
      %end = pymin %far, %all : i64
      for simd annotated %j = )" +
                           lower + " to " + upper + R"( step %one {
        store %f0, %o[%j]
        yield
      }
      %a = load %x[%i] : f64
      %t = add %acc, %a : f64
      yield %t
    }
    yield %s
  })";
  auto graph = ir::parse(text);
  const std::vector<Arg> args = {array_arg(std::vector<double>{1e16, 0, 1, 1}),
                                 array_arg(std::vector<double>(static_cast<size_t>(8 * n))), scalar_arg(word(n))};
  const Word sum = machine(*graph, args, isa, 2).results[0];
  EXPECT_TRUE(sum == word(1e16) || sum == word(1e16 + 2));
  return sum == word(1e16 + 2);
}

TEST(CpuParallel, TripCountsInsideDecideAboutThreads) {
  if (runtime::default_threads() < 2) GTEST_SKIP() << "one thread";
  for (Isa isa : isas()) {
    for (auto [lower, upper] :
         {std::pair{"%zero", "%n"}, {"%one", "%n"}, {"%at", "%far"}, {"%at", "%end"}, {"%n", "%far"}}) {
      SCOPED_TRACE(std::string(lower) + " to " + upper);
      EXPECT_FALSE(uses_threads(lower, upper, 100, isa));
      EXPECT_TRUE(uses_threads(lower, upper, 200'000, isa));
    }
    // A loop that does not run however large its bounds are.
    EXPECT_FALSE(uses_threads("%n", "%one", 200'000, isa));
  }
}

TEST(CpuParallel, WhereALoopWasSharedSmallerOnesAre) {
  if (runtime::default_threads() < 2) GTEST_SKIP() << "one thread";
  const std::string before = R"(    %many = const 100000 : i64
    for parallel annotated %z = %zero to %four step %one {
      for annotated %w = %zero to %many step %one {
        store %f0, %o[%z]
        yield
      }
      yield
    })";
  for (Isa isa : isas()) {
    EXPECT_FALSE(uses_threads("%zero", "%n", 3000, isa));
    EXPECT_TRUE(uses_threads("%zero", "%n", 3000, isa, before));
    EXPECT_FALSE(uses_threads("%zero", "%n", 500, isa, before));
  }
}

TEST(CpuParallel, EachElementOfAColumnIsALineToFetch) {
  if (runtime::default_threads() < 2) GTEST_SKIP() << "one thread";
  // As above: what the second chunk has counts only as a sum of its own.
  const auto two_chunks = [](const std::string& at, int64_t rows, int64_t columns, Isa isa) {
    auto graph = ir::parse(R"(region @r(%x: f64[2,c], %n: i64) {
      %zero = const 0 : i64
      %one = const 1 : i64
      %f0 = const 0.0 : f64
      %s = for parallel annotated schedule(static) %i = %zero to %n step %one carry(sum %acc = %f0) : f64 {
        %v = load %x[)" + at +
                           R"(] : f64
        %t = add %acc, %v : f64
        yield %t
      }
      yield %s
    })");
    std::vector<double> x(static_cast<size_t>(rows * columns), 1.0);
    x[0] = 1e16;
    const std::vector<Arg> args = {array_arg(x, {rows, columns}), scalar_arg(word(int64_t{3000}))};
    return machine(*graph, args, isa, 2).results[0] != word(1e16);
  };
  for (Isa isa : isas()) {
    EXPECT_TRUE(two_chunks("%i, 0", 3000, 9, isa));
    EXPECT_TRUE(two_chunks("0, 8*%i", 1, 24'000, isa));
    EXPECT_FALSE(two_chunks("0, %i", 1, 3000, isa));
    EXPECT_FALSE(two_chunks("0, 7*%i", 1, 21'000, isa));
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

/// Atomics of two views, one of them 2-D; `second` is the combiner of the second.
std::string two_targets(const std::string& kind, const std::string& type, const std::string& second,
                        const std::string& layout, const std::string& more = {}) {
  return "region @r(%h: " + type + "[1,strided], %g: " + type + "[2," + layout + "], %k: i64[1,c], %w: " + type +
         "[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  for " + kind +
         " %i = %zero to %n step %one {\n    %b = load %k[%i] : i64\n    %v = load %w[%i] : " + type + "\n" + more +
         "    atomic sum %v, %h[%b]\n    atomic " + second + " %v, %g[%b + 1, 2]\n    atomic " + second +
         " %v, %g[0, %b]\n    yield\n  }\n  yield\n}\n";
}

/// Arguments of two_targets. The 2-D target has `columns` columns; h is reversed and spread.
std::vector<Arg> two_targets_args(DType t, int64_t n, int64_t columns, bool by_columns) {
  std::vector<Word> h, g, w;
  std::vector<int64_t> k;
  auto value = [&](int64_t v) {
    if (t == DType::f64_) return word(static_cast<double>(v));
    if (t == DType::f32_) return word(static_cast<float>(v));
    return static_cast<Word>(v);
  };
  for (int64_t i = 0; i < 14 * columns; ++i) g.push_back(value(i % 29 - 9));
  for (int64_t i = 0; i < n; ++i) k.push_back((i * i + i / 7) % 13);
  for (int64_t i = 0; i < n; ++i) w.push_back(value((i * 37) % 101 - 40));
  Arg first = words_arg(t, std::vector<Word>(26, value(3)));
  const int64_t size = ir::size_of(t);
  first.shape = {13};
  first.strides = {-2 * size};
  first.origin = static_cast<size_t>(25 * size);
  Arg second = words_arg(t, g);
  second.shape = {14, columns};
  second.strides = {columns * size, size};
  if (by_columns) second.strides = {size, 14 * size};
  return {first, second, array_arg(k), words_arg(t, w), scalar_arg(word(n))};
}

TEST(CpuParallel, PrivateAndSharedTargets) {
  for (const char* kind : {"parallel", "parallel simd", "parallel schedule(dynamic, 500)", "parallel threads(1)"}) {
    for (auto [type, t] : {std::pair{"i64", DType::i64_}, {"u16", DType::u16_}, {"i8", DType::i8_}}) {
      for (const char* second : {"sum", "prod", "pymin", "pymax", "minimum", "maximum", "and", "or", "xor"}) {
        expect_same(two_targets(kind, type, second, "c"), two_targets_args(t, 60000, 17, false), 0, 2);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
    // The values are small integers: any order of the sums is exact. The larger target does not get private copies.
    for (auto [type, t] : {std::pair{"f64", DType::f64_}, {"f32", DType::f32_}, {"i32", DType::i32_}}) {
      for (int64_t columns : {17, 400}) {
        expect_same(two_targets(kind, type, "sum", "f"), two_targets_args(t, 60000, columns, true), 0, 2);
        expect_same(two_targets(kind, type, "maximum", "strided"), two_targets_args(t, 60000, columns, true), 0, 2);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuParallel, ATargetThatIsReadIsNotPrivate) {
  // Element 0 is only read, so the outcome does not depend on the order.
  const std::string text =
      two_targets("parallel", "i64", "sum", "c", "    %r = load %h[%zero] : i64\n    store %r, %w[%i]\n");
  std::vector<Arg> args = two_targets_args(DType::i64_, 60000, 17, false);
  for (int64_t i = 0; i < 60000; ++i) {
    const int64_t label = 1 + i % 12;
    std::memcpy(args[2].bytes.data() + 8 * i, &label, 8);
  }
  expect_same(text, args, 0, 2);
}

TEST(CpuParallel, UpdatesBeforeAFailureCount) {
  for (const char* kind : {"parallel", "parallel simd", "parallel schedule(dynamic, 64)"}) {
    const std::string text = two_targets(kind, "i64", "sum", "c",
                                         "    %limit = const 1000 : i64\n    %ok = lt %v, %limit : bool\n"
                                         "    check bounds %ok info(%i, %v, %n)\n");
    auto graph = ir::parse(text);
    const int64_t n = 60000;
    for (int64_t bad : {int64_t{0}, int64_t{777}, int64_t{40000}, n - 1}) {
      std::vector<Arg> args = two_targets_args(DType::i64_, n, 17, false);
      for (int64_t i = 0; i < n; ++i) {
        const int64_t one = i == bad ? 5000 : 1;
        std::memcpy(args[3].bytes.data() + 8 * i, &one, 8);
      }
      const auto want = reference(*graph, args);
      std::vector<Arg> whole = args;
      const int64_t one = 1;
      std::memcpy(whole[3].bytes.data() + 8 * bad, &one, 8);
      const auto most = reference(*graph, whole);
      for (Isa isa : isas()) {
        const auto got = machine(*graph, args, isa, 2);
        ASSERT_EQ(got.status, runtime::Status::failed);
        ASSERT_EQ(got.failure.iteration, bad) << kind;
        for (size_t a : {0u, 1u}) {
          for (size_t at = 0; at + 8 <= got.memory[a].size(); at += 8) {
            int64_t low, value, high;
            std::memcpy(&low, want.memory[a].data() + at, 8);
            std::memcpy(&value, got.memory[a].data() + at, 8);
            std::memcpy(&high, most.memory[a].data() + at, 8);
            ASSERT_LE(low, value) << kind << " " << bad;
            ASSERT_LE(value, high) << kind << " " << bad;
          }
        }
      }
    }
  }
}

/// Long enough for workers to fall asleep: then their chunks are dealt out in pieces.
void let_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

TEST(CpuParallel, WhatSleepingWorkersHaveNotBegunIsTheCallers) {
  for (const char* kind : {"parallel", "parallel simd"}) {
    auto graph =
        ir::parse("region @r(%x: f64[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  for " +
                  std::string(kind) +
                  " %i = %zero to %n step %one {\n    %a = load %x[%i] : f64\n    %e = exp %a : f64\n"
                  "    %t = add %e, %a : f64\n    store %t, %x[%i]\n    yield\n  }\n  yield\n}\n");
    for (const size_t n : {size_t{5000}, size_t{40001}}) {
      std::vector<double> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i % 1000) / 1000;
      const std::vector<Arg> args = {array_arg(x), scalar_arg(word(static_cast<int64_t>(n)))};
      for (Isa isa : isas()) {
        const auto want = machine(*graph, args, isa, 1).memory[0];
        for (int run = 0; run < 20; ++run) {
          if (run % 4) let_sleep();
          // Also bit for bit: where a loop in lanes ends is the same for whole chunks and pieces.
          ASSERT_EQ(machine(*graph, args, isa, 2).memory[0], machine(*graph, args, isa, 2).memory[0]) << kind;
          let_sleep();
          const auto got = machine(*graph, args, isa, 2).memory[0];
          for (size_t i = 0; i < n; ++i) {
            const double a = reinterpret_cast<const double*>(got.data())[i];
            ASSERT_NEAR(a, reinterpret_cast<const double*>(want.data())[i], 1e-14) << kind << ' ' << i;
          }
        }
      }
    }
  }
}

/// Who ran which chunk of a loop on two threads; the first chunk waits for all others.
struct Dealt {
  int64_t chunks;
  std::vector<std::atomic<int>> times;  // each ran
  std::atomic<int64_t> ended{0};
  std::vector<int64_t> of_helper;  // chunks of the thread that has not the first one
  std::thread::id caller = std::this_thread::get_id();

  explicit Dealt(int64_t n) : chunks(n), times(static_cast<size_t>(n)) {}

  static int64_t run(Context*, Closure* closure, int64_t, int64_t, int64_t chunk) {
    Dealt& dealt = *reinterpret_cast<Dealt*>(closure[kArgs]);
    dealt.times[static_cast<size_t>(chunk)]++;
    if (std::this_thread::get_id() != dealt.caller) dealt.of_helper.push_back(chunk);
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (chunk == 0 && dealt.ended < dealt.chunks - 1 && std::chrono::steady_clock::now() < late) {
    }
    dealt.ended++;
    return static_cast<int64_t>(runtime::Status::done);
  }

  void deal(int64_t trips, int64_t cost, int64_t chunk = 0, Dealing dealing = Dealing::shares, bool fixed = false) {
    ParallelLoop loop{};
    loop.trips = trips;
    loop.cost = cost;
    loop.chunk = chunk;
    loop.dealing = static_cast<int64_t>(dealing);
    loop.fixed = fixed;
    Closure closure[kFirstCaptured] = {};
    closure[kArgs] = reinterpret_cast<ir::Word>(this);
    loop.body = loop.alone = run;
    loop.closure = closure;
    loop.closure_words = kFirstCaptured;
    int flag = 0;
    Memory memory;
    Context context;
    context.flag = &flag;
    context.threads = 2;
    context.memory = &memory;
    ASSERT_EQ(run_parallel(&context, &loop), static_cast<int64_t>(runtime::Status::done));
    ASSERT_EQ(loop.chunks, chunks);
    for (const auto& t : times) EXPECT_EQ(t, 1);
  }
};

constexpr int64_t kLong = int64_t{1} << 30;  // 67 ms an iteration

TEST(CpuParallel, WhoIsThroughTakesTheLastOnesOfOthers) {
  if (runtime::default_threads() < 2) GTEST_SKIP() << "one thread";
  Dealt in_turn(101);
  in_turn.deal(101, kLong, 1, Dealing::in_turn);
  std::vector<int64_t> want;
  for (int64_t chunk = 1; chunk < 101; chunk += 2) want.push_back(chunk);
  for (int64_t chunk = 100; chunk > 0; chunk -= 2) want.push_back(chunk);
  EXPECT_EQ(in_turn.of_helper, want);
  // Equal shares of a long loop, too: what its data is in stays with a worker as long as both are equally fast.
  Dealt shares(16);
  shares.deal(1600, kLong);
  const std::vector<int64_t> beside_each_other = {8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 4, 3, 2, 1};
  EXPECT_EQ(shares.of_helper, beside_each_other);
  // Blocks and tiles however long they are.
  Dealt stretches(16);
  stretches.deal(1600, 16 * 10'000, 0, Dealing::stretches);
  EXPECT_EQ(stretches.of_helper, beside_each_other);
}

TEST(CpuParallel, SharesStayWholeWhereTheyAreShortOrFixed) {
  if (runtime::default_threads() < 2) GTEST_SKIP() << "one thread";
  Dealt(2).deal(1600, 16 * 10'000);
  Dealt(2).deal(1600, kLong, 0, Dealing::shares, true);
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
      for (const bool asleep : {false, true}) {
        for (Isa isa : isas()) {
          if (asleep) let_sleep();
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

}  // namespace
}  // namespace appy::cpu::testing
