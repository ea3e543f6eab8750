#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/inline_vector.h"

namespace appy {
namespace {

using Short = InlineVector<int, 3>;

std::vector<int> elements(const Short& of) { return {of.begin(), of.end()}; }

Short of(int count) {
  Short out;
  for (int k = 0; k < count; ++k) out.insert(out.end(), 10 * k);
  return out;
}

TEST(InlineVector, CopiesAndMovesOfEachSizeOntoEachSize) {
  for (int from = 0; from < 9; ++from) {
    for (int to = 0; to < 9; ++to) {
      const Short source = of(from);
      Short copied = of(to), moved = of(to), passing = source;
      copied = source;
      moved = std::move(passing);
      EXPECT_EQ(copied, source);
      EXPECT_EQ(moved, source);
      EXPECT_TRUE(passing.empty());
      passing.insert(passing.end(), 7);  // it can be used again, and shares nothing
      EXPECT_EQ(elements(passing), std::vector<int>{7});
      EXPECT_EQ(moved, source);
      EXPECT_EQ(Short(source), source);
      copied = *&copied;
      EXPECT_EQ(copied, source);
    }
  }
}

TEST(InlineVector, IsMadeOfElements) {
  EXPECT_EQ(elements(Short(5, 3)), (std::vector<int>{3, 3, 3, 3, 3}));
  EXPECT_TRUE(Short(0, 3).empty());
  const Short few = {4, 5}, many = {4, 5, 6, 7, 8, 9};
  EXPECT_EQ(elements(few), (std::vector<int>{4, 5}));
  EXPECT_EQ(elements(many), (std::vector<int>{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(few.back(), 5);
  EXPECT_TRUE(few < many && !(many < few) && Short({4, 4, 9}) < few);
}

TEST(InlineVector, InsertsErasesAndResizesLikeStdVector) {
  std::mt19937 random(1);
  Short ours;
  std::vector<int> theirs;
  for (int step = 0; step < 5000; ++step) {
    const auto at = static_cast<ptrdiff_t>(random() % (theirs.size() + 1));
    if (random() % 2 && theirs.size() < 12) {
      EXPECT_EQ(*ours.insert(ours.begin() + at, step), step);
      theirs.insert(theirs.begin() + at, step);
    } else if (at < static_cast<ptrdiff_t>(theirs.size())) {
      ours.erase(ours.begin() + at);
      theirs.erase(theirs.begin() + at);
    }
    if (random() % 16 == 0) {
      const size_t size = random() % 12;
      ours.resize(size, step);
      theirs.resize(size, step);
    }
    if (random() % 256 == 0) {
      ours.clear();
      theirs.clear();
    }
    ASSERT_EQ(elements(ours), theirs);
    ASSERT_EQ(ours.size(), theirs.size());
  }
}

/// The element may be the vector's own.
TEST(InlineVector, InsertsItsOwnElement) {
  Short v = of(3);
  v.insert(v.begin(), v[2]);
  EXPECT_EQ(elements(v), (std::vector<int>{20, 0, 10, 20}));
}

}  // namespace
}  // namespace appy
