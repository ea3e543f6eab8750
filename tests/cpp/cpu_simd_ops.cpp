// Vector code of every op and cast against the reference evaluator, in loops of many lengths.
#include "cpu_samples.h"

namespace appy::cpu::testing {
namespace {

using ir::Opcode;

TEST(CpuSimdOps, EveryPureOpOnEveryType) {
  for (Opcode code : kOps) {
    const ir::OpInfo& info = ir::info(code);
    if (info.effect != ir::Effect::pure || code == Opcode::const_ || code == Opcode::dim_ || code == Opcode::scale_ ||
        code == Opcode::cast_ || code == Opcode::bitcast_ || code == Opcode::select_) {
      continue;
    }
    for (DType t : kTypes) {
      if (!ir::accepts(code, t)) continue;
      const std::string type(ir::name_of(t));
      const std::string result = info.rule == ir::Rule::boolean ? "bool" : info.rule == ir::Rule::index ? "i64" : type;
      const DType rt = result == "bool" ? DType::bool_ : result == "i64" ? DType::i64_ : t;
      std::string operands = "%a";
      if (info.arity > 1) operands += ", %b";
      if (info.arity > 2) operands += ", %c";
      const std::string text = "region @r(%x: " + type + "[1,c], %y: " + type + "[1,c], %z: " + type +
                               "[1,c], %o: " + result +
                               "[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
                               "  for simd %i = %zero to %n step %one {\n    %a = load %x[%i] : " +
                               type + "\n    %b = load %y[%i] : " + type + "\n    %c = load %z[%i] : " + type +
                               "\n    %r = " + std::string(info.name) + " " + operands + " : " + result +
                               "\n    store %r, %o[%i]\n    yield\n  }\n  yield\n}\n";
      const std::vector<Word> s = samples(t);
      std::vector<Word> x, y, z;
      for (Word a : s) {
        for (Word b : info.arity > 1 ? s : std::vector<Word>{s[0]}) {
          x.push_back(a);
          y.push_back(b);
          z.push_back(s[(x.size() * 7) % s.size()]);
        }
      }
      const std::vector<Word> out(x.size(), 0);
      expect_same(text, {words_arg(t, x), words_arg(t, y), words_arg(t, z), words_arg(rt, out), scalar_arg(x.size())},
                  elementary(code) ? 8 : 0);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuSimdOps, EveryCast) {
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      const std::string f(ir::name_of(from)), t(ir::name_of(to));
      const std::string text =
          "region @r(%x: " + f + "[1,c], %o: " + t +
          "[1,c], %n: i64) {\n  %zero = const 0 : i64\n"
          "  %one = const 1 : i64\n  for simd %i = %zero to %n step %one {\n    %a = load %x[%i] : " +
          f + "\n    %r = cast %a : " + t + "\n    store %r, %o[%i]\n    yield\n  }\n  yield\n}\n";
      std::vector<Word> x;
      for (int repeat = 0; repeat < 4; ++repeat) {
        for (Word a : samples(from)) {
          if (convertible(from, to, a)) x.push_back(a);
        }
      }
      expect_same(text, {words_arg(from, x), words_arg(to, std::vector<Word>(x.size(), 0)), scalar_arg(x.size())});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuSimdOps, ScaleByPowersOfTwo) {
  // Whole exponents, results from far below the smallest number to infinity.
  for (DType t : {DType::f64_, DType::f32_}) {
    const std::string type(ir::name_of(t));
    const std::string text = "region @r(%x: " + type + "[1,c], %y: " + type + "[1,c], %o: " + type +
                             "[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
                             "  for simd %i = %zero to %n step %one {\n    %a = load %x[%i] : " +
                             type + "\n    %b = load %y[%i] : " + type + "\n    %r = scale %a, %b : " + type +
                             "\n    store %r, %o[%i]\n    yield\n  }\n  yield\n}\n";
    std::vector<Word> x, y;
    const int limit = t == DType::f64_ ? 1200 : 200;
    for (int n = -limit; n <= limit; ++n) {
      const double a = (n % 2 ? 1 : -1) * (1 + (n * 37 % 101) / 256.0);
      x.push_back(t == DType::f64_ ? word(a) : word(static_cast<float>(a)));
      y.push_back(t == DType::f64_ ? word(double(n)) : word(static_cast<float>(n)));
    }
    expect_same(text,
                {words_arg(t, x), words_arg(t, y), words_arg(t, std::vector<Word>(x.size(), 0)), scalar_arg(x.size())});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(CpuSimdOps, ConstantShiftsAndDivisors) {
  for (const char* type : {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"}) {
    const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
    for (const char* op : {"shl", "shr", "floordiv", "mod", "rem"}) {
      for (int c : {0, 1, 2, 3, 7, 8, 16, 64}) {
        const std::string text =
            "region @r(%x: " + std::string(type) + "[1,c], %o: " + type +
            "[1,c], %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %k = const " + std::to_string(c) +
            " : " + type + "\n  for simd %i = %zero to %n step %one {\n    %a = load %x[%i] : " + type +
            "\n    %r = " + op + " %a, %k : " + type + "\n    store %r, %o[%i]\n    yield\n  }\n  yield\n}\n";
        const std::vector<Word> x = samples(t);
        expect_same(text, {words_arg(t, x), words_arg(t, std::vector<Word>(x.size(), 0)), scalar_arg(x.size())});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
