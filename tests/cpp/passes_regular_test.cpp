#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/regular.h"

namespace appy::passes {
namespace {

/// A loop over %i from %zero to %n with these lines in it.
Iterations iterations(const std::string& lines, const std::string& step = "%one") {
  const auto graph = ir::parse(
      "region @r(%n: i64, %m: i64, %on: bool, %x: i64[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
      "  %eight = const 8 : i64\n  %minus = const -1 : i64\n  for parallel annotated %i = %zero to %n step " +
      step + " {\n" + lines + "    yield\n  }\n  yield\n}\n");
  EXPECT_EQ(ir::verify(*graph), "") << lines;
  return compare_iterations(*graph->body->last->prev);
}

bool regular(const std::string& lines, const std::string& step = "%one") {
  return iterations(lines, step) != Iterations::unlike;
}

std::string loop(const std::string& low, const std::string& high, const std::string& body = "", int n = 0) {
  return "    for %k" + std::to_string(n) + " = " + low + " to " + high + " step %one {\n" + body +
         "      yield\n    }\n";
}

TEST(Regular, LoopsThatDoNotDependOnTheIteration) {
  EXPECT_TRUE(regular(""));
  EXPECT_TRUE(regular(loop("%zero", "%m")));
  // Their bounds may depend on each other, and on what is looked up once.
  EXPECT_TRUE(regular(loop("%zero", "%m", loop("%k0", "%m", "", 1))));
  EXPECT_TRUE(regular(loop("%zero", "%m", "      %b = load %x[%k0] : i64\n" + loop("%zero", "%b", "", 1))));
}

TEST(Regular, KnownBeforeOrAlike) {
  EXPECT_EQ(iterations(loop("%zero", "%m")), Iterations::same);
  EXPECT_EQ(iterations("    %four = const 4 : i64\n" + loop("%zero", "%four")), Iterations::same);
  EXPECT_EQ(iterations(loop("%zero", "%m", loop("%k0", "%m", "", 1))), Iterations::alike);
  EXPECT_EQ(iterations("    %e = add %i, %eight : i64\n" + loop("%i", "%e")), Iterations::alike);
  EXPECT_EQ(iterations(loop("%zero", "%m", loop("%k0", "%m", "", 1)) + loop("%zero", "%i", "", 2)), Iterations::unlike);
  EXPECT_EQ(iterations(loop("%zero", "%i") + loop("%zero", "%m", loop("%k1", "%m", "", 2), 1)), Iterations::unlike);
}

TEST(Regular, NotTriangles) {
  EXPECT_FALSE(regular(loop("%zero", "%i")));
  EXPECT_FALSE(regular(loop("%i", "%m")));
  EXPECT_FALSE(regular("    %e = mul %i, %minus : i64\n" + loop("%i", "%e")));
  EXPECT_FALSE(regular(loop("%zero", "%m", loop("%i", "%k0", "", 1))));
  EXPECT_FALSE(regular(loop("%i", "%m", loop("%zero", "%k0", "", 1))));
}

TEST(Regular, StretchesOfOneLength) {
  EXPECT_TRUE(regular("    %e = add %i, %eight : i64\n" + loop("%i", "%e")));
  EXPECT_TRUE(regular("    %e = add %m, %i : i64\n" + loop("%i", "%e")));
  // The last one is cut off, or the first ones.
  EXPECT_TRUE(regular("    %e = add %i, %eight : i64\n    %c = pymin %e, %n : i64\n" + loop("%i", "%c")));
  EXPECT_TRUE(regular("    %b = sub %i, %eight : i64\n    %c = pymax %b, %zero : i64\n    %e = add %i, %one : i64\n" +
                      loop("%c", "%e")));
  // A multiple of the variable, by a number or by a value that stays the same.
  EXPECT_TRUE(regular("    %b = mul %i, %eight : i64\n    %e = add %b, %m : i64\n" + loop("%b", "%e")));
  EXPECT_TRUE(
      regular("    %b = mul %i, %m : i64\n    %e = add %b, %m : i64\n    %c = pymin %e, %n : i64\n"
              "    %d = sub %c, %b : i64\n    %q = floordiv %d, %eight : i64\n    %f = add %b, %q : i64\n" +
              loop("%b", "%f")));
  EXPECT_TRUE(regular("    %e = add %i, %m : i64\n" + loop("%i", "%e"), "%m"));
  EXPECT_FALSE(regular("    %b = mul %i, %eight : i64\n" + loop("%i", "%b")));
  EXPECT_FALSE(regular("    %b = mul %i, %m : i64\n    %e = add %i, %m : i64\n" + loop("%b", "%e")));
  EXPECT_FALSE(regular("    %b = mul %i, %i : i64\n    %e = add %b, %m : i64\n" + loop("%b", "%e")));
  EXPECT_FALSE(regular("    %b = floordiv %i, %eight : i64\n    %e = add %i, %eight : i64\n" + loop("%b", "%e")));
}

TEST(Regular, NotWhatIsLookedUpOrChosen) {
  EXPECT_FALSE(regular("    %e = load %x[%i] : i64\n" + loop("%zero", "%e")));
  EXPECT_FALSE(regular("    %c = lt %i, %m : bool\n    %e = select %c, %m, %n : i64\n" + loop("%zero", "%e")));
  EXPECT_TRUE(regular("    %e = select %on, %m, %n : i64\n" + loop("%zero", "%e")));
}

TEST(Regular, NotLoopsThatAreLeftEarly) {
  EXPECT_FALSE(regular("    while {\n      break\n    }\n"));
  EXPECT_FALSE(regular(loop("%zero", "%m", "      if %on {\n        break\n      } else {\n        yield\n      }\n")));
}

}  // namespace
}  // namespace appy::passes
