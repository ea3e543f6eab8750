// Unroll and jam by enumeration: random small nests with affine subscripts and bounds, none of which has permission to
// run in another order (but for lanes of rows). What the passes take computes the same, bit for bit; and they take some
// and refuse some.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes_random.h"

namespace appy::passes {
namespace {

constexpr int64_t kExtent = 48, kMiddle = 16;

class Nests : Random {
 public:
  explicit Nests(uint64_t seed) : Random(seed) {}

  std::string make() {
    text_ = "region @r(%n: i64, %s0: f64, %a: f64[2,c], %b: f64[2,c]) registers(" + std::string(pick({"16", "32"})) +
            ") {\n  %one = const 1 : i64\n  %zero = const 0 : i64\n  %two = const 2 : i64\n  %none = const 0.0 : f64\n";
    const bool carries = below(2);
    line(1, "for %again = %zero to %two step %one {");
    line(1, (carries ? "%left = " : "") + std::string("for %i = %zero to %n step %one") +
                (carries ? " carry(%c = %s0) : f64 {" : " {"));
    line(2, "%up = add %i, %one : i64");
    line(2, "%down = sub %n, %i : i64");
    std::string value = "%none";
    if (below(3) == 0) value = load(2, {"i"});
    const bool between = below(2);
    if (between) {
      const bool hands = carries && below(2);
      line(2, (hands ? "%cj = " : "") + std::string("for %j = ") + pick({"%zero", "%two", "%i"}) + " to " +
                  pick({"%n", "%up", "%down"}) + " step %one" + (hands ? " carry(%d = %c) : f64 {" : " {"));
      const std::string s = sum(3, {"i", "j"}, value);
      store(3, {"i", "j"}, s);
      line(3, hands ? "yield " + s : "yield");
      line(2, "}");
      if (below(3) == 0) store(2, {"i"}, load(2, {"i"}));
      line(2, carries ? std::string("yield ") + (hands ? "%cj" : "%none") : "yield");
    } else {
      std::string s = sum(2, {"i"}, value);
      if (below(3) == 0) store(2, {"i"}, s);
      if (below(3) == 0) s = sum(2, {"i"}, below(2) ? s : "%none");
      if (below(2)) s = add(2, s, load(2, {"i"}));
      store(2, {"i"}, s);
      line(2, !carries ? "yield" : "yield " + (below(2) ? s : add(2, s, "%c")));
    }
    line(1, "}");
    store(1, {}, carries ? "%left" : "%none");
    line(1, "yield");
    line(1, "}");
    line(1, "yield");
    return text_ + "}\n";
  }

 private:
  void line(int depth, const std::string& s) { text_ += std::string(static_cast<size_t>(2 * depth), ' ') + s + "\n"; }

  std::string fresh() { return "%v" + std::to_string(next_++); }

  std::string element(std::vector<std::string> variables) {
    std::string out = below(3) == 0 ? "%a[" : "%b[";
    for (int d = 0; d < 2; ++d) {
      const auto offset = kMiddle + static_cast<int64_t>(below(5)) - 2;
      if (variables.empty() || below(6) == 0) {
        out += std::to_string(offset);
      } else {
        const size_t at = below(variables.size());
        out += (below(6) == 0 ? "-1*%" : "%") + variables[at] + " + " + std::to_string(offset);
        variables.erase(variables.begin() + static_cast<ptrdiff_t>(at));
      }
      out += d ? "]" : ", ";
    }
    return out;
  }

  std::string load(int depth, const std::vector<std::string>& variables) {
    const std::string v = fresh();
    line(depth, v + " = load " + element(variables) + " : f64");
    return v;
  }

  void store(int depth, const std::vector<std::string>& variables, const std::string& value) {
    line(depth, "store " + value + ", " + element(variables));
  }

  std::string add(int depth, const std::string& x, const std::string& y) {
    const std::string v = fresh();
    line(depth, v + " = add " + x + ", " + y + " : f64");
    return v;
  }

  std::string sum(int depth, std::vector<std::string> variables, const std::string& init) {
    const std::string s = fresh(), k = "k" + std::to_string(next_++), acc = fresh();
    const bool moves = below(2);
    line(depth, s + " = for %" + k + " = " + (moves ? pick({"%up", "%i", "%zero"}) : "%zero") + " to " +
                    (moves ? pick({"%n", "%n", "%down"}) : pick({"%n", "%up", "%i", "%down"})) + " step %one carry(" +
                    acc + " = " + init + ") : f64 {");
    std::vector<std::string> own = variables;
    own.erase(own.begin() + static_cast<ptrdiff_t>(below(own.size())));
    variables.push_back(k);
    own.push_back(k);
    const std::string x = load(depth + 1, variables), y = load(depth + 1, own), t = fresh();
    line(depth + 1, t + " = fma " + x + ", " + y + ", " + acc + " : f64");
    line(depth + 1, "yield " + t);
    line(depth, "}");
    return s;
  }

  int next_ = 0;
  std::string text_;
};

/// Nests that compute element by element from neighbours.
class Stencils : Random {
 public:
  explicit Stencils(uint64_t seed) : Random(seed) {}

