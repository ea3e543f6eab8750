// Parallel loops behind one another, which workers may still be at when the caller goes on to the next.

#include <array>
#include <atomic>
#include <random>
#include <string>

#include "cpu_samples.h"
#include "runtime/poll.h"

namespace appy::cpu::testing {
namespace {

/// Elements for which a loop is worth waking a worker.
constexpr int64_t kMany = 20'000;

std::string region(const std::string& body, const std::string& yield = "  yield\n") {
  return "region @r(%x: i64[1,c], %y: i64[1,c], %n: i64, %steps: i64) {\n  %zero = const 0 : i64\n"
         "  %one = const 1 : i64\n  %three = const 3 : i64\n  %last = sub %n, %one : i64\n" +
         body + yield + "}\n";
}

std::string in_steps(const std::string& body) {
  return "  for %t = %zero to %steps step %one {\n    poll\n" + body + "    yield\n  }\n";
}

/// to[i] = from[n - 1 - i] * 3 + add: half of what a worker reads, the other one has written. The last element takes
/// as long as all others. `id` keeps names apart.
std::string mirrored(const std::string& to, const std::string& from, const std::string& add, const std::string& id) {
  std::string text = R"(    for parallel annotated schedule(static) %i@ = %zero to %n step %one {
      %a@ = load %FROM[-%i@ + %last] : i64
      %b@ = mul %a@, %three : i64
      %c@ = add %b@, %ADD : i64
      %d@ = floordiv %i@, %last : i64
      %e@ = mul %d@, %n : i64
      %f@ = for %j@ = %zero to %e@ step %one carry(%g@ = %c@) : i64 {
        %h@ = xor %g@, %j@ : i64
        yield %h@
      }
      store %f@, %TO[%i@]
      yield
    }
)";
  for (const auto& [from_text, to_text] :
       {std::pair<std::string, std::string>{"@", id}, {"FROM", from}, {"TO", to}, {"ADD", add}}) {
    for (size_t at = 0; (at = text.find(from_text, at)) != std::string::npos; at += to_text.size()) {
      text.replace(at, from_text.size(), to_text);
    }
  }
  return text;
}

std::vector<Arg> numbers(int64_t n, int64_t steps) {
  std::vector<int64_t> x, y;
  for (int64_t i = 0; i < n; ++i) x.push_back((i * 7919) % 10007);
  for (int64_t i = 0; i < n; ++i) y.push_back((i * 104729) % 1009);
  return {array_arg(x), array_arg(y), scalar_arg(word(n)), scalar_arg(word(steps))};
}

