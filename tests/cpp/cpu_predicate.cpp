// Sums of what a condition selects, and conjunctions of comparisons: with AVX-512 one instruction under a mask each.
#include <regex>

#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

constexpr const char* kTypes[] = {"f64", "f32", "f16", "i64", "i32", "i16", "i8", "u32", "u8"};

/// One pass over x[n] that carries the sum `s` of type `t` and `more`, with these ops before the yield.
std::string over(const std::string& t, const std::string& body, const std::string& next = "%s1",
                 const std::string& more = "", const std::string& more_types = "") {
  return "region @r(%x: " + t + "[1,c], %y: " + t + "[1,c], %b: i32[1,c], %s0: " + t +
         ", %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %none = const " +
         (t[0] == 'f' ? "0.0 : " : "0 : ") + t + "\n  %two = const " + (t[0] == 'f' ? "2.0 : " : "2 : ") + t +
         "\n  %seven = const 7 : i32\n  %r" + (more.empty() ? "" : ", %q") +
         " = for simd %i = %zero to %n step %one carry(sum %s = %s0" + more + ") : " + t + more_types +
         " {\n    %v = load %x[%i] : " + t + "\n    %w = load %y[%i] : " + t + "\n    %k = load %b[%i] : i32\n" + body +
         "    yield " + next + "\n  }\n  yield %r" + (more.empty() ? "" : ", %q") + "\n}\n";
}

Arg values(const std::string& t, int n, int seed) {
  const auto number = [&](int i) { return (i * 37 + seed * 11) % 13 - 5; };
  const auto of = [&]<class T>(T) {
    std::vector<T> v;
    for (int i = 0; i < n; ++i) v.push_back(static_cast<T>(t[0] == 'u' ? number(i) + 5 : number(i)));
    return array_arg(v);
  };
  if (t == "f64") return of(double{});
  if (t == "f32") return of(float{});
  if (t == "i64") return of(int64_t{});
  if (t == "i32" || t == "u32") return of(int32_t{});
  if (t == "i16") return of(int16_t{});
  if (t == "f16") {
    std::vector<uint16_t> v;
    for (int i = 0; i < n; ++i) v.push_back(static_cast<uint16_t>(i % 3 ? 0x3c00 : 0xbc00));  // 1 and -1
    return array_arg(v);
  }
  return of(int8_t{});
}

