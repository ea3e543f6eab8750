// Passes that let loops run in any order, by enumeration: random small nests with affine subscripts and bounds. What
// they take computes the same bit for bit, with all loops that have permission from the last iteration to the first;
// and each of them takes some nests and refuses some.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/loops.h"
#include "passes/pass.h"
#include "passes_random.h"

namespace appy::passes {
namespace {

constexpr int64_t kExtent = 48, kMiddle = 16;

class Nests : Random {
 public:
  explicit Nests(uint64_t seed) : Random(seed) {}

  std::string make() {
    text_ =
        "region @r(%n: i64 in [0, 100], %a: f64[2,c], %b: f64[2,c]) {\n  %one = const 1 : i64\n"
        "  %zero = const 0 : i64\n  %two = const 2 : i64\n  %down = const -1 : i64\n  %none = const 0.0 : f64\n"
        "  %last = sub %n, %one : i64\n";
    const bool columns = below(4) == 0;
    if (columns) line("for parallel %c = %zero to %n step %one {");
    std::vector<std::string> around;
    if (columns) around.push_back("c");
    line(std::string("for %i = ") + (below(3) == 0 ? "%last to %down step %down {" : "%zero to %n step %one {"));
    line("%up = add %i, %one : i64");
    line("%left = sub %n, %i : i64");
    line("%fewer = pymin %up, %n : i64");
    const int pieces = 1 + static_cast<int>(below(2));
    head_ = below(3) ? "" : load(other(), {"i", below(2) ? "" : "i"});
    for (int k = 0; k < pieces; ++k) piece(around);
    line("yield");
    line("}");
    if (columns) line("yield");
    if (columns) line("}");
    line("yield");
    return text_ + "}\n";
  }

 private:
  void line(const std::string& s) { text_ += s + "\n"; }
  std::string fresh() { return "v" + std::to_string(next_++); }

  std::string element(const std::string& view, const std::array<std::string, 2>& variables) {
    std::string out = "%" + view + "[";
    for (size_t d = 0; d < 2; ++d) {
      const auto offset = kMiddle + (below(3) ? 0 : static_cast<int64_t>(below(3)) - 1);
      out += variables[d].empty() ? std::to_string(offset)
                                  : (below(12) == 0 ? "-1*%" : "%") + variables[d] + " + " + std::to_string(offset);
      out += d ? "]" : ", ";
    }
    return out;
  }

  std::string load(const std::string& view, const std::array<std::string, 2>& variables) {
    const std::string v = "%" + fresh();
    line(v + " = load " + element(view, variables) + " : f64");
    return v;
  }

  /// What the iteration loads before all pieces.
  bool from_head() { return !head_.empty() && below(2); }
  std::string other() { return below(3) ? "a" : "b"; }

  /// Rows that are updated by sums of rows, or by the row of the iteration.
  void piece(const std::vector<std::string>& around) {
    const std::string j = fresh(), k = fresh();
    const std::string column = around.empty() ? j : around[0];
    if (around.empty() && below(3) == 0) {
      line("for parallel %" + k + " = " + pick({"%zero", "%i", "%up", "%left"}) + " to " +
           pick({"%i", "%n", "%left", "%up"}) + " step %one {");
      const std::string f = from_head() ? head_ : load(other(), {"i", k});
      line("for parallel %" + j + " = %zero to %n step %one {");
      update({k, j}, f, load(other(), {"i", j}));
      line("yield");
      line("}");
    } else {
      if (around.empty()) line("for parallel %" + j + " = %zero to %n step %one {");
      const std::string init = from_head() ? head_
                               : below(2)  ? load("b", {"i", column})
                                           : "%none",
                        s = "%" + fresh(), acc = "%" + fresh();
      line(s + " = for %" + k + " = " + pick({"%zero", "%i", "%up"}) + " to " +
           pick({"%i", "%n", "%up", "%fewer", "%left"}) + " step %one carry(" + acc + " = " + init + ") : f64 {");
      const std::string at = below(4) ? k : "i + %" + k;
      const std::string x =
          load("a", below(2) ? std::array<std::string, 2>{"i", at} : std::array<std::string, 2>{at, "i"});
      const std::string y = load(other(), {at, column}), t = "%" + fresh();
      line(t + " = fma " + x + ", " + y + ", " + acc + " : f64");
      line("yield " + t);
      line("}");
      line("store " + s + ", " + element("b", {"i", column}));
      if (!around.empty()) return;
    }
    line("yield");
    line("}");
  }

  void update(const std::array<std::string, 2>& at, const std::string& x, const std::string& y) {
    const std::string where = element("b", at), before = "%" + fresh(), after = "%" + fresh();
    line(before + " = load " + where + " : f64");
    line(after + " = fma " + x + ", " + y + ", " + before + " : f64");
    line("store " + after + ", " + where);
  }

