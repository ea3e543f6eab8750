// Random stencils for the passes that tile them in time: programs, their outcomes, and tiles the other way round.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/loops.h"

namespace appy::passes::stencils {

using ir::Word;

constexpr int kColumns = 6;
constexpr int kLines = 7;

/// `for t` around one to three phases over one to three arrays, offsets -2 to 2. Of three dimensions the second one
/// counts lines.
class Program {
 public:
  explicit Program(uint32_t seed, int most_rank = 2)
      : random_(seed), rank_(1 + below(most_rank)), views_(1 + below(3)) {
    const bool backward = below(4) == 0, guarded = below(4) == 0;
    std::string last = "%ri";
    for (int p = 0, count = 1 + below(3); p < count; ++p) {
      phase_ = std::to_string(p);
      if (below(5) == 0) {
        single_row();
      } else {
        last = rows(last);
      }
    }
    text_ = "region @s(%T: i64 in [0, 100], %n: i64 in [0, 100], %f: f64[1,c]";
    for (int v = 0; v < views_; ++v) text_ += ", %" + view(v) + ": f64[" + std::to_string(rank_) + ",c]";
    text_ += ") results(\"t\", \"i\") {\n";
    for (int c = -1; c <= 5; ++c) text_ += number(c) + " = const " + std::to_string(c) + " : i64\n";
    text_ += "%half = const 0.5 : f64\n%third = const 0.3 : f64\n%last = sub %T, %c1 : i64\n";
    text_ += "%any = lt %c0, %n : bool\n" + bounds_;
    text_ += "%r, %s = for %t = " + std::string(backward ? "%last to %m1 step %m1" : "%c0 to %T step %c1") +
             " carry(%rt = %m1, %ri = %m1) : i64, i64 {\npoll state(%rt, %ri)\n" +
             (guarded ? "%ft = if %any : f64 {\n%fl = load %f[%t] : f64\nyield %fl\n} else {\nyield %half\n}\n"
                      : "%ft = load %f[%t] : f64\n") +
             body_ + "yield %t, " + last + "\n}\nyield %r, %s\n}\n";
  }

  const std::string& text() const { return text_; }
  int rank() const { return rank_; }
  int views() const { return views_; }
  bool has_single_row() const { return single_row_; }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  static std::string view(int v) { return std::string(1, static_cast<char>('a' + v)); }
  static std::string number(int c) { return (c < 0 ? "%m" : "%c") + std::to_string(std::abs(c)); }
  static std::string plus(int c) { return c == 0 ? "" : (c < 0 ? " - " : " + ") + std::to_string(std::abs(c)); }

  std::string element(int v, const std::string& row, int column) const {
    const std::string at = column_ ? std::to_string(column_ + column) : "%j" + plus(column);
    return "%" + view(v) + "[" + row + line_ + (rank_ > 1 ? ", " + at : "") + "]";
  }
  void set_line(int offset) { line_ = rank_ == 3 ? ", %y" + plus(offset) : ""; }

  /// Stores a weighted sum of some elements to `target`. Of the target it mostly reads its own row only, as what may be
  /// tiled does.
  template <class Row>
  void statement(int target, int shift, Row&& row) {
    const int line = rank_ == 3 ? below(3) - 1 : 0;  // of the target
    std::string sum = below(2) ? "%ft" : "%third";
    for (int k = 0, loads = 1 + below(4); k < loads; ++k) {
      const int v = below(views_);
      const int offset = v == target && below(8) > 0 ? shift : below(5) - 2 + shift;
      const std::string name = "%v" + phase_ + "_" + std::to_string(k);
      const bool beside = v != target || (column_ && offset == shift);
      // Lines of the same row are the statement's own, in turn.
      if (rank_ == 3) set_line(v != target || offset == shift ? std::clamp(line + below(3) - 1, -1, 1) : line);
      body_ += name + "x = load " + element(v, row(offset), beside ? below(3) - 1 : 0) + " : f64\n";
      body_ += name + " = fma " + name + "x, " + (below(2) ? "%half" : "%third") + ", " + sum + " : f64\n";
      sum = name;
    }
    set_line(line);
    body_ += "store " + sum + ", " + element(target, row(shift), 0) + "\n";
  }

