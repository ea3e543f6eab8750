// Rows of few elements, each of another number, that are gathered: one vector under a mask where gathers are fast.
#include <limits>
#include <regex>

#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// y[i] = the sum of v[j] * x[c[j]] for j from p[i] to p[i + 1].
std::string sums(const std::string& type, const std::string& rows = "for parallel annotated",
                 const std::string& start = "0.0", const std::string& end = "%e") {
  return "region @r(%m: i64, %k: i64, %p: i32[1,c], %c: i32[1,c], %v: " + type + "[1,c], %x: " + type +
         "[1,c], %y: " + type + "[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %s0 = const " + start +
         " : " + type + "\n  " + rows +
         " %i = %zero to %m step %one {\n    %b0 = load %p[%i] : i32\n    %b = cast %b0 : i64\n"
         "    %e0 = load %p[%i + 1] : i32\n    %e = cast %e0 : i64\n"
         "    %s = for simd annotated %j = " +
         (end == "%e" ? "%b" : "%zero") + " to " + end + " step %one carry(%t = %s0) : " + type +
         " {\n      %a = load %v[%j] : " + type + "\n      %q0 = load %c[%j] : i32\n      %q = cast %q0 : i64\n" +
         "      %g = load %x[%q] : " + type + "\n      %h = mul %a, %g : " + type +
         "\n      %u = add %t, %h : " + type +
         "\n      yield %u\n    }\n    store %s, %y[%i]\n    yield\n  }\n  yield\n}\n";
}

size_t gathers(const std::string& text, bool fast) {
  auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  passes::find("reductions")->run(*graph);
  const std::string listing = code_of(*graph, Isa::avx512, -1, {.fast_gathers = fast})->listing();
  size_t count = 0;
  for (size_t at = 0; (at = listing.find("vgather", at)) != std::string::npos; ++at) ++count;
  return count;
}

/// Where rows begin: some of 0 to 40 elements, behind those of one element next to empty ones.
std::vector<int32_t> growing_rows() {
  std::vector<int32_t> begin = {0, 0, 1, 1, 2};
  for (int32_t n = 0; n <= 40; ++n) begin.push_back(begin.back() + n);
  return begin;
}

Arg floats(const std::string& type, int64_t n) {
  if (type == "f64") return array_arg(counting<double>(static_cast<size_t>(n)), {n});
  return array_arg(counting<float>(static_cast<size_t>(n)), {n});
}

TEST(ShortRows, OneVectorWhereRowsHaveNumbersOfTheirOwn) {
  for (const char* type : {"f64", "f32"}) EXPECT_EQ(gathers(sums(type), true), gathers(sums(type), false) + 1) << type;
  for (const std::string& text : {sums("f64", "for"), sums("f64", "for parallel annotated", "1.0"),
                                  sums("f64", "for parallel annotated", "0.0", "%k")})
    EXPECT_EQ(gathers(text, true), gathers(text, false)) << text;
}

TEST(ShortRows, BeginWithALineWhereTheyEndAtRandom) {
  // The scalar loop alone: rows of known lengths need no place of their own.
  const auto lines = [](const std::string& text) {
    auto graph = ir::parse(text);
    EXPECT_EQ(ir::verify(*graph), "") << text;
    passes::find("reductions")->run(*graph);
    const std::string listing = code_of(*graph, Isa::avx512)->listing();
    static const std::regex head("align 64\nL\\d+:\nvmovsd");
    return std::distance(std::sregex_iterator(listing.begin(), listing.end(), head), std::sregex_iterator());
  };
  EXPECT_EQ(lines(sums("f64")), 1);
  EXPECT_EQ(lines(sums("f64", "for parallel annotated", "0.0", "%one")), 0);
}

