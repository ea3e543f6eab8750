// What whole groups of lanes leave of a loop: with AVX2 by vectors that end where the loop does, or under masks.
#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// Rows of a[m, n] from the one column on, stored to o[m, n]: `row` has %v, the element.
std::string rows(const std::string& row, const std::string& n = "%n", const std::string& type = "f64") {
  return "region @r(%m: i64, %n: i64, %a: " + type + "[2,c], %o: " + type + "[2,c], %p: " + type +
         "[2,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %many = const 38 : i64\n  %few = const 3 : i64\n"
         "  for %i = %zero to %m step %one {\n    for simd %j = %zero to " +
         n + " step %one {\n      %v = load %a[%i, %j] : " + type + "\n" + row +
         "      yield\n    }\n    yield\n  }\n  yield\n}\n";
}

bool has_masks(const std::string& text) {
  auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  return code_of(*graph, Isa::avx2)->listing().find("vmaskmov") != std::string::npos;
}

const std::string kDoubled = "      %w = add %v, %v : f64\n      store %w, %o[%i, %j]\n";

TEST(RowEnds, NoMasksWhereIterationsMayBeRepeated) {
  EXPECT_FALSE(has_masks(rows(kDoubled, "%many")));
  EXPECT_FALSE(has_masks(rows(kDoubled))) << "fewer than lanes are scalar code";
  EXPECT_TRUE(has_masks(rows(kDoubled, "%few")));
  EXPECT_TRUE(
      has_masks(rows("      store %v, %o[%i, %j]\n      %w = load %p[%i, %j] : f64\n"
                     "      %x = add %w, %v : f64\n      store %x, %p[%i, %j]\n",
                     "%many")))
      << "in place";
  std::string overlapping = rows(kDoubled, "%many");
  overlapping.replace(overlapping.find(") {"), 3, ") may_alias {");
  EXPECT_TRUE(has_masks(overlapping));
}

TEST(RowEnds, StoresTheSame) {
  const std::string in_place =
      "      %w = load %p[%i, %j] : f64\n      %x = add %w, %v : f64\n"
      "      store %x, %p[%i, %j]\n      store %v, %o[%i, %j]\n";
  const std::string chosen =
      "      %c = lt %v, %four : bool\n      if %c {\n        store %v, %o[%i, %j]\n        yield\n"
      "      } else {\n        store %four, %p[%i, %j]\n        yield\n      }\n";
  std::string with_four = rows(chosen);
  with_four.insert(with_four.find("  %zero"), "  %four = const 40.0 : f64\n");
  std::string many = "      %w0 = add %v, %v : f64\n";
  for (int k = 0; k < 30; ++k) {
    many += "      %w" + std::to_string(k + 1) + " = mul %w" + std::to_string(k) + ", %v : f64\n";
  }
  many += "      store %w30, %o[%i, %j]\n";
  for (const std::string& text : {rows(kDoubled), rows(in_place), with_four, rows(many)}) {
    for (int64_t n = 0; n <= 41; ++n) {
      const Arg a = array_arg(counting<double>(static_cast<size_t>(3 * n)), {3, n});
      expect_same(text, {scalar_arg(word(int64_t{3})), scalar_arg(word(n)), a, a, a}, 0, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(RowEnds, NarrowTypes) {
  for (const std::string type : {"i32", "i16", "i8"}) {
    const std::string text = rows("      %w = add %v, %v : " + type + "\n      store %w, %o[%i, %j]\n", "%n", type);
    for (int64_t n = 0; n <= 75; ++n) {
      const auto of = [&]<class T>(T) { return array_arg(counting<T>(static_cast<size_t>(2 * n)), {2, n}); };
      const Arg a = type == "i32" ? of(int32_t{}) : type == "i16" ? of(int16_t{}) : of(int8_t{});
      expect_same(text, {scalar_arg(word(int64_t{2})), scalar_arg(word(n)), a, a, a}, 0, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

/// The region makes a copy %t of a[m, n]; `rows` is what it does with row %i of that.
std::string with_copy(const std::string& rows, const std::string& type = "f64", const std::string& flags = "") {
  return "region @r(%m: i64, %n: i64, %a: " + type + "[2,c], %o: " + type +
         "[2,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %none = const 0 : " + type +
         "\n  %t = alloc %m, %n slot 0 " + flags + ": " + type +
         "[2,c]\n  for %i = %zero to %m step %one {\n    for simd %j = %zero to %n step %one {\n"
         "      %v = load %a[%i, %j] : " +
         type +
         "\n      store %v, %t[%i, %j]\n      yield\n    }\n    yield\n  }\n"
         "  for %i = %zero to %m step %one {\n" +
         rows + "    yield\n  }\n  yield\n}\n";
}

/// Stores %w, made of the copy's %v, to o[m, n].
std::string each(const std::string& element, const std::string& type = "f64") {
  return "    for simd %j = %zero to %n step %one {\n      %v = load %t[%i, %j] : " + type + "\n" + element +
         "      store %w, %o[%i, %j]\n      yield\n    }\n";
}

size_t masked_loads(const std::string& text) {
  const auto graph = ir::parse(text);
  EXPECT_EQ(ir::verify(*graph), "") << text;
  return count(code_of(*graph, Isa::avx512)->listing(), "{z}");
}

TEST(RowEnds, ReadBehindArraysOfTheRegion) {
  const std::string square = "      %w = mul %v, %v : f64\n";
  // One load of %a goes under a mask in any case.
  EXPECT_EQ(masked_loads(with_copy(each(square))), 1u);
  EXPECT_EQ(masked_loads(with_copy(each(square), "f64", "escapes ")), 2u) << "NumPy's memory ends where it does";
  const std::string beside = with_copy(each("      %x = load %a[%i, %j] : f64\n      %w = fma %v, %x, %v : f64\n"));
  EXPECT_EQ(masked_loads(beside), 2u);
  const std::string called = with_copy(each("      %w = exp %v : f64\n"));
  EXPECT_EQ(masked_loads(called), 2u) << "what is there may take long";
  const std::string chosen = with_copy(each("      %c = lt %v, %none : bool\n      %w = select %c, %none, %v : f64\n"));
  EXPECT_EQ(masked_loads(chosen), 2u);
  const std::string integers = with_copy(each("      %w = add %v, %v : i64\n", "i64"), "i64");
  EXPECT_EQ(masked_loads(integers), 2u);
  const std::string summed = with_copy(
      "    %s = for simd %j = %zero to %n step %one carry(sum %b = %none) : f64 {\n      %v = load %t[%i, %j] : f64\n"
      "      %c = fma %v, %v, %b : f64\n      yield %c\n    }\n    store %s, %o[%i, 0]\n");
  EXPECT_EQ(masked_loads(summed), 2u);
  for (const std::string& text : {with_copy(each(square)), beside, called, chosen, summed}) {
    for (int64_t n = 1; n <= 35; ++n) {
      const Arg a = array_arg(counting<double>(static_cast<size_t>(3 * n)), {3, n});
      expect_same(text, {scalar_arg(word(int64_t{3})), scalar_arg(word(n)), a, a}, 4 * n);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