void expect_same_sums(const std::string& t, const std::string& text) {
  for (int n : {0, 1, 7, 16, 33, 200}) {
    expect_same(text,
                {values(t, n, 1), values(t, n, 2), values("i32", n, 3), scalar_arg(0), scalar_arg(word(int64_t{n}))});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Predicate, SumsOfWhatIsSelected) {
  for (const std::string t : kTypes) {
    SCOPED_TRACE(t);
    const std::string both = "    %c = lt %v, %w : bool\n    %d = lt %none, %w : bool\n    %m = and %c, %d : bool\n";
    const std::string zero = t[0] == 'f' ? "0.0" : "0";
    for (const std::string order : {"%s, %a", "%a, %s"}) {
      expect_same_sums(
          t, over(t, both + "    %a = select %m, %v, %none : " + t + "\n    %s1 = add " + order + " : " + t + "\n"));
    }
    // Not what is selected otherwise; the sum itself; a value that is needed again; no sum of the loop's.
    expect_same_sums(t,
                     over(t, both + "    %a = select %m, %none, %v : " + t + "\n    %s1 = add %s, %a : " + t + "\n"));
    expect_same_sums(t, over(t, both + "    %a = select %m, %v, %none : " + t + "\n    %s1 = add %s, %a : " + t +
                                    "\n    store %a, %y[%i]\n"));
    expect_same_sums(t, over(t, both + "    %a = select %m, %v, %none : " + t + "\n    %e = add %w, %a : " + t +
                                    "\n    store %e, %y[%i]\n    %s1 = add %s, %e : " + t + "\n"));
    expect_same_sums(t, over(t, both + "    %a = select %m, %v, %two : " + t + "\n    %s1 = add %s, %a : " + t + "\n"));
  }
}

TEST(Predicate, CountsAndSumsUnderOneMask) {
  for (const std::string t : kTypes) {
    SCOPED_TRACE(t);
    for (const std::string count : {"i64", "i32", "u8"}) {
      const std::string text =
          over(t,
               "    %c = le %v, %w : bool\n    %d = ne %k, %seven : bool\n    %m = and %c, %d : bool\n"
               "    %a = select %m, %w, %none : " +
                   t + "\n    %s1 = add %s, %a : " + t + "\n    %o = cast %m : " + count +
                   "\n    %q1 = add %qq, %o : " + count + "\n",
               "%s1, %q1", ", sum %qq = %start", ", " + count);
      const std::string start = "  %start = const 3 : " + count + "\n";
      expect_same_sums(t, std::string(text).insert(text.find("  %r, %q"), start));
    }
  }
}

TEST(Predicate, ConjunctionsOfManyComparisons) {
  for (const std::string t : {"f64", "f32", "i64", "u32", "i8"}) {
    SCOPED_TRACE(t);
    for (const std::string order : {"%c, %d", "%d, %c"}) {
      // The first comparison is needed again, and so is the second.
      const std::string head = "    %c = lt %v, %w : bool\n    %d = ge %w, %none : bool\n    %m = and " + order +
                               " : bool\n    %e = ne %v, %two : bool\n    %mm = and %m, %e : bool\n";
      const std::string tail = "    %a = select %mm, %v, %none : " + t + "\n    %s1 = add %s, %a : " + t + "\n";
      expect_same_sums(t, over(t, head + tail));
      expect_same_sums(t, over(t, head + "    %z = select %c, %two, %w : " + t + "\n    store %z, %y[%i]\n" + tail));
      expect_same_sums(t, over(t, head + "    %z = select %d, %two, %w : " + t + "\n    store %z, %y[%i]\n" + tail));
    }
  }
}

TEST(Predicate, AFirstComparisonFromElsewhereIsNotOverwritten) {
  // It is the same for all lanes, or for all iterations of the loop inside.
  for (const char* first : {"lt %t, %u", "lt %t, %y"}) {
    const std::string text = std::string(R"(region @r(%m: i64, %n: i64, %t: f64, %u: f64, %a: f64[2,c], %o: f64[1,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %none = const 0.0 : f64
  for simd %j = %zero to %n step %one {
    %y = load %o[%j] : f64
    %c = )") + first + R"( : bool
    %r = for %k = %zero to %m step %one carry(sum %s = %none) : f64 {
      %v = load %a[%k, %j] : f64
      %d = lt %none, %v : bool
      %both = and %c, %d : bool
      %chosen = select %both, %v, %none : f64
      %s1 = add %s, %chosen : f64
      yield %s1
    }
    store %r, %o[%j]
    yield
  }
  yield
})";
    for (int n : {1, 8, 37, 100}) {
      std::vector<double> v, o;
      for (int i = 0; i < 9 * n; ++i) v.push_back(i * 7 % 11 - 4);
      for (int i = 0; i < n; ++i) o.push_back(i % 5 - 2);
      expect_same(text, {scalar_arg(9), scalar_arg(word(int64_t{n})), scalar_arg(word(-0.5)), scalar_arg(word(1.0)),
                         array_arg(v, {9, n}), array_arg(o)});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Predicate, ASumThatBeginsWithMinusZero) {
  const std::string text = over("f64",
                                "    %c = lt %v, %w : bool\n    %a = select %c, %v, %none : f64\n"
                                "    %s1 = add %s, %a : f64\n");
  for (int n : {1, 8, 33}) {
    const Arg none = array_arg(std::vector<double>(static_cast<size_t>(n)));
    expect_same(text, {none, none, values("i32", n, 3), scalar_arg(word(-0.0)), scalar_arg(word(int64_t{n}))});
  }
}

TEST(Predicate, AValueThatIsCarriedMayHaveChanged) {
  // What is selected is carried, too, and its register has the next value when the sum is added to.
  const std::string text = R"(region @r(%m: i64, %n: i64, %a: f64[2,c], %o: f64[1,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %none = const 0.0 : f64
  for simd %j = %zero to %n step %one {
    %r, %q = for %k = %zero to %m step %one carry(sum %s = %none, recur %last = %none) : f64, f64 {
      %v = load %a[%k, %j] : f64
      %c = lt %last, %v : bool
      %chosen = select %c, %last, %none : f64
      %next = sub %v, %last : f64
      %s1 = add %s, %chosen : f64
      yield %s1, %next
    }
    %t = sub %r, %q : f64
    store %t, %o[%j]
    yield
  }
  yield
})";
  for (int n : {1, 8, 37}) {
    std::vector<double> v;
    for (int i = 0; i < 9 * n; ++i) v.push_back(i * 7 % 11 - 4);
    expect_same(text, {scalar_arg(9), scalar_arg(word(int64_t{n})), array_arg(v, {9, n}),
                       array_arg(std::vector<double>(static_cast<size_t>(n)))});
  }
}

TEST(Predicate, WhatTheInstructionsAre) {
  const std::string text = over("f64",
                                "    %c = lt %v, %w : bool\n    %d = lt %none, %w : bool\n    %m = and %c, %d : bool\n"
                                "    %a = select %m, %v, %none : f64\n    %s1 = add %s, %a : f64\n");
  // A sum that begins with what nobody knows may be -0, which +0 would change.
  const std::string from_zero = std::string(text).replace(text.find("%s = %s0"), 8, "%s = %none");
  for (Isa isa : isas()) {
    const std::string listing = code_of(*ir::parse(from_zero), isa)->listing();
    const bool masked = isa == Isa::avx512;
    const std::regex addition("vaddpd zmm\\d+ \\{k\\d\\}");
    const auto additions = [&](const std::string& of) {
      return std::distance(std::sregex_iterator(of.begin(), of.end(), addition), std::sregex_iterator());
    };
    // Under the condition, and in the rest under the mask of the lanes that there are.
    EXPECT_EQ(additions(code_of(*ir::parse(text), isa)->listing()), masked ? 1 : 0);
    EXPECT_EQ(additions(listing) > 1, masked) << listing;
    EXPECT_EQ(std::regex_search(listing, std::regex("vcmppd k(\\d) \\{k\\1\\}")), masked) << listing;
    EXPECT_EQ(listing.find("kand"), std::string::npos);
  }
}

}  // namespace
}  // namespace appy::cpu::testing
