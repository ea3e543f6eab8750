#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/handlers.h"
#include "trace/tagged.h"
#include "trace/tensor.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

[[noreturn]] void refuse_call(const Context& c, const Function& f, Args args) {
  std::string text = std::string(f.name) + "(";
  for (const Traced& t : args) text += (&t == args.data() ? "" : ", ") + describe(t);
  refuse(c, AbortId::call_, text + ")");
}

/// sum(), min() and max() of the elements of a vector; an empty one gives another type, or raises.
TensorRef elements(Context& c, const Function& f, const Traced& x) {
  Emit e(c);
  TensorRef t = as_tensor(c, x);
  if (t->rank() != 1) refuse_call(c, f, {&x, 1});
  e.check(CheckKind::decline_, e.gt(t->shape[0], e.i64(0)));
  return t->heavy ? materialised(c, t) : t;
}

Traced sum_of_elements(Context& c, const Function& f, const Traced& x) {
  const TensorRef t = elements(c, f, x);
  Axes all;
  all.reduced = {true};
  return reduce(c, Reduction::sum, t, all, t->dtype == DType::bool_ ? DType::i64_ : t->dtype, {});
}

Traced extremum_of_elements(Context& c, const Function& f, const Traced& x) {
  const TensorRef t = elements(c, f, x);
  Value* const first[] = {c.builder().i64(0)};
  Value* const init[] = {t->at(c, first).value};
  const char* op = f.code == Opcode::pymax_ ? "max" : "min";
  const std::vector<InnerRef> dims = all_dimensions(*t, op);
  return np_scalar(accumulate(c, dims, init, Order::any, [&](Index index, std::span<Value* const> carried) {
    return std::vector<Value*>{Emit(c).op(f.code, {carried[0], t->at(c, index).value})};
  })[0]);
}

/// min and max keep the argument itself: `take` decides whether the later one replaces the earlier.
Traced extremum(Context& c, const Function& f, Args args, CompareOp take) {
  Emit e(c);
  if (args.size() == 1 && is_tensor(args[0])) return extremum_of_elements(c, f, args[0]);
  if (args.size() == 1) {
    if (args[0].kind != Kind::tuple || args[0].items.empty()) refuse_call(c, f, args);
    args = args[0].items;
  }
  Traced best = number(c, args[0]);
  for (const Traced& next : args.subspan(1)) {
    const Traced candidate = number(c, next);
    if (!best.tag && !candidate.tag && best.type == candidate.type) {
      best = make(best.type, e.op(f.code, {best.value, candidate.value}));
      continue;
    }
    Value* better = truth(c, compare(c, take, candidate, best));
    Value* when[] = {better, e.negate(better)};
    const Traced results[] = {candidate, best};
    best = merge(c, when, results);
  }
  return best;
}

}  // namespace

Traced builtin_abs(Context& c, const Function&, Args args) {
  Emit e(c);
  Traced x = number(c, args[0]);
  if (x.is_py_bool()) return py_int(e.cast(x.value, DType::i64_));
  const DType t = x.value->type.dtype;
  if (t == DType::bool_ || (ir::is_int(t) && !ir::is_signed(t))) return make(x.type, x.value);
  if (x.is_py_int()) e.check(CheckKind::overflow_, e.ne(x.value, e.i64(INT64_MIN)));
  return make(x.type, e.op(Opcode::abs_, {x.value}));
}

Traced builtin_bool(Context& c, const Function&, Args args) {
  return py_bool(args.empty() ? c.builder().boolean(false) : truth(c, args[0]));
}

Traced builtin_divmod(Context& c, const Function& f, Args args) {
  if (is_torch(c, args[0]) || is_torch(c, args[1])) refuse_call(c, f, args);
  return divide(c, number(c, args[0], &args[1]), number(c, args[1], &args[0]));
}

Traced builtin_float(Context& c, const Function&, Args args) {
  return py_float(args.empty() ? c.builder().f64(0) : as_double(c, args[0]));
}

Traced builtin_int(Context& c, const Function&, Args args) {
  Emit e(c);
  if (args.empty()) return py_int(e.i64(0));
  const Traced x = number(c, args[0]);
  if (ir::is_real(x.value->type.dtype)) return py_int(truncate_to_int(c, x.value));
  if (x.value->type.dtype == DType::u64_) {
    e.check(CheckKind::overflow_, e.le(x.value, e.constant(DType::u64_, INT64_MAX)));
  }
  return py_int(e.cast(x.value, DType::i64_));
}

