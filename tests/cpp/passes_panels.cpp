// The pass `panels` on random recurrences: loops around sums that read what the loop writes, with subscripts of which
// some let a sum be divided and others do not. What is divided gives the same bits.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/panels.h"
#include "passes/pass.h"
#include "passes_nests.h"
#include "passes_races.h"

namespace appy::passes {
namespace {

using ir::Opcode;

class Nests : NestWriter {
 public:
  using NestWriter::NestWriter;

  std::string make() {
    text_.clear();
    between_ = below(2) == 0;
    line("region @nest(%a: f64[2,c], %x: f64[1,c], %b: f64[2,c], %p: i64 in [0, 4]) results(\"last\") {");
    for (int c = -2; c <= 4; ++c) line("  %" + constant(c) + " = const " + std::to_string(c) + " : i64");
    line("  %zero = const 0.0 : f64");
    line("  %half = const 0.5 : f64");
    line("  %d = dim 0 %x : i64");
    line("  %n = sub %d, %c2 : i64");
    line("  %last = for annotated %i = " + pick({"%c2", "%c1", "%p"}) +
         " to %n step %c1 carry(%before = %zero) : f64 {");
    if (below(3) == 0) line("    store %before, " + element({"%i"}));
    if (below(3) == 0) sum("    ", {"%i"}, "%early");
    if (between_) {
      static const std::vector<std::string> lows = {"%c1", "%c2", "%i", "%next"};
      static const std::vector<std::string> highs = {"%n", "%n", "%i", "%next", "%d"};
      line("    %next = add %i, " + pick({"%c1", "%c_1", "%c2"}) + " : i64");
      line("    for " + pick({"parallel ", "simd ", "", "parallel "}) + "annotated %r = " + pick(lows) + " to " +
           pick(highs) + " step %c1 {");
      point("      ", {"%i", "%r"});
      line("      yield");
      line("    }");
    } else {
      point("    ", {"%i"});
    }
    line("    %now = load " + element({"%i"}) + " : f64");
    line("    yield %now");
    line("  }");
    line("  yield %last");
    line("}");
    return text_;
  }

 private:
  void sum(const std::string& indent, std::vector<std::string> variables, const std::string& name) {
    const std::string low = pick({"%c0", "%c1", "%p", "%c0", "%low" + name.substr(1)});
    const std::string end = name + "end";
    line(indent + end + " = add " + pick({"%i", "%i", "%i", variables.back(), "%n"}) + ", " +
         pick({"%c0", "%c0", "%c1", "%c_1"}) + " : i64");
    if (low[1] == 'l') line(indent + low + " = sub %i, %c3 : i64");
    std::string init = pick({"%zero", "%half"});
    if (below(4) == 0) {
      init = name + "init";
      line(indent + init + " = load " + element(variables) + " : f64");
    }
    const std::string at = name + "s", step = name + "t", u = name + "u", v = name + "v", w = name + "w",
                      k = name + "k";
    line(indent + name + " = for " + pick({"simd annotated ", "annotated ", ""}) + k + " = " + low + " to " + end +
         " step %c1 carry(" + at + " = " + init + ") : f64 {");
    variables.push_back(k);
    variables.push_back(k);
    line(indent + "  " + u + " = load " + element(variables) + " : f64");
    line(indent + "  " + v + " = load " + element(variables) + " : f64");
    line(indent + "  " + w + " = " + pick({"mul ", "sub ", "pymin "}) + u + ", " + v + " : f64");
    line(indent + "  " + step + " = " + pick({"add ", "add ", "pymax ", "maximum "}) + at + ", " + w + " : f64");
    line(indent + "  yield " + step);
    line(indent + "}");
  }

  void point(const std::string& indent, const std::vector<std::string>& variables) {
    sum(indent, variables, "%s");
    line(indent + "%old = load " + element(variables) + " : f64");
    line(indent + "%new = sub %old, %s : f64");
    line(indent + "%less = mul %new, %half : f64");
    line(indent + "store %less, " + element(variables));
    if (below(4) == 0) line(indent + "store %new, " + element(variables));
  }

  bool between_ = false;
};

/// A loop for one worker, and behind it one for the rows that it left.
bool between_moved(const ir::Graph& graph) {
  bool found = false;
  ir::walk(*graph.body, [&](const ir::Op& op) {
    if (op.code != ir::Opcode::for_ || op.loop->threads != 1) return;
    for (const ir::Op* next = op.next; next; next = next->next) {
      if (next->code != ir::Opcode::for_) continue;
      for (const ir::Op* in = next->blocks[0]->first; in; in = in->next)
        found |= in->code == ir::Opcode::for_ && in->operands[1] == next->operands[0];
    }
  });
  return found;
}

TEST(Panels, RandomNestsKeepTheirBits) {
  const int count = env("APPY_FUZZ_COUNT", 3000);
  int divided = 0, run = 0, moved = 0, staged = 0;
  for (int seed = 0; seed < count; ++seed) {
    const std::string text = Nests(static_cast<uint64_t>(seed)).make();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto before = ir::parse(text);
    ASSERT_EQ(ir::verify(*before), "");
    for (const bool device : {false, true}) {
      const auto after = ir::clone(*before);
      if (!make_panels(*after, {.block = 2 + seed % 4, .running = seed % 3, .group = 4 + seed % 5, .device = device}))
        continue;
      ++divided;
      if (device && seed % 2) {
        for (const char* pass : {"fold", "cse", "dce", "reductions", "access", "cse", "dce", "distribute"})
          find(pass)->run(*after);
        staged += find("stage")->run(*after);
      }
      ASSERT_EQ(ir::verify(*after), "") << ir::print(*after);
      const bool ran = same_bits(*before, *after);
      run += ran;
      moved += ran && between_moved(*after);
      if (testing::Test::HasFailure()) {
        std::fprintf(stderr, "%s\n", ir::print(*after).c_str());
        return;
      }
    }
  }
  EXPECT_GT(divided, count / 20);
  EXPECT_GT(run, divided / 4);
  EXPECT_GT(moved, count / 200);
  EXPECT_GT(staged, count / 200);
  RecordProperty("divided", divided);
  std::printf("%d graphs divided, %d of them run, %d with rows behind their tiles, %d with copies\n", divided, run,
              moved, staged);
}

TEST(Panels, TilesOfADeviceWaitForEachOther) {
  // How many barriers stand for caution.
  const std::vector<std::pair<const char*, size_t>> programs = {
      {"substitution", 2}, {"factorisation", 3}, {"several_right_sides", 0}};
  for (const auto& [name, spare] : programs) {
    std::ifstream file(std::string(APPY_SOURCE_DIR) + "/tests/ir/panels_device/" + name + ".ir");
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    SCOPED_TRACE(name);
    const auto graph = ir::parse(all.substr(0, all.find("----")));
    ASSERT_TRUE(make_panels(*graph, {.block = 3, .group = 6, .device = true}));
    for (const char* pass :
         {"fold", "cse", "dce", "reductions", "fold", "access", "cse", "dce", "distribute", "stage", "barriers"})
      find(pass)->run(*graph);
    ASSERT_EQ(ir::verify(*graph), "");
    const auto race_of = [](const ir::Graph& g) { return race(g, 21, 2'000'000); };
    EXPECT_EQ(race_of(*graph), "") << ir::print(*graph);
    EXPECT_GT(barriers_of(*graph).size(), 0u);
    EXPECT_EQ(unneeded_barriers(*graph, race_of).size(), spare) << ir::print(*graph);
  }
}

}  // namespace
}  // namespace appy::passes
