// What is asked of memory ahead of time: which loads qualify, and that what is computed stays the same.
#include <regex>

#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// The loop with so many sums: %c0, ... become %n0, ... in the body, and %r0, ... behind it.
std::string carrying(int sums, const std::string& loop, const std::string& body, const std::string& kind = "") {
  std::string types, names, inits, next;
  for (int k = 0; k < sums; ++k) {
    const std::string n = std::to_string(k), comma = k ? ", " : "";
    types += comma + "f64";
    names += comma + "%r" + n;
    inits += comma + kind + "%c" + n + " = %f";
    next += comma + "%n" + n;
  }
  return names + " = " + loop + " carry(" + inits + ") : " + types + " {\n" + body + "      yield " + next +
         "\n    }\n";
}

/// `sums` sums over the rows of a[m, n], whose total is added to what `place` of o holds, behind `between`.
std::string sums_over_rows(int sums, const std::string& place, const std::string& between = "") {
  std::string body = "      %v = load %a[%k, %j] : f64\n", total = "%r0", after;
  for (int k = 0; k < sums; ++k) {
    const std::string n = std::to_string(k);
    body += "      %n" + n + " = add %c" + n + ", %v : f64\n";
    if (k) after += "    %t" + n + " = mul " + total + ", %r" + n + " : f64\n";
    if (k) total = "%t" + n;
  }
  return "region @r(%m: i64, %n: i64, %a: f64[2,c], %o: f64[1,c], %p: i64[1,c]) {\n  %zero = const 0 : i64\n"
         "  %one = const 1 : i64\n  %f = const 0.0 : f64\n  for simd %j = %zero to %n step %one {\n    " +
         carrying(sums, "for %k = %zero to %m step %one", body) + after + between + "    %old = load %o[" + place +
         "] : f64\n    %new = add %old, " + total + " : f64\n    store %new, %o[" + place +
         "]\n    yield\n  }\n  yield\n}\n";
}

int prefetches(const std::string& listing) { return static_cast<int>(count(listing, "prefetcht0")); }

/// Instructions that ask for memory at a place with no stride of rows in it, before the first sum.
int asked(const std::string& text, Isa isa) {
  const auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  const std::string listing = code_of(*graph, isa, 0)->listing();
  return prefetches(listing.substr(0, listing.find("vaddpd")));
}

TEST(Prefetch, WhatIsLoadedBehindSeveralSums) {
  const std::string row = "    %q = load %p[%zero] : i64\n";
  for (Isa isa : isas()) {
    const int rows = asked(sums_over_rows(4, "2*%j"), isa);  // of the matrix alone
    // One line in an iteration, and in turn before the loop what it is too short for.
    EXPECT_EQ(asked(sums_over_rows(4, "%j"), isa), rows + 2);
    EXPECT_EQ(asked(sums_over_rows(4, "%m"), isa), rows);
    EXPECT_EQ(asked(sums_over_rows(4, "%j + %q", row), isa), rows) << "the place is not known before the loop";
    EXPECT_EQ(asked(sums_over_rows(3, "%j"), isa), 0);
  }
}

/// A sum of each of some rows of a[m, n], times %x, if that is given.
std::string sums_of_rows(int rows, const std::string& times = "") {
  std::string body = times, stores;
  for (int k = 0; k < rows; ++k) {
    const std::string n = std::to_string(k);
    body += "    %v" + n + " = load %a[" + n + ", %j] : f64\n";
    body +=
        "    %n" + n + " = " + (times.empty() ? "add %c" + n + ", %v" + n : "fma %v" + n + ", %x, %c" + n) + " : f64\n";
    stores += "  store %r" + n + ", %o[" + n + "]\n";
  }
  return "region @r(%m: i64, %n: i64, %a: f64[2,c], %b: f64[1,c], %o: f64[1,c]) {\n  %zero = const 0 : i64\n"
         "  %one = const 1 : i64\n  %f = const 0.0 : f64\n  " +
         carrying(rows, "for simd %j = %zero to %n step %one", body, "sum ") + stores + "  yield\n}\n";
}

TEST(Prefetch, RowsOfWhichEachHasASum) {
  const std::string vector = "    %x = load %b[%j] : f64\n";
  for (Isa isa : isas()) {
    const auto asked_in_all = [&](const std::string& text, bool asks = true) {
      const auto graph = ir::parse(text);
      EXPECT_EQ(ir::verify(*graph), "") << text;
      return prefetches(code_of(*graph, isa, 0, {.asks_for_streams = asks})->listing());
    };
    EXPECT_EQ(asked_in_all(sums_of_rows(3)), 0);
    EXPECT_EQ(asked_in_all(sums_of_rows(4), false), 0) << "where the processor fetches ahead by itself";
    EXPECT_EQ(asked_in_all(sums_of_rows(3, vector)), 0) << "what all of them need is near";
    for (int rows : {4, 6}) {
      for (const std::string& times : {std::string(), vector}) {
        const int lines = asked_in_all(sums_of_rows(rows, times));
        // A line of each in turn, and where AVX2 adds what is left without a mask, in that loop, too.
        EXPECT_TRUE(lines == rows || lines == 2 * rows) << lines;
      }
    }
  }
}

