#include <gtest/gtest.h>

#include "ir/divisor.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

/// What divides the result of these lines, computed from integers %n and %m; and the iterations of their last loop.
int64_t divisor_of_last(const std::string& lines) {
  const auto graph = parse("region @r(%n: i64, %m: i64, %on: bool) {\n" + lines + "  yield %v\n}\n");
  EXPECT_EQ(verify(*graph), "") << lines;
  return divisor_of(*graph->body->last->operands[0]);
}

std::string constant(const std::string& name, int64_t value) {
  return "  %" + name + " = const " + std::to_string(value) + " : i64\n";
}

TEST(Divisor, OfIntegers) {
  EXPECT_EQ(divisor_of_last(constant("v", 24)), 8);
  EXPECT_EQ(divisor_of_last(constant("v", -12)), 4);
  EXPECT_EQ(divisor_of_last(constant("v", 7)), 1);
  EXPECT_EQ(divisor_of_last(constant("v", 0)), 4096);
  EXPECT_EQ(divisor_of_last(constant("v", int64_t{1} << 40)), 4096);
  const std::string eights = constant("c", 8) + "  %e = mul %n, %c : i64\n";
  EXPECT_EQ(divisor_of_last(eights + "  %v = add %e, %c : i64\n"), 8);
  EXPECT_EQ(divisor_of_last(eights + "  %v = sub %e, %n : i64\n"), 1);
  EXPECT_EQ(divisor_of_last(eights + "  %v = mul %e, %e : i64\n"), 64);
  EXPECT_EQ(divisor_of_last(eights + "  %v = pymin %e, %c : i64\n"), 8);
  EXPECT_EQ(divisor_of_last(eights + "  %v = pymax %e, %m : i64\n"), 1);
  EXPECT_EQ(divisor_of_last(eights + "  %v = select %on, %e, %c : i64\n"), 8);
  EXPECT_EQ(divisor_of_last(eights + "  %v = floordiv %e, %c : i64\n"), 1);
}

/// The iterations from `low` to `high` in steps of `step` inside a loop over %t, a multiple of 32.
int64_t divisor_of_iterations(const std::string& low, const std::string& high, int64_t step) {
  const auto graph =
      parse("region @r(%n: i64, %m: i64) {\n" + constant("zero", 0) + constant("one", 1) + constant("step", step) +
            constant("tile", 32) + "  for %t = %zero to %n step %tile {\n" + "    for %k = " + low + " to " + high +
            " step %step {\n      yield\n    }\n    yield\n  }\n" + "  yield\n}\n");
  EXPECT_EQ(verify(*graph), "");
  const Op* tiles = graph->body->last->prev;
  return divisor_of_trips(*tiles->blocks[0]->first);
}

TEST(Divisor, OfIterations) {
  EXPECT_EQ(divisor_of_iterations("%zero", "%t", 1), 32);
  EXPECT_EQ(divisor_of_iterations("%zero", "%t", 4), 8);
  EXPECT_EQ(divisor_of_iterations("%zero", "%t", 64), 1);
  EXPECT_EQ(divisor_of_iterations("%zero", "%t", 3), 1);
  EXPECT_EQ(divisor_of_iterations("%t", "%zero", -1), 1);
  EXPECT_EQ(divisor_of_iterations("%one", "%t", 1), 1);
  EXPECT_EQ(divisor_of_iterations("%t", "%n", 1), 1);
}

}  // namespace
}  // namespace appy::ir