  int next_ = 0;
  std::string text_, head_;
};

/// All loops that may run in any order run from the last iteration to the first.
void reverse(ir::Graph& graph) {
  ir::Builder b(graph);
  for (ir::Op* loop : for_loops(graph)) {
    if (!has_permission(*loop) || !loop->results.empty()) continue;
    const int64_t step = *constant(*loop->operands[2]);
    ASSERT_TRUE(step == 1 || step == -1);
    b.set_before(loop);
    ir::Value *first = b.op(ir::Opcode::sub_, {loop->operands[1], b.i64(step)}),
              *end = b.op(ir::Opcode::sub_, {loop->operands[0], b.i64(step)});
    loop->operands[0] = first;
    loop->operands[1] = end;
    loop->operands[2] = b.i64(-step);
  }
}

using Memory = std::array<std::vector<double>, 2>;

Memory run(const ir::Graph& graph, int64_t n) {
  Memory m;
  for (std::vector<double>& view : m) {
    for (int64_t k = 0; k < kExtent * kExtent; ++k)
      view.push_back(static_cast<double>((k * 7919) % 1013 - 500) / 512.0);
  }
  std::vector<ir::Word> args{static_cast<ir::Word>(n)};
  for (std::vector<double>& view : m) {
    args.insert(args.end(), {reinterpret_cast<ir::Word>(view.data()), kExtent, kExtent, kExtent * 8, 8});
  }
  EXPECT_EQ(ir::evaluate(graph, args, 10'000'000).outcome, ir::EvalResult::Outcome::done);
  return m;
}

TEST(Order, WhatRunsInAnyOrderComputesTheSame) {
  const int count = env("APPY_FUZZ_COUNT", 900);
  std::map<std::string, int> taken;
  int honest = 0;
  for (int seed = 0; seed < count; ++seed) {
    const std::string text = Nests(static_cast<uint64_t>(seed)).make();
    const auto before = ir::parse(text);
    ASSERT_EQ(ir::verify(*before), "") << text;
    const auto reversed = ir::clone(*before);
    reverse(*reversed);
    bool kept = true;  // does the nest keep its own promises?
    for (int64_t n = 1; n <= 9 && kept; n += 4) kept = run(*before, n) == run(*reversed, n);
    if (!kept) continue;
    ++honest;
    const auto after = ir::clone(*before);
    bool changed = false;
    for (const char* name : {"shift", "access", "fission", "interchange", "rename"}) {
      if (!find(name)->run(*after)) continue;
      ASSERT_EQ(ir::verify(*after), "") << name << ", seed " << seed << "\n" << text << ir::print(*after);
      changed |= std::string(name) != "access";
      ++taken[name];
    }
    if (!changed) continue;
    const auto anyhow = ir::clone(*after);
    reverse(*anyhow);
    for (int64_t n = 0; n <= 11; ++n) {
      const Memory want = run(*before, n);
      for (const ir::Graph* graph : {after.get(), anyhow.get()}) {
        const Memory got = run(*graph, n);
        for (size_t view = 0; view < want.size(); ++view) {
          ASSERT_EQ(std::memcmp(want[view].data(), got[view].data(), want[view].size() * sizeof(double)), 0)
              << "seed " << seed << ", n = " << n << "\n"
              << text << ir::print(*after);
        }
      }
    }
  }
  for (const char* name : {"shift", "fission", "interchange", "rename"}) {
    EXPECT_GT(taken[name], honest / 100) << name;
    EXPECT_LT(taken[name], honest * 19 / 20) << name;
  }
}

TEST(Order, LoopsWithLanesUnaskedComputeTheSameInAnyOrder) {
  const int count = env("APPY_FUZZ_COUNT", 900);
  int loops = 0, lanes = 0;
  for (int seed = 0; seed < count; ++seed) {
    std::string text = Nests(static_cast<uint64_t>(seed)).make();
    const std::string permission = " parallel";
    for (size_t at; (at = text.find(permission)) != std::string::npos;) text.erase(at, permission.size());
    const auto before = ir::parse(text), after = ir::parse(text);
    find("vectorize")->run(*after);
    ASSERT_EQ(ir::verify(*after), "") << "seed " << seed << "\n" << text << ir::print(*after);
    for (const ir::Op* loop : for_loops(*after)) {
      loops += !has_inner_loop(*loop) && loop->results.empty();
      lanes += loop->loop->simd;
    }
    reverse(*after);
    for (int64_t n = 0; n <= 11; ++n) {
      const Memory want = run(*before, n), got = run(*after, n);
      for (size_t view = 0; view < want.size(); ++view) {
        ASSERT_EQ(std::memcmp(want[view].data(), got[view].data(), want[view].size() * sizeof(double)), 0)
            << "seed " << seed << ", n = " << n << "\n"
            << text << ir::print(*after);
      }
    }
  }
  EXPECT_GT(lanes, loops / 10);
  EXPECT_LT(lanes, loops * 9 / 10);
}

}  // namespace
}  // namespace appy::passes
