// Operations on complex numbers, and on the elements of complex arrays: types by NEP 50, the algorithms of CPython and
// NumPy.
#include "trace/complex.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/builder.h"
#include "runtime/numpy.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/functions.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

/// What operands are converted to: Python's complex, or NumPy's with parts of `part`.
struct Type {
  bool python = true;
  DType part = DType::f64_;
};

struct Pair {
  Traced re, im;
};

Type common_part(Context& c, std::span<const Traced> operands) {
  Type out;
  DType all = DType::bool_;
  for (const Traced& t : operands) {
    const Traced x = is_complex(t) ? parts_of(c, t).first : t;
    if (is_tensor(x)) {
      all = promote(all, as_tensor(c, x)->dtype);
      out.python = false;
    } else if (const Traced n = number(c, x, nullptr); n.is_np()) {
      all = promote(all, n.type.dtype);
      out.python = false;
    }
  }
  if (!out.python) out.part = !ir::is_real(all) ? DType::f64_ : std::max(all, DType::f32_);
  return out;
}

Traced part_in(Context& c, const Traced& t, const Type& type) {
  Emit e(c);
  if (is_tensor(t)) {
    if (as_tensor(c, t)->dtype == type.part) return t;
    return map(c, std::span(&t, 1),
               [to = type.part](Context& context, Scalars x) { return np_scalar(cast_element(context, x[0], to)); });
  }
  const Traced x = number(c, t, nullptr);
  Value* v = to_dtype(c, x, type.part);
  return type.python ? py_float(v) : np_scalar(v);
}

Pair pair_in(Context& c, const Traced& t, const Type& type) {
  const auto [re, im] = parts_of(c, t);
  return {part_in(c, re, type), part_in(c, im, type)};
}

using Formula = std::function<Value*(Emit&, std::span<Value* const>)>;

/// f of numbers of one float type, element by element where there are arrays among them.
Traced apply(Context& c, std::span<const Traced> parts, const Formula& f) {
  const auto formula = [f](Context& context, Scalars x) {
    Emit e(context);
    std::vector<Value*> values;
    for (const Traced& t : x) values.push_back(t.value);
    return f(e, values);
  };
  if (std::any_of(parts.begin(), parts.end(), is_tensor)) {
    return map(c, parts, [formula](Context& context, Scalars x) { return np_scalar(formula(context, x)); });
  }
  Value* v = formula(c, parts);
  if (parts[0].is_np()) return np_scalar(v);
  return v->type.dtype == DType::bool_ ? py_bool(v) : py_float(v);
}

Traced apply(Context& c, std::initializer_list<Traced> parts, const Formula& f) {
  return apply(c, std::span<const Traced>(parts.begin(), parts.size()), f);
}

Traced pairwise(Context& c, const Pair& x, const Pair& y, Opcode code) {
  const Formula f = [code](Emit& e, std::span<Value* const> v) { return e.op(code, {v[0], v[1]}); };
  return complex_of(apply(c, {x.re, y.re}, f), apply(c, {x.im, y.im}, f));
}

Value* mul(Emit& e, Value* a, Value* b) { return e.op(Opcode::mul_, {a, b}); }
Value* add(Emit& e, Value* a, Value* b) { return e.op(Opcode::add_, {a, b}); }
Value* sub(Emit& e, Value* a, Value* b) { return e.op(Opcode::sub_, {a, b}); }
Value* div(Emit& e, Value* a, Value* b) { return e.op(Opcode::div_, {a, b}); }
Value* absolute(Emit& e, Value* a) { return e.op(Opcode::abs_, {a}); }
Value* constant_like(Emit& e, const Value* x, double v) { return e.number(x->type.dtype, v); }

