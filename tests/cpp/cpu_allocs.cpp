// Arrays that a region makes: temporaries of the region, of an iteration of a parallel loop, and arrays that escape.

#include <malloc.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "cpu/memory.h"
#include "cpu_samples.h"

namespace appy::cpu::testing {
namespace {

std::vector<double> numbers(int64_t n) {
  std::vector<double> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<double>((i * 7919) % 1009) / 8 - 50);
  return x;
}

/// With one thread and with two, under every size that lanes and chunks care about.
void expect_everywhere(const std::string& text, std::initializer_list<int64_t> sizes) {
  for (int64_t n : sizes) {
    for (int threads : {1, 2}) {
      SCOPED_TRACE(std::to_string(n) + " elements, " + std::to_string(threads) + " threads");
      expect_same(text, {scalar_arg(word(n)), array_arg(numbers(n)), array_arg(std::vector<double>(numbers(n).size()))},
                  0, threads);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuAllocs, ATemporaryBetweenTwoLoops) {
  for (const char* kind : {"", "simd", "parallel", "parallel simd"}) {
    const std::string text = R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
      %zero = const 0 : i64
      %one = const 1 : i64
      %two = const 2.0 : f64
      %t = alloc %n slot 0 : f64[1,c]
      for )" + std::string(kind) +
                             R"( %i = %zero to %n step %one {
        %v = load %x[%i] : f64
        %w = mul %v, %two : f64
        store %w, %t[%i]
        yield
      }
      %m = sub %n, %one : i64
      for )" + std::string(kind) +
                             R"( %j = %zero to %n step %one {
        %k = sub %m, %j : i64
        %v = load %t[%k] : f64
        store %v, %y[%j]
        yield
      }
      %d = dim 0 %t : i64
      yield %d
    })";
    expect_everywhere(text, {0, 1, 7, 64, 1000, 100000});
  }
}

TEST(CpuAllocs, TwoDimensionsAndOtherTypes) {
  constexpr const char* kText = R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %three = const 3 : i64
    %first = alloc slot 9 : i64[0,c]
    store %n, %first[]
    %t = alloc %n, %three slot 0 : f32[2,c]
    %b = alloc %three, %n slot 1 : bool[2,c]
    for parallel simd %i = %zero to %n step %one {
      %v = load %x[%i] : f64
      %f = cast %v : f32
      %p = gt %v, %v : bool
      store %f, %t[%i, 0]
      store %f, %t[%i, 1]
      store %f, %t[%i, 2]
      store %p, %b[0, %i]
      store %p, %b[2, %i]
      yield
    }
    for simd %i = %zero to %n step %one {
      %f = load %t[%i, 1] : f32
      %g = load %t[%i, 2] : f32
      %p = load %b[2, %i] : bool
      %h = add %f, %g : f32
      %q = cast %p : f32
      %s = add %h, %q : f32
      %w = cast %s : f64
      store %w, %y[%i]
      yield
    }
    %rows = load %first[] : i64
    yield %rows
  })";
  expect_everywhere(kText, {0, 1, 9, 130, 50000});
}

/// `head` opens the loop over %i, `extent` is the private array's.
std::string private_array(const std::string& head, const std::string& extent) {
  return R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %five = const 5 : i64
    %outer = alloc %n slot 3 : f64[1,c]
    for simd %k = %zero to %n step %one {
      %v = load %x[%k] : f64
      store %v, %outer[%k]
      yield
    }
    for )" +
         head + R"( %i = %zero to %n step %one {
      %more = add %i, %five : i64
      %t = alloc )" +
         extent + R"( slot 0 : f64[1,c]
      for simd %j = %zero to %five step %one {
        %v = load %outer[%i] : f64
        %f = cast %j : f64
        %w = add %v, %f : f64
        store %w, %t[%j]
        yield
      }
      %f0 = const 0.0 : f64
      %s = for %j = %zero to %five step %one carry(%a = %f0) : f64 {
        %w = load %t[-%j + 4] : f64
        %b = add %a, %w : f64
        yield %b
      }
      store %s, %y[%i]
      yield
    }
    yield
  })";
}

