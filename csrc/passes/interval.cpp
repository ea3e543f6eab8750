#include "passes/interval.h"

#include <algorithm>

namespace appy::passes {

using ir::DType;
using ir::Opcode;

namespace {

constexpr Wide kMaxExtent = (Wide{1} << 47) - 1;

Wide floor_div(Wide a, Wide b) {
  const Wide q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Extremes of a monotone operation (in each operand) are at the corners.
template <class F>
Interval corners(const Interval& a, const Interval& b, F f) {
  const Wide v[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

/// The result if no value of it wraps, else anything of the type.
Interval fitting(const Interval& v, DType t) {
  const Interval all = interval_of(t);
  return v.inside(all) ? v : all;
}

/// All bits up to the highest of `v` set (v >= 0).
Wide fill_bits(Wide v) {
  Wide mask = 0;
  while (mask < v) mask = mask * 2 + 1;
  return mask;
}

/// f on the negative and the positive part of b; a zero divisor gives 0.
template <class F>
Interval by_divisor_sign(const Interval& b, F f) {
  bool any = false;
  Interval out{};
  const auto join = [&](const Interval& v) {
    out = any ? hull(out, v) : v;
    any = true;
  };
  if (b.lo < 0) join(f(Interval{b.lo, std::min<Wide>(b.hi, -1)}));
  if (b.hi > 0) join(f(Interval{std::max<Wide>(b.lo, 1), b.hi}));
  if (b.contains(0)) join({0, 0});
  return out;
}

Interval mod(const Interval& a, const Interval& b) {
  return by_divisor_sign(b, [&](const Interval& d) -> Interval {
    if (d.lo > 0) {
      if (a.lo >= 0 && a.hi < d.lo) return a;
      return {0, a.lo >= 0 ? std::min(d.hi - 1, a.hi) : d.hi - 1};
    }
    if (a.hi <= 0 && a.lo > d.hi) return a;
    return {d.lo + 1, 0};
  });
}

Interval rem(const Interval& a, const Interval& b) {
  return by_divisor_sign(b, [&](const Interval& d) -> Interval {
    const Wide most = std::max(d.hi, -d.lo) - 1;
    return {a.lo >= 0 ? 0 : std::max(a.lo, -most), a.hi <= 0 ? 0 : std::min(a.hi, most)};
  });
}

Interval bit_and(const Interval& a, const Interval& b, const Interval& all) {
  if (a.single() && b.single()) return {a.lo & b.lo, a.lo & b.lo};
  if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi)};
  if (a.lo >= 0) return {0, a.hi};
  if (b.lo >= 0) return {0, b.hi};
  return all;
}

Interval compare(Opcode code, const Interval& a, const Interval& b) {
  const Interval yes{1, 1}, no{0, 0}, unknown{0, 1};
  switch (code) {
    case Opcode::lt_:
      return a.hi < b.lo ? yes : a.lo >= b.hi ? no : unknown;
    case Opcode::le_:
      return a.hi <= b.lo ? yes : a.lo > b.hi ? no : unknown;
    case Opcode::gt_:
      return compare(Opcode::lt_, b, a);
    case Opcode::ge_:
      return compare(Opcode::le_, b, a);
    case Opcode::eq_:
      return a.single() && a == b ? yes : a.hi < b.lo || b.hi < a.lo ? no : unknown;
    default:
      return a.single() && a == b ? no : a.hi < b.lo || b.hi < a.lo ? yes : unknown;
  }
}

Interval shift_left(const Interval& a, const Interval& count, DType t) {
  if (count.lo < 0 || count.hi >= 8 * ir::size_of(t)) return interval_of(t);
  return fitting(corners(a, count, [](Wide v, Wide c) { return v * (Wide{1} << static_cast<int>(c)); }), t);
}

Interval shift_right(const Interval& a, const Interval& count, DType t) {
  if (count.lo < 0) return interval_of(t);
  return corners(a, count, [](Wide v, Wide c) { return v >> static_cast<int>(std::min<Wide>(c, 100)); });
}

Interval convert(const ir::Op& op, const Interval& a) {
  const DType from = op.operands[0]->type.dtype, to = op.results[0]->type.dtype;
  if (ir::is_real(from)) return interval_of(to);
  if (to == DType::bool_ && op.code == Opcode::cast_) return compare(Opcode::ne_, a, {0, 0});
  return fitting(a, to);
}

Interval absolute(const Interval& a) {
  if (a.lo >= 0) return a;
  if (a.hi <= 0) return {-a.hi, -a.lo};
  return {0, std::max(-a.lo, a.hi)};
}

Interval wrap(const Interval& i, const Interval& n) {
  if (i.lo >= 0) return i;
  const Interval negative = exact(Opcode::add_, {i.lo, std::min<Wide>(i.hi, -1)}, n);
  return i.hi < 0 ? negative : hull(negative, {0, i.hi});
}

}  // namespace

Interval interval_of(DType t) {
  const int bits = 8 * ir::size_of(t);
  switch (ir::class_of(t)) {
    case ir::TypeClass::boolean:
      return {0, 1};
    case ir::TypeClass::uint:
      return {0, (Wide{1} << bits) - 1};
    default:
      return {-(Wide{1} << (bits - 1)), (Wide{1} << (bits - 1)) - 1};
  }
}

Interval hull(const Interval& a, const Interval& b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval meet(const Interval& a, const Interval& b) {
  const Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}

Interval exact(Opcode code, const Interval& a, const Interval& b) {
  switch (code) {
    case Opcode::add_:
    case Opcode::ovf_add_:
      return {a.lo + b.lo, a.hi + b.hi};
    case Opcode::sub_:
    case Opcode::ovf_sub_:
      return {a.lo - b.hi, a.hi - b.lo};
    default:
      // u64 products reach 2^128: halve the reach by giving up on operands beyond i64.
      if (a.hi > INT64_MAX || b.hi > INT64_MAX) return {-(Wide{1} << 120), Wide{1} << 120};
      return corners(a, b, [](Wide x, Wide y) { return x * y; });
  }
}

Interval transfer(const ir::Op& op, std::span<const Interval> in) {
  const DType t = op.results[0]->type.dtype;
  const Interval all = interval_of(t);
  const bool on_reals =
      !op.operands.empty() && !op.operands.back()->type.is_view() && ir::is_real(op.operands.back()->type.dtype);
  if (op.code == Opcode::dim_) return {0, kMaxExtent};
  if (on_reals) return all;
  switch (op.code) {
    case Opcode::const_: {
      const Wide v = ir::class_of(t) == ir::TypeClass::uint ? Wide{op.imm} : Wide{static_cast<int64_t>(op.imm)};
      return {v, v};
    }
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
      return fitting(exact(op.code, in[0], in[1]), t);
    case Opcode::neg_:
      return fitting({-in[0].hi, -in[0].lo}, t);
    case Opcode::abs_:
      return fitting(absolute(in[0]), t);
    case Opcode::floordiv_:
      return fitting(by_divisor_sign(in[1], [&](const Interval& d) { return corners(in[0], d, floor_div); }), t);
    case Opcode::mod_:
      return fitting(mod(in[0], in[1]), t);
    case Opcode::rem_:
      return fitting(rem(in[0], in[1]), t);
    case Opcode::pymin_:
    case Opcode::minimum_:
      return {std::min(in[0].lo, in[1].lo), std::min(in[0].hi, in[1].hi)};
    case Opcode::pymax_:
    case Opcode::maximum_:
      return {std::max(in[0].lo, in[1].lo), std::max(in[0].hi, in[1].hi)};
    case Opcode::and_:
      return bit_and(in[0], in[1], all);
    case Opcode::or_:
      if (in[0].lo < 0 || in[1].lo < 0) return all;
      return {std::max(in[0].lo, in[1].lo), fill_bits(std::max(in[0].hi, in[1].hi))};
    case Opcode::xor_:
      if (in[0].lo < 0 || in[1].lo < 0) return all;
      return {0, fill_bits(std::max(in[0].hi, in[1].hi))};
    case Opcode::not_: {
      const Wide sum = all.lo + all.hi;  // 1 for bool, -1 for signed, the largest value for unsigned
      return {sum - in[0].hi, sum - in[0].lo};
    }
    case Opcode::shl_:
      return shift_left(in[0], in[1], t);
    case Opcode::shr_:
      return shift_right(in[0], in[1], t);
    case Opcode::popcount_:
      return {0, 8 * ir::size_of(t)};
    case Opcode::ovf_add_:
    case Opcode::ovf_sub_:
    case Opcode::ovf_mul_: {
      const Interval result = exact(op.code, in[0], in[1]), fits = interval_of(op.operands[0]->type.dtype);
      if (result.inside(fits)) return {0, 0};
      return result.lo > fits.hi || result.hi < fits.lo ? Interval{1, 1} : Interval{0, 1};
    }
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::lt_:
    case Opcode::le_:
    case Opcode::gt_:
    case Opcode::ge_:
      return compare(op.code, in[0], in[1]);
    case Opcode::select_:
      return in[0].single() ? in[in[0].lo ? 1 : 2] : hull(in[1], in[2]);
    case Opcode::cast_:
    case Opcode::bitcast_:
      return convert(op, in[0]);
    case Opcode::wrap_:
      return fitting(wrap(in[0], in[1]), t);
    default:
      return all;
  }
}

}  // namespace appy::passes
