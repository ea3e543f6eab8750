// Runs a region given as text with the reference evaluator and with machine code, on copies of the same arrays.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace appy::cpu::testing {

using ir::DType;
using ir::Word;

inline Word word(int64_t v) { return static_cast<Word>(v); }
inline Word word(double v) { return std::bit_cast<Word>(v); }
inline Word word(float v) { return std::bit_cast<uint32_t>(v); }

/// An argument: a scalar word, or an array with shape and strides in bytes over its own bytes.
struct Arg {
  Word scalar = 0;
  bool is_array = false;
  std::vector<char> bytes;
  size_t origin = 0;
  std::vector<int64_t> shape, strides;
};

/// 0, 1, 2, … 99, 0, …
template <class T>
std::vector<T> counting(size_t n) {
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<T>(i % 100);
  return values;
}

inline Arg scalar_arg(Word w) { return {w, false, {}, 0, {}, {}}; }

/// A C-contiguous array; `stride` (1-D only) in elements spreads it, a negative one reverses it.
template <class T>
Arg array_arg(const std::vector<T>& values, std::vector<int64_t> shape = {}, int64_t stride = 1) {
  Arg a;
  a.is_array = true;
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  a.shape = shape;
  a.strides.assign(shape.size(), 0);
  int64_t bytes = static_cast<int64_t>(sizeof(T)) * stride;
  for (size_t d = shape.size(); d-- > 0;) {
    a.strides[d] = bytes;
    bytes *= shape[d];
  }
  const size_t step = static_cast<size_t>(stride < 0 ? -stride : stride);
  a.bytes.assign(values.size() * step * sizeof(T) + sizeof(T), 0x5a);
  a.origin = stride < 0 && !values.empty() ? (values.size() - 1) * step * sizeof(T) : 0;
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(a.bytes.data() + a.origin + static_cast<int64_t>(i) * stride * static_cast<int64_t>(sizeof(T)),
                &values[i], sizeof(T));
  }
  return a;
}

/// Keeps the arrays that escape, as the runtime keeps NumPy's.
class TestArrays : public runtime::Arrays {
 public:
  void* make(int slot, ir::Type type, const Word* extents) override {
    if (fail) return nullptr;
    std::erase_if(made, [slot](const ir::EvalArray& array) { return array.slot == slot; });
    ir::EvalArray& array = made.emplace_back();
    array.slot = slot;
    array.type = type;
    size_t bytes = static_cast<size_t>(ir::size_of(type.dtype));
    for (int d = 0; d < type.rank; ++d) {
      array.extents.push_back(static_cast<int64_t>(extents[d]));
      bytes *= extents[d];
    }
    array.bytes.assign(bytes, static_cast<char>(0xa5));
    array.bytes.reserve(1);
    return array.bytes.data();
  }

  bool fail = false;
  std::deque<ir::EvalArray> made;
};

struct Run {
  runtime::Status status = runtime::Status::done;
  std::vector<Word> results;
  std::vector<std::vector<char>> memory;
  runtime::Failure failure;
  ir::EvalResult eval;
  std::deque<ir::EvalArray> arrays;
  bool no_memory = false;
  std::string listing, summary;
};

inline std::vector<Word> flatten(std::vector<Arg>& args) {
  std::vector<Word> words;
  for (Arg& a : args) {
    if (!a.is_array) {
      words.push_back(a.scalar);
      continue;
    }
    words.push_back(reinterpret_cast<Word>(a.bytes.data() + a.origin));
    for (int64_t n : a.shape) words.push_back(word(n));
    for (int64_t s : a.strides) words.push_back(word(s));
  }
  return words;
}

inline Run reference(const ir::Graph& graph, std::vector<Arg> args) {
  Run run;
  const std::vector<Word> words = flatten(args);
  run.eval = ir::evaluate(graph, words);
  run.results = run.eval.results;
  using Outcome = ir::EvalResult::Outcome;
  run.status = run.eval.outcome == Outcome::done       ? runtime::Status::done
               : run.eval.outcome == Outcome::declined ? runtime::Status::declined
                                                       : runtime::Status::failed;
  run.failure.check = run.eval.check;
  for (size_t i = 0; i < run.eval.info.size() && i < 3; ++i) run.failure.info[i] = run.eval.info[i];
  for (Arg& a : args) run.memory.push_back(a.bytes);
  return run;
}

/// The graph's code, once the pass has run without which the backend does not know f16. With all traits it has what it
/// has without them, and more.
inline std::unique_ptr<runtime::Kernel> code_of(const ir::Graph& graph, Isa isa, int64_t stream_bytes = -1,
                                                Traits traits = {true, true}) {
  auto known = ir::clone(graph);
  passes::find("halves")->run(*known);
  return compile(*known,
                 {.isa = isa, .keep_listing = true, .name = {}, .stream_bytes = stream_bytes, .traits = traits});
}

/// The number of a float's word.
inline double number(Word w, DType t) {
  return std::bit_cast<double>(ir::evaluate_op(ir::Opcode::cast_, DType::f64_, t, {&w, 1}));
}