Traced product(Context& c, const Pair& x, const Pair& y) {
  const auto is_array = [](const Pair& p) { return is_tensor(p.re) || is_tensor(p.im); };
  if (c.exact() && (is_array(x) || is_array(y))) refuse(c, AbortId::exact_function_, "a product of complex arrays");
  const Traced all[] = {x.re, x.im, y.re, y.im};
  const auto re = [](Emit& e, std::span<Value* const> v) { return sub(e, mul(e, v[0], v[2]), mul(e, v[1], v[3])); };
  const auto im = [](Emit& e, std::span<Value* const> v) { return add(e, mul(e, v[0], v[3]), mul(e, v[1], v[2])); };
  return complex_of(apply(c, all, re), apply(c, all, im));
}

struct Parts {
  Value *re, *im;
};

/// Smith's algorithm. CPython divides by the denominator, NumPy multiplies with its reciprocal.
Parts quotient(Emit& e, std::span<Value* const> v, bool python) {
  Value *re = v[0], *im = v[1], *c = v[2], *d = v[3];
  Value* by_real = e.ge(absolute(e, c), absolute(e, d));
  // Of the two branches only the operands differ: (larger, smaller) is (c, d) or (d, c).
  Value *large = e.select(by_real, c, d), *small = e.select(by_real, d, c);
  Value* ratio = div(e, small, large);
  Value* denominator = add(e, large, mul(e, small, ratio));
  Value* first = e.select(by_real, add(e, re, mul(e, im, ratio)), add(e, mul(e, re, ratio), im));
  Value* second = e.select(by_real, sub(e, im, mul(e, re, ratio)), sub(e, mul(e, im, ratio), re));
  if (python) {
    // Where the divisor is NaN neither branch is taken.
    Value* nan = constant_like(e, re, std::numeric_limits<double>::quiet_NaN());
    Value* ordered = e.either(by_real, e.ge(absolute(e, d), absolute(e, c)));
    return {e.select(ordered, div(e, first, denominator), nan), e.select(ordered, div(e, second, denominator), nan)};
  }
  Value* scale = div(e, constant_like(e, re, 1), denominator);
  Value* zero = e.both(e.is_zero(c), e.is_zero(d));
  Value *abs_c = absolute(e, c), *abs_d = absolute(e, d);
  return {e.select(zero, div(e, re, abs_c), mul(e, first, scale)),
          e.select(zero, div(e, im, abs_d), mul(e, second, scale))};
}

PyObject* divide_by_zero() {
  const Ref one = Ref::steal(PyComplex_FromDoubles(1, 0)), zero = Ref::steal(PyComplex_FromDoubles(0, 0));
  return PyNumber_TrueDivide(one.get(), zero.get());
}

Traced divided(Context& c, const Pair& x, const Pair& y, bool python) {
  Emit e(c);
  if (python) {
    Value* ok = e.either(e.non_zero(y.re.value), e.non_zero(y.im.value));
    if (!known_true(ok)) e.check(CheckKind::zero_division_, ok, error_text([] { return divide_by_zero(); }));
  }
  const Traced all[] = {x.re, x.im, y.re, y.im};
  const auto re = [python](Emit& g, std::span<Value* const> v) { return quotient(g, v, python).re; };
  const auto im = [python](Emit& g, std::span<Value* const> v) { return quotient(g, v, python).im; };
  return complex_of(apply(c, all, re), apply(c, all, im));
}

constexpr int64_t max_exponent = 64;

Traced powered(Context& c, const Traced& base, const Traced& exponent, const Type& type) {
  Emit e(c);
  const bool constant_exponent = exponent.is_scalar() && !exponent.tag && !exponent.is_py_float();
  const std::optional<int64_t> n = constant_exponent ? known_integer(exponent.value) : std::nullopt;
  if (!n || std::abs(*n) > max_exponent) {
    refuse(c, AbortId::operands_, "a complex power whose exponent is no small constant integer");
  }
  if (c.exact()) refuse(c, AbortId::exact_function_, "a complex power");
  const Pair x = pair_in(c, base, type);
  const auto number_like = [&](double v) {
    return apply(c, {x.re}, [v](Emit& g, std::span<Value* const> p) { return constant_like(g, p[0], v); });
  };
  Traced result;
  Traced square = complex_of(x.re, x.im);
  const auto times = [&](const Traced& a, const Traced& b) {
    return product(c, {a.items[0], a.items[1]}, {b.items[0], b.items[1]});
  };
  for (int64_t k = std::abs(*n); k;) {
    if (k & 1) result = is_complex(result) ? times(result, square) : square;
    if (k >>= 1) square = times(square, square);
  }
  if (!is_complex(result)) result = complex_of(number_like(1), number_like(0));
  if (*n < 0) {
    const Pair one = {number_like(1), number_like(0)};
    result = divided(c, one, {result.items[0], result.items[1]}, type.python);
  }
  if (type.python) {
    Value* finite = e.negate(
        e.either(e.op(Opcode::isinf_, {result.items[0].value}), e.op(Opcode::isinf_, {result.items[1].value})));
    e.check(CheckKind::range_error_, finite, "complex exponentiation");
  }
  return result;
}