TEST(CpuAllocs, AnArrayOfEachIteration) {
  for (const char* head : {"", "parallel", "parallel simd", "parallel schedule(dynamic, 3)"}) {
    for (const char* extent : {"%five", "%more"}) {
      SCOPED_TRACE(std::string(head) + " " + extent);
      expect_everywhere(private_array(head, extent), {0, 1, 3, 700, 3000});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuAllocs, InALoopThatIsNotOutlined) {
  constexpr const char* kText = R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) exact {
    %zero = const 0 : i64
    %one = const 1 : i64
    %two = const 2 : i64
    %f0 = const 0.0 : f64
    %sum = for parallel %i = %zero to %n step %one carry(sum %s = %f0) : f64 {
      %t = alloc %n, %two slot 0 : f64[2,c]
      %v = load %x[%i] : f64
      store %v, %t[%i, 1]
      store %v, %t[0, 0]
      %c = gt %v, %f0 : bool
      %u = if %c : f64 {
        %more = add %i, %two : i64
        %q = alloc %more slot 1 : f64[1,c]
        store %v, %q[%i + 1]
        %z = load %q[%i + 1] : f64
        yield %z
      } else {
        yield %f0
      }
      %w = load %t[%i, 1] : f64
      %uw = add %u, %w : f64
      store %uw, %y[%i]
      %s1 = add %s, %uw : f64
      for parallel %j = %zero to %two step %one {
        %p = alloc %i, %two slot 2 : f64[2,c]
        %d = dim 0 %p : i64
        %some = gt %d, %zero : bool
        if %some {
          store %v, %p[%i - 1, %j]
          %e = load %p[%i - 1, %j] : f64
          store %e, %y[%i]
          yield
        } else {
          yield
        }
        yield
      }
      yield %s1
    }
    yield %sum
  })";
  expect_everywhere(kText, {0, 1, 2, 40});
}

TEST(CpuAllocs, NestedParallelLoopsAndAtomics) {
  constexpr const char* kText = R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %ten = const 10 : i64
    %f0 = const 0.0 : f64
    %count = alloc %ten slot 0 : i64[1,c]
    for %k = %zero to %ten step %one {
      store %zero, %count[%k]
      yield
    }
    for parallel %i = %zero to %n step %one {
      %mine = alloc %ten slot 1 : i64[1,c]
      for simd %j = %zero to %ten step %one {
        store %zero, %mine[%j]
        yield
      }
      for parallel simd %j = %zero to %ten step %one {
        %k = mod %i, %ten : i64
        atomic sum %j, %mine[%k]
        yield
      }
      %k = mod %i, %ten : i64
      %v = load %mine[%k] : i64
      atomic sum %v, %count[%k]
      %f = cast %v : f64
      store %f, %y[%i]
      yield
    }
    %c0 = load %count[0] : i64
    %c9 = load %count[9] : i64
    yield %c0, %c9
  })";
  expect_everywhere(kText, {0, 1, 25, 5000, 40000});
}

constexpr const char* kEscapes = R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %limit = const 500 : i64
  %out = alloc %n slot 2 escapes : f64[1,c]
  %all = alloc %n, %two slot 7 escapes : i32[2,c]
  for simd %i = %zero to %n step %one {
    %v = load %x[%i] : f64
    %k = cast %i : i32
    store %v, %out[%i]
    store %k, %all[%i, 0]
    store %k, %all[%i, 1]
    store %v, %y[%i]
    yield
  }
  %ok = lt %n, %limit : bool
  check value %ok : "too many"
  %late = alloc %two slot 11 escapes : bool[1,c]
  store %ok, %late[0]
  store %ok, %late[1]
  yield
})";

TEST(CpuAllocs, ArraysThatEscape) { expect_everywhere(kEscapes, {0, 1, 17, 499, 500, 5000}); }

TEST(CpuAllocs, EveryWayOutGivesTheMemoryBack) {
  const auto escapes = ir::parse(kEscapes);
  const auto leaves = ir::parse(R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %big = const 200000 : i64
    %f0 = const 0.0 : f64
    %t = alloc %big slot 0 : f64[1,c]
    store %f0, %t[0]
    %enough = gt %n, %one : bool
    check value %enough declines : "declined"
    for parallel %i = %zero to %n step %one {
      %p = alloc %big slot 1 : f64[1,c]
      %v = load %x[%i] : f64
      store %v, %p[%i]
      %ok = ge %v, %f0 : bool
      check value %ok : "negative"
      store %v, %y[%i]
      yield
    }
    yield
  })");
  for (Isa isa : isas()) {
    for (int threads : {1, 2}) {
      auto leave = [&](const ir::Graph& region, const std::vector<double>& x, size_t n, runtime::Status status) {
        const auto run =
            machine(region, {scalar_arg(word(static_cast<int64_t>(n))), array_arg(x), array_arg(x)}, isa, threads);
        EXPECT_EQ(run.status, status);
      };
      auto all_ways = [&] {
        leave(*leaves, numbers(2), 0, runtime::Status::declined);
        leave(*leaves, numbers(100), 100, runtime::Status::failed);
        leave(*leaves, std::vector<double>(2000, 1.0), 2000, runtime::Status::done);
        leave(*escapes, numbers(700), 700, runtime::Status::failed);
      };
      auto in_use = [] {
        const struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
      };
      for (int i = 0; i < 3; ++i) all_ways();
      const size_t cached = cached_bytes(), before = in_use();
      EXPECT_GE(cached, 1600000u);
      for (int i = 0; i < 30; ++i) all_ways();
      EXPECT_EQ(cached_bytes(), cached);
      // The code itself, and cached arrays that were another thread's, whose heap is not counted, and are the caller's
      // now; one array a run would be 48 MB.
      EXPECT_LT(in_use(), before + 1000000 + cached);
    }
  }
}