  std::string rows(const std::string& last) {
    bounds_ += "%hi" + phase_ + " = sub %n, " + number(3 + below(3)) + " : i64\n";
    body_ += "%e" + phase_ + " = for parallel " + (rank_ == 1 ? "simd " : "") +
             "annotated %i = " + number(3 + below(3)) + " to %hi" + phase_ + " step %c1 carry(%l = " + last +
             ") : i64 {\n";
    column_ = rank_ == 2 && below(4) == 0 ? 1 + below(kColumns - 2) : 0;
    if (rank_ == 3) {
      body_ += "for annotated %y = " + number(1 + below(2)) + " to " + number(4 + below(2)) + " step %c1 {\n";
    }
    if (rank_ > 1 && !column_) body_ += "for simd annotated %j = %c1 to %c5 step %c1 {\n";
    statement(below(views_), below(3) - 1, [](int offset) { return "%i" + plus(offset); });
    if (rank_ > 1 && !column_) body_ += "yield\n}\n";
    if (rank_ == 3) body_ += "yield\n}\n";
    column_ = 0;
    body_ += "poll state(%t, " + last + ")\nyield %i\n}\n";
    return "%e" + phase_;
  }

  void single_row() {
    single_row_ = true;
    const bool at_end = below(2);
    if (rank_ == 3) body_ += "for annotated %y = %c1 to %c5 step %c1 {\n";
    if (rank_ > 1) body_ += "for simd annotated %j = %c1 to %c5 step %c1 {\n";
    statement(below(views_), at_end ? -3 : 2,
              [&](int offset) { return at_end ? "%n" + plus(offset) : std::to_string(offset); });
    for (int d = 1; d < rank_; ++d) body_ += "yield\n}\n";
  }

  std::mt19937 random_;
  int rank_, views_;
  bool single_row_ = false;
  int column_ = 0;    // of a phase with a single one
  std::string line_;  // the subscript of lines
  std::string phase_, bounds_, body_, text_;
};

/// Programs of up to three dimensions, until one fails: `check(program, graph, random)`.
template <class F>
void for_programs(uint32_t count, F&& check) {
  for (uint32_t seed = 0; seed < count && !testing::Test::HasFailure(); ++seed) {
    const Program program(seed, 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + program.text());
    const auto graph = ir::parse(program.text());
    ASSERT_EQ(ir::verify(*graph), "");
    std::mt19937 random(seed);
    check(program, *graph, random);
  }
}

struct Outcome {
  std::vector<Word> results;
  std::vector<std::vector<double>> arrays;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

inline Outcome run(const ir::Graph& graph, const Program& program, int64_t trips, int64_t rows,
                   ir::EvalObserver* observer = nullptr) {
  Outcome r;
  std::vector<double> factors(static_cast<size_t>(trips) + 1);
  for (size_t k = 0; k < factors.size(); ++k) factors[k] = 0.1 * static_cast<double>(k + 1);
  std::vector<Word> args = {static_cast<Word>(trips), static_cast<Word>(rows), reinterpret_cast<Word>(factors.data()),
                            factors.size(), 8};
  const int64_t columns = program.rank() == 1 ? 1 : kColumns, lines = program.rank() == 3 ? kLines : 1;
  for (int v = 0; v < program.views(); ++v) {
    std::vector<double>& array = r.arrays.emplace_back(static_cast<size_t>(rows * lines * columns + 1));
    for (size_t k = 0; k < array.size(); ++k)
      array[k] = static_cast<double>((k * 7919 + 31 * static_cast<size_t>(v)) % 101) / 7;
    args.push_back(reinterpret_cast<Word>(array.data()));
    args.push_back(static_cast<Word>(rows));
    if (program.rank() == 3) args.push_back(kLines);
    if (program.rank() > 1) args.push_back(kColumns);
    args.push_back(static_cast<Word>(8 * lines * columns));
    if (program.rank() == 3) args.push_back(8 * kColumns);
    if (program.rank() > 1) args.push_back(8);
  }
  const ir::EvalResult result = ir::evaluate(graph, args, UINT64_MAX, observer);
  EXPECT_EQ(result.outcome, ir::EvalResult::Outcome::done);
  r.results = result.results;
  return r;
}

/// The tiles that may run at once run the other way round.
inline void reverse_tiles(ir::Graph& graph) {
  for (ir::Op* loop : for_loops(graph)) {
    ir::Value* tile = induction(*loop);
    if (tile->name != "tile" || !loop->loop->parallel) continue;
    ir::Builder b(graph);
    b.set_before(body_of(*loop).first);
    ir::Value* last = b.op(ir::Opcode::sub_, {loop->operands[1], b.i64(1)});
    ir::Value* other = b.op(ir::Opcode::sub_, {last, tile});
    ir::replace_uses(graph, tile, other);
    other->op->operands[1] = tile;
  }
}

}  // namespace appy::passes::stencils
