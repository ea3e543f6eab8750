#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "ir/op_printer.h"
#include "ir/text.h"

namespace appy::ir {
namespace {

std::string again(const std::string& text, PrintOptions options = {}) { return print(*parse(text), options); }

std::string error_of(const std::string& text) {
  try {
    parse(text);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "no error";
}

/// The error of one line inside a region with these parameters; the line is line 2.
std::string error_in(const std::string& line) {
  return error_of("region @r(%n: i64, %x: f64[2,c], %b: bool) {\n" + line + "\n  yield\n}\n");
}

TEST(Text, Allocs) {
  constexpr const char* kText = R"(region @r(%n: i64) {
  %t = alloc %n, %n slot 0 : f64[2,c]
  %s = alloc slot 7 : i32[0,c]
  %r = alloc %n slot 2 escapes : bool[1,c]
  %q = alloc %n, %n slot 3 lead 7 : f64[2,c]
  %v = load %t[%n, 0] : f64
  store %v, %t[0, %n]
  yield
}
)";
  const auto graph = parse(kText);
  EXPECT_EQ(print(*graph), kText);
  EXPECT_EQ(print(*clone(*graph)), kText);
  EXPECT_EQ(graph->slot_count(), 8);
  EXPECT_EQ(clone(*graph)->slot_count(), 8);
  EXPECT_TRUE(graph->body->first->next->next->escapes);
  EXPECT_EQ(graph->body->first->next->next->next->lead, 7);
  EXPECT_EQ(error_in("%t = alloc %n : f64[1,c]"), "line 2, column 15: expected 'slot', got ':'");
  EXPECT_EQ(error_in("%t = alloc %n slot -1 : f64[1,c]"),
            "line 2, column 20: expected a slot from 0 to 2147483646, got -1");
  EXPECT_EQ(error_in("%t = alloc %n slot 0 lead 64 : bool[1,c]"),
            "line 2, column 27: expected a number of elements from 0 to 63, got 64");
  EXPECT_EQ(error_in("alloc %n slot 1"), "line 2, column 1: expected one result of alloc");
}

TEST(Text, BuilderNumbersAllocs) {
  Graph graph;
  Value* n = add_arg(*graph.body, scalar(DType::i64_), "n");
  Builder b(graph);
  Value* extents[] = {n, n};
  Value* t = b.alloc({DType::f32_, 2, Layout::c}, extents);
  Value* s = b.alloc({DType::f32_, 0, Layout::c}, {});
  b.yield({});
  EXPECT_EQ(t->op->slot, 0);
  EXPECT_EQ(s->op->slot, 1);
  EXPECT_THROW(b.alloc({DType::f32_, 1, Layout::c}, {}), std::logic_error);
  EXPECT_THROW(b.alloc({DType::f32_, 2, Layout::inner}, extents), std::logic_error);
  EXPECT_THROW(b.alloc(scalar(DType::f32_), {}), std::logic_error);
}

constexpr const char* kEverything =
    R"(region @saxpy(%n: i64 in [0, 2147483647], %a: f64, %x: f64[1,c], %y: f64[2,inner], %z: i32[0,f]) exact may_alias results("i", "s") {
  %zero = const 0 : i64
  %one = const 1 : i64
  %acc0 = const 0.0 : f64
  %first = const -9223372036854775808 : i64
  %0 = dim 1 %y : i64
  %1, %2, %key, %3 = for parallel simd annotated schedule(dynamic, 4) le(64) threads(2) collapse(2) %i = %zero to %n step %one carry(%k = %zero, pymin(tie 2) %best = %acc0, follow_first(leader 1) %at = %zero, sum %acc = %acc0) : i64, f64, i64, f64 {
    %v = load %x[%i + 1] : f64
    %w = load %y[%i - %k - 3, -%i + 2*%k] : f64
    %u = load %z[] : i32
    %f = fma %v, %a, %w : f64
    %c = lt %v, %f : bool
    %r, %s = if %c : f64, i32 {
      yield %f, %u
    } else {
      %4 = cast %v : i32
      yield %v, %4
    }
    check bounds %c info(%i, %zero, %n) state(%k, %acc) : "text \"quoted\"\n"
    check overflow %c declines
    check value %c state() declines : "x"
    store %r, %y[%i, 7]
    atomic sum %v, %x[%zero + 9223372036854775807]
    poll state(%k, %acc)
    poll
    if %c {
      yield
    } else {
      continue %k, %best, %at, %acc
    }
    yield %i, %best, %at, %f
  }
  %5 = while carry(%q = %2) : f64 {
    %p = gt %q, %a : bool
    if %p {
      break %q
    } else {
      yield
    }
    %6 = sqrt %q : f64
    yield %6
  }
  for schedule(static) %i.1 = %zero to %n step %one {
    yield
  }
  yield %1, %5
}
)";

