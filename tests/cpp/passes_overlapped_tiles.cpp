// Random stencils on small bounds: in overlapping tiles of every size they compute, bit for bit, what the loops
// themselves compute, whichever tile of a round comes first, and given to workers and lanes they have no races.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/overlapped_tiles.h"
#include "passes/pass.h"
#include "passes_races.h"
#include "passes_random.h"
#include "passes_stencils.h"

namespace appy::passes {
namespace {

using namespace stencils;

std::unique_ptr<ir::Graph> unwatched_graph(const Program& program) {
  auto graph = ir::parse(program.text());
  find("unwatched")->run(*graph);
  return graph;
}

void distribute(ir::Graph& graph) {
  for (const char* pass : {"fold", "access", "cse", "dce", "distribute", "barriers"}) find(pass)->run(graph);
}

void check_random_stencils(int rank, int usual) {
  const auto count = static_cast<uint32_t>(env("APPY_FUZZ_COUNT", usual));
  int tiled = 0, programs = 0;
  size_t barriers = 0, needed = 0;
  for (uint32_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    const Program program(seed, rank);
    if (program.rank() != rank) continue;
    ++programs;
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.text());
    const auto plain = unwatched_graph(program);
    ASSERT_EQ(ir::verify(*plain), "");
    std::mt19937 random(seed);
    std::map<std::pair<int64_t, int64_t>, stencils::Outcome> expected;  // by rows and trips
    for (int trial = 0; trial < 3; ++trial) {
      const OverlapSizes sizes = {static_cast<int64_t>(1 + random() % 5), static_cast<int64_t>(1 + random() % 12)};
      const auto made = ir::clone(*plain);
      if (!overlap_tiles(*made, sizes)) break;
      ASSERT_EQ(ir::verify(*made), "");
      tiled += trial == 0;
      const auto reversed = ir::clone(*made);
      reverse_tiles(*reversed);
      ASSERT_EQ(ir::verify(*reversed), "");
      for (int64_t rows : {0, 1, 6, 9, 17, 38, 73}) {
        if (program.has_single_row() && rows < 9) continue;
        for (int64_t trips : {0, 1, 2, 5, 8}) {
          SCOPED_TRACE("sizes " + std::to_string(sizes.steps) + " " + std::to_string(sizes.points) + ", rows " +
                       std::to_string(rows) + ", trips " + std::to_string(trips));
          const auto [at, fresh] = expected.try_emplace({rows, trips});
          if (fresh) at->second = run(*plain, program, trips, rows);
          ASSERT_TRUE(run(*made, program, trips, rows) == at->second) << ir::print(*made);
          ASSERT_TRUE(run(*reversed, program, trips, rows) == at->second) << "the other way round\n"
                                                                          << ir::print(*made);
        }
      }
      if (trial > 0) continue;
      distribute(*made);
      ASSERT_EQ(ir::verify(*made), "");
      const auto race_of = [&](const ir::Graph& graph) {
        Races races(graph);
        run(graph, program, 8, 38, &races);
        return races.found();
      };
      ASSERT_EQ(race_of(*made), "");
      const size_t all = barriers_of(*made).size();
      barriers += all;
      needed += all - unneeded_barriers(*made, race_of).size();
    }
  }
  std::printf("%d of %d tiled, %zu of %zu barriers needed\n", tiled, programs, needed, barriers);
  EXPECT_GT(tiled, programs / 4);
  // Of boxes, which have rows of their own only now and then, fewer are seen to be.
  EXPECT_GT(needed, barriers / static_cast<size_t>(rank + 1));
}

TEST(OverlappedTiles, RandomStencils) { check_random_stencils(1, 90); }

TEST(OverlappedTiles, RandomStencilsOfTwoDimensions) { check_random_stencils(2, 48); }

}  // namespace
}  // namespace appy::passes
