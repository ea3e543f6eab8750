#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "ir/eval.h"
#include "ir/text.h"
#include "runtime/formula.h"

namespace appy::runtime {
namespace {

using ir::Word;

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
  const auto graph = ir::parse(kCounts);
  const ir::Value* picked = graph->body->last->operands[0];
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
        const auto expected = ir::evaluate(*graph, args);
        EXPECT_EQ((*formula)(args.data()), static_cast<int64_t>(expected.results.at(0))) << n << " " << a << " " << b;
      }
    }
  }
}

TEST(Formula, TakesNoFloatsAndNoElements) {
  const auto graph = ir::parse(kCounts);
  EXPECT_FALSE(Formula::of(graph->body->last->operands[1], *graph));
  EXPECT_FALSE(Formula::of(graph->body->last->operands[2], *graph));
}

TEST(Formula, EqualOnesAreEqual) {
  const auto graph = ir::parse(kCounts);
  const ir::Op* picked = graph->body->last->operands[0]->op;
  EXPECT_EQ(Formula::of(picked->operands[1], *graph), Formula::of(picked->operands[1], *graph));
  EXPECT_NE(Formula::of(picked->operands[1], *graph), Formula::of(picked->operands[2], *graph));
}

}  // namespace
}  // namespace appy::runtime