/// The loops that the caller need not see the end of. The program gives what it gives in order, with workers awake,
/// too.
size_t overlapping(const std::string& text, int64_t steps = 12) {
  expect_same(text, numbers(kMany, steps), 0, 2);
  size_t count = 0;
  const std::string summary = machine(*ir::parse(text), numbers(4, 0), isas()[0], 2).summary;
  for (size_t at = 0; (at = summary.find("overlaps with the next one", at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST(CpuPending, EachLoopSeesWhatTheOneBeforeWrote) {
  for (const std::string& body :
       {in_steps(mirrored("y", "x", "t", "1")), in_steps(mirrored("y", "x", "t", "1") + mirrored("x", "y", "one", "2")),
        mirrored("y", "x", "one", "1") + mirrored("x", "y", "three", "2")}) {
    for (int64_t n : {int64_t{1}, int64_t{700}, kMany, kMany + 4001}) {
      expect_same(region(body), numbers(n, 7), 0, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuPending, WhatTouchesMemoryWaits) {
  const std::string first = mirrored("y", "x", "t", "1"), second = mirrored("x", "y", "one", "2");
  EXPECT_EQ(overlapping(region(in_steps(first + second))), 2U);
  EXPECT_EQ(overlapping(region(in_steps(first))), 1U);
  EXPECT_EQ(overlapping(region(mirrored("y", "x", "one", "1"))), 0U);
  EXPECT_EQ(overlapping(region(mirrored("y", "x", "one", "1") + mirrored("x", "y", "one", "2"))), 1U);
  const std::string load = "    %v = load %y[%zero] : i64\n";
  EXPECT_EQ(overlapping(region(in_steps(first + load + mirrored("x", "y", "v", "2")))), 1U);
  EXPECT_EQ(overlapping(region(in_steps(first + second + "    store %t, %y[%zero]\n"))), 1U);
  EXPECT_EQ(overlapping(region(in_steps("    %v = load %y[%zero] : i64\n" + first + second))), 1U);
  EXPECT_EQ(overlapping(region(
                in_steps(first + "    %ok = lt %t, %n : bool\n    check bounds %ok info(%t, %t, %n)\n" + second))),
            2U);
  // In one arm; behind it is the back edge.
  const std::string arm =
      "    %odd = eq %t, %one : bool\n    if %odd {\n" + second + "      yield\n    } else {\n      yield\n    }\n";
  EXPECT_EQ(overlapping(region(in_steps(first + arm))), 2U);
  const auto at_end = [](const std::string& of, const std::string& id) {
    return "    %v" + id + " = load %" + of + "[%last] : i64\n";
  };
  const auto either = [](const std::string& one, const std::string& other) {
    return "    %odd = eq %t, %three : bool\n    if %odd {\n" + one + "      yield\n    } else {\n" + other +
           "      yield\n    }\n";
  };
  const std::string third = at_end("y", "4") + mirrored("x", "y", "v4", "4");
  EXPECT_EQ(
      overlapping(region(in_steps(
          first + either(mirrored("x", "y", "one", "3") + at_end("x", "3") + "    store %v3, %y[%zero]\n", third)))),
      2U);
  EXPECT_EQ(
      overlapping(region(in_steps(either(at_end("x", "3") + mirrored("x", "y", "v3", "3"), third) + first + second))),
      4U);
  EXPECT_EQ(overlapping(region(in_steps(at_end("x", "3") + mirrored("y", "x", "v3", "3") + second))), 1U);
  EXPECT_EQ(overlapping(region(in_steps(first + second) + at_end("x", "5") + "    store %v5, %y[%zero]\n")), 2U);
  // Loops that hand something on are waited for.
  const std::string sum =
      "    %s = for parallel annotated %k = %zero to %n step %one carry(sum %acc = %zero) : i64 {\n"
      "      %w = load %x[%k] : i64\n      %u = add %acc, %w : i64\n      yield %u\n    }\n";
  EXPECT_EQ(overlapping(region(in_steps(first + sum + mirrored("x", "y", "s", "2")))), 2U);
}

TEST(CpuPending, ManyCapturedValues) {
  std::string values, inside, last = "c";
  for (int k = 0; k < 20; ++k) {
    const std::string id = std::to_string(k);
    values += "    %k" + id + " = const " + std::to_string(3 * k + 1) + " : i64\n    %p" + id + " = mul %t, %k" + id +
              " : i64\n";
    inside += "      %q" + id + " = xor %" + last + ", %p" + id + " : i64\n";
    last = "q" + id;
  }
  const std::string text = region(in_steps(values +
                                           "    for parallel annotated %i = %zero to %n step %one {\n"
                                           "      %a = load %x[%i] : i64\n      %c = add %a, %t : i64\n" +
                                           inside + "      store %" + last + ", %x[%i]\n      yield\n    }\n"));
  EXPECT_EQ(overlapping(text, 40), 1U);
}

/// Programs of parallel loops and what may stand between them.
class Programs {
 public:
  explicit Programs(uint32_t seed) : random_(seed) {}

  std::string make() {
    std::string body;
    for (int i = pick(2); i >= 0; --i) body += statement(2, "one");
    return region(body);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  std::string name() { return "n" + std::to_string(++names_); }

  std::string statement(int depth, const std::string& scalar) {
    const std::string id = name();
    const bool turned = pick(2);
    const std::string to = turned ? "x" : "y", from = turned ? "y" : "x";
    switch (pick(depth > 0 ? 9 : 6)) {
      case 0: {
        const std::string sum = name();
        return "    %" + sum + " = for parallel annotated %i" + id + " = %zero to %n step %one carry(sum %a" + id +
               " = %" + scalar + ") : i64 {\n      %v" + id + " = load %" + to + "[%i" + id + "] : i64\n      %w" + id +
               " = add %a" + id + ", %v" + id + " : i64\n      yield %w" + id + "\n    }\n" +
               mirrored(to, from, sum, name());
      }
      case 1:
        return "    %v" + id + " = load %" + to + "[%" + (pick(2) ? "zero" : "last") + "] : i64\n" +
               mirrored(to, from, "v" + id, name());
      case 2:
        return "    store %" + scalar + ", %" + to + "[%" + (pick(2) ? "zero" : "last") + "]\n";
      case 6:
      case 7: {
        std::string body;
        for (int i = pick(3); i >= 0; --i) body += statement(depth - 1, "t" + id);
        return "  for %t" + id + " = %zero to %steps step %one {\n    poll\n" + body + "    yield\n  }\n";
      }
      case 8: {
        std::string arms = "    %c" + id + " = lt %" + scalar + ", %three : bool\n    if %c" + id + " {\n" +
                           statement(depth - 1, scalar) + "      yield\n    } else {\n";
        if (pick(2)) arms += statement(depth - 1, scalar);
        return arms + "      yield\n    }\n";
      }
      default:
        return mirrored(to, from, scalar, id);
    }
  }

  std::mt19937 random_;
  int names_ = 0;
};

TEST(CpuPending, AnyOrderOfLoopsAndWhatStandsBetween) {
  int overlaps = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const std::string text = Programs(seed).make();
    expect_same(text, numbers(9, 3), 0, 2);
    overlaps += overlapping(text, 4) > 0;
    if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(overlaps, 20);
}

/// The steps that are done: x[0] grows by one in each.
std::string counting(const std::string& inside) {
  return "  %r = for %t = %zero to %steps step %one carry(%s = %zero) : i64 {\n    poll state(%s)\n"
         "    for parallel annotated %i = %zero to %n step %one {\n      %a = load %x[%i] : i64\n" +
         inside +
         "      %b = add %a, %one : i64\n      store %b, %x[%i]\n      yield\n    }\n"
         "    for parallel annotated %k = %zero to %n step %one {\n      %c = load %y[%k] : i64\n"
         "      %d = add %c, %one : i64\n      store %d, %y[%k]\n      yield\n    }\n    %next = add %t, %one : i64\n"
         "    yield %next\n  }\n";
}

int64_t element(const Run& run, size_t array, int64_t i) {
  int64_t v;
  std::memcpy(&v, run.memory[array].data() + 8 * i, 8);
  return v;
}

std::vector<Arg> zeros(int64_t n, int64_t steps) {
  const std::vector<int64_t> none(static_cast<size_t>(n));
  return {array_arg(none), array_arg(none), scalar_arg(word(n)), scalar_arg(word(steps))};
}

TEST(CpuPending, NothingBehindAFailureRuns) {
  // Element `bad` has begun at some number, and the check fails when it has come to 100.
  const std::string text = region(counting("      %limit = const 100 : i64\n      %ok = lt %a, %limit : bool\n"
                                           "      check bounds %ok info(%i, %a, %n)\n"),
                                  "  yield %r\n");
  auto graph = ir::parse(text);
  for (const int64_t bad : {int64_t{0}, kMany / 2 - 3, kMany / 2 + 3, kMany - 1}) {
    for (const int64_t step : {0, 1, 5}) {
      for (Isa isa : isas()) {
        for (int repeat = 0; repeat < 10; ++repeat) {
          std::vector<Arg> args = zeros(kMany, 9);
          const int64_t from = 100 - step;
          std::memcpy(args[0].bytes.data() + 8 * bad, &from, 8);
          const auto got = machine(*graph, args, isa, 2);
          ASSERT_EQ(got.status, runtime::Status::failed);
          ASSERT_EQ(got.failure.iteration, bad);
          ASSERT_EQ(got.failure.info[1], 100);
          for (int64_t i = 0; i < kMany; ++i) ASSERT_EQ(element(got, 1, i), step) << i;
          for (int64_t i = 0; i < bad; ++i) ASSERT_EQ(element(got, 0, i), step + 1) << i;
        }
      }
    }
  }
}

TEST(CpuPending, ChecksBetweenLoopsWaitForThem) {
  const std::string check =
      "    %five = const 5 : i64\n    %ok = lt %t, %five : bool\n    check bounds %ok info(%t, %n, %n)\n";
  auto graph = ir::parse(region(in_steps(mirrored("y", "x", "t", "1") + check + mirrored("x", "y", "one", "2"))));
  const std::vector<Arg> args = numbers(kMany, 9);
  const auto want = reference(*graph, args);
  for (Isa isa : isas()) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      const auto got = machine(*graph, args, isa, 2);
      ASSERT_EQ(got.status, runtime::Status::failed);
      ASSERT_EQ(got.failure.info[0], 5);
      ASSERT_EQ(got.memory, want.memory);
    }
  }
}

std::atomic<int> calls{0}, interrupts_at{0};
std::atomic<bool> nested_went_wrong{false};
int flag = 0;

struct Polled {
  explicit Polled(
      int at, runtime::PollHandler handler = [] { return ++calls >= interrupts_at ? 1 : 0; }) {
    calls = 0;
    interrupts_at = at;
    runtime::set_poll(&flag, handler);
    flag = 1;
  }
  ~Polled() {
    flag = 0;
    runtime::set_poll(nullptr, nullptr);
  }
};

TEST(CpuPending, AnInterruptTellsTheStepThatItWasIn) {
  const std::string text = region(counting(""), "  yield %r\n");
  auto graph = ir::parse(text);
  for (Isa isa : isas()) {
    for (int at = 1; at < 12; ++at) {
      const Polled polled(at);
      const auto got = machine(*graph, zeros(kMany, 20), isa, 2);
      ASSERT_EQ(got.status, runtime::Status::interrupted);
      ASSERT_TRUE(got.failure.has_state);
      const auto told = static_cast<int64_t>(got.results[0]);
      // A caller that waited for long was interrupted in the step; otherwise it was between two.
      for (size_t array : {0u, 1u}) {
        for (int64_t i = 0; i < kMany; ++i) {
          ASSERT_GE(element(got, array, i), told);
          ASSERT_LE(element(got, array, i), told + 1);
        }
      }
      ASSERT_LE(told, at - 1);
    }
  }
}

/// For the last element, so long that the caller looks for an interrupt while it waits for who has that one.
std::string long_at_end(const std::string& poll) {
  return "      %most = const 1000000 : i64\n      %at_end = floordiv %i, %last : i64\n"
         "      %e = mul %at_end, %most : i64\n      %f = for %j = %zero to %e step %one carry(%g = %a) : i64 {\n" +
         poll + "        %h = xor %g, %j : i64\n        yield %h\n      }\n";
}

TEST(CpuPending, NoInterruptLeavesLoopsWithoutPolls) {
  // Such as those that bring copies back, of which all have to be there or none.
  for (const std::string poll : {"", "        poll\n"}) {
    auto graph = ir::parse(region(counting(long_at_end(poll)), "  yield %r\n"));
    for (Isa isa : isas()) {
      for (int at = 1; at < 9; ++at) {
        const Polled polled(at);
        const auto got = machine(*graph, zeros(kMany, 12), isa, 2);
        ASSERT_EQ(got.status, runtime::Status::interrupted);
        ASSERT_TRUE(got.failure.has_state);
        const auto told = static_cast<int64_t>(got.results[0]);
        for (int64_t i = 0; i < kMany; ++i) {
          ASSERT_EQ(element(got, 1, i), told) << i;
          ASSERT_GE(element(got, 0, i), told) << i;
          ASSERT_LE(element(got, 0, i), told + (poll.empty() ? 0 : 1)) << i;
        }
      }
    }
  }
}

std::atomic<const volatile int64_t*> watched{nullptr};

TEST(CpuPending, AnInterruptOfAPendingLoopTellsWhatCameBeforeIt) {
  // In step 100 the second half does not end, and the caller waits for it: in the poll of the next step, behind the
  // last one, or with its own part of the next loop still to come.
  const auto text = [](const std::string& next) {
    return "region @r(%x: i64[1,c], %y: i64[1,c], %n: i64, %steps: i64) {\n  %zero = const 0 : i64\n"
           "  %one = const 1 : i64\n  %two = const 2 : i64\n  %hundred = const 100 : i64\n"
           "  %half = floordiv %n, %two : i64\n"
           "  %r = for %t = %zero to %steps step %one carry(%s = %zero) : i64 {\n    poll state(%s)\n"
           "    %endless = eq %t, %hundred : bool\n"
           "    for parallel annotated schedule(static) %i = %zero to %n step %one {\n      store %t, %x[%i]\n"
           "      %second = ge %i, %half : bool\n      %here = and %second, %endless : bool\n      if %here {\n"
           "        while {\n          poll\n          yield\n        }\n        yield\n      } else {\n"
           "        yield\n      }\n      yield\n    }\n" +
           next + "    yield %t\n  }\n  yield %r\n}\n";
  };
  const std::string next =
      "    for parallel annotated schedule(static) %k = %zero to %n step %one {\n      store %t, %y[%k]\n      yield\n"
      "    }\n";
  for (const std::string& behind : {std::string(), next}) {
    auto graph = ir::parse(text(behind));
    ASSERT_EQ(ir::verify(*graph), "");
    for (Isa isa : isas()) {
      for (const int64_t steps : {101, 105}) {
        std::vector<Arg> args = zeros(kMany, steps);
        const std::vector<Word> words = flatten(args);
        std::array<Word, 1> results{};
        runtime::Invocation call;
        call.args = words.data();
        call.results = results.data();
        call.threads = 2;
        watched = reinterpret_cast<const volatile int64_t*>(args[0].bytes.data());
        const auto kernel = code_of(*graph, isa);
        ASSERT_NE(kernel->summary().find("overlaps"), std::string::npos);
        const Polled polled(0, [] { return *watched.load() == 100 ? 1 : 0; });
        ASSERT_EQ(kernel->run(call), runtime::Status::interrupted);
        ASSERT_TRUE(call.failure.has_state);
        EXPECT_EQ(results[0], Word{99}) << steps;
        for (int64_t k = 0; k < kMany; ++k) {
          int64_t v;
          std::memcpy(&v, args[1].bytes.data() + 8 * k, 8);
          ASSERT_LT(v, 100) << "the loop behind it ran";
        }
      }
    }
  }
}

TEST(CpuPending, AHandlerMayRunLoopsOfItsOwn) {
  const std::string text = region(in_steps(mirrored("y", "x", "t", "1") + mirrored("x", "y", "one", "2")));
  auto graph = ir::parse(text);
  const std::vector<Arg> args = numbers(kMany, 6);
  const auto want = reference(*graph, args);
  nested_went_wrong = false;
  const Polled polled(0, [] {
    if (++calls % 2 == 0) return 0;
    flag = 0;
    auto inner = ir::parse(region(mirrored("y", "x", "one", "1") + mirrored("x", "y", "three", "2")));
    const std::vector<Arg> own = numbers(kMany, 1);
    if (machine(*inner, own, isas()[0], 2).memory != reference(*inner, own).memory) nested_went_wrong = true;
    flag = 1;
    return 0;
  });
  for (Isa isa : isas()) {
    const auto got = machine(*graph, args, isa, 2);
    ASSERT_EQ(got.status, runtime::Status::done);
    ASSERT_EQ(got.memory, want.memory);
  }
  EXPECT_FALSE(nested_went_wrong);
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace appy::cpu::testing
