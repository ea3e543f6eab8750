#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "runtime/alias.h"

namespace appy::runtime {
namespace {

struct View {
  int64_t offset;
  std::vector<int64_t> shape, strides;
  int64_t item;
  Extent extent() const {
    return {reinterpret_cast<const char*>(1000000 + offset), static_cast<int>(shape.size()), shape.data(),
            strides.data(), item};
  }
};

/// Every address of every element.
std::multiset<int64_t> starts(const View& v) {
  std::multiset<int64_t> found{v.offset};
  for (size_t d = 0; d < v.shape.size(); d++) {
    std::multiset<int64_t> next;
    for (int64_t a : found)
      for (int64_t i = 0; i < v.shape[d]; i++) next.insert(a + i * v.strides[d]);
    found = next;
  }
  return found;
}

std::set<int64_t> bytes(const View& v) {
  std::set<int64_t> found;
  for (int64_t a : starts(v))
    for (int64_t b = 0; b < v.item; b++) found.insert(a + b);
  return found;
}

bool share(const View& a, const View& b) {
  std::set<int64_t> in_a = bytes(a);
  for (int64_t x : bytes(b))
    if (in_a.contains(x)) return true;
  return false;
}

TEST(alias, even_and_odd_elements_are_disjoint) {
  View even{0, {1000000}, {16}, 8}, odd{8, {1000000}, {16}, 8};
  EXPECT_FALSE(overlap(even.extent(), odd.extent()));
  EXPECT_TRUE(overlap(even.extent(), even.extent()));
  View shifted{4, {1000000}, {16}, 8};
  EXPECT_TRUE(overlap(even.extent(), shifted.extent()));
}

TEST(alias, columns_of_a_matrix) {
  View left{0, {4000, 2000}, {32000, 8}, 8}, right{16000, {4000, 2000}, {32000, 8}, 8};
  EXPECT_FALSE(overlap(left.extent(), right.extent()));
  View wide{0, {4000, 2001}, {32000, 8}, 8};
  EXPECT_TRUE(overlap(wide.extent(), right.extent()));
  View reversed{31992, {4000, 2000}, {32000, -8}, 8};
  EXPECT_FALSE(overlap(left.extent(), reversed.extent()));
  EXPECT_TRUE(overlap(right.extent(), reversed.extent()));
}

TEST(alias, empty_arrays_share_nothing) {
  View none{0, {0, 5}, {40, 8}, 8}, some{0, {5}, {8}, 8};
  EXPECT_FALSE(overlap(none.extent(), some.extent()));
  EXPECT_FALSE(overlaps_itself(none.extent()));
}

TEST(alias, agrees_with_enumeration) {
  std::mt19937 random(7);
  auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  auto view = [&] {
    View v{draw(0, 60), {}, {}, int64_t{1} << draw(0, 3)};
    for (int64_t d = draw(0, 3); d > 0; d--) {
      v.shape.push_back(draw(0, 4));
      v.strides.push_back(draw(-24, 24));
    }
    return v;
  };
  int shared = 0;
  for (int i = 0; i < 20000; i++) {
    View a = view(), b = view();
    bool expected = share(a, b);
    shared += expected;
    // Small cases stay below the limit of work, so the answer is exact.
    ASSERT_EQ(overlap(a.extent(), b.extent()), expected) << "case " << i;
    std::multiset<int64_t> where = starts(a);
    bool distinct = true;
    for (int64_t x : where)
      for (int64_t y = x; y < x + a.item; y++) distinct &= where.count(y) == (y == x ? 1u : 0u);
    if (!overlaps_itself(a.extent())) {
      ASSERT_TRUE(distinct) << "case " << i;
    }
  }
  EXPECT_GT(shared, 1000);
  EXPECT_LT(shared, 19000);
}

}  // namespace
}  // namespace appy::runtime
