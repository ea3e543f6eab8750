// The pass `segments` on sums of random rows: pointers that ascend, and others; rows of no term and of many. What the
// rows store has the same bits, as each adds up its terms in their order.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/segments.h"
#include "passes_random.h"

namespace appy::passes {
namespace {

struct Program {
  std::string type = "f64", pointer = "i32";
  std::string from = "%zero", start = "%none";
  std::string before, term = "%t0", behind, second;  // statements, and what they make
  std::string cap;     // where it is not empty, sums count from 0 to where the row ends, or to this
  bool wraps = false;  // and rows may begin and end as many elements before the end
  int registers = 32, workers = 1;
  std::string rows = "parallel annotated", sums = "simd annotated";

  bool counts() const { return !cap.empty(); }
  std::string index() const { return !counts() ? "%j" : wraps ? "%l + %j" : "%b + %j"; }
  /// How many terms a row has.
  std::string distance() const {
    if (!counts()) return "";
    if (!wraps) {
      return "    %h = pymin " + cap + " : i64\n    %d = sub %h, %b : i64\n    %k = pymax %d, %zero : i64\n";
    }
    return "    %l0 = wrap %b, %all : i64\n    %l = pymax %l0, %zero : i64\n    %h0 = wrap %e, %all : i64\n"
           "    %h = pymin %h0, %all : i64\n    %d = sub %h, %l : i64\n    %k = pymax %d, %zero : i64\n";
  }

  std::string text() const {
    const std::string t = " : " + type, p = " : " + pointer;
    const bool two = !second.empty();
    const std::string results = two ? "%s, %s2" : "%s", types = two ? t + ", " + type : t;
    return "region @r(%m: i64, %p: " + pointer + "[1,c], %c: i32[1,c], %v: " + type + "[1,c], %x: " + type +
           "[1,c], %y: " + type + "[1,c], %init: " + type + ") registers(" + std::to_string(registers) + ") workers(" +
           std::to_string(workers) + ") {\n  %zero = const 0 : i64\n  %one = const 1 : i64\n  %none = const " +
           (type[0] == 'f' ? "0.0" : "0") + t + "\n  %all = dim 0 %v : i64\n  for " + rows + " %i = " + from +
           " to %m step %one {\n    %b0 = load %p[%i]" + p + "\n    %e0 = load %p[%i + 1]" + p +
           "\n    %b = cast %b0 : i64\n    %e = cast %e0 : i64\n" + before + distance() + "    " + results + " = for " +
           sums + " %j = " + (counts() ? "%zero to %k" : "%b to %e") + " step %one carry(sum %a = " + start +
           (two ? ", sum %a2 = %none" : "") + ")" + types + " {\n      %q0 = load %c[" + index() +
           "] : i32\n      %q = cast %q0 : i64\n      %w = load %v[" + index() + "]" + t + "\n      %g = load %x[%q]" +
           t + "\n      %t0 = mul %w, %g" + t + "\n" + second + "      %n = add %a, " + term + t +
           "\n      poll\n      yield " + (two ? "%n, %n2" : "%n") + "\n    }\n" + behind +
           "    store %s, %y[%i]\n    poll\n    yield\n  }\n  yield\n}\n";
  }
};

/// Rows of these numbers of terms, the pointers as they are or, with `broken`, some of them moved.
struct Rows {
  std::vector<int64_t> pointers{0};
  int64_t terms = 0;
};

class Generator : Random {
 public:
  using Random::Random;

  Program program() {
    Program p;
    p.type = pick({"f64", "f64", "f32", "i64", "i32"});
    p.pointer = pick({"i32", "i64", "u32", "u16"});
    p.from = pick({"%zero", "%zero", "%one"});
    p.registers = below(2) ? 32 : 16;
    p.workers = static_cast<int>(below(3)) + 1;
    if (below(3) == 0) p.start = "%init";
    p.cap = pick({"", "", "%e, %all", "%e, %all", "%e, %m"});
    p.wraps = p.counts() && p.pointer[0] == 'i' && below(2);
    if (below(3) == 0) {
      p.behind =
          "    %old = load %y[%i] : " + p.type + "\n    %s9 = add %s, %old : " + p.type + "\n    store %s9, %y[%i]\n";
    }
    if (below(4) == 0) p.before = "    store %none, %y[%i]\n";
    if (below(4) == 0) p.second = "      %n2 = add %w, %a2 : " + p.type + "\n";
    if (!p.second.empty() && below(2)) p.behind += "    store %s2, %y[%i]\n";
    return p;
  }

  Rows rows(bool wraps) {
    Rows made;
    const auto count = static_cast<int64_t>(below(below(3) ? 300 : 12));
    const uint64_t mean = below(9);
    const bool even = below(4) == 0;
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t n = even ? mean : below(40) == 0 ? below(30) : mean ? below(2 * mean + 1) : 0;
      made.terms += static_cast<int64_t>(n);
      made.pointers.push_back(made.terms);
    }
    for (int64_t& p : made.pointers) {
      if (!broken_ || below(30) != 0) continue;
      p = static_cast<int64_t>(below(static_cast<uint64_t>(made.terms) + 1));
      if (wraps && below(2)) p -= made.terms;
    }
    broken_ = !broken_;
    return made;
  }

