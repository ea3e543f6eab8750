#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>

#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ir_samples.h"

namespace appy::ir {
namespace {

using Outcome = EvalResult::Outcome;

EvalResult run(const std::string& text, std::initializer_list<Word> args, uint64_t fuel = UINT64_MAX) {
  const auto graph = parse(text);
  EXPECT_EQ(verify(*graph), "") << text;
  return evaluate(*graph, std::span<const Word>(args.begin(), args.size()), fuel);
}

int64_t run1(const std::string& text, std::initializer_list<Word> args) {
  const EvalResult result = run(text, args);
  EXPECT_EQ(result.outcome, Outcome::done);
  return result.results.size() == 1 ? static_cast<int64_t>(result.results[0]) : -999999;
}

Word at(const void* p) { return reinterpret_cast<Word>(p); }
Word neg(int64_t v) { return static_cast<Word>(v); }

TEST(Eval, ForIsPythonsRange) {
  const auto count = [](int64_t lo, int64_t hi, int64_t by) {
    return run(kCount, {neg(lo), neg(hi), neg(by)}).results;
  };
  using Words = std::vector<Word>;
  EXPECT_EQ(count(0, 5, 1), (Words{5, 10}));
  EXPECT_EQ(count(0, 0, 1), (Words{0, 0}));
  EXPECT_EQ(count(5, 0, 1), (Words{0, 0}));
  EXPECT_EQ(count(0, 5, 2), (Words{3, 6}));
  EXPECT_EQ(count(5, 0, -2), (Words{3, 9}));
  EXPECT_EQ(count(0, 5, -1), (Words{0, 0}));
  EXPECT_EQ(count(INT64_MAX - 1, INT64_MAX, 7), (Words{1, neg(INT64_MAX - 1)}));
  EXPECT_EQ(count(INT64_MIN, INT64_MAX, INT64_MAX), (Words{3, neg(INT64_MAX - 3 - INT64_MAX)}));
  EXPECT_EQ(count(INT64_MAX, INT64_MIN, INT64_MIN), (Words{2, neg(INT64_MAX - 1)}));
  EXPECT_THROW(count(0, 1, 0), std::logic_error);
}

TEST(Eval, AllocsAreFreshAndPoisoned) {
  constexpr const char* kText = R"(region @r(%n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %out = alloc %n, %one slot 5 escapes : i64[2,c]
    %sum = for %i = %zero to %n step %one carry(%s = %zero) : i64 {
      %t = alloc %n slot 0 : i64[1,c]
      %old = load %t[%i] : i64
      store %i, %t[%i]
      %new = load %t[%i] : i64
      store %new, %out[%i, 0]
      %s1 = add %s, %old : i64
      yield %s1
    }
    %d = dim 0 %out : i64
    yield %sum, %d
  })";
  const EvalResult result = run(kText, {3});
  const Word poison = 0xa5a5a5a5a5a5a5a5;
  EXPECT_EQ(result.results, (std::vector<Word>{3 * poison, 3}));
  ASSERT_EQ(result.arrays.size(), 1u);
  EXPECT_EQ(result.arrays[0].slot, 5);
  EXPECT_EQ(result.arrays[0].extents, (std::vector<int64_t>{3, 1}));
  std::array<int64_t, 3> elements{};
  ASSERT_EQ(result.arrays[0].bytes.size(), sizeof elements);
  std::memcpy(elements.data(), result.arrays[0].bytes.data(), sizeof elements);
  EXPECT_EQ(elements, (std::array<int64_t, 3>{0, 1, 2}));
  EXPECT_TRUE(run(kText, {0}).arrays[0].bytes.empty());
  EXPECT_THROW(run(kText, {neg(-1)}), std::logic_error);
}

