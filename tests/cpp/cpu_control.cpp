// Loops, conditionals, memory and early exits in scalar code.
#include <limits>

#include "cpu_harness.h"
#include "ir_samples.h"
#include "runtime/poll.h"

namespace appy::cpu::testing {
namespace {

std::vector<double> ramp(int64_t n, double from = 0.5, double step = 1.25) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(from + step * static_cast<double>(i));
  return v;
}

TEST(CpuControl, ForIsPythonsRange) {
  const int64_t bounds[][3] = {{0, 5, 1},
                               {0, 0, 1},
                               {5, 0, 1},
                               {0, 5, 2},
                               {5, 0, -2},
                               {0, 5, -1},
                               {INT64_MAX - 1, INT64_MAX, 7},
                               {INT64_MIN, INT64_MAX, INT64_MAX},
                               {INT64_MAX, INT64_MIN, INT64_MIN},
                               {-10, 11, 3}};
  for (const auto& b : bounds) {
    expect_same(ir::kCount, {scalar_arg(word(b[0])), scalar_arg(word(b[1])), scalar_arg(word(b[2]))});
    std::string text = ir::kCount;
    auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("%lo: i64, %hi: i64, %by: i64", "%lo: i64, %hi: i64");
    replace("%one = const 1 : i64", "%one = const 1 : i64\n  %by = const " + std::to_string(b[2]) + " : i64");
    expect_same(text, {scalar_arg(word(b[0])), scalar_arg(word(b[1]))});
  }
}

TEST(CpuControl, NestedBreakAndContinue) {
  for (int64_t n : {0, 1, 6, 100}) expect_same(ir::kBreakAndContinue, {scalar_arg(word(n))});
}

TEST(CpuControl, WhileCollatz) {
  constexpr const char* kText = R"(region @r(%n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %two = const 2 : i64
    %three = const 3 : i64
    %steps, %final = while carry(%k = %zero, %v = %n) : i64, i64 {
      %stop = le %v, %one : bool
      if %stop {
        break %k, %v
      } else {
        yield
      }
      %bit = mod %v, %two : i64
      %even = eq %bit, %zero : bool
      %w = if %even : i64 {
        %h = floordiv %v, %two : i64
        yield %h
      } else {
        %t = mul %v, %three : i64
        %u = add %t, %one : i64
        yield %u
      }
      %k1 = add %k, %one : i64
      yield %k1, %w
    }
    yield %steps, %final
  })";
  for (int64_t n : {1, 2, 27, 97}) {
    expect_same(kText, {scalar_arg(word(n))});
    expect_same(ir::kCollatz, {scalar_arg(word(n))});
  }
}

TEST(CpuControl, SwappedCarriedValues) {
  expect_same(R"(region @r(%n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %a, %b, %c = for %i = %zero to %n step %one carry(%x = %zero, %y = %one, %z = %zero) : i64, i64, i64 {
      %s = add %x, %y : i64
      yield %y, %s, %x
    }
    yield %a, %b, %c
  })" + std::string(),
              {scalar_arg(word(int64_t{20}))});
}

TEST(CpuControl, StencilOverStridedAndContiguousViews) {
  for (const char* layout : {"c", "strided"}) {
    const std::string text = "region @r(%u: f64[2," + std::string(layout) + "], %v: f64[2," + layout + R"(]) {
      %one = const 1 : i64
      %quarter = const 0.25 : f64
      %h = dim 0 %u : i64
      %w = dim 1 %u : i64
      %h1 = sub %h, %one : i64
      %w1 = sub %w, %one : i64
      for %i = %one to %h1 step %one {
        for %j = %one to %w1 step %one {
          %a = load %u[%i - 1, %j] : f64
          %b = load %u[%i + 1, %j] : f64
          %c = load %u[%i, %j - 1] : f64
          %d = load %u[%i, %j + 1] : f64
          %ab = add %a, %b : f64
          %cd = add %c, %d : f64
          %s = add %ab, %cd : f64
          %r = mul %s, %quarter : f64
          store %r, %v[%i, %j]
          yield
        }
        yield
      }
      yield
    })";
    expect_same(text, {array_arg(ramp(9 * 11), {9, 11}), array_arg(ramp(9 * 11, 0, 0), {9, 11})});
    expect_same(text, {array_arg(ramp(2 * 11), {2, 11}), array_arg(ramp(2 * 11, 0, 0), {2, 11})});
  }
}

