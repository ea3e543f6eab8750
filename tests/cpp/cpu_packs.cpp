// What follows several sums, one op for each: as vectors where the ops are alike, and with the same results.
#include "cpu/packs.h"
#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// In each of three iterations %i, `sums` sums of x[r, k] * x[0, k], k < %n, which begin with `init` and are followed
/// by lines in which # is the number of the sum, or which stand once.
struct Program {
  int sums = 8;
  std::string type = "f64", init = "%zero", store = "%o[#]";
  std::vector<std::string> lines = {"%l# = load %c[2*#] : T", "%d# = sub %l#, %s# : T", "%p = load %c[1] : T",
                                    "%q# = div %d#, %p : T"};

  std::string numbered(std::string line, int r) const {
    for (size_t at = 0; (at = line.find('#', at)) != std::string::npos;) line.replace(at, 1, std::to_string(r));
    for (size_t at = 0; (at = line.find("2*", at)) != std::string::npos;) {
      line.replace(at, line.find(']', at) - at, std::to_string(2 * r));
    }
    if (const size_t at = line.rfind("T"); at != std::string::npos && line.ends_with(": T")) line.replace(at, 1, type);
    return line;
  }

  std::string text() const {
    std::string names, carried, types, body, before, after;
    for (int r = 0; r < sums; ++r) {
      const std::string n = std::to_string(r), comma = r ? ", " : "";
      names += comma + "%s" + n;
      types += comma + type;
      if (init != "%zero") before += "    " + numbered("%i# = load %c[#] : T", r) + "\n";
      carried += comma + "sum %t" + n + " = " + (init == "%zero" ? init : "%i" + n);
      body += "      " + numbered("%x# = load %x[#, %k] : T", r) + "\n";
    }
    std::string yields;
    for (int r = 0; r < sums; ++r) {
      body += "      " + numbered("%u# = fma %x#, %x0, %t# : T", r) + "\n";
      yields += (r ? ", %u" : "%u") + std::to_string(r);
    }
    for (const std::string& line : lines) {
      for (int r = 0; r < (line.find('#') == std::string::npos ? 1 : sums); ++r)
        after += "    " + numbered(line, r) + "\n";
    }
    for (int r = 0; r < sums; ++r) after += "    " + numbered("store %q#, " + store, r) + "\n";
    return "region @r(%n: i64, %x: " + type + "[2,c], %c: " + type + "[1,c], %o: " + type +
           "[1,c]) {\n  %zero = const 0.0 : " + type +
           "\n  %none = const 0 : i64\n  %one = const 1 : i64\n  %three = const 3 : i64\n"
           "  for %i = %none to %three step %one {\n" +
           before + "    " + names + " = for simd annotated %k = %none to %n step %one carry(" + carried +
           ") : " + types + " {\n" + body + "      yield " + yields + "\n    }\n" + after +
           "    yield\n  }\n  yield\n}\n";
  }
};

template <class T>
std::vector<Arg> arguments(int sums, int64_t n) {
  const auto rows = static_cast<size_t>(sums);
  std::vector<T> x = counting<T>(rows * 40), c = counting<T>(2 * rows);
  for (T& v : x) v = static_cast<T>(static_cast<int64_t>(v) % 7);
  c[1] = 3;
  return {scalar_arg(word(n)), array_arg(x, {sums, 40}), array_arg(c), array_arg(std::vector<T>(2 * rows))};
}

std::string listing_of(const Program& p, Isa isa) {
  const auto graph = ir::parse(p.text());
  EXPECT_EQ(ir::verify(*graph), "") << p.text();
  return code_of(*graph, isa)->listing();
}

TEST(Packs, WhatFollowsSumsIsDoneOnVectors) {
  for (const Isa isa : isas()) {
    Program p;
    EXPECT_GT(count(listing_of(p, isa), "vdivpd"), 0U);
    EXPECT_EQ(count(listing_of(p, isa), "vdivsd"), 0U);
    p.type = "f32";
    p.sums = 16;
    EXPECT_GT(count(listing_of(p, isa), "vdivps"), 0U);
    EXPECT_EQ(count(listing_of(p, isa), "vdivss"), 0U);
    p.sums = 12;
    EXPECT_EQ(count(listing_of(p, isa), "vdivps"), 0U) << "no whole vectors";
  }
}

TEST(Packs, NotWhereOpsDiffer) {
  const auto divides_singly = [](const Program& p) { return count(listing_of(p, Isa::avx2), "vdivsd") > 0; };
  const Program fits;
  EXPECT_FALSE(divides_singly(fits));
  Program p = fits;
  p.lines[1] = "%d# = sub %l#, %s0 : T";
  EXPECT_TRUE(divides_singly(p)) << "one sum for all";
  p = fits;
  p.lines.emplace_back("%e# = add %q#, %d# : T");
  EXPECT_TRUE(divides_singly(p)) << "a value that is used twice";
  p = fits;
  p.lines[2] = "store %zero, %c[1]";
  p.lines[3] = "%q# = div %d#, %l# : T";
  EXPECT_TRUE(divides_singly(p)) << "a store in between, and a value that is used twice";
}

TEST(Packs, ChangeNoResult) {
  for (const std::string init : {"%zero", "%c"}) {
    for (const std::string store : {"%o[#]", "%o[2*#]", "%c[#]"}) {
      // Quotients are sums' first terms then, to which the others are added in another order.
      const int64_t ulps = store == "%c[#]" ? 16 : 0;
      for (const int64_t n : {0, 1, 3, 4, 5, 16, 19, 40}) {
        for (const int sums : {4, 8, 12, 16}) {
          Program p;
          p.sums = sums;
          p.init = init;
          p.store = store;
          expect_same(p.text(), arguments<double>(sums, n), ulps);
          p.lines = {"%q# = mul %s#, %zero : T"};
          expect_same(p.text(), arguments<double>(sums, n), ulps);
          p.lines = {"%l# = load %o[#] : T", "%q# = add %s#, %l# : T"};
          expect_same(p.text(), arguments<double>(sums, n), ulps);
        }
        Program p;
        p.type = "f32";
        p.sums = 16;
        p.init = init;
        p.store = store;
        expect_same(p.text(), arguments<float>(16, n), ulps);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
