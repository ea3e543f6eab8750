#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/range.h"

namespace appy::passes {
namespace {

constexpr const char* kLoop = R"(region @r(%x: f64[1,c], %n: i64 in [0, 100]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %ext = dim 0 %x : i64
  for %i = %zero to %ext step %one {
    %a = load %x[%i] : f64
    %b = load %x[%i] : f64
    %c = add %a, %b : f64
    store %c, %x[%i]
    yield
  }
  yield
}
)";

TEST(Pipeline, FindsEveryPassByName) {
  ASSERT_FALSE(pipeline(Target::cpu).empty());
  for (const Pass& pass : pipeline(Target::cpu)) {
    const Pass* found = find(pass.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->run, pass.run);
  }
  EXPECT_EQ(find("no such pass"), nullptr);
}

TEST(Pipeline, NamesPassesThatChangedSomethingInOrder) {
  const auto graph = ir::parse(kLoop);
  std::vector<std::string_view> changed;
  Options options;
  options.verify = true;
  options.on_change = [&](std::string_view name, const ir::Graph&) { changed.push_back(name); };
  run(*graph, options);
  EXPECT_NE(std::find(changed.begin(), changed.end(), "cse"), changed.end());
  size_t at = 0;
  for (const Pass& pass : pipeline(Target::cpu)) at += at < changed.size() && changed[at] == pass.name ? 1 : 0;
  EXPECT_EQ(at, changed.size());
}

TEST(Pipeline, LeavesOutDisabledPasses) {
  const auto graph = ir::parse(kLoop);
  Options options;
  for (const Pass& pass : pipeline(Target::cpu)) options.disabled.push_back(pass.name);
  run(*graph, options);
  EXPECT_EQ(ir::print(*graph), kLoop);
}

TEST(PipelineDeathTest, NamesWhoBrokeTheGraph) {
  const auto graph = ir::parse(kLoop);
  graph->body->last->operands.push_back(graph->body->last->prev->blocks[0]->args[0]);  // not visible there
  Options options;
  options.verify = true;
  EXPECT_DEATH(run(*graph, options), "pass \\(input\\) broke the graph");
}

TEST(Ranges, TripCountsAndDifferences) {
  const auto graph = ir::parse(R"(region @r(%n: i64 in [3, 9], %k: i64) {
  %zero = const 0 : i64
  %two = const 2 : i64
  %one = const 1 : i64
  %last = sub %n, %one : i64
  for %i = %zero to %last step %two {
    %ip = add %i, %one : i64
    yield
  }
  yield
}
)");
  ir::Op* loop = graph->body->last->prev;
  ir::Value *n = graph->body->args[0], *k = graph->body->args[1], *i = loop->blocks[0]->args[0];
  ir::Op* end = loop->blocks[0]->last;
  Ranges ranges(*graph);
  EXPECT_EQ(ranges.trips(*loop), (ir::Range{1, 4}));
  EXPECT_EQ(ranges.of(*i), (ir::Range{0, 6}));
  EXPECT_EQ(ranges.at(*end->prev->result(), *end), (ir::Range{1, 7}));
  EXPECT_TRUE(ranges.proves_lt(*end->prev->result(), *n, *end));
  EXPECT_TRUE(ranges.proves_le(*i, 2, *n, *end));
  EXPECT_FALSE(ranges.proves_le(*i, 3, *n, *end));
  EXPECT_FALSE(ranges.proves_lt(*i, *k, *end));
  EXPECT_FALSE(ranges.proves_ge(*k, 0, *end));
}

}  // namespace
}  // namespace appy::passes
