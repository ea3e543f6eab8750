// Loads of neighbours that step by the same stride: whole vectors, with lanes and elements swapped.
#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

// Rows of a transposed matrix: as many loads of neighbours as there are lanes are whole vectors, transposed.
TEST(Transposed, NeighboursThatStepTogetherAreTransposed) {
  for (const char* type : {"f64", "f32", "i64", "i32"}) {
    const std::string t = type;
    for (int columns : {3, 4, 8, 16, 17}) {
      std::string body;
      for (int k = 0; k < columns; ++k) {
        const std::string n = std::to_string(k);
        body += "    %v" + n + " = load %x[%i, " + n + "] : " + t + "\n";
      }
      for (int k = 0; k < columns; ++k) {
        const std::string n = std::to_string(k);
        body += "    %w" + n + " = add %v" + n + ", %v" + std::to_string((k + 1) % columns) + " : " + t +
                "\n    store %w" + n + ", %o[" + n + ", %i]\n";
      }
      for (const char* layout : {"c", "strided"}) {
        const std::string text = "region @r(%n: i64, %x: " + t + "[2," + layout + "], %o: " + t +
                                 "[2,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
                                 "  for simd %i = %zero to %n step %one {\n" +
                                 body + "    yield\n  }\n  yield\n}\n";
        for (int64_t n : {0, 1, 7, 8, 16, 37}) {
          const auto run = [&](auto zero) {
            using T = decltype(zero);
            std::vector<T> values(static_cast<size_t>(n * columns));
            for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i);
            Arg x = array_arg(values, {n, columns}), down = x;
            const Arg o = array_arg(std::vector<T>(values.size()), {columns, n});
            expect_same(text, {scalar_arg(word(n)), x, o});
            if (n == 0 || layout[0] == 'c') return;
            // From the last row to the first.
            down.origin = static_cast<size_t>((n - 1) * columns) * sizeof(T);
            down.strides[0] = -down.strides[0];
            expect_same(text, {scalar_arg(word(n)), down, o});
          };
          if (t == "f64") run(double{});
          if (t == "f32") run(float{});
          if (t == "i64") run(int64_t{});
          if (t == "i32") run(int32_t{});
        }
      }
    }
  }
}

TEST(Transposed, NoGatherWhereNeighboursAreTransposed) {
  const auto text = [](const std::string& between) {
    std::string loads, stores;
    for (int k = 0; k < 8; ++k) {
      const std::string n = std::to_string(k);
      loads += "    %v" + n + " = load %x[%i, " + n + "] : f64\n" + (k == 4 ? between : "");
      stores += "    store %v" + n + ", %o[" + n + ", %i]\n";
    }
    return "region @r(%n: i64, %x: f64[2,c], %o: f64[2,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
           "  for simd %i = %zero to %n step %one {\n" +
           loads + stores + "    yield\n  }\n  yield\n}\n";
  };
  // The masked loop for the rest gathers; each load does so once.
  const auto gathers = [](const std::string& program, Isa isa) {
    const std::string listing = code_of(*ir::parse(program), isa)->listing();
    size_t count = 0;
    for (size_t at = 0; (at = listing.find("gather", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  for (Isa isa : isas()) {
    EXPECT_EQ(gathers(text(""), isa), 8U);
    // What is stored in between may be what the later ones load; with four lanes there is no such pair of loads.
    if (isa == Isa::avx512) {
      EXPECT_GT(gathers(text("    store %v0, %x[%i, 7]\n"), isa), 8U);
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
