// Sample operands at the edges of each type, and arrays of them.
#pragma once

#include <limits>

#include "cpu_harness.h"
#include "ir/typing.h"

namespace appy::cpu::testing {

inline constexpr DType kTypes[] = {
#define X(name, bits, cls) DType::name##_,
#include "ir/types.def"
#undef X
};
inline constexpr ir::Opcode kOps[] = {
#define X(name, arity, effect, rule) ir::Opcode::name##_,
#include "ir/ops.def"
#undef X
};

inline std::vector<Word> samples(DType t) {
  std::vector<Word> out;
  const auto half = [&](double v) {
    const Word w = word(v);
    return ir::evaluate_op(ir::Opcode::cast_, t, DType::f64_, {&w, 1});
  };
  if (ir::is_half(t)) {
    for (double v : {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-3, 7.25, -7.25, 65504.0, -300.0, 0x1p-24, 0.7, -0.3,
                     std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::quiet_NaN()}) {
      out.push_back(half(v));
    }
    return out;
  }
  if (t == DType::f64_ || t == DType::f32_) {
    for (double v : {0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-3, 7.25, -7.25, 1e10, -1e10, 123456.789, 0.7, -0.3}) {
      out.push_back(t == DType::f64_ ? word(v) : word(static_cast<float>(v)));
    }
    for (double v : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                     std::numeric_limits<double>::quiet_NaN()}) {
      out.push_back(t == DType::f64_ ? word(v) : word(static_cast<float>(v)));
    }
    return out;
  }
  if (t == DType::bool_) return {0, 1};
  for (int64_t v : {int64_t{0},    int64_t{1},     int64_t{2},      int64_t{3},         int64_t{7},
                    int64_t{-1},   int64_t{-2},    int64_t{-7},     int64_t{100},       int64_t{127},
                    int64_t{-128}, int64_t{32767}, int64_t{-32768}, int64_t{INT32_MAX}, int64_t{INT32_MIN},
                    INT64_MAX,     INT64_MIN,      int64_t{63},     int64_t{31},        int64_t{64}}) {
    out.push_back(ir::canonical(t, static_cast<Word>(v)));
  }
  return out;
}

/// A C-contiguous array of words of this type.
inline Arg words_arg(DType t, const std::vector<Word>& words) {
  Arg a;
  a.is_array = true;
  const auto size = static_cast<size_t>(ir::size_of(t));
  a.shape = {static_cast<int64_t>(words.size())};
  a.strides = {static_cast<int64_t>(size)};
  a.bytes.assign(words.size() * size + size, 0x5a);
  for (size_t i = 0; i < words.size(); ++i) std::memcpy(a.bytes.data() + i * size, &words[i], size);
  return a;
}

inline bool elementary(ir::Opcode code) {
  return (code >= ir::Opcode::cbrt_ && code <= ir::Opcode::lgamma_) || code == ir::Opcode::pow_ ||
         code == ir::Opcode::atan2_ || code == ir::Opcode::hypot_;
}

/// Whether the conversion of this word is specified.
inline bool convertible(DType from, DType to, Word a) {
  if (!ir::is_real(from) || ir::is_real(to) || to == DType::bool_) return true;
  const double x = number(a, from);
  const double high = std::ldexp(1.0, 8 * ir::size_of(to) - (ir::is_signed(to) ? 1 : 0));
  const double low = ir::is_signed(to) ? -high : 0;
  return std::trunc(x) < high && std::trunc(x) >= low;
}

}  // namespace appy::cpu::testing