[[noreturn]] void refuse_operands(const Context& c, const char* what) {
  refuse(c, AbortId::operands_, std::string(what) + " complex numbers");
}

/// f for every alternative of a number whose Python type depends on the path.
template <class F>
Traced per_type(Context& c, const Traced& t, F&& f) {
  if (!is_complex(t)) return per_alternative(c, t, f);
  Emit e(c);
  const Traced &re = t.items[0], &im = t.items[1];
  std::vector<Value*> when;
  std::vector<Traced> results;
  for (size_t i = 0; i < re.types.size(); i++) {
    when.push_back(has_type(e, re, i));
    Guarded guarded(c, when.back());
    const Traced z = complex_of(alternative(guarded, re, i), alternative(guarded, im, i));
    results.push_back(f(static_cast<Context&>(guarded), z));
  }
  return merge(c, when, results);
}

bool is_tagged(const Traced& t) {
  if (is_complex(t)) return t.items.size() == 2 && t.items[0].is_scalar() && t.items[0].tag;
  return t.is_scalar() && t.tag;
}

// --- elementary functions ---------------------------------------------------------------------------------------

/// hypot(x, y) by one square root: the squares of numbers that are scaled neither overflow nor vanish.
Value* length(Emit& e, Value* x, Value* y) {
  const bool wide = x->type.dtype == DType::f64_;
  const auto number_of = [&](double v) { return constant_like(e, x, v); };
  const double high = wide ? 0x1p500 : 0x1p60, low = wide ? 0x1p-450 : 0x1p-40, up = wide ? 0x1p600 : 0x1p90;
  Value* large = e.op(Opcode::maximum_, {absolute(e, x), absolute(e, y)});
  Value *huge = e.gt(large, number_of(high)), *tiny = e.lt(large, number_of(low));
  Value* scale = e.select(huge, number_of(1 / up), e.select(tiny, number_of(up), number_of(1)));
  Value* unscale = e.select(huge, number_of(up), e.select(tiny, number_of(1 / up), number_of(1)));
  Value *a = mul(e, x, scale), *b = mul(e, y, scale);
  Value* root = e.op(Opcode::sqrt_, {add(e, mul(e, a, a), mul(e, b, b))});
  Value* infinite = e.either(e.op(Opcode::isinf_, {x}), e.op(Opcode::isinf_, {y}));
  return e.select(infinite, number_of(std::numeric_limits<double>::infinity()), mul(e, root, unscale));
}

Parts exponential(Emit& e, Value* x, Value* y) {
  const double infinity = std::numeric_limits<double>::infinity();
  // Where exp(x) alone would overflow it is taken in two factors.
  const double limit = x->type.dtype == DType::f64_ ? 709 : 88;
  Value* large = e.gt(x, constant_like(e, x, limit));
  Value* shift = constant_like(e, x, 2);
  Value* factor = e.op(Opcode::exp_, {e.select(large, sub(e, x, shift), x)});
  Value* rest = e.select(large, e.op(Opcode::exp_, {shift}), constant_like(e, x, 1));
  Value *cosine = e.op(Opcode::cos_, {y}), *sine = e.op(Opcode::sin_, {y});
  Value *re = mul(e, mul(e, factor, cosine), rest), *im = mul(e, mul(e, factor, sine), rest);
  // exp(inf + 0j) has an imaginary part of 0; at infinities the angle counts only where it is finite.
  im = e.select(e.is_zero(y), y, im);
  Value* no_angle = e.negate(e.op(Opcode::isfinite_, {y}));
  Value* zero = constant_like(e, x, 0);
  Value* vanishes = e.both(no_angle, e.eq(x, constant_like(e, x, -infinity)));
  Value* grows = e.both(no_angle, e.eq(x, constant_like(e, x, infinity)));
  re = e.select(vanishes, zero, e.select(grows, x, re));
  im = e.select(vanishes, zero, im);
  return {re, im};
}