TEST(CpuAllocs, ALeadIsWhereTheArrayBeginsInALine) {
  for (const uint8_t lead : {0, 8, 56, 63}) {
    for (const int64_t rows : {0, 3, 4000}) {
      Memory memory;
      Context context;
      context.memory = &memory;
      ir::Word words[] = {0, static_cast<ir::Word>(rows), 24, 0, 0};
      const ArrayKind kind{5, 2, ir::DType::f32_, lead, 0, 1, 0};
      ASSERT_EQ(make_array(&context, words, std::bit_cast<int64_t>(kind)), static_cast<int64_t>(runtime::Status::done));
      EXPECT_EQ(words[0] % 64, lead);
      EXPECT_EQ(words[3], 96u);
      EXPECT_EQ(words[4], 4u);
      // All of it is there, and what vectors may read around it.
      auto* first = reinterpret_cast<std::byte*>(words[0]) - kReadAround;
      std::memset(first, 1, kReadAround + static_cast<size_t>(rows) * 96 + kReadAround);
    }
  }
}

TEST(CpuAllocs, FortransOrder) {
  expect_everywhere(R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %two = const 2 : i64
    %out = alloc %n, %two slot 0 escapes : f64[2,f]
    %t = alloc %two, %n slot 1 : f64[2,f]
    for %i = %zero to %n step %one {
      %v = load %x[%i] : f64
      for simd %j = %zero to %two step %one {
        %s = cast %j : f64
        %w = add %v, %s : f64
        store %w, %t[%j, %i]
        yield
      }
      yield
    }
    for simd %i = %zero to %n step %one {
      %a = load %t[0, %i] : f64
      %b = load %t[1, %i] : f64
      %d = sub %b, %a : f64
      store %d, %out[%i, 0]
      store %b, %out[%i, 1]
      store %a, %y[%i]
      yield
    }
    yield
  })",
                    {0, 1, 2, 25, 5000});
}

TEST(CpuAllocs, NoMemory) {
  auto region = [](const std::string& flags, const std::string& before) {
    return ir::parse(R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
      %zero = const 0 : i64
      %one = const 1 : i64
      %f0 = const 0.0 : f64
      )" + before + R"(
      %t = alloc %n, %n, %n slot 0 )" +
                     flags + R"( : f64[3,c]
      store %f0, %t[0, 0, 0]
      yield
    })");
  };
  const auto inside = ir::parse(R"(region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %many = const 100000 : i64
    %f0 = const 0.0 : f64
    for parallel %i = %zero to %many step %one {
      %t = alloc %n, %n slot 0 : f64[2,c]
      store %f0, %t[0, 0]
      store %f0, %y[0]
      yield
    }
    yield
  })");
  const int64_t huge = int64_t{1} << 40;
  const std::vector<Arg> args = {scalar_arg(word(huge)), array_arg(numbers(2)), array_arg(numbers(2))};
  for (Isa isa : isas()) {
    for (int threads : {1, 2}) {
      auto run = machine(*region("", ""), args, isa, threads);
      EXPECT_EQ(run.status, runtime::Status::declined);
      run = machine(*region("", "store %f0, %y[0]"), args, isa, threads);
      EXPECT_EQ(run.status, runtime::Status::interrupted);
      EXPECT_TRUE(run.no_memory);
      EXPECT_FALSE(run.failure.has_state);
      run = machine(*inside, args, isa, threads);
      EXPECT_EQ(run.status, runtime::Status::interrupted);
      EXPECT_TRUE(run.no_memory);
    }
  }
}

