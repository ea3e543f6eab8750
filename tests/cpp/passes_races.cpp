// Races in graphs from elsewhere. `APPY_DUMP=passes` prints graphs; APPY_GRAPHS names a folder of files that hold one
// each, as `distribute` and `barriers` left it.
#include "passes_races.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/verify.h"
#include "passes_compare.h"

namespace appy::passes {
namespace {

namespace fs = std::filesystem;

TEST(Races, GraphsOfAFolder) {
  const char* folder = std::getenv("APPY_GRAPHS");
  if (!folder) GTEST_SKIP() << "APPY_GRAPHS names no folder";
  int graphs = 0, ran = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".ir") continue;
    std::ifstream file(entry.path());
    const auto graph = ir::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    ASSERT_EQ(ir::verify(*graph), "") << entry.path();
    ++graphs;
    int valid = 0;
    for (int trial = 0; trial < 42; ++trial) {
      Inputs inputs(*graph, trial);
      Races races(*graph);
      try {
        const auto result = ir::evaluate(*graph, inputs.args(), 300'000, &races);
        valid += result.outcome == Outcome::done || result.outcome == Outcome::out_of_fuel;
      } catch (const std::logic_error&) {
        continue;
      }
      EXPECT_EQ(races.found(), "") << entry.path();
      if (!races.found().empty()) break;
    }
    ran += valid > 0;
  }
  EXPECT_GT(ran, graphs / 2);
  std::printf("%d graphs, %d of them ran\n", graphs, ran);
}

}  // namespace
}  // namespace appy::passes