TEST(CpuControl, GatherScatterAndStridedSteps) {
  expect_same(R"(region @r(%x: f32[1,strided], %at: i32[1,c], %y: f64[1,strided], %n: i64) {
    %zero = const 0 : i64
    %three = const 3 : i64
    for %i = %zero to %n step %three {
      %k32 = load %at[%i] : i32
      %k = cast %k32 : i64
      %v = load %x[2*%k + 1] : f32
      %w = cast %v : f64
      store %w, %y[%n - %i - 1]
      yield
    }
    yield
  })",
              {array_arg(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {}, 2),
               array_arg(std::vector<int32_t>{3, 1, 4, 1, 5, 0, 2, 5, 3, 5}), array_arg(ramp(10, 0, 0), {}, -3),
               scalar_arg(word(int64_t{10}))});
}

constexpr const char* kChecked = R"(region @r(%x: f64[1,c], %n: i64, %limit: i64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %f0 = const 0.0 : f64
  %last, %sum = for %i = %zero to %n step %one carry(%k = %zero, %s = %f0) : i64, f64 {
    %v = load %x[%i] : f64
    %t = add %s, %v : f64
    %ok = lt %i, %limit : bool
    check bounds %ok info(%i, %zero, %limit) state(%k, %s)
    store %f0, %x[%i]
    poll state(%i, %t)
    yield %i, %t
  }
  yield %last, %sum
})";

TEST(CpuControl, ChecksLeaveWithState) {
  for (int64_t limit : {0, 3, 7, 100}) {
    expect_same(kChecked, {array_arg(ramp(8)), scalar_arg(word(int64_t{8})), scalar_arg(word(limit))});
  }
}

TEST(CpuControl, OverflowChecksDecline) {
  for (const char* type : {"i8", "u8", "i32", "u32", "i64", "u64"}) {
    for (const char* op : {"add", "sub", "mul"}) {
      const std::string text = "region @r(%a: " + std::string(type) + ", %b: " + type + ") {\n %o = ovf_" + op +
                               " %a, %b : bool\n %ok = not %o : bool\n" + " check overflow %ok declines\n %r = " + op +
                               " %a, %b : " + type + "\n yield %r\n}";
      const auto graph = ir::parse(text);
      const DType t = graph->body->args[0]->type.dtype;
      for (int64_t a :
           {int64_t{0}, int64_t{5}, int64_t{100}, int64_t{-100}, INT64_MAX, INT64_MIN, int64_t{INT32_MAX}}) {
        for (int64_t b : {int64_t{0}, int64_t{2}, int64_t{100}, int64_t{-2}, INT64_MAX, INT64_MIN}) {
          expect_same(text,
                      {scalar_arg(ir::evaluate_op(ir::Opcode::cast_, t, DType::i64_, std::vector<Word>{word(a)})),
                       scalar_arg(ir::evaluate_op(ir::Opcode::cast_, t, DType::i64_, std::vector<Word>{word(b)}))});
        }
      }
    }
  }
}

TEST(CpuControl, AtomicsOfEveryCombiner) {
  for (const char* c : {"sum", "prod", "pymin", "maximum"}) {
    const std::string text =
        "region @r(%h: f64[1,c], %v: f64[1,c], %n: i64) {\n %zero = const 0 : i64\n %one = const 1 : i64\n"
        " for %i = %zero to %n step %one {\n  %x = load %v[%i] : f64\n  atomic " +
        std::string(c) + " %x, %h[1]\n  yield\n }\n yield\n}";
    expect_same(text, {array_arg(ramp(3)), array_arg(ramp(5)), scalar_arg(word(int64_t{5}))});
  }
}

int flag = 0, polls = 0, limit = 0;

/// A sum over [first, last) by step, with a poll of its state in each iteration.
std::string polled(const std::string& kind, const std::string& first, const std::string& last, int step,
                   const std::string& carry) {
  return "region @r(%n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %step = const " +
         std::to_string(step) + " : i64\n  %sum = for " + kind + " %i = " + first + " to " + last +
         " step %step carry(sum %s = %zero) : i64 {\n    poll state(" + carry +
         ")\n    %s1 = add %s, %i : i64\n    yield %s1\n  }\n  yield %sum\n}\n";
}