Parts logarithm(Emit& e, Value* x, Value* y) {
  const bool wide = x->type.dtype == DType::f64_;
  const auto number_of = [&](double v) { return constant_like(e, x, v); };
  Value *abs_x = absolute(e, x), *abs_y = absolute(e, y);
  Value *large = e.op(Opcode::maximum_, {abs_x, abs_y}), *small = e.op(Opcode::minimum_, {abs_x, abs_y});
  // The length of what is huge may overflow, that of what is tiny has few bits.
  Value *huge = e.gt(large, number_of(wide ? 1e307 : 1e37)), *tiny = e.lt(large, number_of(wide ? 1e-290 : 1e-30));
  Value* scale = e.select(huge, number_of(0.25), e.select(tiny, number_of(0x1p54), number_of(1)));
  const double ln2 = std::numbers::ln2;
  Value* shift = e.select(huge, number_of(2 * ln2), e.select(tiny, number_of(-54 * ln2), number_of(0)));
  Value* size = length(e, mul(e, x, scale), mul(e, y, scale));
  // Near the unit circle the logarithm is that of 1 + (what the square of the length exceeds 1 by).
  Value* one = number_of(1);
  Value* excess = add(e, mul(e, sub(e, large, one), add(e, large, one)), mul(e, small, small));
  Value* near = e.both(e.gt(size, number_of(0.5)), e.lt(size, number_of(2)));
  Value* at_circle = mul(e, number_of(0.5), e.op(Opcode::log1p_, {e.select(near, excess, one)}));
  Value* plain = add(e, e.op(Opcode::log_, {size}), shift);
  return {e.select(near, at_circle, plain), e.op(Opcode::atan2_, {y, x})};
}

Parts root(Emit& e, Value* given_x, Value* given_y) {
  const bool wide = given_x->type.dtype == DType::f64_;
  Value *abs_x = absolute(e, given_x), *abs_y = absolute(e, given_y);
  Value* large = e.op(Opcode::maximum_, {abs_x, abs_y});
  Value* huge = e.gt(large, constant_like(e, large, wide ? 1e307 : 1e37));
  Value* tiny = e.lt(large, constant_like(e, large, wide ? 1e-290 : 1e-30));
  const auto number_of = [&](double v) { return constant_like(e, large, v); };
  Value* scale = e.select(huge, number_of(0.25), e.select(tiny, number_of(0x1p54), number_of(1)));
  Value* unscale = e.select(huge, number_of(2), e.select(tiny, number_of(0x1p-27), number_of(1)));
  Value *x = mul(e, given_x, scale), *y = mul(e, given_y, scale), *a = mul(e, abs_x, scale);
  Value* t = e.op(Opcode::sqrt_, {mul(e, add(e, a, length(e, x, y)), number_of(0.5))});
  Value* other = div(e, absolute(e, y), mul(e, number_of(2), t));
  Value* right = e.ge(x, number_of(0));
  Value* re = mul(e, e.select(right, t, other), unscale);
  Value* im = mul(e, e.select(right, other, t), unscale);
  im = e.op(Opcode::copysign_, {im, given_y});
  // sqrt(0 + yj), an infinite imaginary part, an infinite real part.
  Value* zero = e.both(e.is_zero(given_x), e.is_zero(given_y));
  Value* infinite_y = e.op(Opcode::isinf_, {given_y});
  Value* infinite_x = e.op(Opcode::isinf_, {given_x});
  Value* not_a_number = sub(e, given_y, given_y);
  Value* positive = e.gt(given_x, number_of(0));
  Value* re_at_infinity = e.select(positive, abs_x, absolute(e, not_a_number));
  Value* im_at_infinity = e.op(Opcode::copysign_, {e.select(positive, not_a_number, abs_x), given_y});
  re = e.select(infinite_x, re_at_infinity, re);
  im = e.select(infinite_x, im_at_infinity, im);
  re = e.select(infinite_y, abs_y, e.select(zero, number_of(0), re));
  im = e.select(e.either(infinite_y, zero), given_y, im);
  return {re, im};
}

}  // namespace

