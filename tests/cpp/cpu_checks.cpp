// Checks of scalar code and of lanes: which one fails, what it tells, what comes with its test.
#include <limits>

#include "cpu_harness.h"

namespace appy::cpu::testing {
namespace {

TEST(Checks, WhichCheckFailsOfThoseThatOneImplies) {
  const auto text = [](const std::string& type, const std::string& loop) {
    return "region @r(%n: i64, %x: " + type + "[1,c], %y: i64[1,c]) {\n  %zero = const 0 : i64\n" + R"(
  %one = const 1 : i64
  %low = const -1000.0 : )" +
           type + "\n  %high = const 1000.0 : " + type + "\n  " + loop + R"( %i = %zero to %n step %one {
    %v = load %x[%i] : )" +
           type + R"(
    %nan = isnan %v : bool
    %number = not %nan : bool
    check to_int %number : "cannot convert float NaN to integer"
    %inf = isinf %v : bool
    %finite = not %inf : bool
    check range_error %finite : "cannot convert float infinity to integer"
    %below = lt %v, %high : bool
    %above = ge %v, %low : bool
    %inside = and %above, %below : bool
    check overflow %inside
    %k = cast %v : i64
    store %k, %y[%i]
    yield
  }
  yield
}
)";
  };
  const auto run = [&]<class T>(const std::string& type, T) {
    const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    for (const std::string loop : {"for", "for simd", "for parallel"}) {
      for (const T bad : {T{3}, nan, inf, -inf, T{1000}, T{-1001}}) {
        for (const size_t at : {0, 5, 21, 66}) {
          std::vector<T> x(67, T{2.5});
          x[at] = bad;
          if (at == 21) x[23] = x[40] = nan;
          expect_same(text(type, loop),
                      {scalar_arg(word(int64_t{67})), array_arg(x), array_arg(std::vector<int64_t>(67))});
        }
      }
    }
  };
  run("f64", double{});
  run("f32", float{});
  // One test of each number where all is well; two vectors at a time have two comparisons each, the last one four.
  const std::string code = code_of(*ir::parse(text("f64", "for")), isas()[0])->listing();
  EXPECT_LT(code.find("vcvttsd2si"), code.find("vpextrq")) << code;
  EXPECT_EQ(count(code_of(*ir::parse(text("f64", "for simd")), isas()[0])->listing(), "vcmppd"), 8U);
}

/// Of two numbers that are made indices and used later; what fails first in the program is what is told.
TEST(Checks, WhichCheckFailsOfThoseThatIndicesImply) {
  const auto text = [](const std::string& type, const std::string& loop) {
    std::string body;
    for (const std::string v : {"x", "y"}) {
      body += "    %" + v + "v = load %" + v + "[%i] : " + type + "\n    %" + v + "nan = isnan %" + v +
              "v : bool\n    %" + v + "number = not %" + v + "nan : bool\n    check to_int %" + v +
              "number : \"NaN\"\n    %" + v + "inf = isinf %" + v + "v : bool\n    %" + v + "finite = not %" + v +
              "inf : bool\n    check range_error %" + v + "finite : \"infinity\"\n    %" + v + "below = lt %" + v +
              "v, %high : bool\n    %" + v + "above = ge %" + v + "v, %low : bool\n    %" + v + "fits = and %" + v +
              "above, %" + v + "below : bool\n    check overflow %" + v + "fits\n    %" + v + "k = cast %" + v +
              "v : i64\n";
    }
    for (const std::string v : {"x", "y"}) {
      body += "    %" + v + "w = wrap %" + v + "k, %m : i64\n    %" + v + "less = lt %" + v + "w, %m : bool\n    %" +
              v + "more = ge %" + v + "w, %zero : bool\n    %" + v + "inside = and %" + v + "more, %" + v +
              "less : bool\n    check bounds %" + v + "inside info(%" + v + "k, %zero, %m)\n";
    }
    return "region @r(%n: i64, %x: " + type + "[1,c], %y: " + type + R"([1,c], %t: i64[1,c], %o: i64[1,c]) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %m = dim 0 %t : i64
  %low = const -9223372036854775808.0 : )" +
           type + "\n  %high = const 9223372036854775808.0 : " + type + "\n  " + loop +
           " %i = %zero to %n step %one {\n" + body +
           "    %p = load %t[%xw] : i64\n    %q = load %t[%yw] : i64\n    %s = sub %p, %q : i64\n"
           "    store %s, %o[%i]\n    yield\n  }\n  yield\n}\n";
  };
  const auto run = [&]<class T>(const std::string& type, T) {
    const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const std::vector<int64_t> table = {3, 1, 4, 1, 5, 9, 2, 6};
    for (const std::string loop : {"for", "for simd", "for parallel"}) {
      for (const T bad : {T{3}, T{-8}, nan, inf, -inf, T{0x1p63}, T{-0x1p63}, T{8}, T{-9}}) {
        for (const T other : {T{2}, nan, T{0x1p70}, T{11}}) {
          for (const size_t at : {0, 21, 36}) {
            std::vector<T> x(37, T{2.5}), y(37, T{-3.5});
            x[at] = bad;
            y[at] = other;
            expect_same(text(type, loop), {scalar_arg(word(int64_t{37})), array_arg(x), array_arg(y), array_arg(table),
                                           array_arg(std::vector<int64_t>(37))});
          }
        }
      }
    }
  };
  run("f64", double{});
  run("f32", float{});
  // No number is compared where all is well; the last vector, under a mask, makes four comparisons of each.
  const std::string code = code_of(*ir::parse(text("f64", "for")), isas()[0])->listing();
  EXPECT_GT(code.find("vucomisd"), code.find("jmp L0")) << code;
  EXPECT_EQ(count(code_of(*ir::parse(text("f64", "for simd")), isas()[0])->listing(), "vcmppd"), 8U);
}