TEST(CpuControl, ShortIterationsShareAPoll) {
  runtime::set_poll(&flag, [] { return ++polls > limit ? 1 : 0; });
  flag = 1;
  const int64_t n = 100000, strip = 1 << 14;
  for (const char* kind : {"", "simd", "parallel", "parallel simd"}) {
    for (const int step : {1, 3, -1, -8}) {
      const bool reorders = *kind != 0;
      const auto graph = ir::parse(
          polled(kind, step > 0 ? "%zero" : "%n", step > 0 ? "%n" : "%zero", step, reorders ? "%zero" : "%s"));
      const int64_t trips = (n + std::abs(step) - 1) / std::abs(step);
      for (Isa isa : isas()) {
        polls = 0;
        limit = 1000;
        const auto whole = machine(*graph, {scalar_arg(word(n))}, isa);
        int64_t sum = 0, partial = 0;
        for (int64_t k = 0; k < trips; ++k) {
          if (k < strip) partial += (step > 0 ? 0 : n) + k * step;
          sum += (step > 0 ? 0 : n) + k * step;
        }
        EXPECT_EQ(static_cast<int64_t>(whole.results[0]), sum) << kind << step;
        EXPECT_GE(polls, trips / strip) << kind << step;
        EXPECT_LE(polls, trips / strip + 2) << kind << step;
        polls = 0;
        limit = 0;
        const auto part = machine(*graph, {scalar_arg(word(n))}, isa);
        EXPECT_EQ(part.status, trips > strip ? runtime::Status::interrupted : runtime::Status::done) << kind << step;
        if (trips > strip && !reorders) {
          EXPECT_EQ(static_cast<int64_t>(part.results[0]), partial) << step;
        }
      }
    }
  }
  flag = 0;
  runtime::set_poll(nullptr, nullptr);
}

TEST(CpuControl, JoinedConditionsJump) {
  constexpr const char* kText = R"(region @r(%a: i64, %b: f64, %c: bool) {
  %zero = const 0 : i64
  %ten = const 10 : i64
  %half = const 0.5 : f64
  %w = lt %a, %ten : bool
  %x = ge %a, %zero : bool
  %y = lt %b, %half : bool
  %wx = and %w, %x : bool
  %all = and %wx, %y : bool
  %r = if %all : i64 {
    yield %ten
  } else {
    yield %zero
  }
  %p = eq %a, %ten : bool
  %q = ne %b, %half : bool
  %nq = not %q : bool
  %pq = or %p, %nq : bool
  %any = or %pq, %c : bool
  %s = if %any : i64 {
    yield %a
  } else {
    yield %ten
  }
  %u = gt %a, %ten : bool
  %v = and %u, %c : bool
  %uv = or %v, %all : bool
  check bounds %uv info(%a, %zero, %ten)
  yield %r, %s
})";
  for (int64_t a : {-1, 0, 9, 10, 11}) {
    for (double b : {0.0, 0.5, 1.0, std::nan("")}) {
      for (Word c : {0, 1}) expect_same(kText, {scalar_arg(word(a)), scalar_arg(word(b)), scalar_arg(c)});
    }
  }
}

TEST(CpuControl, NegativeIndicesWrap) {
  expect_same(R"(region @r(%x: f64[1,c], %at: i64[1,c], %n: i64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %f0 = const 0.0 : f64
  %size = dim 0 %x : i64
  %sum, %last = for %i = %zero to %n step %one carry(%s = %f0, %k = %size) : f64, i64 {
    %j = load %at[%i] : i64
    %w = wrap %j, %size : i64
    %v = load %x[%w] : f64
    %s1 = add %s, %v : f64
    %k1 = wrap %j, %k : i64
    yield %s1, %k1
  }
  yield %sum, %last
})",
              {array_arg(ramp(5)), array_arg(std::vector<int64_t>{0, -1, 4, -5, 2, -3}), scalar_arg(word(int64_t{6}))});
}

/// In each iteration a store, or a loop.
std::string store_or_loop(const std::string& condition) {
  return "region @r(%n: i64, %x: i64[1,c], %y: i64[1,c]) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
         "  for %i = %zero to %n step %one {\n    %a = load %x[%i] : i64\n    %c = " +
         condition +
         " %a, %i : bool\n    if %c {\n      store %a, %y[%i]\n      yield\n    } else {\n"
         "      for %j = %zero to %a step %one {\n        %p = mul %j, %j : i64\n        store %p, %y[%i]\n"
         "        yield\n      }\n      yield\n    }\n    yield\n  }\n  yield\n}\n";
}

