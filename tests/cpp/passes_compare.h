// Runs a graph before and after passes on small generated inputs and compares results, memory and outcome.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/ir.h"
#include "ir/typing.h"

namespace appy::passes {

using Outcome = ir::EvalResult::Outcome;
using ir::DType;
using ir::Word;

/// Arguments for a graph: every view has its own memory, unless the graph says that views may overlap.
class Inputs {
 public:
  Inputs(const ir::Graph& graph, int trial) : state_(0x1234567u + 7919u * static_cast<uint32_t>(trial)) {
    static constexpr int64_t kSizes[] = {0, 1, 2, 3, 7, 9, 17};
    size_ = kSizes[trial % 7];
    const bool wild = trial % 3 == 2;  // index arrays may hold anything small
    const bool uneven = trial >= 14;   // extents differ
    for (const ir::Value* param : graph.body->args) {
      if (!param->type.is_view()) {
        args_.push_back(scalar(*param));
        continue;
      }
      const auto rank = static_cast<size_t>(param->type.rank);
      std::vector<int64_t> extents(rank), strides(rank);
      for (int64_t& extent : extents) extent = uneven && below(2) ? size_ + static_cast<int64_t>(below(3)) : size_;
      if (param->type.layout == ir::Layout::pairs) extents.back() = 2;
      int64_t bytes = ir::size_of(param->type.dtype);
      const bool spread = param->type.layout == ir::Layout::strided;
      for (size_t k = 0; k < rank; ++k) {
        const size_t d = param->type.layout == ir::Layout::f ? k : rank - 1 - k;
        strides[d] = bytes * (spread ? 2 : 1);
        bytes = strides[d] * (extents[d] + (k == 0 && param->type.layout == ir::Layout::inner ? 3 : 0));
      }
      buffers_.emplace_back(static_cast<size_t>(bytes) + 8);
      fill(buffers_.back(), param->type.dtype, wild);
      const bool shared =
          graph.may_alias && trial % 2 == 1 && buffers_.size() > 1 && buffers_.front().size() >= buffers_.back().size();
      args_.push_back(reinterpret_cast<Word>(shared ? buffers_.front().data() : buffers_.back().data()));
      for (int64_t extent : extents) args_.push_back(static_cast<Word>(extent));
      for (int64_t stride : strides) args_.push_back(static_cast<Word>(stride));
    }
  }

  const std::vector<Word>& args() const { return args_; }
  std::vector<std::vector<char>>& buffers() { return buffers_; }

 private:
  uint64_t below(uint64_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % n;
  }

  Word real(DType t) {
    static constexpr double kSpecial[] = {0.0, -0.0, 1.0, -1.0, INFINITY, NAN};
    const double v = below(8) == 0 ? kSpecial[below(6)] : (static_cast<double>(below(4001)) - 2000.0) / 128.0;
    const Word word = std::bit_cast<Word>(v);
    return ir::evaluate_op(ir::Opcode::cast_, t, DType::f64_, {&word, 1});
  }

  Word scalar(const ir::Value& param) {
    const DType t = param.type.dtype;
    if (t == DType::bool_) return below(2);
    if (ir::is_real(t)) return real(t);
    const int64_t candidates[] = {size_, size_, size_ - 1, 0, 1, 2, size_ + 1, ir::is_signed(t) ? -1 : 3};
    return ir::canonical(t, static_cast<Word>(std::clamp(candidates[below(8)], param.range.lo, param.range.hi)));
  }

  void fill(std::vector<char>& buffer, DType t, bool wild) {
    const auto width = static_cast<size_t>(ir::size_of(t));
    for (size_t at = 0; at + width <= buffer.size(); at += width) {
      Word w = 0;
      if (ir::is_real(t)) {
        w = real(t);
      } else if (t == DType::bool_) {
        w = below(2);
      } else if (wild) {
        w = static_cast<Word>(static_cast<int64_t>(below(static_cast<uint64_t>(2 * size_ + 3))) - size_ - 1);
      } else {
        w = below(static_cast<uint64_t>(std::max<int64_t>(size_, 1)));
      }
      std::memcpy(buffer.data() + at, &w, width);
    }
  }

  uint64_t state_;
  int64_t size_ = 0;
  std::vector<Word> args_;
  std::vector<std::vector<char>> buffers_;
};

template <class T>
bool close(T a, T b, T eps = std::numeric_limits<T>::epsilon()) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  if (a == b) return a != 0 || std::signbit(a) == std::signbit(b);
  const T scale = std::max({std::fabs(a), std::fabs(b), T(1)});
  return std::fabs(a - b) <= 64 * eps * scale;
}

inline bool close(DType t, Word a, Word b) {
  if (t == DType::f64_) return close(std::bit_cast<double>(a), std::bit_cast<double>(b));
  if (t == DType::f32_) return close(std::bit_cast<float>(uint32_t(a)), std::bit_cast<float>(uint32_t(b)));
  if (!ir::is_half(t)) return a == b;
  const auto number = [t](Word w) {
    return std::bit_cast<double>(ir::evaluate_op(ir::Opcode::cast_, DType::f64_, t, {&w, 1}));
  };
  return close(number(a), number(b), 0x1p-10);
}

