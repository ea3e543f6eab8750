// The pass `right_looking` on random nests: a loop that gives everything behind an iteration what it has to give, with
// subscripts of which some let it run in tiles and others do not. What runs in tiles gives the same bits.
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/right_looking.h"
#include "passes_nests.h"

namespace appy::passes {
namespace {

class Nests : NestWriter {
 public:
  using NestWriter::NestWriter;

  std::string make() {
    text_.clear();
    line("region @nest(%a: f64[2,c], %x: f64[1,c], %b: f64[2,c], %p: i64 in [0, 4]) results(\"last\", \"row\") {");
    for (int c = -2; c <= 4; ++c) line("  %" + constant(c) + " = const " + std::to_string(c) + " : i64");
    line("  %zero = const 0.0 : f64");
    line("  %half = const 0.5 : f64");
    line("  %d = dim 0 %x : i64");
    line("  %n = sub %d, %c2 : i64");
    line("  %last, %row = for annotated %k = " + pick({"%c2", "%c1", "%p", "%c0"}) +
         " to %n step %c1 carry(%before = %zero, %seen = %zero) : f64, f64 {");
    if (below(2)) line("    poll state(%before, %seen)");
    if (below(4) == 0) line("    store %before, " + element({"%k"}));
    const bool scaled = below(2);
    if (scaled) line("    %scale = load " + element({"%k"}) + " : f64");
    if (below(3) == 0) column();
    line("    %next = add %k, " + pick({"%c1", "%c1", "%c1", "%c0", "%c2"}) + " : i64");
    const bool carries = below(3) == 0;
    line(std::string("    ") + (carries ? "%left = " : "") + "for " +
         pick({"parallel ", "parallel ", "parallel simd "}) + "annotated %j = %next to " +
         pick({"%n", "%n", "%d", "%next"}) + " step %c1" + (carries ? " carry(%held = %seen) : f64" : "") + " {");
    row(scaled);
    line(carries ? "      yield %new" : "      yield");
    line("    }");
    if (below(4) == 0) line("    store %half, " + element({"%k"}));
    line("    %now = load " + element({"%k"}) + " : f64");
    line(std::string("    yield %now, ") + (carries ? "%left" : "%seen"));
    line("  }");
    line("  yield %last, %row");
    line("}");
    return text_;
  }

 private:
  /// What is the iteration's own.
  void column() {
    line("    for " + pick({"simd ", "parallel ", ""}) + "annotated %h = " + pick({"%k", "%c0", "%c1"}) + " to " +
         pick({"%n", "%d", "%k"}) + " step %c1 {");
    line("      %c = load " + element({"%h", "%k"}) + " : f64");
    line("      %e = mul %c, %half : f64");
    line("      store %e, " + element({"%h", "%k"}));
    line("      yield");
    line("    }");
  }

  void row(bool scaled) {
    std::string given = scaled ? "%scale" : "%half";
    if (below(2)) {
      line("      %s = for " + pick({"simd ", ""}) + "annotated %i = " + pick({"%c0", "%k", "%c1"}) + " to " +
           pick({"%n", "%d", "%k"}) + " step %c1 carry(%t = %zero) : f64 {");
      line("        %u = load " + element({"%i", "%k", "%j"}) + " : f64");
      line("        %v = load " + element({"%i", "%k", "%j"}) + " : f64");
      line("        %w = sub %u, %v : f64");
      line("        %y = add %t, %w : f64");
      line("        yield %y");
      line("      }");
      given = "%s";
    }
    line("      %f = load " + element({"%k", "%j"}) + " : f64");
    line("      %g = mul %f, " + given + " : f64");
    line("      %old = load " + element({"%j", "%j", "%k"}) + " : f64");
    line("      %new = sub %old, %g : f64");
    line("      store %new, " + element({"%j", "%j", "%k"}));
    if (below(3)) return;
    line("      for annotated %q = " + pick({"%c0", "%next", "%c1"}) + " to " + pick({"%n", "%d"}) + " step %c1 {");
    line("        %l = load " + element({"%q", "%j", "%k"}) + " : f64");
    line("        %m = add %l, %g : f64");
    line("        store %m, " + element({"%q", "%j"}));
    line("        yield");
    line("      }");
  }
};

TEST(RightLooking, RandomNestsKeepTheirBits) {
  const int count = env("APPY_FUZZ_COUNT", 6000);
  const auto [tiled, run] =
      change_nests<Nests>(count, [](ir::Graph& graph, int seed) { return tile_right_looking(graph, 2 + seed % 4); });
  EXPECT_GT(tiled, count / 50);
  EXPECT_GT(run, tiled / 4);
  std::printf("%d graphs tiled, %d of them run\n", tiled, run);
}

}  // namespace
}  // namespace appy::passes