TEST(Control, ArmsWithLoopsStandElsewhere) {
  const std::vector<int64_t> x = {3, 0, 2, 9, 4, 1, 12, 7, 5}, y(x.size());
  for (const std::string condition : {"lt", "gt", "eq"}) {
    const std::string text = store_or_loop(condition);
    expect_same(text, {scalar_arg(word(int64_t{9})), array_arg(x), array_arg(y)});
    const std::string code = code_of(*ir::parse(text), isas()[0])->listing();
    EXPECT_GT(code.find("imul"), code.find("short jne")) << code;  // behind the end of the loop
  }
}

/// What a search leaves where it finds nothing is known when it has ended.
TEST(Control, WhatNoBreakLeavesIsLeftAtTheEnd) {
  const auto text = [](const std::string& lower, const std::string& step) {
    return "region @r(%n: i64, %low: i64, %x: i64[1,c], %y: i64[1,c]) results(\"at\", \"how\", \"other\") {\n  %zero = "
           "const 0 : i64\n  %one = const 1 : i64\n  %step = const " +
           step + R"( : i64
  %found = const 1001 : i64
  %ended = const 1002 : i64
  %none = const 1003 : i64
  %at, %how, %other = for %i = )" +
           lower + R"( to %n step %step carry(%a = %none, %h = %none, %o = %zero) : i64, i64, i64 {
    poll
    %v = load %x[%i] : i64
    %is = eq %v, %one : bool
    if %is {
      break %i, %found, %low
    } else {
      yield
    }
    %two = add %v, %o : i64
    store %two, %y[%i]
    yield %i, %ended, %n
  }
  yield %at, %how, %other
}
)";
  };
  for (const std::string lower : {"%zero", "%low"}) {
    for (const std::string step : {"1", "3", "17000"}) {
      for (const int64_t n : {0, 1, 5, 40000}) {
        for (const int64_t at : {-1, 0, 2, 3, 17000, 39999}) {
          std::vector<int64_t> x(40000);
          if (at >= 0) x[static_cast<size_t>(at)] = 1;
          expect_same(text(lower, step), {scalar_arg(word(n)), scalar_arg(word(int64_t{2})), array_arg(x),
                                          array_arg(std::vector<int64_t>(40000))});
        }
      }
    }
  }
  const std::string code = code_of(*ir::parse(text("%zero", "1")), isas()[0])->listing();
  EXPECT_GT(code.find("1002"), code.find("jne", code.find("add"))) << code;
}

/// Two selects by one comparison make it twice, and no bool of it.
TEST(Control, OneComparisonForTwoSelects) {
  for (const std::string type : {"i64", "f64"}) {
    for (const std::string compare : {"lt", "ge"}) {
      const std::string text = "region @r(%n: i64, %key: " + type + ", %x: " + type + R"([1,c]) results("lo", "hi") {
  %zero = const 0 : i64
  %one = const 1 : i64
  %lo, %hi = for %i = %zero to %n step %one carry(%l = %zero, %h = %n) : i64, i64 {
    %v = load %x[%i] : )" + type +
                               "\n    %c = " + compare + R"( %v, %key : bool
    %l1 = select %c, %i, %l : i64
    %h1 = select %c, %h, %i : i64
    yield %l1, %h1
  }
  yield %lo, %hi
}
)";
      if (type == "f64") {
        std::vector<double> x = {1, 5, std::nan(""), -3, 2, 2};
        for (const double key : {2.0, -4.0, std::nan("")})
          expect_same(text, {scalar_arg(word(int64_t{6})), scalar_arg(word(key)), array_arg(x)});
      } else {
        for (const int64_t key : {2, -4, 9})
          expect_same(text, {scalar_arg(word(int64_t{6})), scalar_arg(word(key)),
                             array_arg(std::vector<int64_t>{1, 5, 9, -3, 2, 2})});
      }
      const std::string code = code_of(*ir::parse(text), isas()[0])->listing();
      EXPECT_EQ(count(code, "\nset"), 0U) << code;
    }
  }
}