bool any_complex(std::span<const Traced> all) { return std::any_of(all.begin(), all.end(), is_complex); }

Traced complex_of(Traced re, Traced im) {
  Traced t;
  t.kind = Kind::complex;
  t.items = {std::move(re), std::move(im)};
  return t;
}

std::pair<Traced, Traced> parts_of(Context& c, const Traced& t) {
  Emit e(c);
  if (!is_complex(t)) {
    if (is_tensor(t)) {
      return {t, map(c, std::span(&t, 1), [](Context& g, Scalars) { return np_scalar(Emit(g).f64(0)); })};
    }
    const Traced x = number(c, t, nullptr);
    return {x, py_float(e.f64(0))};
  }
  if (t.items.size() == 2) return {t.items[0], t.items[1]};
  Traced base;
  base.kind = Kind::array;
  base.value = t.value;
  base.input = t.input;
  base.writeable = t.writeable;
  const int rank = t.value->type.rank - 1;
  const auto half = [&](int64_t k) {
    if (rank == 0) {
      Value* const index[] = {e.i64(k)};
      return np_scalar(c.builder().load(base.value, index));
    }
    Tensor view;
    view.base = base;
    for (int d = 0; d < rank; d++) {
      view.shape.push_back(c.extent(base, d));
      view.axes.push_back({d, e.i64(0), 1});
    }
    view.axes.push_back({-1, e.i64(k), 1});
    return tensor(make_view(std::move(view)));
  };
  Traced re = half(0);
  return {std::move(re), half(1)};
}

Traced complex_cast(Context& c, const Traced& t, DType part) {
  if (is_tagged(t)) return per_type(c, t, [&](Context& g, const Traced& x) { return complex_cast(g, x, part); });
  const Pair p = pair_in(c, t, {false, part});
  return complex_of(p.re, p.im);
}

Traced complex_binary(Context& c, BinaryOp op, const Traced& a, const Traced& b) {
  if (is_tagged(a)) return per_type(c, a, [&](Context& g, const Traced& x) { return binary(g, op, x, b); });
  if (is_tagged(b)) return per_type(c, b, [&](Context& g, const Traced& y) { return binary(g, op, a, y); });
  if (op == BinaryOp::matrix_multiply) return complex_matmul(c, a, b);
  if (op == BinaryOp::power) {
    // A Python exponent is weak, and an integer one does not widen the base.
    const Traced operands[] = {a};
    return powered(c, a, b, common_part(c, operands));
  }
  const Traced operands[] = {a, b};
  const Type type = common_part(c, operands);
  const Pair x = pair_in(c, a, type), y = pair_in(c, b, type);
  switch (op) {
    case BinaryOp::add:
      return pairwise(c, x, y, Opcode::add_);
    case BinaryOp::subtract:
      return pairwise(c, x, y, Opcode::sub_);
    case BinaryOp::multiply:
      return product(c, x, y);
    case BinaryOp::true_divide:
      return divided(c, x, y, type.python);
    default:
      refuse_operands(c, "this operator on");
  }
}

