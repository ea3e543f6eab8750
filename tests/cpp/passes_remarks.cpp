// What the loop passes say, and what they make of the state of checks inside loops: not visible in text goldens.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace appy::passes {
namespace {

std::unique_ptr<ir::Graph> after(std::string_view pass, const std::string& text) {
  auto graph = ir::parse(text);
  find(pass)->run(*graph);
  EXPECT_EQ(ir::verify(*graph), "");
  return graph;
}

const std::string kPrefix = R"(region @r(%x: f64[1,c], %n: i64 in [0, 100], %a: f64) {
  %zero = const 0 : i64
  %one = const 1 : i64
)";

TEST(Remarks, ARecurrenceIsAWarningThatNamesVariableAndLine) {
  const auto g = after("reductions", kPrefix + R"(
  %s = for parallel simd annotated %i = %zero to %n step %one carry(%total = %a) : f64 loc("f.py":12:4) {
    %p = mul %total, %total : f64
    yield %p
  }
  yield %s
}
)");
  ASSERT_EQ(g->remarks.size(), 1u);
  EXPECT_EQ(g->remarks[0].severity, ir::Severity::warning);
  EXPECT_EQ(g->remarks[0].text,
            "the loop at line 12 runs in order: 'total' depends on its value in the previous iteration and is no "
            "reduction");
}

TEST(Remarks, ABreakIsANote) {
  const auto g = after("reductions", kPrefix + R"(
  for simd annotated %i = %zero to %n step %one loc("f.py":3:4) {
    break
  }
  yield
}
)");
  ASSERT_EQ(g->remarks.size(), 1u);
  EXPECT_EQ(g->remarks[0].severity, ir::Severity::note);
  EXPECT_EQ(g->remarks[0].text, "the loop at line 3 runs in order: it is left by break or return");
}

TEST(Remarks, ABreakOfAnInnerWhileIsNone) {
  const auto g = after("reductions", kPrefix + R"(
  for simd annotated %i = %zero to %n step %one {
    while {
      break
    }
    yield
  }
  yield
}
)");
  EXPECT_TRUE(g->remarks.empty());
  EXPECT_NE(ir::print(*g).find("for simd"), std::string::npos);
}

TEST(Remarks, ExactSumsAreANote) {
  const auto g = ir::parse(kPrefix + R"(
  %s = for simd annotated %i = %zero to %n step %one carry(%t = %a) : f64 loc("f.py":7:4) {
    %p = add %t, %a : f64
    yield %p
  }
  yield %s
}
)");
  g->exact = true;
  find("reductions")->run(*g);
  ASSERT_EQ(g->remarks.size(), 1u);
  EXPECT_EQ(g->remarks[0].severity, ir::Severity::note);
  EXPECT_EQ(g->remarks[0].text, "the loop at line 7 runs in order: 't' is reduced in sequential order (exact=True)");
}

TEST(Remarks, AProvenConflictNamesArrayAndLines) {
  const auto g = after("dependence", kPrefix + R"(
  for parallel annotated %i = %one to %n step %one loc("f.py":4:4) {
    %v = load %x[%i - 1] : f64 loc("f.py":5:9)
    store %v, %x[%i] loc("f.py":6:9)
    yield
  }
  yield
}
)");
  ASSERT_EQ(g->remarks.size(), 1u);
  EXPECT_EQ(g->remarks[0].severity, ir::Severity::warning);
  EXPECT_EQ(g->remarks[0].text,
            "the loop at line 4 runs in order: its iterations depend on each other through 'x' (an iteration uses what "
            "the next one writes or the other way round: line 6 and line 5)");
}

TEST(State, InALoopWithPermissionItIsTheStateBeforeTheLoop) {
  const auto g = after("reductions", kPrefix + R"(
  %f0 = const 0.0 : f64
  %outer.s, %outer.i = for %o = %zero to %n step %one carry(%so = %a, %io = %zero) : f64, i64 {
    %s, %last = for simd annotated %i = %zero to %n step %one carry(%t = %so, %l = %io) : f64, i64 {
      %v = load %x[%i] : f64
      %ok = lt %v, %f0 : bool
      store %v, %x[%i]
      %t2 = add %t, %v : f64
      check assertion %ok state(%t2, %i)
      yield %t2, %i
    }
    yield %s, %last
  }
  yield %outer.s, %outer.i
}
)");
  const std::string text = ir::print(*g);
  EXPECT_NE(text.find("check assertion %ok state(%so, %io)"), std::string::npos) << text;
  EXPECT_NE(text.find("carry(sum %t = %so, last %l = "), std::string::npos) << text;
}

}  // namespace
}  // namespace appy::passes
