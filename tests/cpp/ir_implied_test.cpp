#include <gtest/gtest.h>

#include "ir/implied.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

/// Is the first check of these lines implied by a later one? By which, counted from the first; 0: by none.
int implied_by_which(const std::string& lines, const std::string& type = "f64") {
  const auto graph = parse("region @r(%x: " + type + ", %y: " + type + ", %o: " + type + R"([1,c]) {
  %low = const -8.0 : )" + type +
                           "\n  %high = const 8.0 : " + type + "\n  %most = const inf : " + type +
                           "\n  %nan = isnan %x : bool\n  %fine = not %nan : bool\n" + lines + "  yield\n}\n");
  EXPECT_EQ(verify(*graph), "") << lines;
  const Op* first = nullptr;
  int count = 0;
  for (const Op* op = graph->body->first; op; op = op->next) {
    if (op->code != Opcode::check_) continue;
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

TEST(Implied, NotPastWhatMatters) {
  EXPECT_EQ(implied_by_which(nan + "  %z = load %o[0] : f64\n" + between("%x")), 0);
  EXPECT_EQ(implied_by_which(nan + "  store %x, %o[0]\n" + between("%x")), 0);
  const std::string other = "  %p = lt %y, %x : bool\n  check domain %p : \"y\"\n";
  EXPECT_EQ(implied_by_which(nan + other + between("%x")), 0);
}

}  // namespace
}  // namespace appy::ir
