#include "trace/conversion.h"

#include "runtime/numpy.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

constexpr const char* too_large = "Python int too large to convert to C long";

void check_finite(Emit& e, Value* x) {
  e.check(CheckKind::to_int_, e.negate(e.op(Opcode::isnan_, {x})), "cannot convert float NaN to integer");
  e.check(CheckKind::range_error_, e.negate(e.op(Opcode::isinf_, {x})), "cannot convert float infinity to integer");
}

Value* inside(Emit& e, Value* x, double low, double high) {
  const DType t = x->type.dtype;
  return e.both(e.ge(x, e.number(t, low)), e.lt(x, e.number(t, high)));
}

/// x cast to `via`, and from there to `to`; `other` where it does not fit `via`, whose bounds are low <= x < high.
Value* cast_inside(Emit& e, Value* x, DType via, double low, double high, DType to, int64_t other) {
  return e.select(inside(e, x, low, high), e.cast(e.cast(x, via), to), e.integer(to, other));
}

/// An int in 64 bits that must fit the element type.
Value* fit(Emit& e, Value* v, DType to) {
  const ir::Range range = bounds_of(to);
  Value* ok = e.boolean(true);
  if (range.lo > INT64_MIN) ok = e.ge(v, e.i64(range.lo));
  if (range.hi < INT64_MAX) ok = e.both(ok, e.le(v, e.i64(range.hi)));
  e.check(CheckKind::fits_, ok, runtime::numpy_name(to), {v});
  return e.cast(v, to);
}

/// What int() takes, and then what fits.
Value* checked_int(Context& c, Value* v, DType to) {
  Emit e(c);
  if (ir::is_half(v->type.dtype)) v = e.cast(v, DType::f32_);
  const DType from = v->type.dtype;
  if (ir::is_real(from)) {
    check_finite(e, v);
    if (ir::is_signed(to)) {
      e.check(CheckKind::range_error_, inside(e, v, -0x1p63, 0x1p63), too_large);
    } else {
      // NumPy names values up to 2^64 in its message; that is left to NumPy.
      e.check(CheckKind::decline_, inside(e, v, -0x1p63, to == DType::u64_ ? 0x1p64 : 0x1p63));
      if (to == DType::u64_) {
        Value* negative = e.le(v, e.number(from, -1));
        Value* low = e.cast(e.select(e.lt(v, e.number(from, 0x1p63)), v, e.number(from, 0)), DType::i64_);
        e.check(CheckKind::fits_, e.negate(negative), runtime::numpy_name(to), {low});
        return unsafe_cast(c, v, to);
      }
    }
    return fit(e, e.cast(v, DType::i64_), to);
  }
  if (from == DType::u64_) e.check(CheckKind::range_error_, e.le(v, e.constant(from, INT64_MAX)), too_large);
  const ir::Range has = bounds_of(from), wants = bounds_of(to);
  if (from != DType::u64_ && has.lo >= wants.lo && has.hi <= wants.hi) return e.cast(v, to);
  return fit(e, e.cast(v, DType::i64_), to);
}

Value* converted(Context& c, const Traced& t, DType to, bool cast_numpy) {
  Emit e(c);
  if (to == DType::bool_) return truth(c, t);
  if (ir::is_real(to)) return to_dtype(c, t, to);
  if (t.value->type.dtype == to) return t.value;
  if (t.is_np() && cast_numpy) return unsafe_cast(c, t.value, to);
  if (t.is_py_int()) return to_dtype(c, t, to);
  return checked_int(c, t.value, to);
}

Value* untagged(Context& c, const Traced& t, DType to, bool constructor) {
  if (t.kind == Kind::zero_d) return to == DType::bool_ ? truth(c, t) : unsafe_cast(c, t.value, to);
  const Traced like = np_scalar(Emit(c).integer(to, 0));
  const Traced x = number(c, t, &like);
  if (!x.tag) return converted(c, x, to, constructor || !(ir::is_int(to) && ir::is_signed(to)));
  const Traced result = per_alternative(c, x, [&](Context& g, const Traced& a) {
    return np_scalar(converted(g, a, to, constructor || !(ir::is_int(to) && ir::is_signed(to))));
  });
  return result.value;
}

}  // namespace

Value* truncate_to_int(Context& c, Value* x) {
  Emit e(c);
  if (ir::is_half(x->type.dtype)) x = e.cast(x, DType::f32_);
  check_finite(e, x);
  e.check(CheckKind::overflow_, inside(e, x, -0x1p63, 0x1p63));
  return e.cast(x, DType::i64_);
}

Value* unsafe_cast(Context& c, Value* x, DType to) {
  Emit e(c);
  if (!ir::is_real(x->type.dtype) || !ir::is_int(to)) return e.cast(x, to);
  if (ir::is_half(x->type.dtype)) x = e.cast(x, DType::f32_);
  if (to == DType::u64_) {
    // The compilers' sequence: the upper half is converted less 2^63.
    Value* upper = e.op(Opcode::sub_, {x, e.number(x->type.dtype, 0x1p63)});
    Value* high = cast_inside(e, upper, DType::i64_, -0x1p63, 0x1p63, DType::i64_, INT64_MIN);
    high = e.op(Opcode::xor_, {high, e.i64(INT64_MIN)});
    Value* low = cast_inside(e, x, DType::i64_, -0x1p63, 0x1p63, DType::i64_, INT64_MIN);
    return e.cast(e.select(e.ge(x, e.number(x->type.dtype, 0x1p63)), high, low), to);
  }
  if (to == DType::i64_) return cast_inside(e, x, to, -0x1p63, 0x1p63, to, INT64_MIN);
  if (to == DType::u32_) return cast_inside(e, x, DType::i64_, -0x1p63, 0x1p63, to, 0);
  // The instruction truncates before it looks at the range; float32 has nothing between -2^31 - 1 and -2^31.
  Value* low = e.number(x->type.dtype, -0x1p31 - 1);
  Value* ok =
      e.both(x->type.dtype == DType::f64_ ? e.gt(x, low) : e.ge(x, low), e.lt(x, e.number(x->type.dtype, 0x1p31)));
  const int64_t other = to == DType::i32_ ? INT32_MIN : 0;
  return e.select(ok, e.cast(e.cast(x, DType::i32_), to), e.integer(to, other));
}

Value* stored(Context& c, const Traced& t, DType element) { return untagged(c, t, element, false); }
Value* constructed(Context& c, const Traced& t, DType to) { return untagged(c, t, to, true); }

}  // namespace appy::trace
