// Text goldens of the passes: tests/ir/<pass>/<case>.ir holds
//
//   # passes: fold, dce
//   the input graph
//   ----
//   the expected graph
//
// Every case also runs the reference evaluator on both graphs with small generated inputs. APPY_UPDATE_GOLDENS=1, or
// --update-goldens, rewrites the expected parts.
//
// `# may decline`: the expected graph declines where an input to the first would not have failed.
//
// After the pass `barriers` no input shows a race, and without any one barrier some input does; `# spare: 1` is the
// number of barriers whose need no input shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes_compare.h"
#include "passes_races.h"

namespace appy::passes {
namespace {

namespace fs = std::filesystem;

bool update_goldens() {
  if (std::getenv("APPY_UPDATE_GOLDENS")) return true;
  for (const std::string& arg : testing::internal::GetArgvs()) {
    if (arg == "--update-goldens") return true;
  }
  return false;
}

struct Case {
  std::vector<std::string> passes;
  std::string header;
  std::string input;
  std::string expected;
  bool has_expected = false;
  size_t spare = 0;
  bool lenient = false;
};

std::string trim(const std::string& text) {
  const size_t a = text.find_first_not_of(" \t\r\n"), b = text.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : text.substr(a, b - a + 1);
}

Case read_case(const fs::path& path) {
  Case c;
  std::ifstream file(path);
  std::string line;
  bool in_header = true, in_expected = false;
  while (std::getline(file, line)) {
    if (in_header && line.starts_with("#")) {
      c.header += line + "\n";
      if (line.starts_with("# spare:")) c.spare = std::stoul(line.substr(8));
      c.lenient |= line == "# may decline";
      if (line.starts_with("# passes:")) {
        std::stringstream names(line.substr(9));
        for (std::string name; std::getline(names, name, ',');) c.passes.push_back(trim(name));
      }
      continue;
    }
    in_header = false;
    if (line == "----") {
      in_expected = c.has_expected = true;
    } else {
      (in_expected ? c.expected : c.input) += line + "\n";
    }
  }
  return c;
}

void expect_needed_barriers(const ir::Graph& graph, size_t spare) {
  const auto race_of = [](const ir::Graph& g) { return race(g, 42, 100'000); };
  EXPECT_EQ(race_of(graph), "");
  std::string unneeded;
  const std::vector<size_t> found = unneeded_barriers(graph, race_of);
  for (size_t k : found) unneeded += " " + std::to_string(k);
  EXPECT_EQ(found.size(), spare) << "no input shows a need of barriers" << unneeded << "\n" << ir::print(graph);
}

void run_case(const fs::path& path) {
  const Case c = read_case(path);
  ASSERT_FALSE(c.passes.empty()) << path << ": no '# passes:' line";
  const auto before = ir::parse(c.input);
  ASSERT_EQ(ir::verify(*before), "");
  const auto after = ir::clone(*before);
  for (const std::string& name : c.passes) {
    const Pass* pass = find(name);
    ASSERT_TRUE(pass) << "no pass " << name;
    pass->run(*after);
    ASSERT_EQ(ir::verify(*after), "") << "after " << name << "\n" << ir::print(*after);
  }
  const std::string got = ir::print(*after);
  if (update_goldens()) {
    std::ofstream(path) << c.header << c.input << "----\n" << got;
  } else {
    ASSERT_TRUE(c.has_expected) << path << ": no expected graph; APPY_UPDATE_GOLDENS=1 writes it";
    EXPECT_EQ(c.expected, got);
  }
  EXPECT_EQ(ir::print(*ir::parse(got)), got);
  const bool unwatched = std::count(c.passes.begin(), c.passes.end(), "unwatched") != 0;
  int valid = 0;
  for (int trial = 0; trial < 42; ++trial) valid += compare(*before, *after, trial, c.lenient, unwatched) ? 1 : 0;
  EXPECT_GT(valid, 0) << "no generated input is one that the graph promises to take";
  if (std::count(c.passes.begin(), c.passes.end(), "barriers")) expect_needed_barriers(*after, c.spare);
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  const fs::path root = fs::path(APPY_SOURCE_DIR) / "tests" / "ir";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".ir") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

class Golden : public testing::TestWithParam<fs::path> {};
TEST_P(Golden, MatchesAndComputesTheSame) { run_case(GetParam()); }

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, testing::ValuesIn(cases()), test_name);

TEST(Goldens, EveryPassHasOne) {
  for (Target target : {Target::cpu, Target::device}) {
    for (const Pass& pass : pipeline(target)) {
      const fs::path folder = fs::path(APPY_SOURCE_DIR) / "tests" / "ir" / pass.name;
      EXPECT_TRUE(fs::is_directory(folder) && !fs::is_empty(folder)) << folder;
    }
  }
}

}  // namespace
}  // namespace appy::passes