TEST(Eval, AllocsInFortransOrderHaveTheirColumnsOneBehindTheOther) {
  constexpr const char* kText = R"(region @r(%n: i64, %m: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %ten = const 10 : i64
    %out = alloc %n, %m slot 0 escapes : i64[2,f]
    for %i = %zero to %n step %one {
      for %j = %zero to %m step %one {
        %row = mul %i, %ten : i64
        %v = add %row, %j : i64
        store %v, %out[%i, %j]
        yield
      }
      yield
    }
    yield
  })";
  const EvalResult result = run(kText, {2, 3});
  ASSERT_EQ(result.arrays.size(), 1u);
  std::array<int64_t, 6> elements{};
  ASSERT_EQ(result.arrays[0].bytes.size(), sizeof elements);
  std::memcpy(elements.data(), result.arrays[0].bytes.data(), sizeof elements);
  EXPECT_EQ(elements, (std::array<int64_t, 6>{0, 10, 1, 11, 2, 12}));
}

TEST(Eval, AccessesOfAllocsAreInBounds) {
  constexpr const char* kText = R"(region @r(%n: i64) {
    %t = alloc %n slot 0 : f64[1,c]
    %v = load %t[%n - 1] : f64
    store %v, %t[0]
    yield
  })";
  EXPECT_EQ(run(kText, {2}).outcome, Outcome::done);
  EXPECT_THROW(run(kText, {0}), std::logic_error);
}

TEST(Eval, BreakAndContinueNestedInIfs) {
  EXPECT_EQ(run(kBreakAndContinue, {6}).results, (std::vector<Word>{1 + 3 + 5, 5}));
  EXPECT_EQ(run(kBreakAndContinue, {100}).results, (std::vector<Word>{1 + 3 + 5 + 7, 8}));
}

TEST(Eval, BreakLeavesTheInnermostLoopOnly) {
  constexpr const char* kText = R"(region @r(%n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %s = for %i = %zero to %n step %one carry(%a = %zero) : i64 {
      %t = for %j = %zero to %n step %one carry(%b = %a) : i64 {
        %stop = ge %j, %i : bool
        if %stop {
          break %b
        } else {
          yield
        }
        %b1 = add %b, %one : i64
        yield %b1
      }
      yield %t
    }
    yield %s
  })";
  EXPECT_EQ(run1(kText, {5}), 0 + 1 + 2 + 3 + 4);
}

TEST(Eval, While) {
  EXPECT_EQ(run1(kCollatz, {1}), 0);
  EXPECT_EQ(run1(kCollatz, {27}), 111);
}

TEST(Eval, FuelEndsEndlessLoops) {
  EXPECT_EQ(run(kCollatz, {0}, 1000).outcome, Outcome::out_of_fuel);
  EXPECT_EQ(run(kCollatz, {27}, 1000000).outcome, Outcome::done);
}

TEST(Eval, ViewsHaveExtentsAndByteStrides) {
  std::array<int32_t, 12> x{};
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i) - 3;
  constexpr const char* kText = R"(region @r(%x: i32[2,strided]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %m = dim 0 %x : i64
    %n = dim 1 %x : i64
    for %i = %zero to %m step %one {
      for %j = %zero to %n step %one {
        %v = load %x[-%i + 2, %j] : i32
        %w = add %v, %v : i32
        store %w, %x[-%i + 2, %j]
        yield
      }
      yield
    }
    yield
  })";
  // Columns 3 and 1 of a 3 x 4 matrix, rows reversed.
  EXPECT_EQ(run(kText, {at(x.data() + 11), 3, 2, neg(-16), neg(-8)}).outcome, Outcome::done);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(x[static_cast<size_t>(i)], i % 2 ? 2 * (i - 3) : i - 3);
}

TEST(Eval, LoadsExtendAndStoresTruncate) {
  int8_t a = -1;
  uint8_t b = 255;
  bool c = true;
  float d = -0.5f;
  constexpr const char* kText = R"(region @r(%a: i8[0,c], %b: u8[0,c], %c: bool[0,c], %d: f32[0,c]) {
    %va = load %a[] : i8
    %vb = load %b[] : u8
    %vc = load %c[] : bool
    %vd = load %d[] : f32
    %k = const 300 : i64
    %k8 = cast %k : u8
    store %k8, %b[]
    yield %va, %vb, %vc, %vd
  })";
  EXPECT_EQ(run(kText, {at(&a), at(&b), at(&c), at(&d)}).results,
            (std::vector<Word>{neg(-1), 255, 1, std::bit_cast<uint32_t>(-0.5f)}));
  EXPECT_EQ(b, 44);
}

