// Random stencils on small bounds: on copies with padded rows, by stretches of any number of steps, and tiled in time
// on top of that, they compute, bit for bit, what the loops themselves compute.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pad_rows.h"
#include "passes/time_tiles.h"
#include "passes_random.h"
#include "passes_stencils.h"

namespace appy::passes {

namespace {

using namespace stencils;

TEST(PadRows, RandomStencils) {
  const auto count = static_cast<uint32_t>(env("APPY_FUZZ_COUNT", 200));
  int padded = 0, tiled = 0;
  for_programs(count, [&](const Program& program, const ir::Graph& plain, std::mt19937& random) {
    for (const int64_t stretch : {int64_t{0}, int64_t{1}, int64_t{3}}) {
      const auto made = ir::parse(program.text());
      if (!pad(*made, PadSizes{stretch})) break;
      ASSERT_EQ(ir::verify(*made), "");
      ASSERT_NE(ir::print(*made).find("alloc"), std::string::npos);
      padded += stretch == 0;
      const auto both = ir::clone(*made);
      const TileSizes sizes = {static_cast<int64_t>(1 + random() % 4), static_cast<int64_t>(1 + random() % 8),
                               static_cast<int64_t>(1 + random() % 5), static_cast<int64_t>(random() % 4)};
      tiled += tile_time(*both, sizes) && stretch == 0;
      ASSERT_EQ(ir::verify(*both), "");
      for (int64_t rows : {0, 1, 6, 9, 17, 38}) {
        if (program.has_single_row() && rows < 9) continue;
        for (int64_t trips : {0, 1, 2, 5, 8}) {
          SCOPED_TRACE("stretch " + std::to_string(stretch) + ", rows " + std::to_string(rows) + ", trips " +
                       std::to_string(trips));
          const Outcome expected = run(plain, program, trips, rows);
          ASSERT_TRUE(run(*made, program, trips, rows) == expected) << ir::print(*made);
          ASSERT_TRUE(run(*both, program, trips, rows) == expected) << "tiled\n" << ir::print(*both);
        }
      }
    }
  });
  std::printf("%d of %u padded, %d of them tiled\n", padded, count, tiled);
  EXPECT_GT(padded, static_cast<int>(count) / 4);
  EXPECT_GT(tiled, padded / 2);
}

/// Such a loop with the sizes of one entry.
std::string program(const std::string& given) {
  return "region @r(%T: i64 in [0, 2000000], %a: f64[2,c], %b: f64[2,c], %w: f32[2,inner]) given(" + given +
         R"() results("t") {
  %c0 = const 0 : i64
  %c1 = const 1 : i64
  %half = const 0.5 : f64
  %a0 = dim 0 %a : i64
  %a1 = dim 1 %a : i64
  %m = sub %a0, %c1 : i64
  %n = sub %a1, %c1 : i64
  %t_last = for annotated %t = %c0 to %T step %c1 carry(%t_old = %c0) : i64 {
    poll state(%t_old)
    for parallel annotated %i = %c1 to %m step %c1 {
      for simd annotated %j = %c1 to %n step %c1 {
        %x = load %a[%i - 1, %j] : f64
        %y = load %a[%i + 1, %j] : f64
        %z = load %w[%i, %j] : f32
        %f = cast %z : f64
        %s = add %x, %y : f64
        %v = fma %s, %half, %f : f64
        store %v, %b[%i, %j]
        yield
      }
      yield
    }
    for parallel annotated %i = %c1 to %m step %c1 {
      for simd annotated %j = %c1 to %n step %c1 {
        %v = load %b[%i, %j - 1] : f64
        %u = load %b[%i, %j + 1] : f64
        %s = add %v, %u : f64
        store %s, %a[%i, %j]
        yield
      }
      yield
    }
    yield %t
  }
  yield %t_last
}
)";
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(PadRows, TheEntryDecides) {
  const auto padded = [](const std::string& given) {
    const auto graph = ir::parse(program(given));
    EXPECT_TRUE(pad(*graph, std::nullopt));
    EXPECT_EQ(ir::verify(*graph), "");
    const std::string text = ir::print(*graph);
    EXPECT_EQ(count(text, "if %"), 0u) << text;
    EXPECT_GE(count(text, "check sizes"), 1u) << text;
    return text;
  };
  const std::string sizes = ", [300, 500], [300, 500], [300, 500]";
  const std::string at_once = padded("200" + sizes);
  // The second element of each row begins a line; what is read only lies as the others do, and nothing of it goes back.
  EXPECT_EQ(count(at_once, " lead 7 : f64[2,c]"), 2u) << at_once;
  EXPECT_EQ(count(at_once, " lead 7 : f32[2,c]"), 1u) << at_once;
  EXPECT_EQ(count(at_once, "for parallel "), 3u + 2u + 2u) << at_once;
  EXPECT_EQ(count(at_once, "%stretch ="), 0u) << at_once;
  const std::string stretches = padded("1000000" + sizes);
  EXPECT_EQ(count(stretches, "for annotated %stretch = "), 1u) << stretches;
  // Few steps, short rows, arrays of a few elements, and some that a thread does not keep the memory of.
  const std::vector<std::string> others = {"9" + sizes, "20000, [3000, 30], [3000, 30], [3000, 30]",
                                           "200, [30, 50], [30, 50], [30, 50]",
                                           "2000, [3000, 3000], [3000, 3000], [3000, 3000]"};
  for (const std::string& given : others) {
    EXPECT_EQ(count(padded(given), "alloc"), 0u) << given;
  }
}

TEST(PadRows, ArraysThatMayOverlapStayWhereTheyAre) {
  const auto graph = ir::parse(program("200, [300, 500], [300, 500], [300, 500]"));
  graph->may_alias = true;
  EXPECT_FALSE(pad(*graph, std::nullopt));
}

}  // namespace
}  // namespace appy::passes