/// What only a check tells is computed where it fails.
TEST(Checks, WhatIsToldIsComputedWhereItIsTold) {
  const std::string text = R"(region @r(%n: i64, %m: i64, %x: i64[1,c], %y: i64[1,c]) results("i", "j", "k") {
  %zero = const 0 : i64
  %one = const 1 : i64
  %two = const 2 : i64
  %factor = const 1237 : i64
  %k = for %i = %zero to %n step %one carry(%k0 = %two) : i64 {
    %first = eq %i, %zero : bool
    %before = sub %i, %one : i64
    %scaled = mul %before, %factor : i64
    %last = select %first, %n, %scaled : i64
    poll state(%last, %last, %k0)
    for %j = %zero to %m step %one {
      %square = mul %j, %factor : i64
      %most = add %square, %last : i64
      poll state(%most, %last, %k0)
      %v = load %x[%j] : i64
      %w = add %v, %k0 : i64
      %ok = lt %w, %factor : bool
      check bounds %ok info(%w, %zero, %factor) state(%most, %last, %k0)
      store %w, %y[%j]
      yield
    }
    %k1 = add %k0, %one : i64
    %fine = lt %k1, %factor : bool
    check overflow %fine state(%last, %k0, %k1)
    yield %k1
  }
  yield %zero, %zero, %k
}
)";
  for (const int64_t bad : {0, 1235, 1233, 1200, 1236}) {
    for (const size_t at : {0, 7, 29}) {
      std::vector<int64_t> x(30, 1);
      x[at] = bad;
      for (const int64_t rows : {0, 1, 4, 9})
        expect_same(text, {scalar_arg(word(rows)), scalar_arg(word(int64_t{30})), array_arg(x),
                           array_arg(std::vector<int64_t>(30))});
    }
  }
  expect_same(text, {scalar_arg(word(int64_t{2000})), scalar_arg(word(int64_t{0})), array_arg(std::vector<int64_t>(1)),
                     array_arg(std::vector<int64_t>(1))});
  const std::string code = code_of(*ir::parse(text), isas()[0])->listing();
  EXPECT_GT(code.find("imul"), code.find("jmp L0")) << code;
}

/// A sum, difference or product that is tested for 64 bits is computed once.
TEST(Checks, ResultsAreMadeByTheirTests) {
  for (const std::string code : {"add", "sub", "mul"}) {
    const std::string text = R"(region @r(%n: i64, %by: i64, %x: i64[1,c], %y: i64[1,c]) results("s") {
  %zero = const 0 : i64
  %one = const 1 : i64
  %s = for %i = %zero to %n step %one carry(%t = %by) : i64 {
    %v = load %x[%i] : i64
    %o = ovf_)" + code + R"( %v, %by : bool
    %ok = not %o : bool
    check overflow %ok state(%t)
    %w = )" + code + R"( %v, %by : i64
    %p = ovf_)" + code + R"( %w, %by : bool
    %fine = not %p : bool
    check overflow %fine state(%w)
    %u = )" + code +
                             R"( %w, %by : i64
    store %u, %y[%i]
    yield %w
  }
  yield %s
}
)";
    for (const int64_t by : {int64_t{1}, int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN}) {
      for (const int64_t v : {int64_t{0}, int64_t{7}, INT64_MAX, INT64_MIN, INT64_MAX / 3 + 1, INT64_MIN / 3 - 1}) {
        std::vector<int64_t> x(9);
        x[5] = v;
        expect_same(text, {scalar_arg(word(int64_t{9})), scalar_arg(word(by)), array_arg(x),
                           array_arg(std::vector<int64_t>(9))});
      }
    }
    const std::string made = code_of(*ir::parse(text), isas()[0])->listing();
    EXPECT_EQ(count(made, "imul"), code == "mul" ? 2U : 0U) << made;
    EXPECT_EQ(count(made.substr(0, made.find("jmp L0")), "jo "), 2U) << made;
  }
}

}  // namespace
}  // namespace appy::cpu::testing
