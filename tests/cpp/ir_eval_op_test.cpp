#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/eval.h"
#include "ir/op_printer.h"
#include "ir/typing.h"

namespace appy::ir {
namespace {

using Limits = std::numeric_limits<double>;
constexpr double kNan = Limits::quiet_NaN();
constexpr double kInf = Limits::infinity();

Word w(double v) { return std::bit_cast<Word>(v); }
Word wf(float v) { return std::bit_cast<uint32_t>(v); }
Word wi(int64_t v) { return static_cast<Word>(v); }

Word run(Opcode code, DType t, std::initializer_list<Word> operands) {
  const DType result = info(code).rule == Rule::boolean ? DType::bool_ : t;
  return evaluate_op(code, result, t, std::span<const Word>(operands.begin(), operands.size()));
}

void expect_real(Opcode code, std::initializer_list<double> operands, double wanted) {
  std::vector<Word> words;
  for (double v : operands) words.push_back(w(v));
  const Word got = evaluate_op(code, DType::f64_, DType::f64_, words);
  if (std::isnan(wanted)) {
    EXPECT_TRUE(std::isnan(std::bit_cast<double>(got))) << info(code).name;
  } else {
    EXPECT_EQ(to_string(DType::f64_, got), to_string(DType::f64_, w(wanted))) << info(code).name;
  }
}

/// libm at run time and the compiler's folding of the expected value may differ in the last bits.
void expect_near(Opcode code, std::initializer_list<double> operands, double wanted) {
  std::vector<Word> words;
  for (double v : operands) words.push_back(w(v));
  const double got = std::bit_cast<double>(evaluate_op(code, DType::f64_, DType::f64_, words));
  EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << info(code).name;
  EXPECT_TRUE(got == wanted || std::fabs(got - wanted) <= 2 * Limits::epsilon() * std::fabs(wanted)) << info(code).name;
}

void expect_int(Opcode code, DType t, int64_t a, int64_t b, int64_t wanted) {
  EXPECT_EQ(static_cast<int64_t>(run(code, t, {canonical(t, wi(a)), canonical(t, wi(b))})), wanted)
      << info(code).name << " " << name_of(t) << " " << a << " " << b;
}

void expect_int(Opcode code, DType t, int64_t a, int64_t wanted) {
  EXPECT_EQ(static_cast<int64_t>(run(code, t, {canonical(t, wi(a))})), wanted)
      << info(code).name << " " << name_of(t) << " " << a;
}

TEST(EvalOp, IntegersWrap) {
  expect_int(Opcode::add_, DType::i8_, 127, 1, -128);
  expect_int(Opcode::add_, DType::u8_, 255, 1, 0);
  expect_int(Opcode::add_, DType::i64_, INT64_MAX, 1, INT64_MIN);
  expect_int(Opcode::sub_, DType::u16_, 0, 1, 65535);
  expect_int(Opcode::sub_, DType::i32_, INT32_MIN, 1, INT32_MAX);
  expect_int(Opcode::mul_, DType::i16_, 300, 300, 24464);
  expect_int(Opcode::mul_, DType::u64_, INT64_MIN, 2, 0);
  expect_int(Opcode::neg_, DType::i8_, -128, -128);
  expect_int(Opcode::neg_, DType::u8_, 1, 255);
  expect_int(Opcode::abs_, DType::i32_, INT32_MIN, INT32_MIN);
  expect_int(Opcode::abs_, DType::i64_, -5, 5);
  expect_int(Opcode::abs_, DType::u8_, 200, 200);
}

TEST(EvalOp, IntegerDivisionRoundsDownAndNeverTraps) {
  for (DType t : {DType::i8_, DType::i16_, DType::i32_, DType::i64_}) {
    const int64_t low = t == DType::i64_ ? INT64_MIN : -(int64_t(1) << (8 * size_of(t) - 1));
    expect_int(Opcode::floordiv_, t, low, -1, low);
    expect_int(Opcode::mod_, t, low, -1, 0);
    expect_int(Opcode::rem_, t, low, -1, 0);
    expect_int(Opcode::floordiv_, t, 7, 0, 0);
    expect_int(Opcode::mod_, t, 7, 0, 0);
    expect_int(Opcode::rem_, t, 7, 0, 0);
    for (int64_t a : {-7, -6, 0, 6, 7}) {
      for (int64_t b : {-3, -1, 1, 3}) {
        const auto q = static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
        expect_int(Opcode::floordiv_, t, a, b, q);
        expect_int(Opcode::mod_, t, a, b, a - q * b);
        expect_int(Opcode::rem_, t, a, b, a % b);
      }
    }
  }
  expect_int(Opcode::floordiv_, DType::u8_, 200, 7, 28);
  expect_int(Opcode::mod_, DType::u64_, -1, 10, 5);
  expect_int(Opcode::floordiv_, DType::u64_, -1, -1, 1);
}

TEST(EvalOp, IntegerPower) {
  expect_int(Opcode::pow_, DType::i64_, 3, 4, 81);
  expect_int(Opcode::pow_, DType::i64_, -2, 63, INT64_MIN);
  expect_int(Opcode::pow_, DType::i8_, 2, 7, -128);
  expect_int(Opcode::pow_, DType::i64_, 0, 0, 1);
  expect_int(Opcode::pow_, DType::i64_, 1, -1, 0);
  expect_int(Opcode::pow_, DType::u8_, 3, 255, 171);
}

TEST(EvalOp, BitsAndShifts) {
  expect_int(Opcode::and_, DType::i8_, -2, 7, 6);
  expect_int(Opcode::or_, DType::u8_, 8, 1, 9);
  expect_int(Opcode::xor_, DType::i64_, -1, 1, -2);
  expect_int(Opcode::not_, DType::u8_, 1, 254);
  expect_int(Opcode::not_, DType::i32_, 0, -1);
  expect_int(Opcode::shl_, DType::i8_, 1, 7, -128);
  expect_int(Opcode::shl_, DType::i8_, 1, 8, 0);
  expect_int(Opcode::shl_, DType::i64_, 1, -1, 0);
  expect_int(Opcode::shl_, DType::i64_, 1, 64, 0);
  expect_int(Opcode::shr_, DType::i8_, -128, 3, -16);
  expect_int(Opcode::shr_, DType::i8_, -128, 8, -1);
  expect_int(Opcode::shr_, DType::i64_, -3, -1, -1);
  expect_int(Opcode::shr_, DType::i64_, 3, 64, 0);
  expect_int(Opcode::shr_, DType::u8_, 255, 1, 127);
  expect_int(Opcode::shr_, DType::u8_, 255, 8, 0);
  expect_int(Opcode::popcount_, DType::i8_, -1, 1);
  expect_int(Opcode::popcount_, DType::i8_, -128, 1);
  expect_int(Opcode::popcount_, DType::u8_, 255, 8);
  expect_int(Opcode::popcount_, DType::i64_, INT64_MIN, 1);
}

TEST(EvalOp, Overflow) {
  expect_int(Opcode::ovf_add_, DType::i64_, INT64_MAX, 1, 1);
  expect_int(Opcode::ovf_add_, DType::i64_, INT64_MAX, 0, 0);
  expect_int(Opcode::ovf_add_, DType::u64_, -1, 1, 1);
  expect_int(Opcode::ovf_add_, DType::i8_, 100, 27, 0);
  expect_int(Opcode::ovf_add_, DType::i8_, 100, 28, 1);
  expect_int(Opcode::ovf_sub_, DType::u32_, 1, 2, 1);
  expect_int(Opcode::ovf_sub_, DType::i64_, INT64_MIN, 1, 1);
  expect_int(Opcode::ovf_sub_, DType::i64_, -1, INT64_MIN, 0);
  expect_int(Opcode::ovf_mul_, DType::i64_, INT64_MIN, -1, 1);
  expect_int(Opcode::ovf_mul_, DType::i64_, 3037000499, 3037000499, 0);
  expect_int(Opcode::ovf_mul_, DType::i64_, 3037000500, 3037000500, 1);
  expect_int(Opcode::ovf_mul_, DType::u64_, -1, 1, 0);
  expect_int(Opcode::ovf_mul_, DType::u64_, -1, -1, 1);
  expect_int(Opcode::ovf_mul_, DType::u8_, 16, 16, 1);
}

TEST(EvalOp, ComparisonsAndBool) {
  expect_int(Opcode::lt_, DType::u64_, -1, 1, 0);
  expect_int(Opcode::lt_, DType::i64_, -1, 1, 1);
  for (const auto& [code, less, equal, unordered] : {std::tuple{Opcode::eq_, 0, 1, 0},
                                                     {Opcode::ne_, 1, 0, 1},
                                                     {Opcode::lt_, 1, 0, 0},
                                                     {Opcode::le_, 1, 1, 0},
                                                     {Opcode::gt_, 0, 0, 0},
                                                     {Opcode::ge_, 0, 1, 0}}) {
    EXPECT_EQ(run(code, DType::f64_, {w(1), w(2)}), static_cast<Word>(less)) << info(code).name;
    EXPECT_EQ(run(code, DType::f64_, {w(0.0), w(-0.0)}), static_cast<Word>(equal)) << info(code).name;
    EXPECT_EQ(run(code, DType::f64_, {w(kNan), w(2)}), static_cast<Word>(unordered)) << info(code).name;
    EXPECT_EQ(run(code, DType::f32_, {wf(1), wf(2)}), static_cast<Word>(less)) << info(code).name;
    EXPECT_EQ(run(code, DType::bool_, {0, 1}), static_cast<Word>(less)) << info(code).name;
    EXPECT_EQ(run(code, DType::u8_, {1, 2}), static_cast<Word>(less)) << info(code).name;
  }
  EXPECT_EQ(run(Opcode::and_, DType::bool_, {1, 0}), 0u);
  EXPECT_EQ(run(Opcode::or_, DType::bool_, {1, 0}), 1u);
  EXPECT_EQ(run(Opcode::xor_, DType::bool_, {1, 1}), 0u);
  EXPECT_EQ(run(Opcode::not_, DType::bool_, {1}), 0u);
  EXPECT_EQ(run(Opcode::not_, DType::bool_, {0}), 1u);
  EXPECT_EQ(run(Opcode::pymin_, DType::bool_, {1, 0}), 0u);
  EXPECT_EQ(run(Opcode::maximum_, DType::bool_, {1, 0}), 1u);
  const Word select[] = {1, 7, 8};
  EXPECT_EQ(evaluate_op(Opcode::select_, DType::i64_, DType::bool_, select), 7u);
  const Word other[] = {0, 7, 8};
  EXPECT_EQ(evaluate_op(Opcode::select_, DType::i64_, DType::bool_, other), 8u);
}

TEST(EvalOp, MinimaAndMaxima) {
  expect_real(Opcode::pymin_, {kNan, 1}, kNan);
  expect_real(Opcode::pymin_, {1, kNan}, 1);
  expect_real(Opcode::pymin_, {0.0, -0.0}, 0.0);
  expect_real(Opcode::pymin_, {2, 1}, 1);
  expect_real(Opcode::pymax_, {kNan, 1}, kNan);
  expect_real(Opcode::pymax_, {1, kNan}, 1);
  expect_real(Opcode::pymax_, {-0.0, 0.0}, -0.0);
  expect_real(Opcode::minimum_, {kNan, 1}, kNan);
  expect_real(Opcode::minimum_, {1, kNan}, kNan);
  expect_real(Opcode::minimum_, {1, 2}, 1);
  expect_real(Opcode::maximum_, {1, kNan}, kNan);
  expect_real(Opcode::maximum_, {kNan, 1}, kNan);
  expect_real(Opcode::maximum_, {1, 2}, 2);
  expect_int(Opcode::pymin_, DType::i8_, -1, 1, -1);
  expect_int(Opcode::minimum_, DType::u8_, -1, 1, 1);
  expect_int(Opcode::pymax_, DType::u8_, -1, 1, 255);
}

TEST(EvalOp, FloatDivisionAsPython) {
  // Each row is what CPython (b != 0) and NumPy give: a, b, a // b, a % b.
  const double rows[][4] = {{7, 2, 3, 1},
                            {-7, 2, -4, 1},
                            {7, -2, -4, -1},
                            {-7, -2, 3, -1},
                            {0.0, 3, 0.0, 0.0},
                            {-0.0, 3, -0.0, 0.0},
                            {6, -3, -2, -0.0},
                            {-6, 3, -2, 0.0},
                            {1, kInf, 0.0, 1},
                            {-1, kInf, -1, kInf},
                            {1, -kInf, -1, -kInf},
                            {kInf, 2, kNan, kNan},
                            {1, 0.1, 9, 1 - 9 * 0.1},
                            {kNan, 1, kNan, kNan}};
  for (const auto& row : rows) {
    expect_real(Opcode::floordiv_, {row[0], row[1]}, row[2]);
    if (row[0] != 1 || row[1] != 0.1) expect_real(Opcode::mod_, {row[0], row[1]}, row[3]);
  }
  expect_real(Opcode::mod_, {1, 0.1}, 0.09999999999999995);
  expect_real(Opcode::floordiv_, {1, 0.0}, kInf);
  expect_real(Opcode::floordiv_, {-1, 0.0}, -kInf);
  expect_real(Opcode::floordiv_, {0.0, 0.0}, kNan);
  expect_real(Opcode::mod_, {1, 0.0}, kNan);
  expect_real(Opcode::rem_, {-7, 2}, -1);
  expect_real(Opcode::rem_, {-6, 3}, -0.0);
  expect_real(Opcode::div_, {1, -0.0}, -kInf);
}

TEST(EvalOp, FloatArithmetic) {
  expect_real(Opcode::add_, {0.1, 0.2}, 0.30000000000000004);
  expect_real(Opcode::sub_, {kInf, kInf}, kNan);
  expect_real(Opcode::mul_, {-1, 0.0}, -0.0);
  expect_real(Opcode::neg_, {0.0}, -0.0);
  expect_real(Opcode::abs_, {-0.0}, 0.0);
  expect_real(Opcode::pow_, {2, 0.5}, std::sqrt(2.0));
  expect_real(Opcode::pow_, {kNan, 0.0}, 1);
  const double e = Limits::epsilon();
  expect_real(Opcode::fma_, {1 + e, 1 - e, -1}, -e * e);
  EXPECT_EQ(run(Opcode::fma_, DType::f32_, {wf(1.0f + 0x1p-23f), wf(1.0f - 0x1p-23f), wf(-1)}), wf(-0x1p-46f));
  EXPECT_EQ(run(Opcode::add_, DType::f32_, {wf(16777216.0f), wf(1.0f)}), wf(16777216.0f));
  EXPECT_EQ(run(Opcode::div_, DType::f32_, {wf(1), wf(3)}), wf(1.0f / 3.0f));
  EXPECT_EQ(run(Opcode::mod_, DType::f32_, {wf(-1), wf(3)}), wf(2));
  EXPECT_EQ(run(Opcode::floordiv_, DType::f32_, {wf(-1), wf(3)}), wf(-1));
}

TEST(EvalOp, ElementaryFunctions) {
  const double x = 0.625;
  expect_real(Opcode::sqrt_, {-0.0}, -0.0);
  expect_real(Opcode::sqrt_, {-1}, kNan);
  expect_near(Opcode::cbrt_, {-27}, -3);
  expect_near(Opcode::exp_, {x}, std::exp(x));
  expect_near(Opcode::exp2_, {3}, 8);
  expect_near(Opcode::expm1_, {1e-20}, 1e-20);
  expect_near(Opcode::log_, {x}, std::log(x));
  expect_near(Opcode::log_, {0.0}, -kInf);
  expect_near(Opcode::log2_, {8}, 3);
  expect_near(Opcode::log10_, {1000}, 3);
  expect_near(Opcode::log1p_, {1e-20}, 1e-20);
  expect_near(Opcode::sin_, {x}, std::sin(x));
  expect_near(Opcode::cos_, {x}, std::cos(x));
  expect_near(Opcode::tan_, {x}, std::tan(x));
  expect_near(Opcode::asin_, {x}, std::asin(x));
  expect_near(Opcode::acos_, {x}, std::acos(x));
  expect_near(Opcode::atan_, {x}, std::atan(x));
  expect_near(Opcode::sinh_, {x}, std::sinh(x));
  expect_near(Opcode::cosh_, {x}, std::cosh(x));
  expect_near(Opcode::tanh_, {x}, std::tanh(x));
  expect_near(Opcode::asinh_, {x}, std::asinh(x));
  expect_near(Opcode::acosh_, {1.5}, std::acosh(1.5));
  expect_near(Opcode::atanh_, {x}, std::atanh(x));
  expect_near(Opcode::erf_, {x}, std::erf(x));
  expect_near(Opcode::erfc_, {x}, std::erfc(x));
  expect_near(Opcode::gamma_, {5}, 24);
  expect_near(Opcode::lgamma_, {x}, std::lgamma(x));
  expect_real(Opcode::floor_, {-0.5}, -1);
  expect_real(Opcode::ceil_, {-0.5}, -0.0);
  expect_real(Opcode::trunc_, {-1.5}, -1);
  expect_real(Opcode::rint_, {2.5}, 2);
  expect_real(Opcode::rint_, {3.5}, 4);
  expect_near(Opcode::atan2_, {-0.0, -1}, -M_PI);
  expect_near(Opcode::hypot_, {3e300, 4e300}, 5e300);
  expect_real(Opcode::copysign_, {3, -0.0}, -3);
  expect_real(Opcode::nextafter_, {0, 1}, 5e-324);
  EXPECT_EQ(run(Opcode::nextafter_, DType::f32_, {wf(0), wf(1)}), 1u);
  EXPECT_EQ(run(Opcode::exp_, DType::f32_, {wf(1)}), wf(2.7182817f));
  EXPECT_EQ(run(Opcode::sqrt_, DType::f32_, {wf(2)}), wf(std::sqrt(2.0f)));
}

TEST(EvalOp, Classification) {
  for (const auto& [code, nan, inf, one] : {std::tuple{Opcode::isnan_, 1, 0, 0},
                                            {Opcode::isinf_, 0, 1, 0},
                                            {Opcode::isfinite_, 0, 0, 1},
                                            {Opcode::signbit_, 0, 1, 0}}) {
    EXPECT_EQ(run(code, DType::f64_, {w(kNan)}), static_cast<Word>(nan)) << info(code).name;
    EXPECT_EQ(run(code, DType::f64_, {w(-kInf)}), static_cast<Word>(inf)) << info(code).name;
    EXPECT_EQ(run(code, DType::f32_, {wf(1)}), static_cast<Word>(one)) << info(code).name;
  }
  EXPECT_EQ(run(Opcode::signbit_, DType::f64_, {w(-0.0)}), 1u);
}

TEST(EvalOp, Conversions) {
  const auto cast = [](DType to, DType from, Word v) { return evaluate_op(Opcode::cast_, to, from, {&v, 1}); };
  const auto bits = [](DType to, DType from, Word v) { return evaluate_op(Opcode::bitcast_, to, from, {&v, 1}); };
  EXPECT_EQ(cast(DType::i64_, DType::f64_, w(-1.9)), wi(-1));
  EXPECT_EQ(cast(DType::u8_, DType::f64_, w(200.9)), 200u);
  EXPECT_EQ(cast(DType::i8_, DType::f32_, wf(-3.5f)), wi(-3));
  EXPECT_EQ(cast(DType::u64_, DType::f64_, w(1e19)), 10000000000000000000u);
  EXPECT_EQ(cast(DType::f64_, DType::u64_, UINT64_MAX), w(18446744073709551616.0));
  EXPECT_EQ(cast(DType::f64_, DType::i64_, wi(-3)), w(-3));
  EXPECT_EQ(cast(DType::f32_, DType::i64_, wi(16777217)), wf(16777216.0f));
  EXPECT_EQ(cast(DType::f32_, DType::f64_, w(0.1)), wf(0.1f));
  EXPECT_EQ(cast(DType::f64_, DType::f32_, wf(0.1f)), w(static_cast<double>(0.1f)));
  // Once, although 1 + 2^-11 + 2^-40 is 1 + 2^-11 as a float, which is even as a half.
  EXPECT_EQ(cast(DType::f16_, DType::f64_, w(1 + 0x1p-11 + 0x1p-40)), 0x3c01u);
  EXPECT_EQ(cast(DType::f16_, DType::f64_, w(1 + 0x1p-11)), 0x3c00u);
  EXPECT_EQ(cast(DType::f16_, DType::f64_, w(65519.99)), 0x7bffu);
  EXPECT_EQ(cast(DType::f16_, DType::f64_, w(-65520)), 0xfc00u);
  EXPECT_EQ(cast(DType::f16_, DType::f32_, wf(0x1.8p-25f)), 1u);
  EXPECT_EQ(cast(DType::f16_, DType::f32_, wf(0x1p-25f)), 0u);
  EXPECT_EQ(cast(DType::f16_, DType::u64_, UINT64_MAX), 0x7c00u);
  for (Word h = 0; h < 0x10000; ++h) {
    const Word wide = cast(DType::f32_, DType::f16_, h);
    const bool nan = cast(DType::f64_, DType::f16_, h) != cast(DType::f64_, DType::f32_, wide);
    EXPECT_FALSE(nan) << h;
    const bool signalling = (h & 0x7c00) == 0x7c00 && (h & 0x3ff) && !(h & 0x200);
    EXPECT_EQ(cast(DType::f16_, DType::f32_, wide), h | (signalling ? 0x200 : 0)) << h;
  }
  // To the nearest, ties to even; from f64 by way of f32.
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(1 + 0x1p-8f)), 0x3f80u);
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(1 + 0x3p-8f)), 0x3f82u);
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(1 + 0x1p-8f + 0x1p-23f)), 0x3f81u);
  EXPECT_EQ(cast(DType::bf16_, DType::f64_, w(1 + 0x1p-8 + 0x1p-40)), 0x3f80u);
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(-3.4e38f)), 0xff80u);
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(0x1p-134f)), 0u);
  EXPECT_EQ(cast(DType::bf16_, DType::f32_, wf(0x1.8p-134f)), 1u);
  EXPECT_EQ(cast(DType::bf16_, DType::u64_, UINT64_MAX), 0x5f80u);
  EXPECT_EQ(cast(DType::bf16_, DType::bool_, 1), 0x3f80u);
  EXPECT_EQ(cast(DType::f16_, DType::bf16_, 0x3dcd), cast(DType::f16_, DType::f32_, 0x3dcd0000));
  for (Word h = 0; h < 0x10000; ++h) {
    const bool signalling = (h & 0x7f80) == 0x7f80 && (h & 0x7f) && !(h & 0x40);
    EXPECT_EQ(cast(DType::f32_, DType::bf16_, h), (h | (signalling ? 0x40 : 0)) << 16) << h;
    // Each float between two neighbours goes to the nearer one.
    for (Word rest : {0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      if ((h & 0x7f80) == 0x7f80) continue;
      const bool up = rest > 0x8000 || (rest == 0x8000 && (h & 1));
      EXPECT_EQ(cast(DType::bf16_, DType::f32_, h << 16 | rest), h + up) << h << ' ' << rest;
    }
  }
  EXPECT_EQ(cast(DType::i8_, DType::i64_, wi(200)), wi(-56));
  EXPECT_EQ(cast(DType::u32_, DType::i8_, wi(-1)), 0xffffffffu);
  EXPECT_EQ(cast(DType::i64_, DType::u32_, 0xffffffffu), 0xffffffffu);
  EXPECT_EQ(cast(DType::f64_, DType::bool_, 1), w(1));
  EXPECT_EQ(cast(DType::bool_, DType::f64_, w(kNan)), 1u);
  EXPECT_EQ(cast(DType::bool_, DType::f64_, w(-0.0)), 0u);
  EXPECT_EQ(cast(DType::bool_, DType::f32_, wf(0.5f)), 1u);
  EXPECT_EQ(cast(DType::bool_, DType::i64_, 2), 1u);
  EXPECT_EQ(bits(DType::i64_, DType::f64_, w(1)), w(1));
  EXPECT_EQ(bits(DType::i32_, DType::f32_, wf(-0.0f)), wi(INT32_MIN));
  EXPECT_EQ(bits(DType::f32_, DType::i32_, wi(INT32_MIN)), wf(-0.0f));
  EXPECT_EQ(bits(DType::u8_, DType::i8_, wi(-1)), 255u);
}

