// Loads of neighbours along the lanes, in the region's own arrays whose rows are whole lines of the cache: vectors that
// lie as the loop's stores do, shifted together.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

/// Fills rows of 48 elements that begin `lead` behind a line, adds neighbours that far apart, and copies the sums out.
std::string sums(const std::string& type, int lead, const std::vector<int>& neighbours, int stored, int store_lead) {
  std::string body, sum;
  for (size_t k = 0; k < neighbours.size(); ++k) {
    const std::string n = std::to_string(k), at = std::to_string(8 + neighbours[k]);
    body += "      %v" + n + " = load %a[%i, %j + " + at + "] : " + type + "\n";
    if (k > 0) body += "      %s" + n + " = add " + sum + ", %v" + n + " : " + type + "\n";
    sum = (k > 0 ? "%s" : "%v") + n;
  }
  const auto leading = [](int n) { return n ? " lead " + std::to_string(n) : std::string(); };
  return R"(region @r(%n: i64, %x: )" + type + "[2,c], %y: " + type + R"([2,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %width = const 48 : i64
  %inner = const 30 : i64
  %a = alloc %n, %width slot 0)" +
         leading(lead) + " : " + type + R"([2,c]
  %b = alloc %n, %width slot 1)" +
         leading(store_lead) + " : " + type + R"([2,c]
  for %i = %zero to %n step %one {
    for simd %j = %zero to %width step %one {
      %v = load %x[%i, %j] : )" +
         type + R"(
      store %v, %a[%i, %j]
      yield
    }
    yield
  }
  for %i = %zero to %n step %one {
    for simd %j = %zero to %inner step %one {
)" + body +
         "      store " + sum + ", %b[%i, %j + " + std::to_string(8 + stored) + R"(]
      yield
    }
    for simd %j = %zero to %inner step %one {
      %w = load %b[%i, %j + )" +
         std::to_string(8 + stored) + "] : " + type + R"(
      store %w, %y[%i, %j]
      yield
    }
    yield
  }
  yield
}
)";
}

template <class T>
void expect_sums(const std::string& text) {
  const int64_t rows = 3;
  std::vector<T> x(static_cast<size_t>(rows * 48));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>((i * 7) % 31);
  expect_same(text, {scalar_arg(word(rows)), array_arg(x, {rows, 48}), array_arg(x, {rows, 48})});
}

TEST(Neighbours, OfRowsOfWholeLines) {
  const std::vector<std::vector<int>> each = {{-1, 0, 1}, {0, -1},    {1, 2},    {-3, -2},
                                              {-4, 0, 3}, {-2, 1, 5}, {-8, 0, 9}};
  for (const auto& neighbours : each) {
    for (const int lead : {0, 7}) {
      for (const int stored : {0, 1, -3}) {
        expect_sums<double>(sums("f64", lead, neighbours, stored, 7));
        expect_sums<float>(sums("f32", lead, neighbours, stored, 15));
        expect_sums<int32_t>(sums("i32", lead, neighbours, stored, 0));
      }
    }
  }
}

/// Displacements of the vectors that are shifted together, modulo a line of the cache.
std::set<int> places_of_shifted(const std::string& listing) {
  std::map<std::string, int> loaded;
  std::set<int> places;
  std::istringstream lines(listing);
  const std::regex load(R"(vmovup[sd] (zmm\d+), zmmword ptr \[.*?([-+]\d+)?\].*)");
  const std::regex shift(R"(valign[qd] zmm\d+, (zmm\d+), (zmm\d+), .*)");
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, found, load)) loaded[found[1]] = found[2].matched ? std::stoi(found[2]) & 63 : 0;
    if (!std::regex_match(line, found, shift)) continue;
    for (const size_t side : {1, 2}) places.insert(loaded.contains(found[side]) ? loaded[found[side]] : -1);
  }
  return places;
}

TEST(Neighbours, VectorsLieAsTheStoresDo) {
  const auto places = [](int lead, int stored, int store_lead) {
    return places_of_shifted(
        code_of(*ir::parse(sums("f64", lead, {-1, 0, 1}, stored, store_lead)), Isa::avx512)->listing());
  };
  EXPECT_EQ(places(7, 0, 7), std::set{0});
  EXPECT_EQ(places(7, 1, 7), std::set{8});
  EXPECT_EQ(places(7, -3, 7), std::set{40});
  EXPECT_EQ(places(0, 0, 7), std::set{56});
  EXPECT_EQ(places(7, 0, 2), std::set{24});
}

}  // namespace
}  // namespace appy::cpu::testing