TEST(ShortRows, GiveTheSameSums) {
  for (const char* type : {"f64", "f32"}) {
    for (const char* start : {"0.0", "-0.0", "1.0"}) {
      const std::vector<int32_t> begin = growing_rows();
      std::vector<int32_t> column;
      const int32_t all = begin.back();
      for (int32_t j = 0; j < all; ++j) column.push_back((j * 7 + 3) % 50);
      const auto m = static_cast<int64_t>(begin.size() - 1);
      expect_same(sums(type, "for parallel annotated", start),
                  {scalar_arg(word(m)), scalar_arg(word(int64_t{0})), array_arg(begin, {m + 1}),
                   array_arg(column, {all}), floats(type, all), floats(type, 50), floats(type, m)},
                  4, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(ShortRows, MayEndBeforeTheyBegin) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  // Between the most and the least there are two steps, as 64 bits have it.
  const std::vector<int64_t> begin = {9, 3, 0, kMost, kMost - 1, 40, 7, kMost, 17, 5, 3, kMost};
  const std::vector<int64_t> end = {3, 3, 1, kLeast, kLeast + 7, kLeast, 30, kLeast + 30, 16, 39, -1, kMost};
  const auto m = static_cast<int64_t>(begin.size());
  std::vector<int32_t> column;
  for (int32_t j = 0; j < 40; ++j) column.push_back((j * 7 + 3) % 50);
  for (const std::string type : {"f64", "f32"}) {
    for (const std::string element : {"load %v[%j]", "load %x[%q]"}) {
      const std::string text =
          "region @r(%m: i64, %b: i64[1,c], %e: i64[1,c], %c: i32[1,c], %v: " + type + "[1,c], %x: " + type +
          "[1,c], %y: " + type +
          "[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %s0 = const 0.5 : " + type +
          "\n  for parallel annotated %i = %zero to %m step %one {\n    %from = load %b[%i] : i64\n"
          "    %to = load %e[%i] : i64\n    %s = for simd annotated %j = %from to %to step %one carry(%t = %s0) : " +
          type + " {\n      %q0 = load %c[%j] : i32\n      %q = cast %q0 : i64\n      %a = " + element + " : " + type +
          "\n      %u = add %t, %a : " + type +
          "\n      yield %u\n    }\n    store %s, %y[%i]\n    yield\n  }\n  yield\n}\n";
      expect_same(text,
                  {scalar_arg(word(m)), array_arg(begin, {m}), array_arg(end, {m}), array_arg(column, {40}),
                   floats(type, 40), floats(type, 50), floats(type, m)},
                  4, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// y[i] = the sum of x[c[j]] for j from p[i] to p[i + 1], where each index is tested.
std::string tested(const std::string& index) {
  return "region @r(%m: i64, %p: i64[1,c], %c: " + index +
         "[1,c], %x: f64[1,c], %y: f64[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
         "  %s0 = const 0.0 : f64\n  %nx = dim 0 %x : i64\n"
         "  for parallel annotated %i = %zero to %m step %one {\n    %b = load %p[%i] : i64\n"
         "    %e = load %p[%i + 1] : i64\n"
         "    %s = for simd annotated %j = %b to %e step %one carry(sum %t = %s0) : f64 {\n      %k" +
         (index == "i64" ? "" : "0") + " = load %c[%j] : " + index + "\n" +
         (index == "i64" ? "" : "      %k = cast %k0 : i64\n") +
         "      %w = wrap %k, %nx : i64\n      %low = ge %w, %zero : bool\n      %high = lt %w, %nx : bool\n"
         "      %inside = and %low, %high : bool\n      check bounds %inside info(%k, %zero, %nx) state()\n"
         "      %g = load %x[%w] : f64\n      %u = add %t, %g : f64\n      yield %u\n    }\n"
         "    store %s, %y[%i]\n    yield\n  }\n  yield\n}\n";
}

TEST(ShortRows, IndicesOutOfArraysAreTestedAsAWhole) {
  const auto count = [](const std::string& listing, const std::string& what) {
    const std::regex found(what);
    return std::distance(std::sregex_iterator(listing.begin(), listing.end(), found), std::sregex_iterator());
  };
  for (const char* index : {"i64", "i32", "u32"}) {
    auto graph = ir::parse(tested(index));
    EXPECT_EQ(ir::verify(*graph), "");
    const std::string avx2 = code_of(*graph, Isa::avx2)->listing();
    // Wrapped and compared by one comparison; no index is taken out of a vector, and no mask does the rest.
    EXPECT_EQ(count(avx2, "vpcmpgtq"), 1) << avx2;
    EXPECT_EQ(count(avx2, "vmovmskpd"), 1) << avx2;
    EXPECT_EQ(count(avx2, "vpextrq"), 0) << avx2;
    EXPECT_EQ(count(avx2, "vmaskmov"), 0) << avx2;
    const std::string avx512 = code_of(*graph, Isa::avx512)->listing();
    EXPECT_EQ(count(avx512, "kortestb k(\\d), k\\1\njnc "), 1) << avx512;
  }
}

/// y[i] = the sum of v[j] for j from p[i] to p[i + 1], counted from 0 if so.
std::string side_by_side(const std::string& type, const std::string& rows, bool counts) {
  return "region @r(%m: i64, %p: i32[1,c], %v: " + type + "[1,c], %y: " + type +
         "[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %s0 = const 0.0 : " + type + "\n  " + rows +
         " %i = %zero to %m step %one {\n    %b0 = load %p[%i] : i32\n    %b = cast %b0 : i64\n"
         "    %e0 = load %p[%i + 1] : i32\n    %e = cast %e0 : i64\n    %d = sub %e, %b : i64\n"
         "    %u = cast %d : u32\n    %n = cast %u : i64\n    %s = for simd annotated %j = " +
         (counts ? "%zero to %n" : "%b to %e") + " step %one carry(sum %t = %s0) : " + type +
         " {\n      %a = load %v[" + (counts ? "%b + %j" : "%j") + "] : " + type + "\n      %w = add %t, %a : " + type +
         "\n      yield %w\n    }\n    store %s, %y[%i]\n    yield\n  }\n  yield\n}\n";
}

TEST(ShortRows, LieSideBySide) {
  // Added to the sum in place, under the mask; what counts from 0 is not tested for being negative.
  const std::regex in_place("vaddpd zmm(\\d+) \\{k\\d\\}, zmm\\1");
  for (const bool counts : {false, true}) {
    const auto listing = [&](const std::string& rows, Isa isa) {
      auto graph = ir::parse(side_by_side("f64", rows, counts));
      EXPECT_EQ(ir::verify(*graph), "");
      passes::find("reductions")->run(*graph);
      return code_of(*graph, isa)->listing();
    };
    const std::string one = listing("for parallel annotated", Isa::avx512), in_order = listing("for", Isa::avx512);
    const auto masked = [&](const std::string& text) {
      return std::distance(std::sregex_iterator(text.begin(), text.end(), in_place), std::sregex_iterator());
    };
    EXPECT_EQ(masked(one), masked(in_order) + 1) << one;
    EXPECT_EQ(listing("for parallel annotated", Isa::avx2).find("zmm"), std::string::npos);
  }
  for (const char* type : {"f64", "f32"}) {
    for (const bool counts : {false, true}) {
      const std::vector<int32_t> begin = growing_rows();
      const auto m = static_cast<int64_t>(begin.size() - 1);
      expect_same(side_by_side(type, "for parallel annotated", counts),
                  {scalar_arg(word(m)), array_arg(begin, {m + 1}), floats(type, begin.back()), floats(type, m)}, 4, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
