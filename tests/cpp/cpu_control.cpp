// Loops, conditionals, memory and early exits in scalar code.
#include "cpu_harness.h"
#include "ir_samples.h"

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

}  // namespace
}  // namespace appy::cpu::testing