TEST(CpuAllocs, ManyArraysInOneBlock) {
  std::string body, sum = "%f0";
  for (int k = 0; k < 70; ++k) {
    const std::string n = std::to_string(k);
    body += "    %e" + n + " = add %i, %one : i64\n    %t" + n + " = alloc %e" + n + ", %two slot " + n +
            " : f64[2,c]\n    store %v, %t" + n + "[%i, 1]\n";
    if (k % 9 == 4)
      body += "    if %c {\n    %q = alloc %e" + n + " slot " + std::to_string(100 + k) +
              " : f64[1,c]\n    store %f0, %q[%i]\n    %z = load %q[%i] : f64\n    store %z, %t" + n +
              "[%i, 1]\n    yield\n    } else {\n    yield\n    }\n";
  }
  for (int k = 0; k < 70; ++k) {
    const std::string n = std::to_string(k);
    body += "    %l" + n + " = load %t" + n + "[%i, 1] : f64\n    %s" + n + " = add " + sum + ", %l" + n + " : f64\n";
    sum = "%s" + n;
  }
  for (const char* kind : {"", "parallel"}) {
    expect_everywhere(
        "region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
        "  %two = const 2 : i64\n  %f0 = const 0.0 : f64\n  for " +
            std::string(kind) + " %i = %zero to %n step %one {\n    %v = load %x[%i] : f64\n" +
            "    %c = gt %v, %f0 : bool\n" + body + "    store " + sum + ", %y[%i]\n    yield\n  }\n  yield\n}\n",
        {0, 1, 60});
  }
}

TEST(CpuAllocs, MoreWordsThanTheStackHolds) {
  std::string ones, zeros;
  for (int d = 0; d < 64; ++d) {
    ones += d ? ", %one" : "%one";
    zeros += d ? ", 0" : "0";
  }
  expect_everywhere("region @r(%n: i64, %x: f64[1,c], %y: f64[1,c]) {\n  %one = const 1 : i64\n  %t = alloc " + ones +
                        " slot 0 : i64[64,c]\n  store %n, %t[" + zeros + "]\n  %v = load %t[" + zeros +
                        "] : i64\n  yield %v\n}\n",
                    {3});
}

TEST(CpuAllocs, MemoryIsAlignedAndUsedAgain) {
  void* first = nullptr;
  {
    Memory memory;
    first = memory.reserve(3, 100000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(memory.reserve(3, 5000), first);
    EXPECT_NE(memory.reserve(0, 0), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.reserve(1, 33)) % 64, 0u);
    EXPECT_EQ(memory.reserve(2, SIZE_MAX), nullptr);
  }
  Memory memory;
  EXPECT_EQ(memory.reserve(0, 100000), first);
  EXPECT_LE(cached_bytes(), size_t{64} << 20);
  for (size_t slot = 1; slot < 20; ++slot) memory.reserve(slot, size_t{8} << 20);
  {
    Memory more;
    for (size_t slot = 1; slot < 20; ++slot) more.reserve(slot, size_t{8} << 20);
  }
  EXPECT_LE(cached_bytes(), kMostKept);
  {
    Memory worker(kMostKeptByWorker);
    worker.reserve(0, size_t{1} << 20);
  }
  EXPECT_LE(cached_bytes(), kMostKeptByWorker);
}

TEST(CpuAllocs, WhatAThreadDoesNotKeepIsTheNextOnesFromTheProcess) {
  const auto of_next_run = [](size_t most_kept, size_t bytes) {
    Memory memory(most_kept);
    return memory.reserve(0, bytes);
  };
  for (const size_t most_kept : {kMostKept, kMostKeptByWorker}) {
    void* const first = of_next_run(most_kept, most_kept + (size_t{6} << 20));
    EXPECT_LE(cached_bytes(), kMostKept);
    EXPECT_EQ(of_next_run(most_kept, most_kept + (size_t{5} << 20)), first);
  }
}

/// The line of flags that the kernel keeps for the mapping that the address lies in.
std::string flags_of(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t low = 0, high = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &low, &high) == 2) inside = low <= wanted && wanted < high;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return "";
}

TEST(CpuAllocs, LargeArraysAskForLargePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled")) GTEST_SKIP() << "no huge pages";
  Memory memory;
  char* const data = static_cast<char*>(memory.reserve(0, kMostKept + 1));
  EXPECT_NE(flags_of(data).find(" hg "), std::string::npos);
  EXPECT_NE(flags_of(data + kMostKept - 1).find(" hg "), std::string::npos);
}

}  // namespace
}  // namespace appy::cpu::testing