TEST(Text, EveryFormRoundTrips) {
  const std::string text = kEverything;
  EXPECT_EQ(again(text), text);
}

TEST(Text, WhoRunsALoopAndBarriers) {
  constexpr const char* kText = R"(region @r(%n: i64, %x: f64[2,c]) no_inspectors registers(32) workers(2) {
  for parallel simd annotated le(4) mapped(workers) %i = %n to %n step %n {
    %s = for simd mapped(lanes) %j = %n to %n step %n carry(sum %a = %n) : i64 {
      yield %a
    }
    barrier lanes
    %e = while mapped(single) carry(%b = %s) : i64 {
      break %b
    }
    yield
  }
  barrier workers
  for parallel mapped(threads) %k = %n to %n step %n {
    yield
  }
  for mapped(single) %l = %n to %n step %n {
    yield
  }
  yield
}
)";
  const auto graph = parse(kText);
  EXPECT_EQ(print(*graph), kText);
  EXPECT_EQ(print(*clone(*graph)), kText);
  EXPECT_FALSE(graph->inspectors);
  EXPECT_EQ(graph->registers, 32);
  EXPECT_EQ(graph->workers, 2);
  EXPECT_EQ(graph->body->first->mapping, Mapping::workers);
  EXPECT_EQ(graph->body->first->next->mapping, Mapping::workers);
  EXPECT_EQ(graph->body->first->next->code, Opcode::barrier_);
  EXPECT_EQ(error_in("  barrier"), "line 3, column 3: expected workers or lanes, got yield");
  EXPECT_EQ(error_in("  barrier none"), "line 2, column 11: expected workers or lanes, got none");
  EXPECT_EQ(error_in("  for mapped(all) %i = %n to %n step %n {"),
            "line 2, column 14: expected workers, columns, lanes, threads, single or repeated, got all");
}