namespace {

/// NumPy's order: by the real parts, then by the imaginary ones; unordered as soon as one of those that decide, or the
/// other imaginary part, is a NaN.
Value* in_order(Emit& e, bool less, bool equal, std::span<Value* const> v) {
  const auto before = [&](Value* p, Value* q) { return less ? e.lt(p, q) : e.gt(p, q); };
  const auto not_after = [&](Value* p, Value* q) { return less ? e.le(p, q) : e.ge(p, q); };
  Value* numbers = e.both(e.eq(v[1], v[1]), e.eq(v[3], v[3]));
  Value* tie = equal ? not_after(v[1], v[3]) : before(v[1], v[3]);
  return e.either(e.both(before(v[0], v[2]), numbers), e.both(e.eq(v[0], v[2]), tie));
}

/// np.maximum and np.minimum: the first operand where it is a NaN or wins a tie.
Traced extremum(Context& c, bool max, const Traced& a, const Traced& b) {
  const Traced operands[] = {a, b};
  Type type = common_part(c, operands);
  type.python = false;
  const Pair x = pair_in(c, a, type), y = pair_in(c, b, type);
  const Traced all[] = {x.re, x.im, y.re, y.im};
  const auto part = [&](size_t k) {
    return apply(c, all, [max, k](Emit& e, std::span<Value* const> v) {
      Value* nan = e.either(e.op(Opcode::isnan_, {v[0]}), e.op(Opcode::isnan_, {v[1]}));
      return e.select(e.either(nan, in_order(e, !max, true, v)), v[k], v[2 + k]);
    });
  };
  return complex_of(part(0), part(1));
}

}  // namespace

Traced complex_compare(Context& c, CompareOp op, const Traced& a, const Traced& b) {
  if (is_tagged(a)) return per_type(c, a, [&](Context& g, const Traced& x) { return compare(g, op, x, b); });
  if (is_tagged(b)) return per_type(c, b, [&](Context& g, const Traced& y) { return compare(g, op, a, y); });
  for (const Traced* t : {&a, &b}) {
    if (t->kind == Kind::object) refuse_operands(c, "a comparison of an object with");
  }
  const Traced operands[] = {a, b};
  const Type type = common_part(c, operands);
  const Pair x = pair_in(c, a, type), y = pair_in(c, b, type);
  const Traced all[] = {x.re, x.im, y.re, y.im};
  if (op == CompareOp::eq || op == CompareOp::ne) {
    return apply(c, all, [op](Emit& e, std::span<Value* const> v) {
      return op == CompareOp::eq ? e.both(e.eq(v[0], v[2]), e.eq(v[1], v[3]))
                                 : e.either(e.ne(v[0], v[2]), e.ne(v[1], v[3]));
    });
  }
  // A TypeError, or torch's RuntimeError.
  if (type.python || c.library() == runtime::Library::torch) refuse_operands(c, "an order of");
  const bool less = op == CompareOp::lt || op == CompareOp::le;
  const bool equal = op == CompareOp::le || op == CompareOp::ge;
  return apply(c, all, [less, equal](Emit& e, std::span<Value* const> v) { return in_order(e, less, equal, v); });
}

Traced complex_unary(Context& c, UnaryOp op, const Traced& t) {
  if (op == UnaryOp::not_) return py_bool(Emit(c).negate(complex_truth(c, t)));
  const auto [re, im] = parts_of(c, t);
  if (op == UnaryOp::positive && !is_complex_tensor(t)) return complex_of(re, im);
  if (op != UnaryOp::negative) refuse_operands(c, "this operator on");
  return complex_of(unary(c, op, re), unary(c, op, im));
}

Value* complex_truth(Context& c, const Traced& t) {
  if (is_complex_tensor(t)) refuse(c, AbortId::operands_, "the truth value of an array");
  const auto [re, im] = parts_of(c, t);
  return Emit(c).either(truth(c, re), truth(c, im));
}

