#include "cpu/privatise.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace appy::cpu {

using ir::Combiner;
using ir::DType;
using ir::Word;

namespace {

constexpr size_t kLineWords = 8;

size_t whole_lines(size_t words) { return (words + kLineWords - 1) / kLineWords * kLineWords; }

std::span<const AtomicTarget> targets(const ParallelLoop& loop) {
  return {loop.target, static_cast<size_t>(loop.targets)};
}

struct View {
  char* data;
  int64_t rows, columns, row_stride, column_stride;  // rank 1 is a single row
  int64_t elements() const { return rows * columns; }
};

View view_at(const Word* args, const AtomicTarget& t) {
  const Word* w = args + t.word;
  auto number = [](Word word) { return static_cast<int64_t>(word); };
  if (t.rank == 1) return {reinterpret_cast<char*>(w[0]), 1, number(w[1]), 0, number(w[2])};
  return {reinterpret_cast<char*>(w[0]), number(w[1]), number(w[2]), number(w[3]), number(w[4])};
}

/// The bytes that the view spans, as [first, second).
std::pair<const char*, const char*> extent(const View& v, int64_t size) {
  const char *first = v.data, *last = v.data;
  for (int64_t span : {(v.rows - 1) * v.row_stride, (v.columns - 1) * v.column_stride}) {
    (span < 0 ? first : last) += span;
  }
  return {first, last + size};
}

template <class T>
T identity_of(Combiner c) {
  using Limits = std::numeric_limits<T>;
  switch (c) {
    case Combiner::prod_:
      return 1;
    case Combiner::pymin_:
    case Combiner::minimum_:
      return Limits::max();
    case Combiner::pymax_:
    case Combiner::maximum_:
      return Limits::lowest();
    case Combiner::and_:
      return static_cast<T>(-1);
    default:
      // A sum of floats starts at -0: an element that nobody updates keeps its sign.
      return std::is_floating_point_v<T> ? static_cast<T>(-0.0) : T{0};
  }
}

template <class T>
T combine_two(Combiner c, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    using U = std::make_unsigned_t<T>;
    const uint64_t x = static_cast<U>(a), y = static_cast<U>(b);
    switch (c) {
      case Combiner::prod_:
        return static_cast<T>(x * y);
      case Combiner::pymin_:
      case Combiner::minimum_:
        return std::min(a, b);
      case Combiner::pymax_:
      case Combiner::maximum_:
        return std::max(a, b);
      case Combiner::and_:
        return static_cast<T>(x & y);
      case Combiner::or_:
        return static_cast<T>(x | y);
      case Combiner::xor_:
        return static_cast<T>(x ^ y);
      default:
        return static_cast<T>(x + y);
    }
  }
}

/// Calls f with a value of the C++ type of an element.
template <class F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::i8_:
      return f(int8_t{});
    case DType::i16_:
      return f(int16_t{});
    case DType::i32_:
      return f(int32_t{});
    case DType::i64_:
      return f(int64_t{});
    case DType::u8_:
      return f(uint8_t{});
    case DType::u16_:
      return f(uint16_t{});
    case DType::u32_:
      return f(uint32_t{});
    case DType::u64_:
      return f(uint64_t{});
    case DType::f32_:
      return f(float{});
    case DType::f64_:
      return f(double{});
    default:
      return;
  }
}

size_t words_of(const View& v, DType t) {
  return whole_lines((static_cast<size_t>(v.elements() * ir::size_of(t)) + sizeof(Word) - 1) / sizeof(Word));
}

const Word* args_of(const Closure* closure) { return reinterpret_cast<const Word*>(closure[kArgs]); }

}  // namespace

bool can_privatise(DType t, Combiner c) {
  switch (c) {
    case Combiner::sum_:
      return t != DType::bool_ && !ir::is_half(t);
    case Combiner::prod_:
    case Combiner::pymin_:
    case Combiner::pymax_:
    case Combiner::minimum_:
    case Combiner::maximum_:
    case Combiner::and_:
    case Combiner::or_:
    case Combiner::xor_:
      return ir::is_int(t);
    default:
      return false;
  }
}

size_t private_words(const ParallelLoop& loop) {
  const Word* args = args_of(loop.closure);
  size_t words =
      whole_lines(static_cast<size_t>(loop.closure_words)) + whole_lines(static_cast<size_t>(loop.arg_words));
  int64_t elements = 0;
  std::pair<const char*, const char*> spans[kMaxTargets];
  size_t known = 0;
  for (const AtomicTarget& t : targets(loop)) {
    const View v = view_at(args, t);
    if (v.rows < 1 || v.columns < 1 || v.rows > kMaxPrivate || v.columns > kMaxPrivate) return 0;
    elements += v.elements();
    if (elements > kMaxPrivate) return 0;
    const auto span = extent(v, ir::size_of(t.dtype));
    for (size_t i = 0; i < known; ++i) {
      if (span.first < spans[i].second && spans[i].first < span.second) return 0;
    }
    spans[known++] = span;
    words += words_of(v, t.dtype);
  }
  // Filling and merging an element takes about 2 ns, and the loop's cost is in 1/16 ns.
  const bool worth_it = loop.trips > elements || loop.trips * std::max<int64_t>(1, loop.cost) >= elements * 32;
  return elements > 0 && worth_it ? words : 0;
}

Closure* make_private(const ParallelLoop& loop, Word* memory) {
  Closure* closure = memory;
  Word* args = memory + whole_lines(static_cast<size_t>(loop.closure_words));
  Word* free = args + whole_lines(static_cast<size_t>(loop.arg_words));
  std::memcpy(closure, loop.closure, sizeof(Word) * static_cast<size_t>(loop.closure_words));
  std::memcpy(args, args_of(loop.closure), sizeof(Word) * static_cast<size_t>(loop.arg_words));
  closure[kArgs] = reinterpret_cast<Word>(args);
  for (const AtomicTarget& t : targets(loop)) {
    const View v = view_at(args, t);
    const int64_t size = ir::size_of(t.dtype);
    Word* w = args + t.word;
    w[0] = reinterpret_cast<Word>(free);
    if (t.rank == 1) {
      w[2] = static_cast<Word>(size);
    } else {
      const bool by_columns = t.layout == ir::Layout::f;
      w[3] = static_cast<Word>(by_columns ? size : size * v.columns);
      w[4] = static_cast<Word>(by_columns ? size * v.rows : size);
    }
    with_type(t.dtype, [&](auto zero) {
      using T = decltype(zero);
      std::fill_n(reinterpret_cast<T*>(free), v.elements(), identity_of<T>(t.combiner));
    });
    free += words_of(v, t.dtype);
  }
  return closure;
}

void merge_private(const ParallelLoop& loop, const Closure* closure) {
  for (const AtomicTarget& t : targets(loop)) {
    const View to = view_at(args_of(loop.closure), t), from = view_at(args_of(closure), t);
    with_type(t.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < to.rows; ++i) {
        for (int64_t j = 0; j < to.columns; ++j) {
          T old, update;
          char* at = to.data + i * to.row_stride + j * to.column_stride;
          std::memcpy(&old, at, sizeof(T));
          std::memcpy(&update, from.data + i * from.row_stride + j * from.column_stride, sizeof(T));
          const T sum = combine_two(t.combiner, old, update);
          std::memcpy(at, &sum, sizeof(T));
        }
      }
    });
  }
}

}  // namespace appy::cpu