  template <class T>
  std::vector<T> numbers(int64_t n, uint64_t most) {
    std::vector<T> out;
    for (int64_t k = 0; k < n; ++k) out.push_back(static_cast<T>(below(most)));
    return out;
  }

 private:
  bool broken_ = false;
};

template <class T>
std::vector<char> bytes_of(const std::vector<T>& values) {
  std::vector<char> out(values.size() * sizeof(T) + 8);
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size() * sizeof(T));
  return out;
}

/// What the graph stores to y.
std::vector<char> stored(const ir::Graph& graph, const Program& p, const Rows& rows, uint64_t seed) {
  Generator numbers(seed);
  const auto typed = [&](const std::string& type, int64_t n, uint64_t most) {
    if (type == "f64") return bytes_of(numbers.numbers<double>(n, most));
    if (type == "f32") return bytes_of(numbers.numbers<float>(n, most));
    if (type == "i64") return bytes_of(numbers.numbers<int64_t>(n, most));
    return bytes_of(numbers.numbers<int32_t>(n, most));
  };
  std::vector<char> pointers;
  const auto pointers_as = [&]<class T>(T) {
    pointers = bytes_of(std::vector<T>(rows.pointers.begin(), rows.pointers.end()));
  };
  if (p.pointer == "i32") pointers_as(int32_t{});
  if (p.pointer == "i64") pointers_as(int64_t{});
  if (p.pointer == "u32") pointers_as(uint32_t{});
  if (p.pointer == "u16") pointers_as(uint16_t{});
  const auto m = static_cast<int64_t>(rows.pointers.size()) - 1;
  std::vector<char> columns = bytes_of(numbers.numbers<int32_t>(rows.terms, 50));
  std::vector<char> v = typed(p.type, rows.terms, 100), x = typed(p.type, 50, 100), y = typed(p.type, m, 100);
  const int64_t size = p.type.ends_with("64") ? 8 : 4, pointer = p.pointer == "i64" ? 8 : p.pointer == "u16" ? 2 : 4;
  std::vector<ir::Word> args{static_cast<ir::Word>(m)};
  const auto view = [&](std::vector<char>& of, int64_t n, int64_t stride) {
    args.insert(args.end(),
                {reinterpret_cast<ir::Word>(of.data()), static_cast<ir::Word>(n), static_cast<ir::Word>(stride)});
  };
  view(pointers, m + 1, pointer);
  view(columns, rows.terms, 4);
  view(v, rows.terms, size);
  view(x, 50, size);
  view(y, m, size);
  const double three = 3;
  const float small = 3;
  args.push_back(p.type == "f64"   ? std::bit_cast<uint64_t>(three)
                 : p.type == "f32" ? std::bit_cast<uint32_t>(small)
                                   : 3);
  EXPECT_EQ(ir::evaluate(graph, args).outcome, ir::EvalResult::Outcome::done);
  return y;
}

TEST(Segments, RandomRowsKeepTheirSums) {
  const int count = env("APPY_FUZZ_COUNT", 1000);
  for (int seed = 0; seed < count; ++seed) {
    Generator generator(static_cast<uint64_t>(seed));
    const Program program = generator.program();
    const std::string text = program.text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    const auto before = ir::parse(text);
    ASSERT_EQ(ir::verify(*before), "");
    const auto after = ir::clone(*before);
    ASSERT_TRUE(keep_terms(*after, static_cast<int64_t>(seed % 3) * 20));
    ASSERT_EQ(ir::verify(*after), "") << ir::print(*after);
    for (int trial = 0; trial < 4; ++trial) {
      const Rows rows = generator.rows(program.wraps);
      ASSERT_EQ(stored(*after, program, rows, 7), stored(*before, program, rows, 7)) << ir::print(*after);
    }
  }
}

TEST(Segments, StayWhereTermsAreTheRowsOwn) {
  const auto changes = [](const Program& p) {
    const auto graph = ir::parse(p.text());
    EXPECT_EQ(ir::verify(*graph), "");
    return keep_terms(*graph, 0);
  };
  const Program fits;
  EXPECT_TRUE(changes(fits));
  Program p = fits;
  p.rows = "annotated";
  EXPECT_FALSE(changes(p)) << "rows in order";
  p = fits;
  p.sums = "annotated";
  EXPECT_FALSE(changes(p)) << "terms in order";
  p = fits;
  p.pointer = "u64";
  EXPECT_FALSE(changes(p)) << "pointers that an i64 does not hold";
  p = fits;
  p.before = "    %own = load %y[%i] : f64\n";
  p.term = "%own";
  EXPECT_FALSE(changes(p)) << "a term of the row's";
  p = fits;
  p.before = "    store %none, %v[%i]\n";
  EXPECT_FALSE(changes(p)) << "factors that rows write";
  p = fits;
  p.before = "    store %e0, %p[%i]\n";
  EXPECT_FALSE(changes(p)) << "pointers that rows write";
  p = fits;
  p.cap = "%e, %all";
  EXPECT_TRUE(changes(p)) << "terms from 0";
  p.second = "      %n2 = add %t2, %a2 : f64\n";
  p.second = "      %t2 = load %v[%j] : f64\n" + p.second;
  EXPECT_FALSE(changes(p)) << "not from where the row begins";
  p = fits;
  p.term = "%w";
  p.second = "      %n2 = mul %t0, %a2 : f64\n";
  EXPECT_FALSE(changes(p)) << "a product";
}

}  // namespace
}  // namespace appy::passes