std::optional<Traced> complex_function(Context& c, std::string_view name, bool ufunc, std::span<const Traced> args) {
  for (size_t i = 0; i < args.size(); i++) {
    if (!is_tagged(args[i])) continue;
    return per_type(c, args[i], [&](Context& g, const Traced& t) {
      std::vector<Traced> untagged(args.begin(), args.end());
      untagged[i] = t;
      return *complex_function(g, name, ufunc, untagged);
    });
  }
  struct Operator {
    std::string_view name;
    BinaryOp op;
  };
  constexpr Operator operators[] = {{"add", BinaryOp::add},           {"subtract", BinaryOp::subtract},
                                    {"multiply", BinaryOp::multiply}, {"divide", BinaryOp::true_divide},
                                    {"power", BinaryOp::power},       {"pow", BinaryOp::power}};
  for (const Operator& row : operators) {
    if (row.name == name && args.size() == 2) return complex_binary(c, row.op, args[0], args[1]);
  }
  struct Comparison {
    std::string_view name;
    CompareOp op;
  };
  constexpr Comparison comparisons[] = {{"equal", CompareOp::eq},   {"not_equal", CompareOp::ne},
                                        {"less", CompareOp::lt},    {"less_equal", CompareOp::le},
                                        {"greater", CompareOp::gt}, {"greater_equal", CompareOp::ge}};
  for (const Comparison& row : comparisons) {
    if (row.name == name && args.size() == 2) return complex_compare(c, row.op, args[0], args[1]);
  }
  if (ufunc && args.size() == 2 && (name == "maximum" || name == "minimum")) {
    return extremum(c, name == "maximum", args[0], args[1]);
  }
  if (args.size() != 1 || !is_complex(args[0])) return {};
  Emit e(c);
  const Traced& z = args[0];
  Type type = common_part(c, args);
  Pair p = pair_in(c, z, type);
  if (ufunc && type.python) p = {np_scalar(p.re.value), np_scalar(p.im.value)}, type.python = false;
  const auto real_formula = [&](const Formula& f) { return apply(c, {p.re, p.im}, f); };
  const auto formula = [&](Parts (*f)(Emit&, Value*, Value*)) {
    const auto re = [f](Emit& g, std::span<Value* const> v) { return f(g, v[0], v[1]).re; };
    const auto im = [f](Emit& g, std::span<Value* const> v) { return f(g, v[0], v[1]).im; };
    return complex_of(apply(c, {p.re, p.im}, re), apply(c, {p.re, p.im}, im));
  };
  const bool elementary =
      name == "exp" || name == "log" || name == "sqrt" || name == "abs" || name == "absolute" || name == "angle";
  if (elementary && c.exact()) refuse(c, AbortId::exact_function_, std::string(name) + " of complex numbers");
  if (name == "exp") return formula(exponential);
  if (name == "log") return formula(logarithm);
  if (name == "sqrt") return formula(root);
  if (name == "abs" || name == "absolute") {
    const Traced size = real_formula([](Emit& g, std::span<Value* const> v) { return length(g, v[0], v[1]); });
    if (type.python) {
      Value* finite = e.both(e.op(Opcode::isfinite_, {p.re.value}), e.op(Opcode::isfinite_, {p.im.value}));
      Value* overflow = e.both(e.op(Opcode::isinf_, {size.value}), finite);
      e.check(CheckKind::range_error_, e.negate(overflow), "absolute value too large");
    }
    return size;
  }
  if (name == "angle") {
    return real_formula([](Emit& g, std::span<Value* const> v) { return g.op(Opcode::atan2_, {v[1], v[0]}); });
  }
  if (name == "conjugate") return complex_of(p.re, unary(c, UnaryOp::negative, p.im));
  if (name == "real") return p.re;
  if (name == "imag") return p.im;
  if (name == "negative") return complex_unary(c, UnaryOp::negative, complex_of(p.re, p.im));
  if (name == "positive") return complex_of(p.re, p.im);
  if (name == "square") return product(c, p, p);
  const auto test = [&](Opcode code, bool all) {
    return real_formula([code, all](Emit& g, std::span<Value* const> v) {
      Value *a = g.op(code, {v[0]}), *b = g.op(code, {v[1]});
      return all ? g.both(a, b) : g.either(a, b);
    });
  };
  if (name == "isnan") return test(Opcode::isnan_, false);
  if (name == "isinf") return test(Opcode::isinf_, false);
  if (name == "isfinite") return test(Opcode::isfinite_, true);
  return {};
}

}  // namespace appy::trace