TEST(EvalOp, WrapsNegativeIndices) {
  expect_int(Opcode::wrap_, DType::i64_, -1, 5, 4);
  expect_int(Opcode::wrap_, DType::i64_, 0, 5, 0);
  expect_int(Opcode::wrap_, DType::i64_, 7, 5, 7);
}

/// Every pure op on every type that it accepts gives a word of its type, and refuses the other types.
TEST(EvalOp, IsTotalOnEveryAcceptedType) {
  const std::vector<double> samples = {0.0, -0.0, 1, -1, 2.5, -7, 63, 64, 1e18, -1e18, kInf, -kInf, kNan};
  int evaluated = 0;
  for (int c = 0; c <= static_cast<int>(Opcode::wrap_); ++c) {
    const auto code = static_cast<Opcode>(c);
    if (!is_pure(code) || info(code).rule == Rule::given || info(code).rule == Rule::cond || code == Opcode::dim_) {
      continue;
    }
    for (int i = 0; i <= static_cast<int>(DType::f64_); ++i) {
      const auto t = static_cast<DType>(i);
      const DType result = info(code).rule == Rule::boolean ? DType::bool_ : t;
      const auto arity = static_cast<size_t>(info(code).arity);
      if (!accepts(code, t)) {
        const std::vector<Word> zeros(arity, 0);
        EXPECT_THROW(evaluate_op(code, result, t, zeros), std::logic_error) << info(code).name << name_of(t);
        continue;
      }
      for (double x : samples) {
        for (double y : samples) {
          std::vector<Word> words;
          for (double v : {x, y, x}) {
            const Word word = w(v);
            words.push_back(evaluate_op(Opcode::cast_, t, DType::f64_, {&word, 1}));
          }
          words.resize(arity);
          const Word got = evaluate_op(code, result, t, words);
          EXPECT_EQ(got, canonical(result, got)) << info(code).name << " " << name_of(t);
          ++evaluated;
        }
      }
    }
  }
  EXPECT_GT(evaluated, 10000);
}

}  // namespace
}  // namespace appy::ir