inline bool same_memory(const ir::Graph& graph, const std::vector<std::vector<char>>& a,
                        const std::vector<std::vector<char>>& b) {
  size_t view = 0;
  for (const ir::Value* param : graph.body->args) {
    if (!param->type.is_view()) continue;
    const DType t = param->type.dtype;
    const auto width = static_cast<size_t>(ir::size_of(t));
    for (size_t at = 0; at + width <= a[view].size(); at += width) {
      Word x = 0, y = 0;
      std::memcpy(&x, a[view].data() + at, width);
      std::memcpy(&y, b[view].data() + at, width);
      if (!close(t, x, y)) return false;
    }
    ++view;
  }
  return true;
}

/// The arrays that escape, element by element: contents that nobody wrote are alike in the evaluator.
inline bool same_arrays(const std::vector<ir::EvalArray>& a, const std::vector<ir::EvalArray>& b) {
  if (a.size() != b.size()) return false;
  for (const ir::EvalArray& x : a) {
    const auto y = std::find_if(b.begin(), b.end(), [&](const ir::EvalArray& other) { return other.slot == x.slot; });
    if (y == b.end() || y->extents != x.extents || y->bytes.size() != x.bytes.size()) return false;
    const auto width = static_cast<size_t>(ir::size_of(x.type.dtype));
    for (size_t at = 0; at < x.bytes.size(); at += width) {
      Word left = 0, right = 0;
      std::memcpy(&left, x.bytes.data() + at, width);
      std::memcpy(&right, y->bytes.data() + at, width);
      if (!close(x.type.dtype, left, right)) return false;
    }
  }
  return true;
}

inline const ir::Op* check_at(const ir::Graph& graph, int32_t ordinal) {
  const ir::Op* found = nullptr;
  int32_t at = 0;
  ir::walk(*graph.body, [&](ir::Op& op) {
    if (op.code == ir::Opcode::check_ && at++ == ordinal) found = &op;
  });
  return found;
}

inline std::string outcome_text(const ir::Graph& graph, const ir::EvalResult& r) {
  static constexpr const char* kNames[] = {"done", "declined", "failed", "out of fuel"};
  std::string text = kNames[static_cast<size_t>(r.outcome)];
  if (r.outcome != Outcome::failed) return text;
  const ir::Check& check = *check_at(graph, r.check)->check;
  text += " " + std::string(ir::name_of(check.kind)) + " " + check.text;
  for (int64_t word : r.info) text += " " + std::to_string(word);
  return text;
}

/// A failure inside a parallel or simd loop leaves the scalars as they were before it (reductions), not as sequential
/// execution has them.
inline bool fails_out_of_order(const ir::Graph& graph, const ir::EvalResult& r) {
  if (r.outcome != Outcome::failed) return false;
  for (const ir::Op* loop = ir::enclosing_loop(*check_at(graph, r.check)->parent); loop;
       loop = ir::enclosing_loop(*loop->parent)) {
    if (loop->code == ir::Opcode::for_ && (loop->loop->parallel || loop->loop->simd)) return true;
  }
  return false;
}

/// Runs both graphs on the trial's inputs. `lenient`: `after` may decline where `before` would not fail (a check
/// hoisted out of a loop that did not run): that costs speed only. `unwatched`: `after` keeps no state for failures.
/// False where the inputs are outside what the graph promises.
inline bool compare(const ir::Graph& before, const ir::Graph& after, int trial, bool lenient = false,
                    bool unwatched = false) {
  constexpr uint64_t kFuel = 2'000'000;
  Inputs a(before, trial), b(before, trial), untouched(before, trial);
  ir::EvalResult want;
  try {
    want = ir::evaluate(before, a.args(), kFuel);
  } catch (const std::logic_error&) {
    return false;
  }
  if (want.outcome == Outcome::out_of_fuel) return false;
  ir::EvalResult got;
  try {
    got = ir::evaluate(after, b.args(), 4 * kFuel);
  } catch (const std::logic_error& error) {
    ADD_FAILURE() << "trial " << trial << ": " << error.what();
    return true;
  }
  const bool may_decline = lenient || want.outcome == Outcome::failed || want.outcome == Outcome::declined;
  if (got.outcome == Outcome::declined && may_decline) {
    EXPECT_EQ(b.buffers(), untouched.buffers()) << "trial " << trial << ": written before declining";
    return want.outcome != Outcome::done;
  }
  EXPECT_EQ(outcome_text(before, want), outcome_text(after, got)) << "trial " << trial;
  EXPECT_TRUE(same_memory(before, a.buffers(), b.buffers())) << "trial " << trial << ": memory differs";
  EXPECT_TRUE(same_arrays(want.arrays, got.arrays)) << "trial " << trial << ": arrays that escape differ";
  if (unwatched && want.outcome == Outcome::failed) {
    EXPECT_EQ(got.results.size(), 0u) << "trial " << trial;
    return true;
  }
  EXPECT_EQ(want.results.size(), got.results.size()) << "trial " << trial;
  if (fails_out_of_order(before, want)) return true;
  for (size_t i = 0; i < std::min(want.results.size(), got.results.size()); ++i) {
    const DType t = before.body->last->operands[i]->type.dtype;
    EXPECT_TRUE(close(t, want.results[i], got.results[i]))
        << "trial " << trial << ": result " << i << ": " << want.results[i] << " != " << got.results[i];
  }
  return true;
}

}  // namespace appy::passes
