#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ir/text.h"
#include "ir/verify.h"

namespace appy::ir {
namespace {

std::string page() {
  std::ifstream file(APPY_SOURCE_DIR "/docs/ir.md");
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Docs, TablesAreUpToDate) { EXPECT_EQ(std::system("python3 '" APPY_SOURCE_DIR "/scripts/gen_docs' --check"), 0); }

TEST(Docs, TheExampleIsWellFormedAndCanonical) {
  const std::string text = page();
  const size_t begin = text.find("region @");
  ASSERT_NE(begin, std::string::npos);
  const std::string example = text.substr(begin, text.find("```", begin) - begin);
  const auto graph = parse(example);
  EXPECT_EQ(verify(*graph), "");
  EXPECT_EQ(print(*graph), example);
}

}  // namespace
}  // namespace appy::ir
