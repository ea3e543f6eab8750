// Functions and methods that act on whole arrays. functions.def has those that act on elements.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "ir/builder.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/tensor_call.h"

namespace appy::trace {
namespace {

using ir::Value;

struct TensorFunction {
  const char* module;
  const char* name;
  const char* parameters;
  Traced (*handler)(const Call&);
};

template <Reduction R>
Traced reduction(const Call& call) {
  const TensorRef t = call.array("a");
  call.refuse_given({"out", "where", "initial"});
  Axes axes = call.axes(t->rank());
  axes.keep = call.flag("keepdims");
  return reduce(call.context(), R, t, axes, call.dtype(), call["ddof"]);
}

template <Reduction R>
Traced extremum(const Call& call) {
  const TensorRef t = call.array("a");
  call.refuse_given({"out", "where", "initial"});
  Axes axes = call.axes(t->rank());
  axes.keep = call.flag("keepdims");
  return reduce(call.context(), R, t, axes, {}, {});
}

Traced count_nonzero(const Call& call) {
  const TensorRef t = call.array("a");
  const Traced operands[] = {tensor(t)};
  const Traced truths =
      map(call.context(), operands, [](Context& context, Scalars x) { return np_scalar(truth(context, x[0])); });
  Axes axes = call.axes(t->rank());
  axes.keep = call.flag("keepdims");
  const bool whole = !call.given("axis") && !axes.keep;
  const Traced count = reduce(call.context(), Reduction::sum, truths.tensor, axes, DType::i64_, {});
  if (!whole) return count;
  // Of the whole array it is an int, from NumPy 2.4 on a NumPy scalar.
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  const Ref of_nothing = Ref::steal(numpy ? PyObject_CallMethod(numpy, "count_nonzero", "i", 0) : nullptr);
  PyErr_Clear();
  return of_nothing && PyLong_CheckExact(of_nothing.get()) ? py_int(count.value) : count;
}

/// The norm of a vector, or of a matrix as the vector of its elements.
Traced norm(const Call& call) {
  Context& c = call.context();
  const TensorRef t = call.array("x");
  Axes axes = call.axes(t->rank());
  axes.keep = call.flag("keepdims");
  enum { one, two, infinity } order = two;
  if (const Traced ord = call["ord"]; ord.kind != Kind::unbound) {
    // Of matrices the other orders are no sums of elements.
    if (std::count(axes.reduced.begin(), axes.reduced.end(), true) != 1 || !ord.is_scalar()) call.refuse_arguments();
    const std::optional<ir::Word> word = known(ord.value);
    if (!word) call.refuse_arguments();
    const DType type = ord.value->type.dtype;
    const double number = ir::is_real(type) ? std::bit_cast<double>(runtime::convert_word(type, DType::f64_, *word))
                                            : double(int64_t(*word));
    if (number != 1 && number != 2 && !(std::isinf(number) && number > 0)) call.refuse_arguments();
    order = number == 1 ? one : number == 2 ? two : infinity;
  }
  const DType type = ir::is_real(t->dtype) ? t->dtype : DType::f64_;
  const Traced operands[] = {tensor(t)};
  const Traced sizes = map(c, operands, [type, order](Context& context, Scalars x) {
    Emit e(context);
    Value* v = cast_element(context, x[0], type);
    return np_scalar(order == two ? e.op(Opcode::mul_, {v, v}) : e.op(Opcode::abs_, {v}));
  });
  const Traced total = reduce(c, order == infinity ? Reduction::max : Reduction::sum, sizes.tensor, axes, {}, {});
  if (order != two) return total;
  const auto root = [](Context& context, Scalars x) {
    return np_scalar(Emit(context).op(Opcode::sqrt_, {x[0].value}));
  };
  return is_tensor(total) ? map(c, std::span(&total, 1), root) : root(c, std::span(&total, 1));
}

template <BinaryOp Op>
Traced cumulative(const Call& call) {
  const TensorRef t = call.array("a");
  call.refuse_given({"out"});
  const Axes axes = call.axes(t->rank());
  const auto count = std::count(axes.reduced.begin(), axes.reduced.end(), true);
  if (count != 1) call.refuse_arguments();  // a flattened array
  const auto axis = std::find(axes.reduced.begin(), axes.reduced.end(), true) - axes.reduced.begin();
  return cumulate(call.context(), Op, t, static_cast<int>(axis), call.dtype());
}

Traced product(const Call& call) {
  call.refuse_given({"out"});
  return matmul(call.context(), call["a"], call["b"], true);
}
Traced matrix_product(const Call& call) { return matmul(call.context(), call["a"], call["b"], false); }
Traced outer_product(const Call& call) {
  call.refuse_given({"out"});
  return outer(call.context(), call["a"], call["b"]);
}

Traced transpose(const Call& call) {
  const TensorRef t = call.array("a");
  const Traced axes = call["axes"];
  if (axes.kind == Kind::unbound) return tensor(transposed(call.context(), t));
  std::vector<int> order(t->shape.size());
  if (axes.kind != Kind::tuple || axes.items.size() != order.size()) call.refuse_arguments();
  std::vector<bool> seen(order.size(), false);
  for (size_t d = 0; d < order.size(); d++) {
    const std::optional<int64_t> k = axes.items[d].is_scalar() ? known_integer(axes.items[d].value) : std::nullopt;
    const auto rank = static_cast<int64_t>(order.size());
    if (!k || *k < -rank || *k >= rank) call.refuse_arguments();
    order[d] = static_cast<int>(*k < 0 ? *k + rank : *k);
    if (seen[static_cast<size_t>(order[d])]) call.refuse_arguments();
    seen[static_cast<size_t>(order[d])] = true;
  }
  return tensor(rearranged(call.context(), t, order));
}

Traced expand_dims(const Call& call) {
  const TensorRef t = call.array("a");
  const Axes axes = call.axes(t->rank() + 1);
  std::vector<int> order;
  int next = 0;
  if (!call.given("axis")) call.refuse_arguments();
  for (bool added : axes.reduced) order.push_back(added ? -1 : next++);
  if (next != t->rank()) call.refuse_arguments();
  return tensor(rearranged(call.context(), t, order));
}

/// Extents of a shape argument: an int or a tuple of ints.
std::vector<Value*> extents_of(const Call& call) {
  Context& c = call.context();
  const Traced shape = call["shape"];
  if (shape.kind == Kind::unbound) call.refuse_arguments();
  const std::span<const Traced> items = shape.kind == Kind::tuple ? std::span(shape.items) : std::span(&shape, 1);
  std::vector<Value*> out;
  Emit e(c);
  for (const Traced& item : items) {
    out.push_back(as_index(c, item));
    e.check(ir::CheckKind::value_, e.ge(out.back(), e.i64(0)), "negative dimensions are not allowed");
  }
  return out;
}

Traced made(Context& c, DType dtype, std::span<Value* const> shape, const Traced* filler,
            ir::Layout layout = ir::Layout::c) {
  const TensorRef out = allocate(c, dtype, shape, {}, layout);
  if (filler) assign(c, out, *filler);
  return out->base;
}

Traced filled(const Call& call, const std::vector<Value*>& shape, std::optional<DType> dtype, const Traced* filler) {
  Context& c = call.context();
  if (filler && filler->kind == Kind::unbound) call.refuse_arguments();
  const DType t = dtype ? *dtype : filler ? common_type(*filler, *filler) : DType::f64_;
  return made(c, t, shape, filler);
}

template <int Value_>
Traced creation(const Call& call) {
  call.refuse_given({"order", "device", "like"});
  const Traced filler = np_scalar(Emit(call.context()).f64(Value_));
  const std::optional<DType> dtype = call.dtype();
  return filled(call, extents_of(call), dtype ? dtype : DType::f64_, Value_ < 0 ? nullptr : &filler);
}

Traced full(const Call& call) {
  call.refuse_given({"order", "device", "like"});
  const Traced value = call["fill_value"];
  if (!value.is_scalar() || value.tag) call.refuse_arguments();
  return filled(call, extents_of(call), call.dtype(), &value);
}

/// appy.full makes float64 where nothing is said.
Traced full_of_float(const Call& call) {
  const Traced value = call["value"];
  if (!value.is_scalar() || value.tag) call.refuse_arguments();
  return filled(call, extents_of(call), call.dtype().value_or(DType::f64_), &value);
}

template <int Value_>
Traced creation_like(const Call& call) {
  call.refuse_given({"order", "subok", "shape", "device"});
  const TensorRef t = call.array("a");
  const Traced filler = np_scalar(Emit(call.context()).f64(Value_));
  const std::optional<DType> dtype = call.dtype();
  return made(call.context(), dtype ? *dtype : t->dtype, t->shape, Value_ < 0 ? nullptr : &filler, kept_order(t));
}

Traced full_like(const Call& call) {
  call.refuse_given({"order", "subok", "shape", "device"});
  const TensorRef t = call.array("a");
  const Traced value = call["fill_value"];
  if (!value.is_scalar() || value.tag) call.refuse_arguments();
  const std::optional<DType> dtype = call.dtype();
  return made(call.context(), dtype ? *dtype : t->dtype, t->shape, &value, kept_order(t));
}

Traced copy(const Call& call) {
  call.refuse_given({"order", "subok"});
  const TensorRef t = call.array("a");
  return materialised(call.context(), t, kept_order(t))->base;
}

/// The method, which keeps no order.
Traced copy_of_self(const Call& call) {
  call.refuse_given({"order"});
  return materialised(call.context(), call.array("a"), ir::Layout::c)->base;
}

/// start, start + step, ... below stop; integers.
Traced ramp(Context& c, Value* start, Value* stop, int64_t step, DType dtype) {
  Emit e(c);
  Tensor out;
  out.dtype = dtype;
  Value* distance = step > 0 ? e.op(Opcode::sub_, {stop, start}) : e.op(Opcode::sub_, {start, stop});
  const int64_t size = std::abs(step);
  if (size > 1) distance = e.op(Opcode::floordiv_, {e.op(Opcode::add_, {distance, e.i64(size - 1)}), e.i64(size)});
  out.shape = {known_integer(start) == 0 && step == 1 && stop->op && stop->op->code == Opcode::dim_
                   ? stop
                   : e.op(Opcode::pymax_, {distance, e.i64(0)})};
  out.at = [start, step, dtype](Context& context, Index index) {
    Emit emit(context);
    Value* moved = step == 1 ? index[0] : emit.op(Opcode::mul_, {index[0], emit.i64(step)});
    Value* v = known_integer(start) == 0 ? moved : emit.op(Opcode::add_, {start, moved});
    return np_scalar(unsafe_cast(context, v, dtype));
  };
  if (dtype == DType::i64_) out.ramp = start, out.ramp_step = step;
  return tensor(std::move(out));
}

Traced arange(const Call& call) {
  Context& c = call.context();
  call.refuse_given({"device", "like"});
  Traced start = call["start"], stop = call["stop"];
  const Traced by = call["step"];
  if (stop.kind == Kind::unbound) {
    stop = start;
    start = scalar(ScalarKind::py_int, c.builder().i64(0));
  }
  for (const Traced* t : {&start, &stop}) {
    if (!t->is_scalar() || t->tag || !ir::is_int(t->value->type.dtype)) call.refuse_arguments();
  }
  const std::optional<int64_t> step = by.kind == Kind::unbound ? 1
                                      : by.is_scalar()         ? known_integer(by.value)
                                                               : std::nullopt;
  if (!step || *step == 0 || *step == INT64_MIN) call.refuse_arguments();
  DType dtype = DType::i64_;
  if (const std::optional<DType> wanted = call.dtype()) {
    dtype = *wanted;
  } else {
    // The common type of NumPy scalars among the arguments.
    for (const Traced* t : {&start, &stop}) {
      if (t->is_np()) dtype = t->type.dtype == DType::i64_ ? dtype : promote(dtype, t->type.dtype);
    }
  }
  if (dtype == DType::bool_) call.refuse_arguments();
  return ramp(c, as_index(c, start), as_index(c, stop), *step, dtype);
}

/// np.arange(j, min(j + B, bound)).
Traced vector_index(const Call& call) {
  Context& c = call.context();
  Emit e(c);
  Value* first = as_index(c, call["start"]);
  Value* end = checked(c, Opcode::ovf_add_, Opcode::add_, first, as_index(c, call["length"]));
  if (call.given("bound")) end = e.op(Opcode::pymin_, {end, as_index(c, call["bound"])});
  return ramp(c, first, end, 1, DType::i64_);
}

Traced astype(const Call& call) {
  Context& c = call.context();
  call.refuse_given({"order", "casting", "subok"});
  const TensorRef t = call.array("a");
  const std::optional<DType> to = call.dtype();
  if (!to || (call.given("copy") && !call.flag("copy"))) call.refuse_arguments();
  const Traced operands[] = {tensor(t)};
  return map(c, operands,
             [to = *to](Context& context, Scalars x) { return np_scalar(cast_element(context, x[0], to)); });
}

Traced fill(const Call& call) {
  Context& c = call.context();
  assign(c, call.array("a"), call["value"]);
  return object(Py_None);
}

Traced einsum_call(const Call& call) {
  std::vector<Traced> operands;
  for (const char* name : {"a", "b", "c", "d"}) {
    if (call.given(name)) operands.push_back(call[name]);
  }
  const Traced text = call["subscripts"];
  if (text.kind != Kind::object || !PyUnicode_Check(text.object.get())) call.refuse_arguments();
  return einsum(call.context(), PyUnicode_AsUTF8(text.object.get()), operands);
}

/// What complex_arrays.cpp has not taken.
Traced only_complex(const Call& call) { call.refuse_arguments(); }

constexpr const char* sum_parameters = "a axis dtype out keepdims initial where";
constexpr const char* mean_parameters = "a axis dtype out keepdims where";
constexpr const char* variance_parameters = "a axis dtype out ddof keepdims where";
constexpr const char* max_parameters = "a axis out keepdims initial where";
constexpr const char* any_parameters = "a axis out keepdims where";
constexpr const char* argmax_parameters = "a axis out keepdims";
constexpr const char* creation_parameters = "shape dtype order device like";

constexpr TensorFunction functions[] = {
    {"numpy", "sum", sum_parameters, reduction<Reduction::sum>},
    {"numpy", "prod", sum_parameters, reduction<Reduction::prod>},
    {"numpy", "mean", mean_parameters, reduction<Reduction::mean>},
    {"numpy", "std", variance_parameters, reduction<Reduction::std>},
    {"numpy", "var", variance_parameters, reduction<Reduction::var>},
    {"numpy", "max", max_parameters, extremum<Reduction::max>},
    {"numpy", "min", max_parameters, extremum<Reduction::min>},
    {"numpy", "amax", max_parameters, extremum<Reduction::max>},
    {"numpy", "amin", max_parameters, extremum<Reduction::min>},
    {"numpy", "any", any_parameters, extremum<Reduction::any>},
    {"numpy", "all", any_parameters, extremum<Reduction::all>},
    {"numpy", "argmax", argmax_parameters, extremum<Reduction::argmax>},
    {"numpy", "argmin", argmax_parameters, extremum<Reduction::argmin>},
    {"numpy", "count_nonzero", "a axis keepdims", count_nonzero},
    {"numpy", "linalg.norm", "x ord axis keepdims", norm},
    {"numpy", "cumsum", "a axis dtype out", cumulative<BinaryOp::add>},
    {"numpy", "cumprod", "a axis dtype out", cumulative<BinaryOp::multiply>},
    {"numpy", "dot", "a b out", product},
    {"numpy", "matmul", "a b", matrix_product},
    {"numpy", "outer", "a b out", outer_product},
    {"numpy", "einsum", "subscripts a b c d", einsum_call},
    {"numpy", "transpose", "a axes", transpose},
    {"numpy", "expand_dims", "a axis", expand_dims},
    {"numpy", "reshape", "a shape order copy", reshape},
    {"numpy", "ravel", "a order", ravel},
    {"numpy", "concatenate", "arrays axis out dtype casting", concatenate},
    {"numpy", "stack", "arrays axis out dtype casting", stack},
    {"numpy", "hstack", "arrays dtype casting", hstack},
    {"numpy", "vstack", "arrays dtype casting", vstack},
    {"numpy", "column_stack", "arrays", column_stack},
    {"numpy", "diagonal", "a offset axis1 axis2", diagonal},
    {"numpy", "diag", "a offset", diag},
    {"numpy", "trace", "a offset axis1 axis2 dtype out", trace_of},
    {"numpy", "triu", "a offset", upper_triangle},
    {"numpy", "tril", "a offset", lower_triangle},
    {"numpy", "eye", "N M offset dtype order device like", eye},
    {"numpy", "identity", "N dtype like", eye},
    {"numpy", "zeros", creation_parameters, creation<0>},
    {"numpy", "ones", creation_parameters, creation<1>},
    {"numpy", "empty", creation_parameters, creation<-1>},
    {"numpy", "full", "shape fill_value dtype order device like", full},
    {"numpy", "zeros_like", "a dtype order subok shape device", creation_like<0>},
    {"numpy", "ones_like", "a dtype order subok shape device", creation_like<1>},
    {"numpy", "empty_like", "a dtype order subok shape device", creation_like<-1>},
    {"numpy", "full_like", "a fill_value dtype order subok shape device", full_like},
    {"numpy", "copy", "a order subok", copy},
    {"numpy", "real", "val", only_complex},
    {"numpy", "imag", "val", only_complex},
    {"numpy", "angle", "z deg", only_complex},
    {"numpy", "arange", "start stop step dtype device like", arange},
    {"appy", "zeros", creation_parameters, creation<0>},
    {"appy", "ones", creation_parameters, creation<1>},
    {"appy", "empty", creation_parameters, creation<-1>},
    {"appy", "full", "shape value dtype", full_of_float},
    {"appy", "zeros_like", "a dtype order subok shape device", creation_like<0>},
    {"appy", "empty_like", "a dtype order subok shape device", creation_like<-1>},
    {"appy", "arange", "start stop step dtype device like", arange},
    {"appy", "mv", "a b", matrix_product},
    {"appy", "vidx", "start length bound", vector_index},
};

constexpr TensorFunction methods[] = {
    {"", "sum", sum_parameters, reduction<Reduction::sum>},
    {"", "prod", sum_parameters, reduction<Reduction::prod>},
    {"", "mean", mean_parameters, reduction<Reduction::mean>},
    {"", "std", variance_parameters, reduction<Reduction::std>},
    {"", "var", variance_parameters, reduction<Reduction::var>},
    {"", "max", max_parameters, extremum<Reduction::max>},
    {"", "min", max_parameters, extremum<Reduction::min>},
    {"", "any", any_parameters, extremum<Reduction::any>},
    {"", "all", any_parameters, extremum<Reduction::all>},
    {"", "argmax", argmax_parameters, extremum<Reduction::argmax>},
    {"", "argmin", argmax_parameters, extremum<Reduction::argmin>},
    {"", "cumsum", "a axis dtype out", cumulative<BinaryOp::add>},
    {"", "cumprod", "a axis dtype out", cumulative<BinaryOp::multiply>},
    {"", "diagonal", "a offset axis1 axis2", diagonal},
    {"", "trace", "a offset axis1 axis2 dtype out", trace_of},
    {"", "ravel", "a order", ravel},
    {"", "flatten", "a order", flatten},
    {"", "dot", "a b out", product},
    {"", "astype", "a dtype order casting subok copy", astype},
    {"", "copy", "a order", copy_of_self},
    {"", "fill", "a value", fill},
};

/// The row of a callable, or null. The functions of a module are looked up, and kept alive, when one of its callables
/// is first met: appy's are imported on demand. CuPy has NumPy's.
const TensorFunction* find_tensor_function(PyObject* callable) {
  struct Row {
    Ref callable;
    const TensorFunction* function;
  };
  struct Module {
    std::vector<Row> rows;
    bool loaded = false;
  };
  static auto* known = new std::map<std::string, Module>;  // outlives the interpreter
  const char* home = home_of(callable);
  if (!home) return nullptr;
  const char* rows = std::strcmp(home, "cupy") == 0 ? "numpy" : home;
  Module& module = (*known)[home];
  if (!std::exchange(module.loaded, true)) {
    PyObject* object = PyDict_GetItemString(PyImport_GetModuleDict(), home);
    for (const TensorFunction& f : functions) {
      if (std::strcmp(f.module, rows) != 0 || !object) continue;
      Ref found = Ref::borrow(object);
      for (std::string_view path = f.name; found && !path.empty();) {
        const std::string part(path.substr(0, path.find('.')));
        found = Ref::steal(PyObject_GetAttrString(found.get(), part.c_str()));
        path.remove_prefix(std::min(path.size(), part.size() + 1));
      }
      PyErr_Clear();
      // Not what somebody else has put in the function's place.
      const char* of = found ? home_of(found.get()) : nullptr;
      if (of && std::strcmp(of, home) == 0) module.rows.push_back({std::move(found), &f});
    }
  }
  for (const Row& row : module.rows) {
    if (row.callable.get() == callable) return row.function;
  }
  return nullptr;
}

}  // namespace

std::optional<Traced> call_tensor_function(Context& c, PyObject* callable, Args args, Named kwargs) {
  const TensorFunction* f = find_tensor_function(callable);
  if (!f) return {};
  if (makes_arrays_of_numbers(callable)) c.make_arrays_of(home_of(callable), f->name);
  return f->handler(Call(c, f->name, f->parameters, args, kwargs));
}

bool makes_arrays_of_numbers(PyObject* callable) {
  constexpr std::string_view names[] = {"zeros", "ones", "empty", "full", "arange", "eye", "identity"};
  const TensorFunction* f = find_tensor_function(callable);
  return f && std::find(std::begin(names), std::end(names), f->name) != std::end(names);
}

const char* tensor_function_name(PyObject* callable) {
  const TensorFunction* f = find_tensor_function(callable);
  return f ? f->name : nullptr;
}

bool has_tensor_method(std::string_view name) {
  return name == "transpose" || name == "reshape" ||
         std::any_of(std::begin(methods), std::end(methods), [&](const TensorFunction& f) { return name == f.name; });
}

Traced call_tensor_method(Context& c, const Traced& self, const std::string& name, Args args, Named kwargs) {
  std::vector<Traced> all = {self};
  if (name == "transpose") {
    if (args.size() == 1 && args[0].kind == Kind::tuple) {
      all.push_back(args[0]);
    } else if (!args.empty()) {
      all.push_back(tuple_of({args.begin(), args.end()}));
    }
    return transpose(Call(c, "transpose", "a axes", all, kwargs));
  }
  if (name == "reshape" && args.size() != 1) {
    all.push_back(tuple_of({args.begin(), args.end()}));
    return reshape(Call(c, "reshape", "a shape order copy", all, kwargs));
  }
  all.insert(all.end(), args.begin(), args.end());
  if (name == "reshape") return reshape(Call(c, "reshape", "a shape order copy", all, kwargs));
  for (const TensorFunction& f : methods) {
    if (name == f.name) return f.handler(Call(c, f.name, f.parameters, all, kwargs));
  }
  refuse(c, AbortId::call_, describe(self) + "." + name);
}

}  // namespace appy::trace
