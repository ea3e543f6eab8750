// The pass `planes` on random nests: planes that workers may compute in any order, from neighbours of other planes of
// one array and from lines of their own of another. Strips of every length give the same bits.
#include <string>
#include <vector>

#include "passes/planes.h"
#include "passes_nests.h"

namespace appy::passes {
namespace {

class Nests : NestWriter {
 public:
  using NestWriter::NestWriter;

  std::string make() {
    text_.clear();
    const bool lines = below(4) != 0, two = below(3) == 0;
    const std::string rank = lines ? "3" : "2", layout = pick({"c", "c", "f"});
    line("region @nest(%a: f64[" + rank + "," + layout + "], %b: f64[" + rank + ",c], %w: f64[1,c]) {");
    for (int c = 0; c <= 3; ++c) line("  %" + constant(c) + " = const " + std::to_string(c) + " : i64");
    line("  %d = dim 0 %a : i64");
    for (int d = 0; d < (lines ? 3 : 2); ++d) {
      const std::string n = std::to_string(d);
      line("  %a" + n + " = dim " + n + " %a : i64");
      line("  %b" + n + " = dim " + n + " %b : i64");
      line("  %m" + n + " = pymin %a" + n + ", %b" + n + " : i64");
      line("  %n" + n + " = sub %m" + n + ", %c3 : i64");
    }
    line("  for parallel " + pick({"", "annotated "}) + "%i = %c2 to %n0 step " + (two ? "%c2 {" : "%c1 {"));
    const bool computes = below(2);
    if (computes) line("    %at = add %i, %c1 : i64\n    %scale = load %w[%at] : f64");
    if (lines) line("    for %j = %c2 to " + pick({"%n1", "%n1", "%m1"}) + " step %c1 {");
    line("      for simd annotated %k = %c2 to " + std::string(lines ? "%n2" : "%n1") + " step %c1 {");
    for (int plane = 0; plane <= (two ? 1 : 0); ++plane) point(plane, lines, computes);
    line("        yield\n      }");
    if (lines) line("      poll\n      yield\n    }");
    line("    poll\n    yield\n  }\n  yield\n}");
    return text_;
  }

 private:
  static std::string beside(const std::string& variable, int by) {
    return "%" + variable + (by < 0 ? " - " + std::to_string(-by) : by > 0 ? " + " + std::to_string(by) : "");
  }
  std::string element(const std::string& of, int plane, int line, int lane, bool lines) {
    return "%" + of + "[" + beside("i", plane) + (lines ? ", " + beside("j", line) : "") + ", " + beside("k", lane) +
           "]";
  }

  void point(int plane, bool lines, bool computes) {
    const std::string n = std::to_string(plane);
    line("        %s0_" + n + " = load " + element("b", plane, 0, 0, lines) + " : f64");
    const int terms = 1 + static_cast<int>(below(4));
    for (int t = 1; t <= terms; ++t) {
      const std::string x = "%x" + std::to_string(t) + "_" + n, s = std::to_string(t) + "_" + n;
      const bool own = lines && below(5) == 0;  // the line before, which the plane has written
      const auto offset = [&] { return static_cast<int>(below(4)) - 1; };
      line("        " + x + " = load " +
           (own ? element("b", plane, -1, 0, lines) : element("a", plane + offset(), offset(), offset(), lines)) +
           " : f64");
      line("        %s" + s + " = " + pick({"add", "sub"}) + " %s" + std::to_string(t - 1) + "_" + n + ", " + x +
           " : f64");
    }
    std::string value = "%s" + std::to_string(terms) + "_" + n;
    if (computes) {
      line("        %v" + n + " = mul " + value + ", %scale : f64");
      value = "%v" + n;
    }
    line("        store " + value + ", " + element("b", plane, 0, 0, lines));
  }
};

TEST(Planes, RandomNestsKeepTheirBits) {
  const int count = env("APPY_FUZZ_COUNT", 1500);
  const auto [divided, run] = change_nests<Nests>(count, [](ir::Graph& graph, int seed) {
    const int64_t bytes = 400 << seed % 4;
    return by_strips(graph, {.bytes = bytes, .worth = bytes / 2, .lines = 1, .lanes = 1, .multiple = 4});
  });
  EXPECT_GT(divided, count / 4);
  EXPECT_LT(divided, count - count / 20);
  EXPECT_GT(run, divided / 2);
  std::printf("%d graphs in strips, %d of them run\n", divided, run);
}

}  // namespace
}  // namespace appy::passes
