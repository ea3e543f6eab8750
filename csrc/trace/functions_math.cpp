// The functions of `math`: doubles in, Python's own numbers out, ValueError and OverflowError as CPython has them.
#include <numbers>

#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/handlers.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

/// Where the argument lies outside the domain, and an argument that does.
struct Outside {
  Value* bad = nullptr;
  double example = 0;
};

Outside outside(Emit& e, Value* x, Domain domain) {
  switch (domain) {
    case Domain::none:
      return {e.boolean(false), 0};
    case Domain::infinite:
      return {e.op(Opcode::isinf_, {x}), std::numeric_limits<double>::infinity()};
    case Domain::negative:
      return {e.lt(x, e.f64(0)), -1};
    case Domain::not_positive:
      return {e.le(x, e.f64(0)), -1};
    case Domain::beyond_one:
      return {e.gt(e.op(Opcode::abs_, {x}), e.f64(1)), 2};
    case Domain::at_one:
      return {e.ge(e.op(Opcode::abs_, {x}), e.f64(1)), 1};
    case Domain::below_one:
      return {e.lt(x, e.f64(1)), 0};
    case Domain::minus_one:
      break;
  }
  return {e.le(x, e.f64(-1)), -1};
}

void check_domain(Emit& e, const Function& f, Value* x, Domain domain) {
  const Outside o = outside(e, x, domain);
  if (!known_false(o.bad)) e.check(CheckKind::domain_, e.negate(o.bad), error_text_of(f, o.example));
}

/// The result became infinite although no argument was.
void check_overflow(Emit& e, Value* result, std::initializer_list<Value*> arguments, const std::string& text) {
  Value* overflow = e.op(Opcode::isinf_, {result});
  for (Value* x : arguments) overflow = e.both(overflow, e.op(Opcode::isfinite_, {x}));
  if (!known_false(overflow)) e.check(CheckKind::range_error_, e.negate(overflow), text);
}

Value* either_nan(Emit& e, Value* x, Value* y) {
  return e.either(e.op(Opcode::isnan_, {x}), e.op(Opcode::isnan_, {y}));
}

Value* natural_log(Context& c, const Function& f, const Traced& t) {
  Emit e(c);
  Value* x = as_double(c, t);
  check_domain(e, f, x, Domain::not_positive);
  return e.op(Opcode::log_, {x});
}

}  // namespace

Traced math_function(Context& c, const Function& f, Args args, Domain domain) {
  Emit e(c);
  Value* x = as_double(c, args[0]);
  check_domain(e, f, x, domain);
  return py_float(e.op(f.code, {x}));
}

Traced math_binary(Context& c, const Function& f, Args args) {
  return py_float(Emit(c).op(f.code, {as_double(c, args[0]), as_double(c, args[1])}));
}

Traced math_overflow(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* x = as_double(c, args[0]);
  Value* result = e.op(f.code, {x});
  check_overflow(e, result, {x}, error_text_of(f, 2000));
  return py_float(result);
}

Traced math_to_int(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced x = number(c, args[0]);
  if (x.is_py_int() || x.is_py_bool()) return py_int(e.cast(x.value, DType::i64_));
  // NumPy's scalars have no __trunc__, but np.float64 inherits float's.
  if (f.code == Opcode::trunc_ && x.is_np() && x.type.dtype != DType::f64_) {
    refuse(c, AbortId::call_, "math.trunc(" + describe(x) + ")");
  }
  return py_int(truncate_to_int(c, e.op(f.code, {as_double(c, x)})));
}

Traced math_degrees(Context& c, const Function&, Args args) {
  Emit e(c);
  return py_float(e.op(Opcode::mul_, {as_double(c, args[0]), e.f64(180.0 / std::numbers::pi)}));
}

Traced math_radians(Context& c, const Function&, Args args) {
  Emit e(c);
  return py_float(e.op(Opcode::mul_, {as_double(c, args[0]), e.f64(std::numbers::pi / 180.0)}));
}

Traced math_fma(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value *x = as_double(c, args[0]), *y = as_double(c, args[1]), *z = as_double(c, args[2]);
  Value* result = e.op(f.code, {x, y, z});
  auto call = [&](double a, double b) {
    return error_text([&] { return PyObject_CallFunction(callable_of(f), "ddd", a, b, 0.0); });
  };
  const double infinity = std::numeric_limits<double>::infinity();
  Value* invalid =
      e.both(e.op(Opcode::isnan_, {result}), e.negate(e.either(either_nan(e, x, y), e.op(Opcode::isnan_, {z}))));
  if (!known_false(invalid)) e.check(CheckKind::domain_, e.negate(invalid), call(infinity, 0));
  check_overflow(e, result, {x, y, z}, call(1e300, 1e300));
  return py_float(result);
}

Traced math_fmod(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value *x = as_double(c, args[0]), *y = as_double(c, args[1]);
  Value* bad = e.both(e.either(e.op(Opcode::isinf_, {x}), e.is_zero(y)), e.negate(either_nan(e, x, y)));
  if (!known_false(bad)) e.check(CheckKind::domain_, e.negate(bad), error_text_of(f, 1, 0));
  return py_float(e.op(f.code, {x, y}));
}