  std::string make() {
    text_ = "region @r(%n: i64, %s0: f64, %a: f64[2,c], %b: f64[2,c]) registers(" + std::string(pick({"16", "32"})) +
            ") {\n  %one = const 1 : i64\n  %zero = const 0 : i64\n  %two = const 2 : i64\n  %none = const 0.0 : f64\n";
    const bool carries = below(3) == 0, again = below(2);
    if (again) line("for %again = %zero to %two step %one {");
    line((carries ? "%left = " : "") + std::string("for %i = ") + pick({"%zero", "%one"}) + " to %n step %one" +
         (carries ? " carry(%c = %one) : i64 {" : " {"));
    line("%up = add %i, %one : i64");
    line("%down = sub %n, %i : i64");
    const std::string outer = below(3) == 0 ? load({"i"}) : "%s0";
    line((carries ? "%at = " : "") + std::string("for simd %j = ") + pick({"%zero", "%one", "%i", "%zero"}) + " to " +
         pick({"%n", "%n", "%up", "%down"}) + " step %one" + (carries ? " carry(last %l = %c) : i64 {" : " {"));
    const int stores = 1 + static_cast<int>(below(2));
    std::string sum = outer;
    for (int k = 0; k < stores; ++k) {
      for (int m = 0, count = 3 + static_cast<int>(below(4)); m < count; ++m) sum = value(sum);
      line("store " + sum + ", " + element(below(4) == 0 ? "%a" : "%b", {"i", "j"}));
    }
    line(carries ? "yield %j" : "yield");
    line("}");
    line(carries ? "yield %at" : "yield");
    line("}");
    if (carries) {
      line("%f = cast %left : f64");
      line("store %f, %b[0, 0]");
    }
    if (again) line("yield"), line("}");
    line("yield");
    return text_ + "}\n";
  }

 private:
  void line(const std::string& s) { text_ += "  " + s + "\n"; }
  std::string fresh() { return "%v" + std::to_string(next_++); }

  std::string element(const char* view, const std::vector<std::string>& variables) {
    std::string out = std::string(view) + "[";
    for (size_t d = 0; d < 2; ++d) {
      const std::string& v = variables[std::min(d, variables.size() - 1)];
      out += (below(12) == 0 ? "-1*%" : "%") + v + " + " + std::to_string(kMiddle + static_cast<int64_t>(below(3)) - 1);
      out += d ? "]" : ", ";
    }
    return out;
  }

  std::string load(const std::vector<std::string>& variables) {
    const std::string v = fresh();
    line(v + " = load " + element(below(8) == 0 ? "%b" : "%a", variables) + " : f64");
    return v;
  }

  std::string value(const std::string& sum) {
    const std::string x = load({"i", "j"}), t = fresh();
    if (below(3) > 0) {
      line(t + " = " + pick({"add ", "sub ", "pymax "}) + sum + ", " + x + " : f64");
      return t;
    }
    const std::string y = load({"i", "j"}), d = fresh();
    line(d + " = mul " + x + ", " + y + " : f64");
    line(t + " = add " + sum + ", " + d + " : f64");
    return t;
  }

  int next_ = 0;
  std::string text_;
};

using Memory = std::array<std::vector<double>, 2>;

Memory memory() {
  Memory m;
  for (std::vector<double>& view : m) {
    for (int64_t k = 0; k < kExtent * kExtent; ++k) {
      view.push_back(static_cast<double>((k * 7919) % 1013 - 500) / 512.0);
    }
  }
  return m;
}

Memory run(const ir::Graph& graph, int64_t n) {
  Memory m = memory();
  const double s0 = 0.375;
  ir::Word start;
  std::memcpy(&start, &s0, sizeof start);
  std::vector<ir::Word> args{static_cast<ir::Word>(n), start};
  for (std::vector<double>& view : m) {
    args.insert(args.end(), {reinterpret_cast<ir::Word>(view.data()), kExtent, kExtent, kExtent * 8, 8});
  }
  EXPECT_EQ(ir::evaluate(graph, args, 10'000'000).outcome, ir::EvalResult::Outcome::done);
  return m;
}

/// What the pass takes of random nests computes the same.
template <class Nest>
void compare(const char* pass, int least, int most) {
  const int count = env("APPY_FUZZ_COUNT", 600);
  int taken = 0;
  for (int seed = 0; seed < count; ++seed) {
    const std::string text = Nest(static_cast<uint64_t>(seed)).make();
    const auto before = ir::parse(text);
    ASSERT_EQ(ir::verify(*before), "") << text;
    const auto after = ir::clone(*before);
    const bool changed = find(pass)->run(*after);
    if (!changed) continue;
    ++taken;
    ASSERT_EQ(ir::verify(*after), "") << "seed " << seed << "\n" << text << ir::print(*after);
    for (int64_t n = 0; n <= 13; ++n) {
      const Memory want = run(*before, n), got = run(*after, n);
      for (size_t view = 0; view < want.size(); ++view) {
        ASSERT_EQ(std::memcmp(want[view].data(), got[view].data(), want[view].size() * sizeof(double)), 0)
            << "seed " << seed << ", n = " << n << "\n"
            << text << ir::print(*after);
      }
    }
  }
  EXPECT_GT(taken, count * least / 100);
  EXPECT_LT(taken, count * most / 100);
}

TEST(Jam, SumsComputeTheSame) { compare<Nests>("jam", 5, 95); }
TEST(Jam, RowsComputeTheSame) { compare<Stencils>("jam_rows", 10, 90); }

}  // namespace
}  // namespace appy::passes
