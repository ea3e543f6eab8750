#include <gtest/gtest.h>

#include "ir/formula.h"
#include "ir/sizes.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

constexpr const char* kRegion = R"(region @r(%x: f64[1,c], %k: i64, %on: bool) {
  %one = const 1 : i64
  %n = dim 0 %x : i64
  %s = for %i = %one to %n step %one carry(%t = %k) : i64 {
    %u = add %t, %i : i64
    yield %u
  }
  %m = add %n, %k : i64
  %few = lt %m, %one : bool
  %late = lt %s, %one : bool
  %never = const false : bool
  yield %few, %late, %never
}
)";

const Value& result(const Graph& graph, size_t index) { return *graph.body->last->operands[index]; }

TEST(Sizes, AreCheckedAtTheStart) {
  const auto graph = parse(kRegion);
  const Word args[] = {0, 5, 8, 7, 1};
  const auto settled = settle(*graph, result(*graph, 0), args);
  ASSERT_TRUE(settled);
  EXPECT_FALSE(*settled);
  EXPECT_EQ(verify(*graph), "");
  EXPECT_TRUE(print(*graph).starts_with(R"(region @r(%x: f64[1,c], %k: i64, %on: bool) {
  %0 = dim 0 %x : i64
  %1 = add %0, %k : i64
  %2 = const 1 : i64
  %3 = lt %1, %2 : bool
  %4 = not %3 : bool
  check sizes %4 declines
  %one = const 1 : i64
)")) << print(*graph);
  const Word others[] = {0, 5, 8, static_cast<Word>(-5), 1};
  const Op* check = graph->body->first;
  while (check->code != Opcode::check_) check = check->next;
  const auto condition = Formula::of(check->operands[0], *graph);
  ASSERT_TRUE(condition);
  EXPECT_NE((*condition)(args), 0);
  EXPECT_EQ((*condition)(others), 0);
}

TEST(Sizes, WhatTakesMoreThanArgumentsIsNotSettled) {
  const auto graph = parse(kRegion);
  const std::string text = print(*graph);
  const Word args[] = {0, 5, 8, 7, 1};
  EXPECT_FALSE(settle(*graph, result(*graph, 1), args));
  EXPECT_FALSE(settle(*graph, result(*graph, 0), {}));
  EXPECT_EQ(print(*graph), text);
}

TEST(Sizes, WhatIsKnownNeedsNoCheck) {
  const auto graph = parse(kRegion);
  const std::string text = print(*graph);
  const Word args[] = {0, 5, 8, 7, 1};
  const auto settled = settle(*graph, result(*graph, 2), args);
  ASSERT_TRUE(settled);
  EXPECT_FALSE(*settled);
  EXPECT_EQ(print(*graph), text);
}

}  // namespace
}  // namespace appy::ir
