// Random structured programs: machine code of every kind of loop against the reference evaluator.
#include <random>

#include "cpu_samples.h"

namespace appy::cpu::testing {
namespace {

struct Typed {
  std::string name, type;
};

/// Writes one loop over `i` whose iterations are independent but for exact reductions.
class Program {
 public:
  Program(unsigned seed, std::string kind) : random_(seed), kind_(std::move(kind)) {
    private_arrays_ = kind_.find("simd") == std::string::npos || pick(8) == 0;
  }

  std::string text() {
    std::vector<Typed> env = {{"%i", "i64"},   {"%k0", "i64"}, {"%k1", "f64"}, {"%k2", "i32"}, {"%k3", "f32"},
                              {"%k4", "bool"}, {"%s0", "i64"}, {"%s1", "f64"}, {"%s2", "i32"}};
    // Accumulators are read by nothing but their own update.
    std::vector<Typed> carried = {{"%c0", "i64"}, {"%c1", "f64"}, {"%c2", "i32"}, {"%c3", "bool"}};
    out_ =
        "region @r(%a: i64[1,c], %b: f64[1,c], %d: i32[1,c], %e: f32[1,c], %g: u8[1,c], %h: i16[1,c], %m: bool[1,c],\n"
        "          %oa: i64[1,c], %ob: f64[1,c], %od: i32[1,c], %oe: f32[1,c], %og: u8[1,c], %om: bool[1,c],\n"
        "          %n: i64, %s0: i64, %s1: f64, %s2: i32) {\n"
        "  %zero = const 0 : i64\n  %one = const 1 : i64\n  %mask15 = const 15 : i64\n  %k0 = const 3 : i64\n  %k1 = "
        "const 1.5 : f64\n"
        "  %k2 = const -7 : i32\n  %k3 = const 0.25 : f32\n  %k4 = const true : bool\n"
        "  %k48 = const 48 : i64\n  %ta = alloc %k48 slot 0 : f64[1,c]\n  %tb = alloc %k48, %k48 slot 1 : i32[2,c]\n"
        "  %r0, %r1, %r2, %r3 = for " +
        kind_ +
        " %i = %zero to %n step %one carry(sum %c0 = %s0, pymax %c1 = %s1, xor %c2 = %s2, or %c3 = %k4) : i64, f64, "
        "i32, bool {\n";
    block(env, 4 + pick(8), 0);
    const std::string v0 = value(env, "i64"), v1 = value(env, "f64"), v2 = value(env, "i32"), v3 = value(env, "bool");
    line("%n0 = add %c0, " + v0 + " : i64");
    line("%n1 = pymax %c1, " + v1 + " : f64");
    line("%n2 = xor %c2, " + v2 + " : i32");
    line("%n3 = or %c3, " + v3 + " : bool");
    line("yield %n0, %n1, %n2, %n3");
    out_ += "  }\n  yield %r0, %r1, %r2, %r3\n}\n";
    return out_;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string fresh() { return "%v" + std::to_string(count_++); }
  void line(const std::string& s) { out_ += "    " + s + "\n"; }

  std::string value(std::vector<Typed>& env, const std::string& type) {
    std::vector<std::string> fitting;
    for (const Typed& v : env) {
      if (v.type == type) fitting.push_back(v.name);
    }
    if (!fitting.empty()) return fitting[static_cast<size_t>(pick(static_cast<int>(fitting.size())))];
    return emit(env, type, "const " + std::string(type == "bool" ? "true" : type[0] == 'f' ? "2.5" : "5"));
  }

  std::string emit(std::vector<Typed>& env, const std::string& type, const std::string& op) {
    const std::string name = fresh();
    line(name + " = " + op + " : " + type);
    env.push_back({name, type});
    return name;
  }

  void statement(std::vector<Typed>& env, int depth) {
    static const char* const kNames[] = {"i64", "f64", "i32", "f32", "u8", "i16", "bool"};
    static const char* const kArrays[] = {"%a", "%b", "%d", "%e", "%g", "%h", "%m"};
    static const char* const kOuts[] = {"%oa", "%ob", "%od", "%oe", "%og", "", "%om"};
    const int which = pick(7);
    const std::string type = kNames[which];
    if (pick(14) == 0) return temporary(env);
    switch (pick(depth < 2 ? 14 : 9)) {
      case 0:
      case 1:
        emit(env, type, "load " + std::string(kArrays[which]) + "[%i]");
        break;
      case 2: {
        const std::string index = emit(env, "i64", "and " + value(env, "i64") + ", %mask15");
        emit(env, type, "load " + std::string(kArrays[which]) + "[" + (pick(2) ? "2*" : "") + index + " + 1]");
        break;
      }
      case 3: {
        static const char* const kInt[] = {"add",   "sub",   "mul",      "and", "or",  "xor",
                                           "pymin", "pymax", "floordiv", "mod", "shr", "shl"};
        static const char* const kReal[] = {"add", "sub", "mul", "div", "pymin", "pymax", "minimum", "copysign"};
        static const char* const kBool[] = {"and", "or", "xor"};
        const std::string op = type == "bool" ? kBool[pick(3)] : type[0] == 'f' ? kReal[pick(8)] : kInt[pick(12)];
        const std::string a = value(env, type), b = value(env, type);
        emit(env, type, op + " " + a + ", " + b);
        break;
      }
      case 4: {
        static const char* const kInt[] = {"neg", "abs", "not"};
        static const char* const kReal[] = {"neg", "abs", "sqrt", "floor", "rint"};
        const std::string a = value(env, type);
        emit(env, type,
             std::string(type == "bool"   ? "not"
                         : type[0] == 'f' ? kReal[pick(5)]
                                          : kInt[pick(3)]) +
                 " " + a);
        break;
      }
      case 5: {
        static const char* const kCompare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
        const std::string a = value(env, type), b = value(env, type);
        emit(env, "bool", std::string(kCompare[pick(6)]) + " " + a + ", " + b);
        break;
      }
      case 6: {
        const std::string c = value(env, "bool"), a = value(env, type), b = value(env, type);
        emit(env, type, "select " + c + ", " + a + ", " + b);
        break;
      }
      case 7: {
        // A float may not fit an integer, which leaves the result open.
        const std::string from = kNames[pick(7)];
        if (from == type || (from[0] == 'f' && type[0] != 'f' && type != "bool")) break;
        emit(env, type, "cast " + value(env, from));
        break;
      }
      case 8:
        if (*kOuts[which]) {
          const std::string v = value(env, type);
          line("store " + v + ", " + kOuts[which] + "[%i]");
        }
        break;
      case 9:
      case 10:
        conditional(env, depth);
        break;
      case 11:
        while_loop(env, depth);
        break;
      default:
        for_loop(env, depth);
    }
  }

  /// An element of an array that the region or the iteration makes is stored and loaded again.
  void temporary(std::vector<Typed>& env) {
    const int form = pick(private_arrays_ ? 4 : 2);
    const std::string type = form == 1 ? "i32" : "f64";
    const std::string v = value(env, type);
    std::string element = form == 0 ? "%ta[%i]" : "%tb[%i, %i]";
    if (form > 1) {
      const std::string index = emit(env, "i64", "and " + value(env, "i64") + ", %mask15");
      const std::string extent = emit(env, "i64", "add " + index + ", %one"), name = fresh();
      const bool flat = form == 2;
      line(name + " = alloc " + (flat ? "" : "%k0, ") + extent + " slot " + std::to_string(2 + count_) + " : f64[" +
           (flat ? "1" : "2") + ",c]");
      element = name + (flat ? "[" : "[2, ") + index + "]";
    }
    line("store " + v + ", " + element);
    emit(env, type, "load " + element);
  }

  void block(std::vector<Typed>& env, int statements, int depth) {
    for (int i = 0; i < statements; ++i) statement(env, depth);
  }

  void conditional(std::vector<Typed>& env, int depth) {
    const std::string c = value(env, "bool"), x = fresh(), y = fresh();
    value(env, "i64");
    value(env, "f32");
    line(x + ", " + y + " = if " + c + " : i64, f32 {");
    for (int arm = 0; arm < 2; ++arm) {
      std::vector<Typed> inner = env;
      block(inner, pick(4), depth + 1);
      const std::string a = value(inner, "i64"), b = value(inner, "f32");
      if (!loop_carry_.empty() && pick(3) == 0) {
        leave(inner, pick(2) ? "break" : "continue");
        // One arm at least goes on.
        if (arm == 0) {
          line("} else {");
          std::vector<Typed> other = env;
          const std::string d = value(other, "i64"), e = value(other, "f32");
          line("yield " + d + ", " + e);
          break;
        }
      } else {
        line("yield " + a + ", " + b);
      }
      if (arm == 0) line("} else {");
      if (arm == 1) break;
    }
    line("}");
    env.push_back({x, "i64"});
    env.push_back({y, "f32"});
  }

  /// `break` or `continue`; the hidden first carried value of a while counts down so that every loop ends.
  void leave(std::vector<Typed>& env, const std::string& how) {
    std::string operands;
    for (const Typed& c : loop_carry_) {
      const std::string v = c.name[1] == 't' ? c.name : value(env, c.type);
      operands += (operands.empty() ? " " : ", ") + v;
    }
    line(how + operands);
  }

  void while_loop(std::vector<Typed>& env, int depth) {
    const std::string start = emit(env, "i64", "and " + value(env, "i64") + ", %mask15");
    const std::string t = "%t" + std::to_string(count_++), t1 = "%t" + std::to_string(count_++);
    const std::string x = fresh(), y = fresh(), rt = fresh(), rx = fresh(), ry = fresh(), done = fresh();
    const std::string ix = value(env, "f64"), iy = value(env, "i32");
    line(rt + ", " + rx + ", " + ry + " = while carry(" + t + " = " + start + ", " + x + " = " + ix + ", " + y + " = " +
         iy + ") : i64, f64, i32 {");
    std::vector<Typed> inner = env;
    inner.push_back({x, "f64"});
    inner.push_back({y, "i32"});
    inner.push_back({t, "i64"});
    line(done + " = le " + t + ", %zero : bool");
    line("if " + done + " {");
    line("break " + t + ", " + x + ", " + y);
    line("} else {");
    line("yield");
    line("}");
    line(t1 + " = sub " + t + ", %one : i64");
    const auto outer = loop_carry_;
    loop_carry_ = {{t1, "i64"}, {x, "f64"}, {y, "i32"}};
    block(inner, 1 + pick(4), depth + 1);
    const std::string a = value(inner, "f64"), b = value(inner, "i32");
    line("yield " + t1 + ", " + a + ", " + b);
    line("}");
    loop_carry_ = outer;
    env.push_back({rt, "i64"});
    env.push_back({rx, "f64"});
    env.push_back({ry, "i32"});
  }

  void for_loop(std::vector<Typed>& env, int depth) {
    const bool uniform = pick(2) == 0;
    const std::string hi = uniform ? "%k0" : emit(env, "i64", "and " + value(env, "i64") + ", %mask15");
    const std::string lo = pick(2) ? "%one" : emit(env, "i64", "and " + value(env, "i64") + ", %k0");
    const std::string j = fresh(), x = fresh(), y = fresh(), rx = fresh(), ry = fresh();
    const std::string ix = value(env, "i64"), iy = value(env, "bool");
    line(rx + ", " + ry + " = for " + j + " = " + lo + " to " + hi + " step %one carry(" + x + " = " + ix + ", " + y +
         " = " + iy + ") : i64, bool {");
    std::vector<Typed> inner = env;
    inner.push_back({x, "i64"});
    inner.push_back({y, "bool"});
    inner.push_back({j, "i64"});
    const auto outer = loop_carry_;
    loop_carry_ = {{x, "i64"}, {y, "bool"}};
    block(inner, 1 + pick(4), depth + 1);
    const std::string a = value(inner, "i64"), b = value(inner, "bool");
    line("yield " + a + ", " + b);
    line("}");
    loop_carry_ = outer;
    env.push_back({rx, "i64"});
    env.push_back({ry, "bool"});
  }

  std::mt19937 random_;
  std::string kind_, out_;
  int count_ = 0;
  bool private_arrays_ = true;
  std::vector<Typed> loop_carry_;  // of the innermost inner loop, as `continue` passes it
};

template <class T>
Arg random_array(std::mt19937& random, size_t n) {
  std::vector<T> v;
  for (size_t i = 0; i < n; ++i) v.push_back(static_cast<T>(static_cast<int>(random() % 61) - 30));
  return array_arg(v);
}

TEST(CpuFuzz, RandomPrograms) {
  const char* count = std::getenv("APPY_FUZZ_PROGRAMS");
  const char* start = std::getenv("APPY_FUZZ_START");
  const unsigned first = start ? static_cast<unsigned>(std::atoi(start)) : 0;
  const unsigned programs = count ? static_cast<unsigned>(std::atoi(count)) : 150;
  static const char* const kKinds[] = {"simd", "parallel", "parallel simd", ""};
  for (unsigned seed = first; seed < first + programs; ++seed) {
    const std::string text = Program(seed, kKinds[seed % 8 < 5 ? 0 : seed % 8 - 4]).text();
    std::mt19937 random(seed);
    for (int64_t n : {1, 5, 8, 21, 40}) {
      const size_t size = 48;
      std::vector<Word> bools;
      for (size_t i = 0; i < size; ++i) bools.push_back(random() & 1);
      const std::vector<Arg> args = {random_array<int64_t>(random, size),
                                     random_array<double>(random, size),
                                     random_array<int32_t>(random, size),
                                     random_array<float>(random, size),
                                     random_array<uint8_t>(random, size),
                                     random_array<int16_t>(random, size),
                                     words_arg(DType::bool_, bools),
                                     random_array<int64_t>(random, size),
                                     random_array<double>(random, size),
                                     random_array<int32_t>(random, size),
                                     random_array<float>(random, size),
                                     random_array<uint8_t>(random, size),
                                     words_arg(DType::bool_, bools),
                                     scalar_arg(word(n)),
                                     scalar_arg(word(int64_t{-9})),
                                     scalar_arg(word(-4.5)),
                                     scalar_arg(7)};
      SCOPED_TRACE("seed " + std::to_string(seed) + ", n " + std::to_string(n));
      expect_same(text, args, 0, 2);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace appy::cpu::testing