TEST(Text, TheEntryThatARegionIsCompiledFor) {
  const auto region = [](const std::string& given) {
    return "region @r(%n: i64, %x: f64[2,c], %a: f64, %e: i32[0,c], %b: bool) workers(2) cache(1048576) given(" +
           given + ") {\n  check sizes %b declines\n  yield\n}\n";
  };
  const auto graph = parse(region("-3, [40, 0], 0, [], 1"));
  EXPECT_EQ(graph->given, (std::vector<Word>{static_cast<Word>(-3), 0, 40, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(print(*graph), region("-3, [40, 0], 0, [], 1"));
  EXPECT_EQ(print(*clone(*graph)), print(*graph));
  EXPECT_EQ(error_of(region("-3, [40, -1], 0, [], 1")),
            "line 1, column 108: expected an extent from 0 to 9223372036854775807, got -1");
  EXPECT_EQ(error_of(region("-3, [40], 0, [], 1")), "line 1, column 106: expected ',', got ']'");
  EXPECT_EQ(error_of(region("-3")), "line 1, column 101: expected ',', got ')'");
}

TEST(Text, WhatARegionIsAsAWhole) {
  const auto region = [](const std::string& header) {
    return "region @r(%n: i64, %L: f64[2,c], %x: f64[1,c]) " + header + " {\n  yield\n}\n";
  };
  for (const char* header :
       {"solves(%L, %x, %x, dim 1 %L, transposed, unit)", "solves(%L, %x, %x, %n)", "factors(%L, dim 0 %x)",
        "factors(%L, %n, transposed)", "factors(%L, %n, transposed, blocked)"}) {
    const auto graph = parse(region(header));
    EXPECT_EQ(print(*graph), region(header));
    EXPECT_EQ(print(*clone(*graph)), region(header));
  }
  const auto graph = parse(region("solves(%L, %x, %x, dim 1 %L, transposed, unit)"));
  EXPECT_EQ(graph->solve, (Solve{1, 2, 2, {1, 1}, true, true}));
  EXPECT_EQ(parse(region("factors(%L, %n)"))->factorization, (Factorization{1, {0, -1}, false}));
  for (const char* header :
       {"solves(%y, %x, %x, dim 0 %x)", "solves(%x, %x, %x, dim 0 %x)", "solves(%L, %n, %x, dim 0 %x)",
        "solves(%L, %x, %x, dim 1 %x)", "solves(%L, %x, %x, %x)", "solves(%L, %x, %x, dim 0 %n)",
        "solves(%L, %x, %x, %n, lower)", "factors(%x, %n)", "factors(%L)", "factors(%L, %n, unit)"}) {
    EXPECT_THROW(parse(region(header)), ParseError) << header;
  }
}

TEST(Text, PrintsWhatTheBuilderMade) {
  Graph g;
  g.name = "f.<locals>.g";
  Value* x = add_arg(*g.body, {DType::f64_, 1, Layout::c}, "x");
  Value* n = add_arg(*g.body, scalar(DType::i64_), "n");
  n->range = {0, 7};
  Builder b(g);
  Value* zero = b.i64(0);
  Value* index[] = {zero};
  Value* v = b.load(x, index);
  v->name = "x";
  Value* sum = b.op(Opcode::add_, {v, v});
  b.store(sum, x, index);
  Value* results[] = {sum};
  b.yield(results);
  const std::string text = print(g);
  EXPECT_EQ(text, R"(region @"f.<locals>.g"(%x: f64[1,c], %n: i64 in [0, 7]) {
  %0 = const 0 : i64
  %x.1 = load %x[%0] : f64
  %1 = add %x.1, %x.1 : f64
  store %1, %x[%0]
  yield %1
}
)");
  EXPECT_EQ(again(text), text);
  EXPECT_EQ(print(*clone(g)), text);
}

TEST(Text, NamesBecomeIdentifiersAndStayApart) {
  Graph g;
  for (const char* name : {"a b", "7", "a.1", "a", "a", "größe"}) add_arg(*g.body, scalar(DType::i64_), name);
  Builder(g).yield({});
  const std::string text = print(g);
  EXPECT_EQ(text, "region @region(%a_b: i64, %_7: i64, %a.1: i64, %a: i64, %a.2: i64, %größe: i64) {\n  yield\n}\n");
  EXPECT_EQ(again(text), text);
}

TEST(Text, EqualTermsMergeAndOrderIsCanonical) {
  Graph g;
  Value* x = add_arg(*g.body, {DType::f64_, 2, Layout::c}, "x");
  Value* i = add_arg(*g.body, scalar(DType::i64_), "i");
  Value* j = add_arg(*g.body, scalar(DType::i64_), "j");
  Builder b(g);
  Value* index[] = {i, j};
  Value* v = b.load(x, index);
  v->op->operands = {x, i, j, i, j};
  v->op->access->terms = 4;
  v->op->access->coef = {{0, 1, 0, 1}, {1, 3, 1, -3}};
  b.yield({});
  const std::string text = print(g);
  EXPECT_NE(text.find("load %x[2*%j, 2*%i] : f64"), std::string::npos) << text;
  EXPECT_EQ(again(text), text);
}

TEST(Text, LiteralsKeepTheirBits) {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const std::vector<double> values = {0.0,
                                      -0.0,
                                      1.0,
                                      0.1,
                                      -1e300,
                                      5e-324,
                                      tiny,
                                      1e22,
                                      123456789012345680.0,
                                      INFINITY,
                                      -INFINITY,
                                      NAN,
                                      std::numeric_limits<double>::max()};
  for (double v : values) {
    for (DType t : {DType::f64_, DType::f32_}) {
      Graph g;
      Builder b(g);
      const Word word = t == DType::f64_ ? std::bit_cast<Word>(v) : std::bit_cast<uint32_t>(static_cast<float>(v));
      b.constant(t, word);
      b.yield({});
      EXPECT_EQ(parse(print(g))->body->first->imm, word) << print(g);
    }
  }
  const auto bits = [](const std::string& literal) {
    return parse("region @r() {\n %x = const " + literal + "\n yield\n}")->body->first->imm;
  };
  EXPECT_EQ(bits("nan(0xfff8000000000001) : f64"), 0xfff8000000000001u);
  EXPECT_EQ(bits("nan(0xffc00000) : f32"), 0xffc00000u);
  EXPECT_EQ(bits("0.1 : f16"), 0x2e66u);
  EXPECT_EQ(bits("nan : f16"), 0x7e00u);
  EXPECT_EQ(bits("nan(0xfe01) : f16"), 0xfe01u);
  EXPECT_EQ(bits("0.1 : bf16"), 0x3dcdu);
  EXPECT_EQ(bits("-inf : bf16"), 0xff80u);
  EXPECT_EQ(bits("nan : bf16"), 0x7fc0u);
  EXPECT_EQ(bits("nan(0xffc1) : bf16"), 0xffc1u);
  for (Word half = 0; half < 0x10000; ++half) {
    for (DType t : {DType::f16_, DType::bf16_}) {
      EXPECT_EQ(bits(to_string(t, half) + " : " + std::string(name_of(t))), half);
    }
  }
  EXPECT_EQ(bits("-0.0 : f64"), 0x8000000000000000u);
  EXPECT_EQ(bits("18446744073709551615 : u64"), UINT64_MAX);
  EXPECT_EQ(bits("-128 : i8"), static_cast<Word>(-128));
  EXPECT_EQ(bits("true : bool"), 1u);
  EXPECT_EQ(bits("1 : f64"), std::bit_cast<Word>(1.0));
  EXPECT_EQ(to_string(DType::f64_, 0xfff8000000000000u), "nan(0xfff8000000000000)");
}

TEST(Text, LocationsWithInlining) {
  const std::string text = R"(region @r(%b: bool) {
  %0 = const 1 : i64 loc("a \"b\".py":3:5 inlined at "c.py":7:1 inlined at "d.py":9:2)
  if %b loc("c.py":7:1) {
    yield
  } else {
    check value %b : "m" loc(:8:0)
    yield
  }
  yield
}
)";
  EXPECT_EQ(again(text, {.locs = true}), text);
  EXPECT_EQ(again(text).find("loc"), std::string::npos);
  const auto g = parse(text);
  const Loc& at = g->locs[g->body->first->loc];
  EXPECT_EQ(at.line, 3);
  EXPECT_EQ(g->locs[g->locs[at.inlined_at].inlined_at].file, "d.py");
  EXPECT_EQ(print(*clone(*g), {.locs = true}), text);
}