Traced builtin_isinstance(Context& c, const Function& f, Args args) {
  const bool classes = args[1].object && (PyType_Check(args[1].object.get()) || args[1].kind == Kind::tuple);
  if (!classes) refuse_call(c, f, args);
  Ref sample = args[0].kind == Kind::object ? args[0].object : Ref();
  // What is read from arrays of other libraries is theirs, and so are the arrays.
  const bool foreign = c.library() != runtime::Library::numpy;
  if (foreign && args[0].kind != Kind::object && !args[0].is_py_int() && !args[0].is_py_float()) {
    refuse_call(c, f, args);
  }
  if (args[0].kind == Kind::scalar) sample = Ref::steal(runtime::make_scalar(args[0].type, 0));
  if (args[0].kind == Kind::array) sample = Ref::steal(PyArray_SimpleNew(0, nullptr, NPY_DOUBLE));
  const int result = sample ? PyObject_IsInstance(sample.get(), args[1].object.get()) : -1;
  PyErr_Clear();
  if (result < 0) refuse_call(c, f, args);
  return constant(c, result ? Py_True : Py_False);
}

Traced builtin_len(Context& c, const Function& f, Args args) {
  Emit e(c);
  const Traced& x = args[0];
  switch (x.kind) {
    case Kind::array:
      if (x.value->type.rank == 0) refuse_call(c, f, args);
      return py_int(c.builder().dim(x.value, 0));
    case Kind::tensor:
      if (x.tensor->rank() == 0) refuse_call(c, f, args);
      return py_int(x.tensor->shape[0]);
    case Kind::tuple:
      return py_int(e.i64(static_cast<int64_t>(x.items.size())));
    case Kind::range: {
      Value *start = x.items[0].value, *stop = x.items[1].value, *step = x.items[2].value;
      const std::optional<int64_t> by = known_integer(step);
      if (!by || *by == INT64_MIN) refuse_call(c, f, args);
      Value* distance = *by > 0 ? checked(c, Opcode::ovf_sub_, Opcode::sub_, stop, start)
                                : checked(c, Opcode::ovf_sub_, Opcode::sub_, start, stop);
      Value* size = e.i64(*by > 0 ? *by : -*by);
      // ceil(distance / size) without a sum that could overflow.
      Value* count =
          e.op(Opcode::add_, {e.op(Opcode::floordiv_, {e.op(Opcode::sub_, {distance, e.i64(1)}), size}), e.i64(1)});
      return py_int(e.select(e.gt(distance, e.i64(0)), count, e.i64(0)));
    }
    default:
      refuse_call(c, f, args);
  }
}

Traced builtin_max(Context& c, const Function& f, Args args) { return extremum(c, f, args, CompareOp::gt); }
Traced builtin_min(Context& c, const Function& f, Args args) { return extremum(c, f, args, CompareOp::lt); }

Traced builtin_pow(Context& c, const Function&, Args args) { return binary(c, BinaryOp::power, args[0], args[1]); }

Traced builtin_range(Context& c, const Function&, Args args) {
  Emit e(c);
  std::vector<Value*> values;
  for (const Traced& t : args) values.push_back(as_index(c, t));
  Value* start = args.size() > 1 ? values[0] : e.i64(0);
  Value* stop = args.size() > 1 ? values[1] : values[0];
  Value* step = args.size() > 2 ? values[2] : e.i64(1);
  Value* ok = e.non_zero(step);
  if (!known_true(ok)) e.check(CheckKind::value_, ok, "range() arg 3 must not be zero");
  Traced range;
  range.kind = Kind::range;
  range.items = {py_int(start), py_int(stop), py_int(step)};
  return range;
}

Traced builtin_round(Context& c, const Function& f, Args args) {
  if (is_torch(c, args[0])) refuse_call(c, f, args);
  Emit e(c);
  const Traced x = number(c, args[0]);
  const bool digits = args.size() == 2 && !(args[1].kind == Kind::object && args[1].object.get() == Py_None);
  const DType t = x.value->type.dtype;
  if (x.is_np() && t == DType::bool_) refuse_call(c, f, args);
  if (!digits) {
    if (ir::is_real(t)) return py_int(truncate_to_int(c, e.op(Opcode::rint_, {x.value})));
    if (t == DType::u64_) e.check(CheckKind::overflow_, e.le(x.value, e.constant(t, INT64_MAX)));
    return py_int(e.cast(x.value, DType::i64_));
  }
  const std::optional<int64_t> n = args[1].is_scalar() && !args[1].tag ? known_integer(args[1].value) : std::nullopt;
  // Decimal digits of floats are found through strings, which is Python's own art.
  if (!n || *n < 0 || ir::is_real(t)) refuse_call(c, f, args);
  return x.is_np() ? np_scalar(x.value) : py_int(e.cast(x.value, DType::i64_));
}

Traced builtin_sum(Context& c, const Function& f, Args args) {
  if (args.size() == 1 && is_tensor(args[0])) return sum_of_elements(c, f, args[0]);
  if (args[0].kind != Kind::tuple) refuse_call(c, f, args);
  Traced total = args.size() == 2 ? args[1] : py_int(c.builder().i64(0));
  for (const Traced& t : args[0].items) {
    // From 3.12 on, Python sums floats with compensation.
    if (!t.is_py_int() && !t.is_py_bool()) refuse_call(c, f, args);
    total = binary(c, BinaryOp::add, total, t);
  }
  return total;
}

}  // namespace appy::trace