/// What an update in place loads and stores has one address.
TEST(Control, AddressesAreComputedOnce) {
  const std::string text = R"(region @r(%n: i64, %row: i64[1,c], %column: i64[1,c], %h: i64[2,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  for %i = %zero to %n step %one {
    %a = load %row[%i] : i64
    %b = load %column[%i] : i64
    %before = load %h[%a, %b] : i64
    %after = add %before, %one : i64
    store %after, %h[%a, %b]
    %odd = lt %before, %two : bool
    if %odd {
      %left = load %h[%b, %a] : i64
      %more = add %left, %two : i64
      store %more, %h[%b, %a]
      yield
    } else {
      yield
    }
    %turned = load %h[%b, %a] : i64
    %sum = add %turned, %after : i64
    store %sum, %h[%b, %b]
    yield
  }
  yield
}
)";
  std::vector<int64_t> row(40), column(40);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = static_cast<int64_t>(i * 7 % 5), column[i] = static_cast<int64_t>(i % 5);
  expect_same(text, {scalar_arg(word(int64_t{40})), array_arg(row), array_arg(column),
                     array_arg(std::vector<int64_t>(25), {5, 5})});
  // Of what an arm computed nothing is known behind it.
  EXPECT_EQ(count(code_of(*ir::parse(text), isas()[0])->listing(), "imul"), 4U);
}

/// Nothing is jumped over where a search goes on.
TEST(Control, ArmsThatLeaveStandElsewhere) {
  const auto text = [](const std::string& condition, const std::string& on, const std::string& out) {
    return "region @r(%n: i64, %m: i64, %x: i64[1,c], %y: i64[1,c]) results(\"k\") {\n  %zero = const 0 : i64\n" +
           std::string(R"(
  %one = const 1 : i64
  %k = for %i = %zero to %n step %one carry(%last = %zero) : i64 {
    %at = for %j = %zero to %m step %one carry(%seen = %zero) : i64 {
      %a = load %x[%j] : i64
      %c = )") +
           condition + " %a, %i : bool\n      if %c {\n        " + on + "\n      } else {\n        " + out + R"(
      }
      yield %j
    }
    store %at, %y[%i]
    yield %at
  }
  yield %k
}
)";
  };
  const std::vector<int64_t> x = {3, 0, 2, 9, 4, 1, 12, 7, 5}, y(12);
  for (const auto& [condition, turned] : {std::pair{"ne", false}, {"eq", true}, {"lt", false}, {"ge", true}}) {
    const std::string both = turned ? text(condition, "break %a", "yield") : text(condition, "yield", "break %a");
    for (const int64_t m : {0, 1, 9}) {
      expect_same(both, {scalar_arg(word(int64_t{12})), scalar_arg(word(m)), array_arg(x), array_arg(y)});
    }
    const std::string code = code_of(*ir::parse(both), isas()[0])->listing();
    // From the comparison with an element to the next one there is the jump to it alone.
    const size_t from = code.find("[", code.rfind("L", code.find("cmp"))), to = code.find("short jne", from);
    EXPECT_EQ(code.substr(from, to - from).find("jmp"), std::string::npos) << code;
  }
}

TEST(Control, ConstantsAreCountedInPlace) {
  const std::string text = R"(region @r(%n: i64, %x: i64[1,c], %y: TYPE[1,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %add = const NUMBER : TYPE
  for %i = %zero to %n step %one {
    %a = load %x[%i] : i64
    atomic sum %add, %y[%a]
    yield
  }
  yield
}
)";
  const std::vector<int64_t> x = {3, 0, 2, 3, 3, 1, 0, 3, 2};
  const auto with = [&](std::string type, const std::string& number) {
    std::string made = text;
    for (const auto& [from, to] : {std::pair<std::string, std::string>{"TYPE", type}, {"NUMBER", number}}) {
      for (size_t at; (at = made.find(from)) != std::string::npos;) made.replace(at, from.size(), to);
    }
    return made;
  };
  const auto args = [&](auto zero) {
    return std::vector<Arg>{scalar_arg(word(int64_t{9})), array_arg(x),
                            array_arg(std::vector<decltype(zero)>{1, 2, 3, 126})};
  };
  for (const std::string number : {"1", "-1", "-128", "127", "128", "100000"}) {
    expect_same(with("i64", number), args(int64_t{}));
    expect_same(with("i32", number), args(int32_t{}));
  }
  for (const std::string number : {"1", "127"}) {
    expect_same(with("i8", number), args(int8_t{}));
    expect_same(with("u8", number), args(uint8_t{}));
    expect_same(with("u16", number), args(uint16_t{}));
  }
  expect_same(with("u8", "255"), args(uint8_t{}));
  expect_same(with("f64", "1.0"), args(double{}));
  const std::string code = code_of(*ir::parse(with("i64", "1")), isas()[0])->listing();
  EXPECT_NE(code.find("], 1\n"), std::string::npos) << code;
}

}  // namespace
}  // namespace appy::cpu::testing