inline Run machine(const ir::Graph& graph, std::vector<Arg> args, Isa isa, int threads = 1, int64_t stream_bytes = -1) {
  Run run;
  auto kernel = code_of(graph, isa, stream_bytes);
  const std::vector<Word> words = flatten(args);
  run.results.assign(std::max<size_t>(1, graph.body->last->operands.size()), 0);
  runtime::Invocation invocation;
  invocation.args = words.data();
  invocation.results = run.results.data();
  invocation.threads = threads;
  TestArrays arrays;
  invocation.arrays = &arrays;
  run.status = kernel->run(invocation);
  run.failure = invocation.failure;
  run.no_memory = invocation.no_memory;
  run.arrays = std::move(arrays.made);
  run.listing = kernel->listing();
  run.summary = kernel->summary();
  for (Arg& a : args) run.memory.push_back(a.bytes);
  return run;
}

/// How often the listing says it.
inline size_t count(const std::string& listing, const std::string& what) {
  size_t n = 0;
  for (size_t at = 0; (at = listing.find(what, at)) != std::string::npos; ++at) ++n;
  return n;
}

inline std::vector<Isa> isas() {
  std::vector<Isa> found;
  if (detect() >= Isa::avx2) found.push_back(Isa::avx2);
  if (detect() >= Isa::avx512) found.push_back(Isa::avx512);
  return found;
}

/// Word equality, floats within `ulps` (0: bit equal, NaNs alike).
inline bool same(Word a, Word b, DType t, int64_t ulps) {
  if (a == b) return true;
  if (!ir::is_real(t)) return false;
  const double x = number(a, t), y = number(b, t);
  if (std::isnan(x) && std::isnan(y)) return true;
  if (x == y) return ulps > 0 || std::signbit(x) == std::signbit(y);
  const double scale = std::max(std::fabs(x), std::fabs(y));
  return std::fabs(x - y) <= static_cast<double>(ulps) * scale *
                                 (t == DType::f64_   ? 0x1p-52
                                  : t == DType::f32_ ? 0x1p-23
                                                     : 0x1p-10);
}

/// Compares machine code on every instruction set with the evaluator. `ulps` < 0 compares memory as bytes and results
/// exactly.
inline void expect_same(const std::string& text, const std::vector<Arg>& args, int64_t ulps = 0, int threads = 1,
                        int64_t stream_bytes = -1) {
  auto graph = ir::parse(text);
  ASSERT_EQ(ir::verify(*graph), "") << text;
  const Run want = reference(*graph, args);
  for (Isa isa : isas()) {
    SCOPED_TRACE(std::string(name_of(isa)));
    Run got;
    try {
      got = machine(*graph, args, isa, threads, stream_bytes);
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\n" << text;
    }
    ASSERT_EQ(got.status, want.status) << text;
    const bool has_results =
        want.status == runtime::Status::done || (want.status == runtime::Status::failed && got.failure.has_state);
    for (size_t i = 0; has_results && i < want.results.size(); ++i) {
      const DType t = graph->body->last->operands[i]->type.dtype;
      ASSERT_TRUE(same(got.results[i], want.results[i], t, ulps))
          << "result " << i << ": got " << std::hex << got.results[i] << ", want " << want.results[i] << std::dec
          << "\n"
          << text << got.listing;
    }
    if (want.status == runtime::Status::failed) {
      ASSERT_EQ(got.failure.check, want.failure.check);
      ASSERT_EQ(got.failure.info, want.failure.info);
    }
    if (want.status != runtime::Status::declined) {
      ASSERT_EQ(got.arrays.size(), want.eval.arrays.size());
      for (const ir::EvalArray& wanted : want.eval.arrays) {
        const auto array = std::find_if(got.arrays.begin(), got.arrays.end(),
                                        [&](const ir::EvalArray& a) { return a.slot == wanted.slot; });
        ASSERT_TRUE(array != got.arrays.end()) << text;
        ASSERT_EQ(array->extents, wanted.extents) << text;
        ASSERT_EQ(array->bytes, wanted.bytes) << "array of slot " << wanted.slot << "\n" << text << got.listing;
      }
    }
    for (size_t a = 0; a < args.size(); ++a) {
      if (!args[a].is_array) continue;
      const DType t = graph->body->args[a]->type.dtype;
      const size_t size = static_cast<size_t>(ir::size_of(t));
      for (size_t at = 0; at + size <= want.memory[a].size(); at += size) {
        Word x = 0, y = 0;
        std::memcpy(&x, got.memory[a].data() + at, size);
        std::memcpy(&y, want.memory[a].data() + at, size);
        ASSERT_TRUE(same(x, y, t, ulps)) << "array " << a << " element " << at / size << ": got " << std::hex << x
                                         << ", want " << y << std::dec << "\n"
                                         << text << got.listing;
      }
    }
  }
}

}  // namespace appy::cpu::testing