TEST(Eval, AccessesOutsideTheViewAreFatal) {
  std::array<double, 4> x{};
  constexpr const char* kText = R"(region @r(%x: f64[1,c], %i: i64) {
    %v = load %x[%i + 1] : f64
    store %v, %x[%i + 1]
    yield
  })";
  EXPECT_EQ(run(kText, {at(x.data()), 4, 8, 2}).outcome, Outcome::done);
  for (int64_t i : {int64_t(3), int64_t(-2), INT64_MAX}) {
    try {
      run(kText, {at(x.data()), 4, 8, neg(i)});
      FAIL() << i;
    } catch (const std::logic_error& error) {
      EXPECT_NE(std::string(error.what()).find("%v = load %x[%i + 1]"), std::string::npos) << error.what();
    }
  }
}

TEST(Eval, AtomicsUpdateInPlace) {
  std::array<int64_t, 2> h{1, 10};
  constexpr const char* kText = R"(region @r(%h: i64[1,c], %v: i64) {
    %one = const 1 : i64
    atomic sum %v, %h[0]
    atomic pymax %v, %h[%one]
    atomic xor %one, %h[0]
    yield
  })";
  run(kText, {at(h.data()), 2, 8, 41});
  EXPECT_EQ(h, (std::array<int64_t, 2>{43, 41}));
}

TEST(Eval, ChecksDeclineOrFail) {
  constexpr const char* kText = R"(region @r(%i: i64, %n: i64) {
    %zero = const 0 : i64
    %a = lt %i, %n : bool
    check overflow %a declines
    %b = ge %i, %zero : bool
    if %b {
      yield
    } else {
      check bounds %b info(%i, %zero, %n) state(%n)
      yield
    }
    %c = ne %i, %zero : bool
    check zero_division %c : "division by zero"
    check decline %a
    yield %i
  })";
  EvalResult r = run(kText, {1, 2});
  EXPECT_EQ(r.outcome, Outcome::done);
  EXPECT_EQ(r.check, -1);
  EXPECT_EQ(r.results, std::vector<Word>{1});
  r = run(kText, {2, 2});
  EXPECT_EQ(r.outcome, Outcome::declined);
  EXPECT_EQ(r.check, 0);
  r = run(kText, {neg(-1), 2});
  EXPECT_EQ(r.outcome, Outcome::failed);
  EXPECT_EQ(r.check, 1);
  EXPECT_EQ(r.info, (std::vector<int64_t>{-1, 0, 2}));
  EXPECT_EQ(r.results, std::vector<Word>{2});
  r = run(kText, {0, 2});
  EXPECT_EQ(r.outcome, Outcome::failed);
  EXPECT_EQ(r.check, 2);
  EXPECT_TRUE(r.results.empty());
}

TEST(Eval, ACheckInALoopLeavesTheRegion) {
  std::array<double, 4> x{};
  constexpr const char* kText = R"(region @r(%x: f64[1,c]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %two = const 2 : i64
    %n = dim 0 %x : i64
    %v = const 1.0 : f64
    %r = for %i = %zero to %n step %one carry(%k = %zero) : i64 {
      %ok = lt %i, %two : bool
      check value %ok state(%k) : "too far"
      store %v, %x[%i]
      yield %i
    }
    yield %r
  })";
  const EvalResult r = run(kText, {at(x.data()), 4, 8});
  EXPECT_EQ(r.outcome, Outcome::failed);
  EXPECT_EQ(r.results, std::vector<Word>{1});
  EXPECT_EQ(x, (std::array<double, 4>{1, 1, 0, 0}));
}

TEST(Eval, ArgumentsMustFit) {
  EXPECT_THROW(run("region @r(%i: i64) {\n yield\n}", {}), std::logic_error);
  EXPECT_THROW(run("region @r(%i: i64) {\n yield\n}", {1, 2}), std::logic_error);
}

}  // namespace
}  // namespace appy::ir
