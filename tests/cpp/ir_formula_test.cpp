#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/formula.h"
#include "ir/text.h"

namespace appy::ir {
namespace {

constexpr const char* kCounts = R"(region @r(%x: f64[2,c], %a: i64, %f: f64, %y: f32[1,inner], %b: i32) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %n = dim 1 %x : i64
  %m = dim 0 %y : i64
  %start = wrap %a, %n : i64
  %low = pymax %start, %zero : i64
  %far = sub %n, %low : i64
  %up = add %far, %one : i64
  %two = const 2 : i64
  %half = floordiv %up, %two : i64
  %wide = cast %b : i64
  %less = lt %wide, %m : bool
  %picked = select %less, %half, %m : i64
  %rounded = cast %f : i64
  %sum = add %rounded, %n : i64
  %element = load %x[%zero, %zero] : f64
  yield %picked, %sum, %element
}
)";

TEST(Formula, IsWhatTheGraphComputes) {
  const auto graph = parse(kCounts);
  const Value* picked = graph->body->last->operands[0];
  const auto formula = Formula::of(picked, *graph);
  ASSERT_TRUE(formula);
  double element = 0;
  float single = 0;
  for (const int64_t n : {1, 2, 7, 100}) {
    for (const int64_t a : {-200, -3, 0, 1, 6}) {
      for (const int64_t b : {-1, 5}) {
        const std::vector<Word> args = {reinterpret_cast<Word>(&element),
                                        1,
                                        static_cast<Word>(n),
                                        Word(n) * 8,
                                        8,
                                        static_cast<Word>(a),
                                        std::bit_cast<Word>(2.5),
                                        reinterpret_cast<Word>(&single),
                                        3,
                                        4,
                                        static_cast<Word>(b)};
        const auto expected = evaluate(*graph, args);
        EXPECT_EQ((*formula)(args.data()), static_cast<int64_t>(expected.results.at(0))) << n << " " << a << " " << b;
      }
    }
  }
}

TEST(Formula, TakesNoFloatsAndNoElements) {
  const auto graph = parse(kCounts);
  EXPECT_FALSE(Formula::of(graph->body->last->operands[1], *graph));
  EXPECT_FALSE(Formula::of(graph->body->last->operands[2], *graph));
}

TEST(Formula, ComputesEachValueOnce) {
  // As a tree it would have 2^60 leaves.
  std::string text = "region @r(%v0: i64) {\n";
  const auto power = [&](int n) { return "%v" + std::to_string(n); };
  for (int n = 1; n <= 60; ++n) text += power(n) + " = add " + power(n - 1) + ", " + power(n - 1) + " : i64\n";
  const auto graph = parse(text + "yield %v60\n}\n");
  const auto formula = Formula::of(graph->body->last->operands[0], *graph);
  ASSERT_TRUE(formula);
  const Word three = 3;
  EXPECT_EQ((*formula)(&three), int64_t{3} << 60);
}

TEST(Formula, TakesNoMoreThanItHasPlaceFor) {
  std::string text = "region @r(%v0: i64) {\n";
  for (int n = 1; n <= 256; ++n) {
    text += "%v" + std::to_string(n) + " = add %v" + std::to_string(n - 1) + ", %v0 : i64\n";
  }
  const auto graph = parse(text + "yield %v255, %v256\n}\n");
  EXPECT_TRUE(Formula::of(graph->body->last->operands[0], *graph));
  EXPECT_FALSE(Formula::of(graph->body->last->operands[1], *graph));
}

TEST(Formula, EqualOnesAreEqual) {
  const auto graph = parse(kCounts);
  const Op* picked = graph->body->last->operands[0]->op;
  EXPECT_EQ(Formula::of(picked->operands[1], *graph), Formula::of(picked->operands[1], *graph));
  EXPECT_NE(Formula::of(picked->operands[1], *graph), Formula::of(picked->operands[2], *graph));
}

}  // namespace
}  // namespace appy::ir
