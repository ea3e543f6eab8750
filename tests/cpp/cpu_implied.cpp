#include <gtest/gtest.h>

#include "cpu/implied.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::cpu {
namespace {

/// Is the first check of these lines implied by a later one? By which, counted from the first; 0: by none.
int implied_by_which(const std::string& lines, const std::string& type = "f64") {
  const auto graph = ir::parse("region @r(%x: " + type + ", %y: " + type + ", %o: " + type + R"([1,c], %t: i64[1,c]) {
  %zero = const 0 : i64
  %n = dim 0 %t : i64
  %low = const -8.0 : )" + type +
                               "\n  %high = const 8.0 : " + type + "\n  %most = const inf : " + type +
                               "\n  %nan = isnan %x : bool\n  %fine = not %nan : bool\n" + lines + "  yield\n}\n");
  EXPECT_EQ(ir::verify(*graph), "") << lines;
  const ir::Op* first = nullptr;
  int count = 0;
  for (const ir::Op* op = graph->body->first; op; op = op->next) {
    if (op->code != ir::Opcode::check_) continue;
    if (!first) first = op;
    if (op == implied_by(*first)) return count;
    ++count;
  }
  return 0;
}

const std::string nan = "  check to_int %fine : \"no NaN\"\n";
const std::string inf = "  %i = isinf %x : bool\n  %j = not %i : bool\n  check range_error %j : \"no infinity\"\n";

std::string between(const std::string& of, const std::string& low = "%low", const std::string& high = "%high") {
  return "  %b = lt " + of + ", " + high + " : bool\n  %a = ge " + of + ", " + low +
         " : bool\n  %in = and %a, %b : bool\n  check overflow %in declines\n";
}

TEST(Implied, ByBounds) {
  for (const char* type : {"f64", "f32"}) {
    EXPECT_EQ(implied_by_which(nan + between("%x"), type), 1);
    EXPECT_EQ(implied_by_which(nan + inf + between("%x"), type), 2);
    EXPECT_EQ(implied_by_which(inf + between("%x"), type), 1);
    EXPECT_EQ(implied_by_which(nan + "  %z = mul %x, %y : " + type + "\n" + between("%x"), type), 1);
  }
  const std::string turned = "  %b = gt %high, %x : bool\n  %a = le %low, %x : bool\n  %in = and %b, %a : bool\n";
  EXPECT_EQ(implied_by_which(nan + turned + "  check overflow %in declines\n"), 1);
}

TEST(Implied, NotByOthers) {
  EXPECT_EQ(implied_by_which(nan), 0);
  EXPECT_EQ(implied_by_which(nan + between("%y")), 0);
  EXPECT_EQ(implied_by_which(nan + between("%x", "%low", "%most")), 0);
  EXPECT_EQ(implied_by_which(nan + between("%x", "%low", "%y")), 0);
  EXPECT_EQ(implied_by_which(nan + between("%x", "%low", "%low").replace(7, 2, "ge")), 0);
  const std::string either = "  %b = lt %x, %high : bool\n  %a = ge %x, %low : bool\n  %in = or %a, %b : bool\n";
  EXPECT_EQ(implied_by_which(nan + either + "  check overflow %in declines\n"), 0);
}

std::string fits(const std::string& type, const std::string& low = "-9223372036854775808.0",
                 const std::string& high = "9223372036854775808.0") {
  return "  %least = const " + low + " : " + type + "\n  %end = const " + high + " : " + type +
         "\n  %b = lt %x, %end : bool\n  %a = ge %x, %least : bool\n  %in = and %a, %b : bool\n"
         "  check overflow %in declines\n";
}

std::string is_index(const std::string& convert = "cast %x : i64", const std::string& wrap = "wrap %k, %n : i64",
                     const std::string& extent = "%n") {
  return "  %k = " + convert + "\n  %w = " + wrap + "\n  %below = lt %w, " + extent +
         " : bool\n  %above = ge %w, %zero : bool\n  %inside = and %above, %below : bool\n"
         "  check bounds %inside info(%k, %zero, " +
         extent + ")\n";
}

TEST(Implied, ByAnIndex) {
  for (const char* type : {"f64", "f32"}) {
    EXPECT_EQ(implied_by_which(fits(type) + is_index(), type), 1);
    EXPECT_EQ(implied_by_which(nan + fits(type) + is_index(), type), 2);
    EXPECT_EQ(implied_by_which(nan + inf + fits(type) + is_index(), type), 3);
    EXPECT_EQ(implied_by_which(nan + is_index(), type), 1);
  }
  const std::string turned =
      "  %s = const 9223372036854775808.0 : f64\n  %l = const -9223372036854775808.0 : f64\n"
      "  %b = gt %s, %x : bool\n  %a = le %l, %x : bool\n  %in = and %b, %a : bool\n"
      "  check overflow %in declines\n";
  EXPECT_EQ(implied_by_which(turned + is_index()), 1);
  // An index as it is.
  const std::string plain =
      "  %k = cast %x : i64\n  %below = lt %k, %n : bool\n  %above = ge %k, %zero : bool\n"
      "  %inside = and %above, %below : bool\n  check bounds %inside info(%k, %zero, %n)\n";
  EXPECT_EQ(implied_by_which(fits("f64") + plain), 1);
}

TEST(Implied, NotByOtherIndices) {
  EXPECT_EQ(implied_by_which(fits("f64") + is_index("cast %y : i64")), 0);
  EXPECT_EQ(implied_by_which(fits("f64", "-8.0") + is_index()), 0);
  EXPECT_EQ(implied_by_which(fits("f64", "-9223372036854775808.0", "8.0") + is_index()), 0);
  const std::string narrow = "  %i = cast %x : i32\n" + is_index("cast %i : i64");
  EXPECT_EQ(implied_by_which(fits("f64") + narrow), 0);
  const std::string more = "  %m = add %n, %n : i64\n";  // not known to be an extent
  EXPECT_EQ(implied_by_which(fits("f64") + more + is_index("cast %x : i64", "wrap %k, %m : i64", "%m")), 0);
  EXPECT_EQ(implied_by_which(fits("f64") + more + is_index("cast %x : i64", "wrap %k, %m : i64")), 0);
}

TEST(Implied, NotPastWhatMatters) {
  EXPECT_EQ(implied_by_which(nan + "  %z = load %o[0] : f64\n" + between("%x")), 1);
  EXPECT_EQ(implied_by_which(nan + "  store %x, %o[0]\n" + between("%x")), 0);
  EXPECT_EQ(implied_by_which(fits("f64") + "  store %x, %o[0]\n" + is_index()), 0);
  const std::string other = "  %p = lt %y, %x : bool\n  check domain %p : \"y\"\n";
  EXPECT_EQ(implied_by_which(nan + other + between("%x")), 2);
  EXPECT_EQ(implied_by_which(nan + other + fits("f64") + is_index()), 3);
}

}  // namespace
}  // namespace appy::cpu
