// Several sums in one loop, as loops that were jammed have them: where they begin, and what comes into their lanes.
#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

std::string listing_of(const std::string& text, Isa isa) {
  auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  return code_of(*graph, isa, -1, {})->listing();
}

/// The sums of x[0, k] * x[r, k] for r from 0 to `rows` - 1: as many sums and loads. With `second` x[1, k] * x[r, k] is
/// added in turn.
std::string dots(int rows, const std::string& how = "simd annotated", bool second = false) {
  std::string results, carried, types, body, later, yields, stores;
  for (int r = 0; r < rows; ++r) {
    const std::string n = std::to_string(r), comma = r ? ", " : "";
    results += comma + "%s" + n;
    carried += comma + (how.starts_with("simd") ? "sum " : "") + "%t" + n + " = %f0";
    types += comma + "f64";
    yields += comma + "%u" + n;
    const std::string sum = second ? "%h" + n : "%u" + n;
    body +=
        "    %x" + n + " = load %x[" + n + ", %k] : f64\n    " + sum + " = fma %x0, %x" + n + ", %t" + n + " : f64\n";
    if (second) later += "    %u" + n + " = fma %x1, %x" + n + ", %h" + n + " : f64\n";
    stores += "  store %s" + n + ", %o[" + n + "]\n";
  }
  return "region @r(%b: i64, %n: i64, %x: f64[2,c], %o: f64[1,c]) {\n  %one = const 1 : i64\n  %f0 = const 0.0 : f64\n "
         " " +
         results + " = for " + how + " %k = %b to %n step %one carry(" + carried + ") : " + types + " {\n" + body +
         later + "    yield " + yields + "\n  }\n" + stores + "  yield\n}\n";
}

TEST(Sums, BeginBeforeALineOfTheCacheWithAvx512) {
  const auto aligns = [](const std::string& text, Isa isa) { return count(listing_of(text, isa), "neg ") > 0; };
  EXPECT_TRUE(aligns(dots(16), Isa::avx512));
  EXPECT_FALSE(aligns(dots(16), Isa::avx2));
  EXPECT_FALSE(aligns(dots(2), Isa::avx512)) << "two sums go several vectors at a time";
}

/// The same, of as many terms as eight times %n.
std::string dots_of_eights(int rows) {
  std::string text = dots(rows);
  const std::string head = "  %one = const 1 : i64\n";
  text.insert(text.find(head), "  %eight = const 8 : i64\n  %low = const 0 : i64\n  %high = mul %n, %eight : i64\n");
  text.replace(text.find("%b to %n"), 8, "%low to %high");
  return text;
}

TEST(Sums, OfWholeVectorsNeedNoMasks) {
  EXPECT_GT(count(listing_of(dots(12), Isa::avx2), "vmaskmov"), 0);
  EXPECT_EQ(count(listing_of(dots_of_eights(12), Isa::avx2), "vmaskmov"), 0);
  for (const int rows : {1, 2, 8, 12}) {
    for (const int64_t n : {-1, 0, 1, 2, 7}) {
      expect_same(dots_of_eights(rows), {scalar_arg(word(int64_t{0})), scalar_arg(word(n)),
                                         array_arg(counting<double>(static_cast<size_t>(rows * 64)), {rows, 64}),
                                         array_arg(std::vector<double>(static_cast<size_t>(rows)), {rows})});
    }
  }
}

TEST(Sums, AddTwoProductsInPlace) {
  const auto moves = [](bool second, Isa isa) {
    const std::string listing = listing_of(dots(8, "simd annotated", second), isa);
    return count(listing, "vmovaps") + count(listing, "vmovapd") + count(listing, "vblend");
  };
  for (const Isa isa : {Isa::avx2, Isa::avx512}) EXPECT_LE(moves(true, isa), moves(false, isa));
}

