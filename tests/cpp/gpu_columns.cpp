// Columns of a block, by the telling lines of the text: what their threads keep.
#include <gtest/gtest.h>

#include <string>

#include "gpu/codegen.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace appy::gpu {
namespace {

/// Steps, each with a vector that every block computes for itself and its products with the columns behind, the rows of
/// which count from `of_sum`; `between` is done with the sums, which change rows from `of_change` on, if anything.
std::string text_of(const std::string& of_sum = "%zero", const std::string& of_change = "%zero",
                    const std::string& between = "", int rows = 4) {
  const std::string change = "for simd annotated %i3 = " + of_change + R"( to %m step %one {
          %c = load %q[%i3, %k] : f64
          %d = load %x[%i3, %j] : f64
          %e = fma %c, %s, %d : f64
          store %e, %x[%i3, %j]
          yield
        }
        )";
  const auto graph = ir::parse(R"(region @kernel(%x: f64[2,c], %q: f64[2,c], %y: f64[2,c], %n: i64 in [0, 1000]) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %none = const 0.0 : f64
    %m = dim 0 %x : i64
    %w = dim 1 %x : i64
    for %k = %zero to %n step %one {
      %next = add %k, %one : i64
      for parallel annotated %i = %zero to %m step %one {
        %a = load %x[%i, %k] : f64
        store %a, %q[%i, %k]
        yield
      }
      for parallel annotated %j = %next to %w step %one {
        %s = for simd annotated %i2 = )" +
                               of_sum + R"( to %m step %one carry(sum %t = %none) : f64 {
          %f = load %q[%i2, %k] : f64
          %g = load %x[%i2, %j] : f64
          %h = fma %f, %g, %t : f64
          yield %h
        }
        store %s, %y[%k, %j]
        )" + between + (of_change.empty() ? "" : change) +
                               R"(yield
      }
      yield
    }
    yield
  })");
  for (const char* name : {"distribute", "barriers"}) passes::find(name)->run(*graph);
  EXPECT_EQ(ir::verify(*graph), "") << ir::print(*graph);
  CodegenOptions options;
  options.shape.rows = rows;
  return generate(*graph, options).text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Columns, RowsOfAThreadStayInRegistersForAStep) {
  const std::string text = text_of();
  EXPECT_TRUE(has(text, "double kept_1[4] = {};")) << text;
  EXPECT_TRUE(has(text, "kept_1[u_0] = g;")) << text;
  EXPECT_TRUE(has(text, "const double c = kept_0[u_1];")) << text;
  EXPECT_TRUE(has(text, "const double d = kept_1[u_1];")) << text;
  EXPECT_TRUE(has(text, "if (mine_0 && k_")) << "who has no column stores nothing\n" << text;
}

TEST(Columns, WhatIsStoredBetweenIsLoadedAgain) {
  const std::string text = text_of("%zero", "%zero", "store %s, %x[%zero, %j]\n");
  EXPECT_TRUE(has(text, "const double c = kept_0[u_1];")) << text;
  EXPECT_TRUE(has(text, "const double d = x[")) << text;
}

TEST(Columns, OtherRowsAreLoadedAgain) {
  const std::string text = text_of("%zero", "%one");
  EXPECT_FALSE(has(text, "kept_")) << text;
  EXPECT_TRUE(has(text, "for (int u_1 = 0; u_1 < 4; ++u_1)")) << text;
}

TEST(Columns, OfManyRowsAreLoadedAgain) {
  const std::string text = text_of("%zero", "%zero", "", 0);
  EXPECT_FALSE(has(text, "kept_")) << text;
  EXPECT_TRUE(has(text, "; mine_0 && k_3 < n_3; k_3 += kBlock / kColumns)")) << text;
}

TEST(Columns, ThatAreOnlyAddedUpAreLoops) {
  const std::string text = text_of("%zero", "", "");
  EXPECT_FALSE(has(text, "u_0")) << text;
}

}  // namespace
}  // namespace appy::gpu
