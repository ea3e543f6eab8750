// Random stencils on small bounds: tiled in time with sizes of every kind they compute, bit for bit, what the loops
// themselves compute, and it does not matter which of the tiles that may run at once comes first.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/time_tiles.h"
#include "passes_random.h"
#include "passes_stencils.h"

namespace appy::passes {
namespace {

using namespace stencils;

TEST(TimeTiles, RandomStencils) {
  const auto count = static_cast<uint32_t>(env("APPY_FUZZ_COUNT", 120));
  int tiled = 0, shared = 0, planes = 0;
  for_programs(count, [&](const Program& program, const ir::Graph& plain, std::mt19937& random) {
    for (int trial = 0; trial < 3; ++trial) {
      const TileSizes sizes = {static_cast<int64_t>(1 + random() % 5), static_cast<int64_t>(1 + random() % 8),
                               static_cast<int64_t>(1 + random() % 7), static_cast<int64_t>(random() % 5)};
      const auto made = ir::parse(program.text());
      if (!tile_time(*made, sizes)) break;
      ASSERT_EQ(ir::verify(*made), "");
      tiled += trial == 0;
      planes += sizes.lines > 0 && ir::print(*made).find("%lines = ") != std::string::npos;
      const auto reversed = ir::clone(*made);
      reverse_tiles(*reversed);
      ASSERT_EQ(ir::verify(*reversed), "");
      for (int64_t rows : {0, 1, 6, 9, 17, 38, 73}) {
        if (program.has_single_row() && rows < 9) continue;
        for (int64_t trips : {0, 1, 2, 5, 8}) {
          SCOPED_TRACE("sizes " + std::to_string(sizes.steps) + " " + std::to_string(sizes.rows) + " " +
                       std::to_string(sizes.strip) + " " + std::to_string(sizes.lines) + ", rows " +
                       std::to_string(rows) + ", trips " + std::to_string(trips));
          const Outcome expected = run(plain, program, trips, rows);
          ASSERT_TRUE(run(*made, program, trips, rows) == expected) << ir::print(*made);
          ASSERT_TRUE(run(*reversed, program, trips, rows) == expected) << "the other way round\n" << ir::print(*made);
          shared += rows == 73 && trips == 8;
        }
      }
    }
  });
  std::printf("%d of %u tiled, %d by lines\n", tiled, count, planes);
  EXPECT_GT(tiled, static_cast<int>(count) / 4);
  EXPECT_GT(shared, tiled);
  EXPECT_GT(planes, static_cast<int>(count) / 8);
}

}  // namespace
}  // namespace appy::passes