TEST(Text, RemarksBehindTheRegion) {
  const std::string text = R"(region @r(%n: i64) {
  yield loc("a.py":3:5)
}
remark note "jam" : "of \"all\" loops\nthis one" loc(:4:1)
remark warning "trace" : ""
)";
  EXPECT_EQ(again(text, {.locs = true, .remarks = true}), text);
  EXPECT_EQ(again(text).find("remark"), std::string::npos);
  const auto g = parse(text);
  ASSERT_EQ(g->remarks.size(), 2u);
  EXPECT_EQ(g->remarks[0].text, "of \"all\" loops\nthis one");
  EXPECT_EQ(g->locs[g->remarks[0].loc].line, 4);
  EXPECT_EQ(g->remarks[1].severity, Severity::warning);
  EXPECT_EQ(g->remarks[1].loc, 0u);
}

TEST(Text, CommentsAndSpacesAreFree) {
  EXPECT_EQ(again("# a comment\nregion @r(){//x\nyield}"), "region @r() {\n  yield\n}\n");
}

TEST(Text, ANameMayReturnOnceItsBlockHasEnded) {
  const std::string text =
      "region @r(%n: i64) {\n for %i = %n to %n step %n {\n yield\n }\n"
      " for %i = %n to %n step %n {\n yield\n }\n yield\n}\n";
  EXPECT_NE(again(text).find("for %i.1 ="), std::string::npos);
}

