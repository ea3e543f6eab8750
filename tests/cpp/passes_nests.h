// Random loop nests as text, and whether a pass that moves iterations keeps their bits.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes_compare.h"
#include "passes_random.h"

namespace appy::passes {

/// Writes lines of nests over %a and %b, with two dimensions, and %x with one.
class NestWriter : protected Random {
 public:
  explicit NestWriter(uint64_t seed) : Random(seed) {}

 protected:
  std::string pick(const std::vector<std::string>& of) { return of[below(of.size())]; }
  void line(const std::string& s) { text_ += s + "\n"; }
  static std::string constant(int c) { return c < 0 ? "c_" + std::to_string(-c) : "c" + std::to_string(c); }

  std::string subscript(const std::vector<std::string>& variables) {
    std::string s = pick(variables);
    if (below(12) == 0) s = "2*" + s;
    static const std::vector<std::string> ends = {"", "", "", "", " + 1", " - 1", " + 2"};
    return s + pick(ends);
  }
  std::string element(const std::vector<std::string>& variables) {
    switch (below(5)) {
      case 0:
      case 1:
        return "%x[" + subscript(variables) + "]";
      case 2:
        return "%b[" + subscript(variables) + ", " + subscript(variables) + "]";
      default:
        return "%a[" + subscript(variables) + ", " + subscript(variables) + "]";
    }
  }

  std::string text_;
};

/// False where no input of some size was within the arrays.
inline bool same_bits(const ir::Graph& before, const ir::Graph& after) {
  bool any = false;
  for (int trial = 0; trial < 21; ++trial) {
    Inputs a(before, trial), b(before, trial);
    ir::EvalResult want, got;
    try {
      want = ir::evaluate(before, a.args(), 2'000'000);
    } catch (const std::logic_error&) {
      continue;
    }
    any |= trial % 7 >= 4;  // more iterations than a tile has
    try {
      got = ir::evaluate(after, b.args(), 8'000'000);
    } catch (const std::logic_error& error) {
      ADD_FAILURE() << "trial " << trial << ": " << error.what();
      return true;
    }
    EXPECT_EQ(want.results, got.results) << "trial " << trial;
    EXPECT_EQ(a.buffers(), b.buffers()) << "trial " << trial;
  }
  return any;
}

struct Tried {
  int changed = 0;  // graphs
  int run = 0;      // of those
};

/// The pass, `change(graph, seed)`, on so many nests of the writer: what it changes keeps its bits, and what it says it
/// has not changed stays as it was. Ends with the first failure.
template <class Nests, class F>
Tried change_nests(int count, F&& change) {
  Tried tried;
  for (int seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    const std::string text = Nests(static_cast<uint64_t>(seed)).make();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto before = ir::parse(text);
    EXPECT_EQ(ir::verify(*before), "");
    const auto after = ir::clone(*before);
    if (!change(*after, seed)) {
      EXPECT_EQ(ir::print(*after), ir::print(*before));
      continue;
    }
    ++tried.changed;
    EXPECT_EQ(ir::verify(*after), "");
    if (!testing::Test::HasFailure()) tried.run += same_bits(*before, *after);
    if (testing::Test::HasFailure()) std::fprintf(stderr, "%s\n", ir::print(*after).c_str());
  }
  return tried;
}

}  // namespace appy::passes