TEST(Sums, AreTheSameWhereverTheyBegin) {
  constexpr int64_t rows = 16;
  for (const int64_t columns : {136, 144, 150, 400}) {
    for (int64_t begin = 0; begin < 9; ++begin) {
      for (const int64_t end : {begin, begin + 1, begin + 127, begin + 128, columns}) {
        if (end > columns) continue;
        expect_same(dots(rows), {scalar_arg(word(begin)), scalar_arg(word(end)),
                                 array_arg(counting<double>(static_cast<size_t>(rows * columns)), {rows, columns}),
                                 array_arg(std::vector<double>(rows), {rows})});
        expect_same(dots(8, "simd annotated", true),
                    {scalar_arg(word(begin)), scalar_arg(word(end)),
                     array_arg(counting<double>(static_cast<size_t>(8 * columns)), {8, columns}),
                     array_arg(std::vector<double>(8), {8})});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// y[j] += a[k] * x[k, j], the row's element `scaled` or not.
std::string update(bool scaled) {
  return "region @r(%q: i64, %n: i64, %c: f64, %a: f64[1,c], %x: f64[2,c], %y: f64[1,c]) {\n  %zero = const 0 : i64\n"
         "  %one = const 1 : i64\n  for simd annotated %j = %zero to %n step %one {\n    %y0 = load %y[%j] : f64\n"
         "    %s = for %k = %zero to %q step %one carry(%t = %y0) : f64 {\n      %e = load %a[%k] : f64\n" +
         std::string(scaled ? "      %f = mul %c, %e : f64\n" : "") +
         "      %x0 = load %x[%k, %j] : f64\n      %u = fma " + (scaled ? "%f" : "%e") +
         ", %x0, %t : f64\n      yield %u\n    }\n    store %s, %y[%j]\n    yield\n  }\n  yield\n}\n";
}

TEST(Sums, WhatScalesAllLanesComesFromMemoryIntoThem) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    EXPECT_EQ(count(listing_of(update(true), isa), "vmulsd"), count(listing_of(update(false), isa), "vmulsd"));
    EXPECT_GT(count(listing_of(update(true), isa), "vmulpd"), 0U);
  }
  for (const int64_t n : {1, 7, 8, 33, 70}) {
    expect_same(update(true),
                {scalar_arg(word(int64_t{5})), scalar_arg(word(n)), scalar_arg(word(2.5)),
                 array_arg(counting<double>(5), {5}), array_arg(counting<double>(static_cast<size_t>(5 * n)), {5, n}),
                 array_arg(counting<double>(static_cast<size_t>(n)), {n})});
  }
}

/// y[r, j] += the sum of a[r, k] * x[k, j] for columns before the row's `cut`, as a triangle's diagonal has them; or,
/// with `inside`, sums of what is positive alone.
std::string diagonal(bool inside = false) {
  const std::string added =
      inside ? "      %big = gt %p0, %f0 : bool\n      %u0 = if %big : f64 {\n        %h = add %t0, %p0 : f64\n        "
               "yield %h\n      } else {\n        yield %t0\n      }\n"
             : "      %u0 = add %t0, %p0 : f64\n";
  std::string text =
      "region @r(%q: i64, %n: i64, %cut0: i64, %cut1: i64, %a: f64[2,c], %x: f64[2,c], %y: f64[2,c]) {\n"
      "  %zero = const 0 : i64\n  %one = const 1 : i64\n  %f0 = const 0.0 : f64\n"
      "  for parallel simd annotated %j = %zero to %n step %one {\n"
      "    %s0, %s1 = for %k = %zero to %q step %one carry(%t0 = %f0, %t1 = %f0) : f64, f64 {\n"
      "      %x0 = load %x[%k, %j] : f64\n      %a0 = load %a[0, %k] : f64\n      %a1 = load %a[1, %k] : f64\n"
      "      %p0 = mul %a0, %x0 : f64\n" +
      added + "      %p1 = mul %a1, %x0 : f64\n      %u1 = add %t1, %p1 : f64\n      yield %u0, %u1\n    }\n";
  for (const std::string r : {"0", "1"}) {
    text += "    %in" + r + " = lt %j, %cut" + r + " : bool\n    if %in" + r + " {\n      %y" + r + " = load %y[" + r +
            ", %j] : f64\n      %v" + r + " = add %y" + r + ", %s" + r + " : f64\n      store %v" + r + ", %y[" + r +
            ", %j]\n      yield\n    } else {\n      yield\n    }\n";
  }
  return text + "    yield\n  }\n  yield\n}\n";
}

TEST(Sums, GoTwoVectorsAtATimeWhereAConditionComesBehindThem) {
  const auto vectors = [](const std::string& text, Isa isa) {
    const std::string summary = code_of(*ir::parse(text), isa, -1, {})->summary();
    return summary.substr(summary.find(" x ") + 3, 1);
  };
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    EXPECT_EQ(vectors(diagonal(), isa), "2");
    EXPECT_EQ(vectors(diagonal(true), isa), "1");
  }
  for (const bool inside : {false, true}) {
    for (const int64_t n : {0, 1, 8, 15, 16, 17, 40}) {
      for (const int64_t cut : {int64_t{-1}, int64_t{0}, n / 2, n - 1, n}) {
        for (const int64_t q : {0, 1, 5}) {
          const auto elements = [](int64_t count) { return counting<double>(static_cast<size_t>(count)); };
          expect_same(diagonal(inside),
                      {scalar_arg(word(q)), scalar_arg(word(n)), scalar_arg(word(cut)), scalar_arg(word(cut + 1)),
                       array_arg(elements(2 * q), {2, q}), array_arg(elements(q * (n + 1)), {q, n + 1}),
                       array_arg(elements(2 * (n + 1)), {2, n + 1})});
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