TEST(Prefetch, RowsOfAnyLength) {
  for (int64_t n : {0, 1, 7, 8, 16, 37, 700}) {
    for (int rows : {4, 6}) {
      expect_same(sums_of_rows(rows, "    %x = load %b[%j] : f64\n"),
                  {scalar_arg(word(int64_t{rows})), scalar_arg(word(n)),
                   array_arg(counting<double>(static_cast<size_t>(rows * n)), {rows, n}),
                   array_arg(counting<double>(static_cast<size_t>(n))), array_arg(counting<double>(6))});
    }
  }
}

/// Four sums of rows of a[m, n], each times an element of its own in the row of b[m, 4].
std::string sums_times_elements(const std::string& row) {
  std::string body = "      %v = load %a[%k, %j] : f64\n", total = "%r0", after;
  for (int k = 0; k < 4; ++k) {
    const std::string n = std::to_string(k);
    body += "      %e" + n + " = load %b[" + row + ", " + n + "] : f64\n      %n" + n + " = fma %e" + n + ", %v, %c" +
            n + " : f64\n";
    if (k) after += "    %t" + n + " = add " + total + ", %r" + n + " : f64\n";
    if (k) total = "%t" + n;
  }
  return "region @r(%m: i64, %n: i64, %a: f64[2,c], %b: f64[2,c], %o: f64[1,c]) {\n  %zero = const 0 : i64\n"
         "  %one = const 1 : i64\n  %f = const 0.0 : f64\n  for simd %j = %zero to %n step %one {\n    " +
         carrying(4, "for %k = %zero to %m step %one", body) + after + "    store " + total +
         ", %o[%j]\n    yield\n  }\n  yield\n}\n";
}

TEST(Prefetch, ElementsOfRowsToComeOnceForAll) {
  for (Isa isa : isas()) {
    const auto asked_in_all = [&](const std::string& text) {
      return prefetches(code_of(*ir::parse(text), isa, 0)->listing());
    };
    const int rows = asked_in_all(sums_times_elements("%zero"));  // of a alone
    const int both = asked_in_all(sums_times_elements("%k"));
    EXPECT_GT(both, rows);
    EXPECT_LE(both, 2 * rows) << "one line for the four elements";
  }
  for (int64_t m : {0, 1, 5, 60}) {
    const int64_t n = 37;
    const auto size = static_cast<size_t>(m * n);
    expect_same(sums_times_elements("%k"),
                {scalar_arg(word(m)), scalar_arg(word(n)), array_arg(counting<double>(size), {m, n}),
                 array_arg(counting<double>(static_cast<size_t>(4 * m)), {m, 4}),
                 array_arg(counting<double>(static_cast<size_t>(n)))});
  }
}

TEST(Prefetch, NotWhatWasCopiedAMomentAgo) {
  const auto asks_for_rows = [](const ir::Graph& graph, Isa isa) {
    return std::regex_search(code_of(graph, isa, 0)->listing(), std::regex("prefetcht0 \\[\\w+\\+\\w+\\*8"));
  };
  const std::string copied = [] {
    std::string text = sums_times_elements("%zero");
    const std::string lanes = "  for simd %j = ";
    text.insert(text.find(lanes),
                "  %own = alloc %m, %n slot 0 : f64[2,c]\n  for simd %e = %zero to %n step %one {\n"
                "    %x = load %a[%zero, %e] : f64\n    store %x, %own[%zero, %e]\n    yield\n  }\n");
    const std::string load = "load %a[%k, %j]";
    return text.replace(text.find(load), load.size(), "load %own[%k, %j]");
  }();
  for (Isa isa : isas()) {
    const auto graph = ir::parse(copied);
    ASSERT_EQ(ir::verify(*graph), "") << copied;
    EXPECT_FALSE(asks_for_rows(*graph, isa));
    EXPECT_TRUE(asks_for_rows(*ir::parse(sums_times_elements("%zero")), isa));
  }
}

TEST(Prefetch, PanelsWhoseRowsFollowEachOther) {
  const auto asked_of_panel = [](int columns, Isa isa) {
    std::string text = sums_times_elements("%zero");
    const std::string lanes = "  for simd %j = ", load = "load %a[%k, %j]";
    text.insert(text.find(lanes),
                "  %own = alloc %m slot 0 : f64[1,c]\n  for simd %e = %zero to %m step %one {\n"
                "    %x = load %a[%zero, %e] : f64\n    store %x, %own[%e]\n    yield\n  }\n");
    text.replace(text.find(load), load.size(), "load %own[" + std::to_string(columns) + "*%k + %j]");
    const auto graph = ir::parse(text);
    EXPECT_EQ(ir::verify(*graph), "") << text;
    return prefetches(code_of(*graph, isa, 0)->listing());
  };
  for (Isa isa : isas()) {
    const int lines = asked_of_panel(32, isa) - asked_of_panel(48, isa);
    EXPECT_EQ(lines % 4, 0) << "those of four vectors, in each copy of the loop";
    EXPECT_EQ(lines > 0, isa == Isa::avx512);
  }
}

TEST(Prefetch, ChangesNoResult) {
  for (int64_t n : {0, 1, 8, 37, 128}) {
    for (int64_t m : {0, 1, 5, 6, 60}) {  // as many iterations as there are lines to ask for, fewer, and more
      const auto size = static_cast<size_t>(m * n);
      expect_same(sums_over_rows(4, "%j"),
                  {scalar_arg(word(m)), scalar_arg(word(n)), array_arg(counting<double>(size), {m, n}),
                   array_arg(counting<double>(static_cast<size_t>(n))), array_arg(counting<int64_t>(1))});
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
