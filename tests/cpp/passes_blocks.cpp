// The pass `blocks` on random sums over matrices: whole rows and triangles, sums of elements and of values, lanes along
// columns and along steps. Blocks and panels of every size give the same bits.
#include <string>

#include "passes/blocks.h"
#include "passes_nests.h"

namespace appy::passes {
namespace {

class Sums : NestWriter {
 public:
  using NestWriter::NestWriter;

  std::string make() {
    text_.clear();
    lanes_ = below(2);
    line("region @sums(%a: f64[2,c], %b: f64[2,c], %c: f64[2,c], %w: f64[1,c]) workers(2) {");
    for (int c = 0; c <= 2; ++c) line("  %" + constant(c) + " = const " + std::to_string(c) + " : i64");
    line("  %f0 = const 0.0 : f64\n  %m = dim 0 %c : i64\n  %n = dim 1 %c : i64\n  %q = dim 1 %a : i64");
    for (const std::string v : {"m", "n", "q"}) line("  %" + v + "1 = sub %" + v + ", %c1 : i64");
    line("  for parallel annotated %i = " + pick({"%c0", "%c0", "%c1", "%c2"}) + " to " + pick({"%m", "%m", "%m1"}) +
         " step %c1 {");
    const bool own = below(4) == 0;
    if (own) line("    %d = load %w[%i] : f64");
    line("    for " + std::string(lanes_ ? "simd annotated " : "") + "%j = " + pick({"%c0", "%c0", "%c1", "%c2"}) +
         " to " + end_of_columns() + " step %c1 {");
    column(own);
    line("      poll\n      yield\n    }");
    if (below(4) == 0) line("    store %f0, %w[%i]");
    line("    poll\n    yield\n  }\n  yield\n}");
    return text_;
  }

 private:
  std::string end_of_columns() {
    switch (below(6)) {
      case 0:
        return "%n";
      case 1:
        return "%i";
      case 2:
        line("    %e = add %i, %c1 : i64");
        return "%e";
      case 3:
        line("    %r = add %i, %c2 : i64\n    %e = pymin %r, %n : i64");
        return "%e";
      case 4:
        line("    %r = sub %i, %c1 : i64\n    %e = pymin %r, %n1 : i64");
        return "%e";
      default:
        line("    %e = pymin %i, %n : i64");
        return "%e";
    }
  }

  void column(bool own) {
    const bool steps_in_lanes = !lanes_ && below(4) != 0;
    std::string before = own ? "%d" : "%f0";
    if (below(4) == 0) {
      line("      %o = load %c[%i, %j] : f64");
      before = "%o";
    }
    line("      %s = for " + std::string(steps_in_lanes ? "simd annotated " : "annotated ") +
         "%k = " + pick({"%c0", "%c0", "%c1"}) + " to %q1 step %c1 carry(" + (steps_in_lanes ? "sum " : "") +
         "%v = " + before + ") : f64 {");
    const bool along_steps = steps_in_lanes || below(2);
    line("        %x = load %a[" + pick({"%i, %k", "%i, %k + 1"}) + "] : f64");
    line("        %y = load %b[" + (along_steps ? pick({"%j, %k", "%j, %k + 1"}) : "%k, %j") + "] : f64");
    if (below(2)) {
      line("        %t = fma %x, %y, %v : f64");
    } else {
      line("        %z = load %a[" + std::string(along_steps ? "%j, %k" : "%k, %j") + "] : f64");
      line("        %u = load %b[%i, %k] : f64\n        %p = mul %z, %u : f64\n        %g = fma %x, %y, %p : f64");
      line("        %t = add %v, %g : f64");
    }
    line("        yield %t\n      }");
    std::string sum = "%s";
    if (below(2)) {
      const bool neighbour = !lanes_ && below(3) == 0;
      line("      %h = load %c[%i, %j" + std::string(neighbour ? " - 1" : "") + "] : f64\n      %l = sub %h, %s : f64");
      sum = "%l";
    }
    line("      store " + sum + ", %c[%i, %j]");
  }

  bool lanes_ = false;
};

TEST(Blocks, RandomSumsKeepTheirBits) {
  const int count = env("APPY_FUZZ_COUNT", 1500);
  const auto [divided, run] = change_nests<Sums>(count, [](ir::Graph& graph, int seed) {
    PanelSizes sizes;
    sizes.columns = 2 + seed % 3;
    sizes.together = 1 + seed % 2;
    sizes.rows = sizes.multiple = 2 + seed % 4;
    sizes.worth = 0;
    sizes.worth_rows = sizes.dots_columns = sizes.dots_steps = 1;
    sizes.band_bytes = 64 << seed % 4;
    sizes.ragged_rows = 1 + seed % 3;
    sizes.dots_unsettled = true;
    return by_panels(graph, sizes);
  });
  EXPECT_GT(divided, count / 2);
  EXPECT_GT(run, divided / 2);
  std::printf("%d graphs divided, %d of them run\n", divided, run);
}

}  // namespace
}  // namespace appy::passes