TEST(ParseErrors, NamePlaceAndExpectation) {
  EXPECT_EQ(error_of(""), "line 1, column 1: expected 'region', got the end of the text");
  EXPECT_EQ(error_of("region r() {}"), "line 1, column 8: expected the region's name (@name), got r");
  EXPECT_EQ(error_of("region @r(%x: f8) {}"), "line 1, column 15: expected a type, got f8");
  EXPECT_EQ(error_of("region @r(%x: f64[1,d]) {}"),
            "line 1, column 21: expected a layout (strided, inner, c, f or pairs), got d");
  EXPECT_EQ(error_of("region @r(%x: f64, %x: f64) {}"), "line 1, column 20: %x is already defined");
  EXPECT_EQ(error_of("region @r() { yield } x"), "line 1, column 23: expected the end of the text, got x");
  EXPECT_EQ(error_of("region @r() {\n  yield\n"), "line 3, column 1: expected an operation, got the end of the text");
  EXPECT_EQ(error_in("  %v = frob %n : i64"), "line 2, column 8: expected an operation, got frob");
  EXPECT_EQ(error_in("  %v = add %n, %m : i64"), "line 2, column 16: expected a value that is visible here, got %m");
  EXPECT_EQ(error_in("  %v = add %n : i64"), "line 2, column 12: expected 2 operands of add, got 1");
  EXPECT_EQ(error_in("  %v = add %n, %n"), "line 3, column 3: expected ':', got yield");
  EXPECT_EQ(error_in("  add %n, %n : i64"), "line 2, column 3: expected one result of add");
  EXPECT_EQ(error_in("  %v, %w = add %n, %n : i64"), "line 2, column 3: expected one result of add");
  EXPECT_EQ(error_in("  %v = store %n, %x[%n]"), "line 2, column 3: expected no result of store");
  EXPECT_EQ(error_in("  %v = load %x[%n] : f64"), "line 2, column 15: expected 2 subscripts, got 1");
  EXPECT_EQ(error_in("  %v = load %x[%n, *] : f64"), "line 2, column 20: expected a subscript, got '*'");
  EXPECT_EQ(error_in("  %v = load %x[%n, 9223372036854775808] : f64"),
            "line 2, column 20: expected an integer that fits, got 9223372036854775808");
  EXPECT_EQ(error_in("  %v = const 256 : u8"), "line 2, column 14: expected a literal of type u8");
  EXPECT_EQ(error_in("  %v = const 1.5 : i64"), "line 2, column 14: expected a literal of type i64");
  EXPECT_EQ(error_in("  %v = const nan(0x1) : f64"), "line 2, column 14: expected a literal of type f64");
  EXPECT_EQ(error_in("  %v = const [ : f64"), "line 2, column 14: expected a literal, got '['");
  EXPECT_EQ(error_in("  check what %b"), "line 2, column 9: expected a kind of check, got what");
  EXPECT_EQ(error_in("  check value %b : text"), "line 2, column 20: expected the check's text in quotes, got text");
  EXPECT_EQ(error_in("  check value %b : \"text"), "line 2, column 20: expected '\"' at the end of the string");
  EXPECT_EQ(error_in("  check value %b : \"a\\qb\""), "line 2, column 20: unknown escape in a string");
  EXPECT_EQ(error_in("  check value %b : \"a\\x4\""), "line 2, column 20: expected two hexadecimal digits after \\x");
  EXPECT_EQ(error_in("  check value %b : \"a\\"), "line 2, column 20: expected '\"' at the end of the string");
  EXPECT_EQ(error_in("  atomic plus %n, %x[%n, %n]"), "line 2, column 10: expected a combiner, got plus");
  EXPECT_EQ(error_in("  for fast %i = %n to %n step %n {"),
            "line 2, column 7: expected a loop attribute or the loop variable, got fast");
  EXPECT_EQ(error_in("  for le(-1) %i = %n to %n step %n {"),
            "line 2, column 10: expected a number from 0 to 9223372036854775807, got -1");
  EXPECT_EQ(error_in("  for schedule(guided) %i = %n to %n step %n {"),
            "line 2, column 16: expected a schedule (automatic, static or dynamic), got guided");
  EXPECT_EQ(error_in("  %s = for %i = %n to %n step %n carry(plus %a = %n) : i64 {"),
            "line 2, column 40: expected a combiner, got plus");
  EXPECT_EQ(error_in("  %s = for %i = %n to %n step %n carry(sum() %a = %n) : i64 {"),
            "line 2, column 44: expected 'leader' or 'tie', got ')'");
  EXPECT_EQ(error_in("  for %i = %n to %n step %n carry(%a = %n) : i64 {"),
            "line 2, column 3: expected 1 results, one a carried value, got 0");
  EXPECT_EQ(error_in("  %s, %t = for %i = %n to %n step %n carry(%a = %n, %c = %n) : i64 {"),
            "line 2, column 3: expected 1 results, one a type, got 2");
  EXPECT_EQ(error_in("  for %i = %n to %n step %n {\n yield }\n  %v = neg %i : i64"),
            "line 4, column 12: expected a value that is visible here, got %i");
  EXPECT_EQ(error_in("  if %b { yield }"), "line 3, column 3: expected 'else', got yield");
}

TEST(ParseErrors, DepthIsBounded) {
  std::string text = "region @r(%b: bool) {";
  for (int i = 0; i < 10000; ++i) text += "if %b {";
  EXPECT_NE(error_of(text).find("nested less deeply"), std::string::npos);
}

}  // namespace
}  // namespace appy::ir