/// CPython has its own, which libm's equals to a few ulp only. (Its lgamma is further off near 1 and 2.)
Traced math_gamma(Context& c, const Function& f, Args args) {
  require_inexact(c, f);
  Emit e(c);
  Value* x = as_double(c, args[0]);
  Value* pole = e.both(e.le(x, e.f64(0)), e.eq(x, e.op(Opcode::floor_, {x})));
  if (!known_false(pole)) e.check(CheckKind::domain_, e.negate(pole), error_text_of(f, 0));
  Value* result = e.op(f.code, {x});
  check_overflow(e, result, {x}, error_text_of(f, 2000));
  return py_float(result);
}

Traced math_gcd(Context& c, const Function&, Args args) {
  Emit e(c);
  ir::Builder& b = c.builder();
  std::vector<Value*> inits;
  for (const Traced& t : args) {
    inits.push_back(e.cast(e.op(Opcode::abs_, {as_index(c, t)}), DType::u64_));
  }
  ir::Op* loop = b.while_loop(inits);
  ir::Block* outside = b.block();
  ir::Block* body = loop->blocks[0];
  Value *x = body->args[0], *y = body->args[1];
  b.set_block(body);
  ir::Op* arms = b.if_op(e.is_zero(y), {});
  b.set_block(arms->blocks[0]);
  b.terminator(Opcode::break_, body->args);
  b.set_block(arms->blocks[1]);
  b.yield({});
  b.set_block(body);
  Value* next[] = {y, e.op(Opcode::rem_, {x, y})};
  b.yield(next);
  b.set_block(outside);
  Value* divisor = loop->results[0];
  e.check(CheckKind::overflow_, e.le(divisor, e.constant(DType::u64_, INT64_MAX)));
  return py_int(e.cast(divisor, DType::i64_));
}

Traced math_hypot(Context& c, const Function& f, Args args) {
  Emit e(c);
  if (args.size() > 1) require_inexact(c, f);  // CPython has its own, nearer to the true value than libm's
  Value* result = e.op(Opcode::abs_, {as_double(c, args[0])});
  for (const Traced& t : args.subspan(1)) result = e.op(f.code, {result, as_double(c, t)});
  return py_float(result);
}

Traced math_isclose(Context& c, const Function&, Args args) {
  Emit e(c);
  Value *x = as_double(c, args[0]), *y = as_double(c, args[1]);
  Value* distance = e.op(Opcode::abs_, {e.op(Opcode::sub_, {y, x})});
  auto near = [&](Value* v) { return e.le(distance, e.op(Opcode::abs_, {e.op(Opcode::mul_, {e.f64(1e-9), v})})); };
  Value* infinite = e.either(e.op(Opcode::isinf_, {x}), e.op(Opcode::isinf_, {y}));
  Value* close = e.either(e.either(near(y), near(x)), e.le(distance, e.f64(0)));
  return py_bool(e.either(e.eq(x, y), e.both(e.negate(infinite), close)));
}

Traced math_test(Context& c, const Function& f, Args args) {
  return py_bool(Emit(c).op(f.code, {as_double(c, args[0])}));
}

/// The floor of the square root: the rounded one is off by one at most.
Traced math_isqrt(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* n = as_index(c, args[0]);
  Value* ok = e.ge(n, e.i64(0));
  if (!known_true(ok))
    e.check(CheckKind::value_, ok, error_text([&] { return PyObject_CallFunction(callable_of(f), "i", -1); }));
  constexpr int64_t largest = 3037000499;  // floor(sqrt(2^63 - 1))
  Value* root = e.cast(e.op(f.code, {e.cast(n, DType::f64_)}), DType::i64_);
  root = e.select(e.gt(root, e.i64(largest)), e.i64(largest), root);
  Value* high = e.gt(e.op(Opcode::mul_, {root, root}), n);
  root = e.select(high, e.op(Opcode::sub_, {root, e.i64(1)}), root);
  Value* up = e.op(Opcode::add_, {root, e.i64(1)});
  Value* low = e.both(e.lt(root, e.i64(largest)), e.le(e.op(Opcode::mul_, {up, up}), n));
  return py_int(e.select(low, up, root));
}

Traced math_log(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* numerator = natural_log(c, f, args[0]);
  if (args.size() == 1) return py_float(numerator);
  return binary(c, BinaryOp::true_divide, py_float(numerator), py_float(natural_log(c, f, args[1])));
}

Traced math_modf(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value* x = as_double(c, args[0]);
  Value* whole = e.op(f.code, {x});
  Value* fraction = e.select(e.op(Opcode::isinf_, {x}), e.f64(0), e.op(Opcode::sub_, {x, whole}));
  return tuple_of({py_float(e.op(Opcode::copysign_, {fraction, x})), py_float(whole)});
}

Traced math_pow(Context& c, const Function& f, Args args) {
  Emit e(c);
  Value *x = as_double(c, args[0]), *y = as_double(c, args[1]);
  Value* result = float_power(c, x, y);
  Value* finite = e.both(e.op(Opcode::isfinite_, {x}), e.op(Opcode::isfinite_, {y}));
  Value* pole = e.both(e.is_zero(x), e.lt(y, e.f64(0)));
  Value* bad = e.both(finite, e.either(e.op(Opcode::isnan_, {result}), pole));
  if (!known_false(bad)) e.check(CheckKind::domain_, e.negate(bad), error_text_of(f, 0, -1));
  check_overflow(e, result, {x, y}, error_text_of(f, 10, 400));
  return py_float(result);
}

}  // namespace appy::trace
