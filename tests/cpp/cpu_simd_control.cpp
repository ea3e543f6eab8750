// `simd` loops: reductions, masked control flow, divergent loops, memory access patterns, checks.
#include <regex>

#include "cpu_samples.h"

namespace appy::cpu::testing {
namespace {

constexpr int64_t kLengths[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257};

template <class T>
std::vector<T> wave(int64_t n, int64_t seed = 1) {
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<T>((i * 37 + seed * 11) % 23 - 11));
  return v;
}

std::string in_loop(const std::string& params, const std::string& carry, const std::string& types,
                    const std::string& body, const std::string& before = "", const std::string& step = "%one") {
  const bool carried = !types.empty();
  return "region @r(" + params + ") {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %f0 = const 0.0 : f64\n" +
         before + (carried ? "  %out = " : "  ") + "for simd annotated %i = %zero to %n step " + step +
         (carried ? " carry(" + carry + ") : " + types : "") + " {\n" + body + "  }\n  yield" +
         (carried ? " %out" : "") + "\n}\n";
}

TEST(CpuSimd, DotAndFriends) {
  for (int64_t n : kLengths) {
    expect_same(in_loop("%x: f64[1,c], %y: f64[1,c], %n: i64", "sum %s = %f0", "f64",
                        "    %a = load %x[%i] : f64\n    %b = load %y[%i] : f64\n    %m = mul %a, %b : f64\n"
                        "    %t = add %s, %m : f64\n    yield %t\n"),
                {array_arg(wave<double>(n)), array_arg(wave<double>(n, 5)), scalar_arg(word(n))});
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(CpuSimd, ChecksInFrontOfALoopThatStores) {
  // Whole vectors behind the main loop run without a mask, until a check fails: the masked loop tells where.
  const std::string text = in_loop(
      "%c: i64[1,c], %x: f64[1,c], %a: f64[2,c], %m: i64, %n: i64", "sum %s = %f0", "f64",
      "    %k = load %c[%i] : i64\n    %low = ge %k, %zero : bool\n    %high = lt %k, %size : bool\n"
      "    %ok = and %low, %high : bool\n    check bounds %ok info(%k, %zero, %size) state(%f0)\n"
      "    %g = load %x[%k] : f64\n    %q = for %r = %zero to %m step %one carry(%z = %f0) : f64 {\n      %v = load "
      "%a[%r, %i] : f64\n"
      "      %w = mul %v, %g : f64\n      store %w, %a[%r, %i]\n      %y = add %z, %w : f64\n      yield %y\n    }\n"
      "    %t = add %s, %q : f64\n    yield %t\n",
      "  %size = dim 0 %x : i64\n");
  for (int64_t n : {3, 7, 16, 22, 23, 31, 45}) {
    for (int64_t wrong = 0; wrong <= n; ++wrong) {  // n: none
      std::vector<int64_t> index;
      for (int64_t i = 0; i < n; ++i) index.push_back(i == wrong ? 9 : i * 5 % 9);
      expect_same(text, {array_arg(index, {n}), array_arg(wave<double>(9)), array_arg(wave<double>(3 * n), {3, n}),
                         scalar_arg(word(int64_t{3})), scalar_arg(word(n))});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuSimd, EveryCombinerOnEveryType) {
  for (const char* type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "bool"}) {
    const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
    for (auto [combiner, op] : {std::pair{"sum", "add"},
                                {"prod", "mul"},
                                {"pymin", "pymin"},
                                {"pymax", "pymax"},
                                {"minimum", "minimum"},
                                {"maximum", "maximum"},
                                {"and", "and"},
                                {"or", "or"},
                                {"xor", "xor"},
                                {"last", ""}}) {
      const std::string c = combiner;
      if (t == DType::bool_ && (c == "sum" || c == "prod")) continue;
      if (ir::is_real(t) && (c == "and" || c == "or" || c == "xor")) continue;
      const std::string body =
          "    %a = load %x[%i] : " + std::string(type) + "\n" +
          (*op ? "    %t = " + std::string(op) + " %s, %a : " + type + "\n    yield %t\n" : "    yield %a\n");
      const std::string text = "region @r(%x: " + std::string(type) + "[1,c], %init: " + type +
                               ", %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
                               "  %out = for simd annotated %i = %zero to %n step %one carry(" +
                               c + " %s = %init) : " + type + " {\n" + body + "  }\n  yield %out\n}\n";
      for (int64_t n : {0, 1, 5, 8, 33, 100, 300}) {
        std::vector<Word> x;
        for (int64_t i = 0; i < n; ++i) {
          const int64_t v = (i * 37) % 23 - 11;
          x.push_back(t == DType::f64_    ? word(c == "prod" ? 1.0 + (i % 3 == 0) : double(v))
                      : t == DType::f32_  ? word(c == "prod" ? 1.0f + (i % 40 == 0) : float(v))
                      : t == DType::bool_ ? static_cast<Word>(v & 1)
                                          : ir::canonical(t, word(c == "prod" ? (v | 1) : v)));
        }
        for (Word init : {Word{0}, Word{1}}) {
          if (ir::is_real(t)) init = t == DType::f64_ ? word(double(init)) : word(float(init));
          expect_same(text, {words_arg(t, x), scalar_arg(init), scalar_arg(word(n))}, 1);
          if (::testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(CpuSimd, ArgminTakesTheFirstArgmaxTheLast) {
  for (auto [least, follow, cmp] : {std::tuple{"pymin", "follow_first", "lt"}, {"pymax", "follow_last", "ge"}}) {
    const std::string text =
        "region @r(%x: f64[1,c], %n: i64, %big: f64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %none = "
        "const -1 : i64\n"
        "  %best, %at, %v = for simd annotated %i = %zero to %n step %one carry(" +
        std::string(least) + "(tie 1) %b = %big, " + follow + "(leader 0) %k = %none, " + follow +
        "(leader 0) %w = %big) : f64, i64, f64 {\n    %a = load %x[%i] : f64\n    %c = " + cmp +
        " %a, %b : bool\n    %b1 = select %c, %a, %b : f64\n    %k1 = select %c, %i, %k : i64\n    %neg = neg %a : "
        "f64\n"
        "    %w1 = select %c, %neg, %w : f64\n    yield %b1, %k1, %w1\n  }\n  yield %best, %at, %v\n}\n";
    for (int64_t n : kLengths) {
      expect_same(text, {array_arg(wave<double>(n)), scalar_arg(word(n)),
                         scalar_arg(word(cmp == std::string("lt") ? 1e9 : -1e9))});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(CpuSimd, AccessPatterns) {
  for (const char* type : {"f64", "f32", "i64", "i32", "i16", "u8", "bool"}) {
    const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
    for (const char* index : {"%i", "2*%i + 1", "-%i + 99", "%n - %i - 1", "3*%i"}) {
      for (const char* layout : {"c", "strided"}) {
        const std::string text =
            "region @r(%x: " + std::string(type) + "[1," + layout + "], %o: " + type + "[1," + layout +
            "], %n: i64, %lo: i64, %by: i64) {\n"
            "  for simd %i = %lo to %n step %by {\n    %a = load %x[" +
            index + "] : " + type + "\n    store %a, %o[" + index + "]\n    yield\n  }\n  yield\n}\n";
        std::vector<Word> x;
        for (int64_t i = 0; i < 120; ++i)
          x.push_back(t == DType::f64_    ? word(double(i))
                      : t == DType::f32_  ? word(float(i))
                      : t == DType::bool_ ? i % 3 == 0
                                          : word(i));
        for (int64_t n : {0, 1, 7, 16, 33, 39}) {
          for (int64_t by : {1, 2}) {
            Arg in = words_arg(t, x), out = words_arg(t, std::vector<Word>(120, 0));
            expect_same(text, {in, out, scalar_arg(word(n)), scalar_arg(0), scalar_arg(word(by))});
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(CpuSimd, TwoDimensionalStridedAndBroadcast) {
  for (const char* layout : {"c", "f", "strided"}) {
    const std::string text =
        "region @r(%a: f64[2," + std::string(layout) + "], %b: f64[2," + layout + R"(], %o: f64[2,c], %n: i64) {
      %zero = const 0 : i64
      %one = const 1 : i64
      for %i = %zero to %n step %one {
        for simd annotated %j = %zero to %n step %one {
          %x = load %a[%i, %j] : f64
          %y = load %b[%j, %i] : f64
          %z = load %a[%i, 2] : f64
          %w = load %a[%j, %j] : f64
          %s = add %x, %y : f64
          %t = mul %s, %z : f64
          %u = sub %t, %w : f64
          store %u, %o[%i, %j]
          yield
        }
        yield
      }
      yield
    })";
    for (int64_t n : {3, 8, 21}) {
      Arg a = array_arg(wave<double>(n * n), {n, n}), b = array_arg(wave<double>(n * n, 3), {n, n});
      if (std::string(layout) == "f") {
        std::swap(a.strides[0], a.strides[1]);
        std::swap(b.strides[0], b.strides[1]);
      }
      expect_same(text, {a, b, array_arg(std::vector<double>(static_cast<size_t>(n * n)), {n, n}), scalar_arg(word(n))},
                  4);
    }
  }
}

TEST(CpuSimd, GatherAndScatter) {
  for (const char* type : {"f64", "f32", "i32", "i16", "u8"}) {
    for (const char* index : {"i32", "i64", "u16"}) {
      const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
      const DType it = ir::parse("region @r(%x: " + std::string(index) + ") {\n yield\n}")->body->args[0]->type.dtype;
      const bool wide = it == DType::i64_;
      const std::string text =
          "region @r(%x: " + std::string(type) + "[1,c], %k: " + index + "[1,c], %o: " + type +
          "[1,c], %n: i64) {\n"
          "  %zero = const 0 : i64\n  %one = const 1 : i64\n  for simd %i = %zero to %n step %one {\n    %j" +
          (wide ? "" : "0") + " = load %k[%i] : " + index + (wide ? "" : "\n    %j = cast %j0 : i64") +
          "\n    %a = load %x[%j] : " + type + "\n    store %a, %o[%i]\n    %b = load %x[2*%j + 1] : " + type +
          "\n    store %b, %o[%j + 100]\n    yield\n  }\n  yield\n}\n";
      std::vector<Word> x, k;
      for (int64_t i = 0; i < 300; ++i)
        x.push_back(t == DType::f64_ ? word(double(i)) : t == DType::f32_ ? word(float(i)) : ir::canonical(t, word(i)));
      for (int64_t i = 0; i < 97; ++i) k.push_back(word((i * 31) % 97));
      for (int64_t n : {0, 1, 5, 8, 20, 97}) {
        expect_same(text,
                    {words_arg(t, x), words_arg(it, k), words_arg(t, std::vector<Word>(300, 0)), scalar_arg(word(n))});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuSimd, MaskedSumsAndConditionalStores) {
  for (const char* type : {"f64", "f32", "i64", "i32", "i8"}) {
    const DType t = ir::parse("region @r(%x: " + std::string(type) + ") {\n yield\n}")->body->args[0]->type.dtype;
    const std::string text = "region @r(%x: " + std::string(type) + "[1,c], %m: bool[1,c], %o: " + type +
                             "[1,c], %n: i64, %init: " + type + R"() {
      %zero = const 0 : i64
      %one = const 1 : i64
      %s = for simd %i = %zero to %n step %one carry(sum %acc = %init) : )" +
                             type + R"( {
        %c = load %m[%i] : bool
        %a = load %x[%i] : )" +
                             type + R"(
        %r = if %c : )" + type +
                             R"( {
          %t = add %acc, %a : )" +
                             type + R"(
          store %a, %o[%i]
          yield %t
        } else {
          %d = gt %a, %init : bool
          if %d {
            store %init, %o[%i]
            continue %acc
          } else {
            yield
          }
          %e = add %a, %a : )" +
                             type + R"(
          store %e, %o[%i]
          yield %acc
        }
        yield %r
      }
      yield %s
    })";
    for (int64_t n : kLengths) {
      std::vector<Word> x, m;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t v = (i * 37) % 23 - 11;
        x.push_back(t == DType::f64_ ? word(double(v)) : t == DType::f32_ ? word(float(v)) : ir::canonical(t, word(v)));
        m.push_back((i * 5) % 7 < 3);
      }
      const Word init = t == DType::f64_ ? word(2.0) : t == DType::f32_ ? word(2.0f) : 2;
      expect_same(text, {words_arg(t, x), words_arg(DType::bool_, m), words_arg(t, std::vector<Word>(x.size(), 0)),
                         scalar_arg(word(n)), scalar_arg(init)});
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

constexpr const char* kMandelbrot = R"(region @r(%o: i64[1,c], %n: i64, %cy: f64, %dx: f64) {
  %zero = const 0 : i64
  %one = const 1 : i64
  %f0 = const 0.0 : f64
  %two = const 2.0 : f64
  %four = const 4.0 : f64
  %x0 = const -2.0 : f64
  %max = const 50 : i64
  for simd annotated %i = %zero to %n step %one {
    %fi = cast %i : f64
    %sx = mul %fi, %dx : f64
    %cx = add %sx, %x0 : f64
    %k, %zx, %zy = while carry(%it = %zero, %x = %f0, %y = %f0) : i64, f64, f64 {
      %xx = mul %x, %x : f64
      %yy = mul %y, %y : f64
      %r = add %xx, %yy : f64
      %in = le %r, %four : bool
      %more = lt %it, %max : bool
      %go = and %in, %more : bool
      if %go {
        yield
      } else {
        break %it, %x, %y
      }
      %d = sub %xx, %yy : f64
      %x1 = add %d, %cx : f64
      %xy = mul %x, %y : f64
      %xy2 = mul %xy, %two : f64
      %y1 = add %xy2, %cy : f64
      %it1 = add %it, %one : i64
      yield %it1, %x1, %y1
    }
    store %k, %o[%i]
    yield
  }
  yield
})";

TEST(CpuSimd, DivergentWhile) {
  for (int64_t n : {0, 1, 7, 8, 9, 17, 40, 100}) {
    // A power of two for dx keeps fused and separate multiplication alike in cx; the iteration itself may differ in
    // FMA.
    std::string text = kMandelbrot;
    text.erase(text.find(" annotated"), 10);
    expect_same(text, {array_arg(std::vector<int64_t>(static_cast<size_t>(n))), scalar_arg(word(n)),
                       scalar_arg(word(0.4)), scalar_arg(word(0.0625))});
  }
}

TEST(CpuSimd, LanesThatOnlyLeave) {
  // Newton's square root by lanes: the exit in either arm, results that vary, that are one counter for all lanes, that
  // are not read, and that come out of the conditional itself; few results and many.
  for (const bool leave_first : {false, true}) {
    for (const char* more : {"", ", %w", ", %w, %c"}) {
      const std::string test = leave_first ? "le" : "gt";
      const std::string go = "        yield %r1\n", leave = "        break %i1, %r1, %k, %r, %d1\n";
      const std::string text =
          "region @r(%x: f64[1,c], %o: f64[1,c], %p: f64[1,c], %q: i64[1,c], %n: i64) {\n"
          "  %zero = const 0 : i64\n  %one = const 1 : i64\n  %f1 = const 1.0 : f64\n  %half = const 0.5 : f64\n"
          "  %eps = const 1e-6 : f64\n  %max = const 30 : i64\n"
          "  for simd %j = %zero to %n step %one {\n    %a = load %x[%j] : f64\n"
          "    %count, %root, %kept, %before, %error = while carry(%i = %zero, %r = %a, %k = %f1, %b = %a, %d = %f1) : "
          "i64, f64, f64, f64, f64 {\n"
          "      %i1 = add %i, %one : i64\n      %m = lt %i1, %max : bool\n"
          "      if %m {\n        yield\n      } else {\n        break %i1, %r, %k, %b, %d\n      }\n"
          "      %t = div %a, %r : f64\n      %u = add %r, %t : f64\n      %r1 = mul %u, %half : f64\n"
          "      %e = sub %r1, %r : f64\n      %d1 = abs %e : f64\n      %far = " +
          test + " %d1, %eps : bool\n      %v = if %far : f64 {\n" + (leave_first ? leave : go) + "      } else {\n" +
          (leave_first ? go : leave) +
          "      }\n      %k1 = add %k, %v : f64\n      yield %i1, %r1, %k1, %r, %d1\n    }\n" +
          "    store %root, %o[%j]\n    store %count, %q[%j]\n" +
          (*more ? "    %s = add %kept, %before : f64\n    store %s, %p[%j]\n" : "") +
          (std::string(more).size() > 4 ? "    store %error, %x[%j]\n" : "") + "    yield\n  }\n  yield\n}\n";
      for (int64_t n : {0, 1, 7, 8, 17, 33, 64, 100}) {
        std::vector<double> x;
        for (int64_t i = 0; i < n; ++i)
          x.push_back(i % 13 == 5 ? INFINITY : std::ldexp(1.0 + double(i % 7), int(i % 41)));
        const std::vector<double> empty(static_cast<size_t>(n));
        expect_same(text, {array_arg(x), array_arg(empty), array_arg(empty),
                           array_arg(std::vector<int64_t>(static_cast<size_t>(n))), scalar_arg(word(n))});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(CpuSimd, LoadsAsOperands) {
  // Every instruction that can read its operand from memory, with the load on either side or on both; and loads that
  // must not move to their user, because a store stands between.
  const std::string head = "%x: f64[1,c], %y: f64[1,c], %z: f64[1,c], %o: f64[1,c], %n: i64";
  const std::string loads =
      "    %a = load %x[%i] : f64\n    %b = load %y[%i + 1] : f64\n    %c = load %z[%i + 2] : f64\n";
  const auto run = [&](const std::string& body) {
    for (int64_t n : {0, 3, 8, 16, 37, 100}) {
      expect_same(in_loop(head, "", "", loads + body + "    yield\n"),
                  {array_arg(wave<double>(n + 2)), array_arg(wave<double>(n + 2, 3)), array_arg(wave<double>(n + 2, 5)),
                   array_arg(std::vector<double>(static_cast<size_t>(n))), scalar_arg(word(n))});
      if (::testing::Test::HasFatalFailure()) return;
    }
  };
  for (const char* op : {"add", "sub", "mul", "div", "pymin", "pymax", "minimum"}) {
    const std::string o = op;
    run("    %s = " + o + " %a, %b : f64\n    %t = " + o + " %s, %c : f64\n    store %t, %o[%i]\n");
    run("    %s = " + o + " %a, %b : f64\n    %t = " + o + " %c, %s : f64\n    store %t, %o[%i]\n");
    run("    %s = neg %b : f64\n    store %s, %x[%i]\n    %t = " + o +
        " %s, %a : f64\n    %u = add %t, %c : f64\n"
        "    store %u, %o[%i]\n");
  }
  for (const char* operands : {"%a, %b, %c", "%a, %a, %c", "%na, %b, %c", "%a, %nb, %c", "%a, %b, %nc", "%na, %nb, %nc",
                               "%na, %b, %nc", "%na, %na, %nb"}) {
    run("    %na = neg %a : f64\n    %nb = neg %b : f64\n    %nc = neg %c : f64\n    %t = fma " +
        std::string(operands) + " : f64\n    store %t, %o[%i]\n");
    run("    %s = mul %c, %c : f64\n    %na = neg %a : f64\n    %nb = neg %b : f64\n    %nc = neg %s : f64\n"
        "    %t = fma " +
        std::string(operands) + " : f64\n    store %t, %o[%i]\n");
  }
  const auto graph = ir::parse(in_loop(head, "", "",
                                       loads + "    %s = add %a, %b : f64\n    %t = fma %s, %c, %s : f64\n"
                                               "    store %t, %o[%i]\n    yield\n"));
  for (Isa isa : isas()) {
    const std::string listing = compile(*graph, {isa, true, {}})->listing();
    EXPECT_TRUE(std::regex_search(listing, std::regex("vaddpd [xyz]mm\\d+, [xyz]mm\\d+, [yz]mmword"))) << listing;
    EXPECT_TRUE(std::regex_search(listing, std::regex("vfmadd231pd [xyz]mm\\d+, [xyz]mm\\d+, [yz]mmword")));
  }
}

TEST(CpuSimd, InnerLoopsWithTheirOwnTripCounts) {
  // Rows of different lengths: x[ptr[i] .. ptr[i+1]) with a continue, a break and a carried uniform counter.
  constexpr const char* kText = R"(region @r(%p: i64[1,c], %x: f64[1,c], %o: f64[1,c], %c: i64[1,c], %n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %f0 = const 0.0 : f64
    %f7 = const 7.0 : f64
    %f9 = const 9.0 : f64
    for simd %i = %zero to %n step %one {
      %lo = load %p[%i] : i64
      %hi = load %p[%i + 1] : i64
      %s, %k = for %j = %lo to %hi step %one carry(%a = %f0, %m = %zero) : f64, i64 {
        %v = load %x[%j] : f64
        %m1 = add %m, %one : i64
        %skip = eq %v, %f7 : bool
        if %skip {
          continue %a, %m1
        } else {
          yield
        }
        %stop = eq %v, %f9 : bool
        if %stop {
          break %a, %m
        } else {
          yield
        }
        %b = add %a, %v : f64
        yield %b, %m1
      }
      store %s, %o[%i]
      store %k, %c[%i]
      yield
    }
    yield
  })";
  for (int64_t n : {0, 1, 3, 8, 21}) {
    std::vector<int64_t> p{0};
    for (int64_t i = 0; i < n; ++i) p.push_back(p.back() + (i * 7) % 5);
    expect_same(kText,
                {array_arg(p), array_arg(wave<double>(200)), array_arg(std::vector<double>(static_cast<size_t>(n))),
                 array_arg(std::vector<int64_t>(static_cast<size_t>(n))), scalar_arg(word(n))});
  }
}

TEST(CpuSimd, UniformInnerLoop) {
  constexpr const char* kText = R"(region @r(%a: f64[2,c], %x: f64[1,c], %o: f64[1,c], %n: i64, %m: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %f0 = const 0.0 : f64
    for simd annotated %j = %zero to %n step %one {
      %s = for %i = %zero to %m step %one carry(sum %acc = %f0) : f64 {
        %v = load %a[%i, %j] : f64
        %w = load %x[%i] : f64
        %p = mul %v, %w : f64
        %t = add %acc, %p : f64
        yield %t
      }
      store %s, %o[%j]
      yield
    }
    yield
  })";
  for (int64_t n : {1, 8, 33, 40}) {
    expect_same(kText, {array_arg(wave<double>(6 * n), {6, n}), array_arg(wave<double>(6)),
                        array_arg(std::vector<double>(static_cast<size_t>(n))), scalar_arg(word(n)),
                        scalar_arg(word(int64_t{6}))});
  }
}

TEST(CpuSimd, RowsOfManyLengths) {
  constexpr const char* kText =
      R"(region @r(%p: i64[1,c], %c: i32[1,c], %v: f64[1,c], %x: f64[1,c], %y: f64[1,c], %z: f64[1,c], %n: i64) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %f0 = const 0.0 : f64
    for %i = %zero to %n step %one {
      %lo = load %p[%i] : i64
      %hi = load %p[%i + 1] : i64
      %s, %l = for simd annotated %j = %lo to %hi step %one carry(sum %t = %f0, last %k = %f0) : f64, f64 {
        %a = load %v[%j] : f64
        %q = load %c[%j] : i32
        %qq = cast %q : i64
        %b = load %x[%qq] : f64
        %m = mul %a, %b : f64
        %u = add %t, %m : f64
        yield %u, %b
      }
      store %s, %y[%i]
      store %l, %z[%i]
      yield
    }
    yield
  })";
  std::vector<int64_t> p{0};
  for (int64_t i = 0; i < 90; ++i) p.push_back(p.back() + (i * 7) % 45);
  std::vector<int32_t> c;
  for (int64_t i = 0; i < p.back(); ++i) c.push_back(static_cast<int32_t>((i * 31) % 64));
  expect_same(kText,
              {array_arg(p), array_arg(c), array_arg(wave<double>(p.back())), array_arg(wave<double>(64)),
               array_arg(std::vector<double>(90)), array_arg(std::vector<double>(90)), scalar_arg(word(int64_t{90}))});
}

TEST(CpuSimd, ChecksStopAtTheFirstFailingLane) {
  for (bool store_first : {false, true}) {
    const std::string text = std::string(R"(region @r(%x: i64[1,c], %o: i64[1,c], %n: i64, %limit: i64) {
      %zero = const 0 : i64
      %one = const 1 : i64
      for simd %i = %zero to %n step %one {
        %a = load %x[%i] : i64
)") + (store_first ? "        store %i, %o[%i]\n" : "") +
                             R"(        %ok = lt %a, %limit : bool
        check bounds %ok info(%a, %zero, %limit)
        store %a, %o[%i]
        yield
      }
      yield
    })";
    for (int64_t n : {1, 8, 40, 100}) {
      for (int64_t limit : {0, 5, 39, 70, 1000}) {
        std::vector<int64_t> x;
        for (int64_t i = 0; i < n; ++i) x.push_back(i);
        auto graph = ir::parse(text);
        std::vector<Arg> args = {array_arg(x), array_arg(std::vector<int64_t>(static_cast<size_t>(n), -1)),
                                 scalar_arg(word(n)), scalar_arg(word(limit))};
        const auto want = reference(*graph, args);
        for (Isa isa : isas()) {
          const auto got = machine(*graph, args, isa);
          ASSERT_EQ(got.status, want.status);
          if (want.status != runtime::Status::failed) continue;
          SCOPED_TRACE(std::string(name_of(isa)) + " n=" + std::to_string(n) + " limit=" + std::to_string(limit) +
                       (store_first ? " stored" : ""));
          EXPECT_EQ(got.failure.iteration, limit);
          EXPECT_EQ(got.failure.info, want.failure.info);
          EXPECT_FALSE(got.failure.has_state);
          // Earlier iterations are complete; later ones may or may not have run.
          for (int64_t i = 0; i < limit; ++i)
            ASSERT_EQ(std::memcmp(&got.memory[1][8 * i], &want.memory[1][8 * i], 8), 0) << i << got.listing;
        }
      }
    }
  }
}

TEST(CpuSimd, UniformConditionsAndExtraValues) {
  constexpr const char* kText = R"(region @r(%x: f32[1,c], %o: f32[1,c], %n: i64, %flag: bool, %k: f32) {
    %zero = const 0 : i64
    %one = const 1 : i64
    %last = for simd %i = %zero to %n step %one carry(last %l = %k) : f32 {
      %a = load %x[%i] : f32
      %b = if %flag : f32 {
        %c = mul %a, %k : f32
        yield %c
      } else {
        %d = load %x[0] : f32
        yield %d
      }
      store %b, %o[%i]
      yield %b
    }
    yield %last
  })";
  for (int64_t n : {0, 1, 16, 17, 130}) {
    for (Word flag : {0, 1}) {
      expect_same(kText, {array_arg(wave<float>(n + 1)), array_arg(std::vector<float>(static_cast<size_t>(n))),
                          scalar_arg(word(n)), scalar_arg(flag), scalar_arg(word(3.0f))});
    }
  }
}

template <class T>
void store_at_every_offset(const std::string& type) {
  for (int offset = 0; offset < 64 / static_cast<int>(sizeof(T)) + 2; offset += sizeof(T) < 4 ? 5 : 1) {
    for (const char* kind : {"simd", "parallel simd"}) {
      const std::string at = std::to_string(offset);
      const std::string text = "region @r(%x: " + type + "[1,c], %o: " + type +
                               "[1,c], %n: i64) {\n  %zero = const 0 : " + "i64\n  %one = const 1 : i64\n  for " +
                               kind + " %i = %zero to %n step %one {\n" + "    %a = load %x[%i] : " + type +
                               "\n    %b = load %o[%i + " + at + "] : " + type + "\n    %c = add %a, %b : " + type +
                               "\n    store %c, %o[%i + " + at + "]\n    poll\n    yield\n  }\n  yield\n}";
      for (const int64_t n : {17, 130, 259, 1100}) {
        std::vector<T> x, o;
        for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<T>(i * 7));
        for (int64_t i = 0; i < n + 80; ++i) o.push_back(static_cast<T>(i % 50));
        expect_same(text, {array_arg(x), array_arg(o), scalar_arg(word(n))});
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(CpuSimdControl, LoopsThatStoreStartAligned) {
  store_at_every_offset<double>("f64");
  store_at_every_offset<float>("f32");
  store_at_every_offset<int16_t>("i16");
  store_at_every_offset<uint8_t>("u8");
}

// Eight vectors of bytes at once leave more than a signed byte holds, and with AVX-512 more than any does.
TEST(CpuSimdControl, WhatManyBytesAtOnceLeave) {
  const std::string text =
      "region @r(%m: bool[1,c], %o: u8[1,c], %w: u8, %n: i64) {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n"
      "  for simd annotated %i = %zero to %n step %one {\n    %c = load %m[%i] : bool\n    if %c {\n"
      "      atomic sum %w, %o[0]\n      yield\n    } else {\n      yield\n    }\n    poll\n    yield\n  }\n"
      "  yield\n}";
  for (int64_t n = 0; n < 600; n += 13) {
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < n; ++i) mask.push_back(i % 3 == 0);
    expect_same(text, {array_arg(mask), array_arg(std::vector<uint8_t>{5}), scalar_arg(3), scalar_arg(word(n))});
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace appy::cpu::testing
