#include "cpu/whole_factor.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <string>
#include <utility>

#include "cpu/lapack.h"
#include "cpu/memory.h"

namespace appy::cpu {

namespace {

using ir::Word;

/// Of 48 columns of float64 a kernel by rows takes 22 us on two cores of a Zen 4, and OpenBLAS 7. Of fewer nothing was
/// measured.
constexpr int64_t kLeastColumns = 48;
/// A blocked kernel whose sums run along memory takes less in between: of 128 columns of float64 58 us on two cores of
/// a Zen 4, OpenBLAS 57; of 300 331 and 376, of 900 4.1 ms and 5.0, of 2000 33 and 39, of 2500 70 and 68. With sixteen
/// threads of a Xeon of 900 4.0 and 4.1, of 1400 10.1 and 8.7. Of float32 both take the same.
constexpr int64_t kOwnFrom = 200, kOwnUpTo = 2000, kOwnUpToWithMany = 1000;
constexpr int64_t kMany = 8;  // threads

/// A triangle as LAPACK has it.
template <class T>
struct Triangle {
  T* at = nullptr;
  int64_t n = 0, leading = 0;
  bool upper = false;

  /// Its columns go into `packed`, or come from there, without gaps.
  template <bool Back>
  void copy(T* packed) const {
    for (int64_t j = 0; j < n; ++j) {
      T* const column = at + j * leading + (upper ? 0 : j);
      const int64_t count = upper ? j + 1 : n - j;
      std::copy_n(Back ? packed : column, count, Back ? column : packed);
      packed += count;
    }
  }
  /// Whichever way it is stored, a row of the lower factor with something infinite or no number in it has no number on
  /// the diagonal, which is the square root of what the squares of the others leave.
  bool is_finite() const {
    bool all = true;
    for (int64_t j = 0; j < n; ++j) all &= std::isfinite(at[j * (leading + 1)]);
    return all;
  }
};

class Factored : public runtime::Kernel {
 public:
  Factored(const ir::Graph& graph, std::unique_ptr<runtime::Kernel> own)
      : own_(std::move(own)),
        type_(graph.body->args[graph.factorization->matrix]->type.dtype),
        matrix_(ir::first_word(graph, graph.factorization->matrix)),
        columns_(ir::word_of(graph, graph.factorization->columns)),
        transposed_(graph.factorization->transposed),
        blocked_(graph.factorization->blocked) {
    const ir::Op* loop = graph.body->first;
    while (loop && loop->code != ir::Opcode::for_) loop = loop->next;
    line_ = loop ? graph.locs[loop->loc].line : 0;
  }

  runtime::Status run(runtime::Invocation& call) const override {
    const Lapack* const with = static_cast<int64_t>(call.args[columns_]) < kLeastColumns ? nullptr : cpu::lapack();
    // With fewer threads it may be slower, and more it is not to use.
    const bool done = with && with->threads() == call.threads &&
                      (type_ == ir::DType::f64_ ? run<double>(*with, call) : run<float>(*with, call));
    by_.store(done ? with : nullptr, std::memory_order_relaxed);
    return done ? runtime::Status::done : own_->run(call);
  }
  std::string listing() const override { return own_->listing(); }
  std::string summary() const override {
    const Lapack* const by = by_.load(std::memory_order_relaxed);
    if (!by) return own_->summary();
    return own_->summary() + "factorization at line " + std::to_string(line_) + ": " + by->name + "\n";
  }

 private:
  template <class T>
  bool run(const Lapack& with, const runtime::Invocation& call) const {
    const Triangle<T> of = triangle<T>(call.args);
    if (of.leading == 0 || is_own(of, call.threads)) return false;
    Memory memory;
    T* const before = static_cast<T*>(memory.reserve(0, static_cast<size_t>(of.n * (of.n + 1) / 2) * sizeof(T)));
    if (!before) return false;
    of.template copy<false>(before);
    if (factor(with, of.upper, of.n, of.at, of.leading) && of.is_finite()) return true;
    of.template copy<true>(before);
    return false;
  }

  /// Sums run along the columns that LAPACK sees of its upper triangle.
  template <class T>
  bool is_own(const Triangle<T>& of, int64_t threads) const {
    return blocked_ && of.upper && sizeof(T) == sizeof(double) && of.n >= kOwnFrom &&
           of.n <= (threads > kMany ? kOwnUpToWithMany : kOwnUpTo);
  }

  /// Leading of 0: not as LAPACK has them.
  template <class T>
  Triangle<T> triangle(const Word* args) const {
    const auto word = [&](size_t k) { return static_cast<int64_t>(args[matrix_ + k]); };
    constexpr int64_t size = sizeof(T);
    const int64_t n = static_cast<int64_t>(args[columns_]);
    const bool by_rows = word(4) == size;
    const int64_t bytes = by_rows ? word(3) : word(4);
    const bool fits = word(1) >= n && word(2) >= n && word(by_rows ? 4 : 3) == size && bytes % size == 0 &&
                      bytes / size >= n && bytes / size <= INT_MAX && args[matrix_] % alignof(T) == 0;
    // Rows below each other are its upper triangle.
    return {reinterpret_cast<T*>(args[matrix_]), n, fits ? bytes / size : 0, by_rows != transposed_};
  }

  std::unique_ptr<runtime::Kernel> own_;
  ir::DType type_;
  size_t matrix_, columns_;  // the first word of the one, and the one that counts the others
  bool transposed_, blocked_;
  int line_ = 0;
  mutable std::atomic<const Lapack*> by_ = nullptr;  // what computed the last call
};

}  // namespace

std::unique_ptr<runtime::Kernel> factored(const ir::Graph& graph, std::unique_ptr<runtime::Kernel> kernel) {
  if (!graph.factorization) return kernel;
  return std::make_unique<Factored>(graph, std::move(kernel));
}

}  // namespace appy::cpu
