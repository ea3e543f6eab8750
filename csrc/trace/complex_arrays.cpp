// Arrays of complex numbers: subscripts, statements, attributes, calls.
#include <algorithm>
#include <cstring>

#include "ir/builder.h"
#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/functions.h"
#include "trace/tensor_call.h"
#include "trace/tensor_mapping.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;
using Named = std::span<const std::pair<std::string, Traced>>;

DType dtype_of_part(Context& c, const Traced& t) {
  const Traced re = parts_of(c, t).first;
  return is_tensor(re) ? as_tensor(c, re)->dtype : re.value->type.dtype;
}

[[noreturn]] void refuse_call(const Context& c, std::string_view name) {
  refuse(c, AbortId::call_, std::string(name) + " of complex numbers");
}

/// The part of a value that is stored, as a tensor of the shape or as one element.
struct Source {
  TensorRef tensor;
  Value* element = nullptr;

  Source(Context& c, const Traced& t, DType to) {
    if (is_tensor(t)) {
      tensor = as_tensor(c, t);
    } else {
      element = stored(c, t, to);
    }
  }
  Value* at(Context& c, Index index, DType to) const {
    return tensor ? cast_element(c, tensor->at(c, index), to) : element;
  }
};

/// Both parts in one loop nest: each element is read as a whole before it is stored. The array has been marked as
/// written, or is fresh.
void assign_pair(Context& c, const TensorRef& re, const TensorRef& im, const Traced& value) {
  if (!re->is_view() || !im->is_view()) refuse(c, AbortId::operands_, "an assignment to elements of an expression");
  const auto [new_re, new_im] = parts_of(c, value);
  Source sources[] = {{c, new_re, re->dtype}, {c, new_im, im->dtype}};
  std::vector<Read> touched = reads_of(re);
  for (Source& s : sources) {
    if (!s.tensor) continue;
    s.tensor = broadcast_to(c, s.tensor, re->shape);
    for (const TensorRef& target : {re, im}) s.tensor = before_stores(c, *target, s.tensor, true);
    for (const Read& read : reads_of(s.tensor)) touched.push_back(read);
  }
  const bool inside = std::any_of(std::begin(sources), std::end(sources),
                                  [](const Source& s) { return s.tensor && s.tensor->lanes_inside; });
  std::vector<Names> names = names_of(*re);
  std::vector<InnerRef> inner;
  for (const Source& s : sources) {
    if (!s.tensor) continue;
    add_names(names, *s.tensor);
    add_inner(inner, s.tensor->inner);
  }
  const Mapping mapping = plan(c, {re->shape, names, inner, touched, !inside});
  for_each(c, re->shape, mapping, nullptr, [&](Index index, Value*) {
    Value *first = sources[0].at(c, index, re->dtype), *second = sources[1].at(c, index, im->dtype);
    c.builder().store(first, re->base.value, positions(c, *re, index));
    c.builder().store(second, im->base.value, positions(c, *im, index));
  });
}

void fill(Context& c, const Traced& fresh, const Traced& value) {
  const auto [re, im] = parts_of(c, fresh);
  assign_pair(c, as_tensor(c, re), as_tensor(c, im), value);
}

/// Index arrays and masks as they are now: the parts are stored to one after the other.
Traced fixed_index(Context& c, const Traced& index) {
  if (is_tensor(index)) return materialised(c, index);
  if (index.kind != Kind::tuple) return index;
  Traced out = index;
  for (Traced& item : out.items) item = fixed_index(c, item);
  return out;
}

const Traced* argument(std::span<const Traced> args, Named kwargs, size_t position, std::string_view name) {
  if (position < args.size()) return &args[position];
  for (const auto& [key, value] : kwargs) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::optional<DType> complex_dtype(const Traced* t) {
  if (!t || t->kind != Kind::object || t->object.get() == Py_None) return {};
  return complex_part(t->object.get());
}

/// np.zeros and its kin: the shape is the argument's, or that of an array.
std::optional<Traced> made(Context& c, const std::string& name, std::span<const Traced> args, Named kwargs) {
  const bool like = name.ends_with("_like"), filled = name == "full" || name == "full_like";
  const std::string kind = name.substr(0, name.find('_'));
  if (kind != "zeros" && kind != "ones" && kind != "empty" && kind != "full") return {};
  const Traced* shape = argument(args, kwargs, 0, like ? "a" : "shape");
  const Traced* value = filled ? argument(args, kwargs, 1, "fill_value") : nullptr;
  const Traced* dtype = argument(args, kwargs, filled ? 2 : 1, "dtype");
  const size_t known = 1 + (filled ? 1 : 0) + (dtype ? 1 : 0);
  std::optional<DType> part = complex_dtype(dtype);
  if (!dtype && like && shape && is_complex(*shape)) part = dtype_of_part(c, *shape);
  if (!dtype && !like && value && is_complex(*value)) part = dtype_of_part(c, *value);
  if (!part || !shape) return {};
  if (args.size() + kwargs.size() != known || (filled && !value)) refuse_call(c, name);
  std::vector<Value*> extents;
  if (like) {
    const Traced re = parts_of(c, *shape).first;
    if (!is_tensor(re)) refuse_call(c, name);
    extents = as_tensor(c, re)->shape;
  } else {
    Emit e(c);
    const std::span<const Traced> items = shape->kind == Kind::tuple ? std::span(shape->items) : std::span(shape, 1);
    for (const Traced& item : items) {
      extents.push_back(as_index(c, item));
      e.check(ir::CheckKind::value_, e.ge(extents.back(), e.i64(0)), "negative dimensions are not allowed");
    }
  }
  const Traced out = complex_allocate(c, *part, extents);
  if (kind == "empty") return out;
  const Traced filler = filled ? *value : np_scalar(Emit(c).f64(kind == "ones"));
  if (is_complex_tensor(filler) || is_tensor(filler)) refuse_call(c, name);
  if (extents.empty()) refuse_call(c, name);
  fill(c, out, filler);
  return out;
}

/// float(x) as Python's complex takes it.
Traced python_part(Context& c, const Traced& t) { return py_float(as_double(c, t)); }

std::optional<Traced> constructed_number(Context& c, PyObject* callable, std::span<const Traced> args) {
  if (callable == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    if (args.empty()) return complex_of(py_float(Emit(c).f64(0)), py_float(Emit(c).f64(0)));
    for (const Traced& t : args) {
      if (is_complex_tensor(t) || is_tensor(t) || (args.size() == 2 && is_complex(t))) refuse_call(c, "complex");
    }
    if (args.size() == 2) return complex_of(python_part(c, args[0]), python_part(c, args[1]));
    const auto [re, im] = parts_of(c, args[0]);
    return complex_of(python_part(c, re), python_part(c, im));
  }
  for (DType part : {DType::f32_, DType::f64_}) {
    if (callable != reinterpret_cast<PyObject*>(complex_class(part)) || args.size() > 1) continue;
    if (args.empty()) return complex_of(np_scalar(Emit(c).number(part, 0)), np_scalar(Emit(c).number(part, 0)));
    if (is_complex_tensor(args[0]) || is_tensor(args[0])) refuse_call(c, "a NumPy class with an array");
    return complex_cast(c, args[0], part);
  }
  return {};
}

bool acts_on_parts(std::string_view name) {
  for (std::string_view known : {"sum", "cumsum", "transpose", "expand_dims"}) {
    if (name == known) return true;
  }
  return false;
}

Traced mean(Context& c, const Traced& self, std::span<const Traced> args, Named kwargs) {
  const Call call(c, "mean", "axis dtype out keepdims where", args, kwargs);
  call.refuse_given({"dtype", "out", "where"});
  Axes axes = call.axes(as_tensor(c, parts_of(c, self).first)->rank());
  axes.keep = call.flag("keepdims");
  return complex_mean(c, self, axes);
}

Traced method_call(Context& c, const Traced& self, const std::string& name, std::span<const Traced> args,
                   Named kwargs) {
  if (name == "conjugate" || name == "conj") {
    if (!args.empty() || !kwargs.empty()) refuse_call(c, name);
    const Traced all[] = {self};
    return *complex_function(c, "conjugate", false, all);
  }
  if (name == "astype") {
    const Traced* dtype = argument(args, kwargs, 0, "dtype");
    const std::optional<DType> part = complex_dtype(dtype);
    if (!part || args.size() + kwargs.size() != 1) refuse_call(c, "astype to what is not complex,");
    return complex_cast(c, self, *part);
  }
  if (!is_complex_tensor(self)) {
    if (name == "item" && args.empty() && kwargs.empty()) {
      const auto [re, im] = parts_of(c, self);
      return complex_of(python_part(c, re), python_part(c, im));
    }
    refuse_call(c, name);
  }
  const auto [re, im] = parts_of(c, self);
  if (name == "copy" && args.empty() && kwargs.empty()) return complex_copy(c, self);
  if (name == "fill" && args.size() == 1 && kwargs.empty()) {
    if (is_lazy_complex(self)) refuse_call(c, name);
    complex_assign(c, self, args[0]);
    return object(Py_None);
  }
  if (name == "mean") return mean(c, self, args, kwargs);
  if (name == "prod" && args.empty() && kwargs.empty()) return complex_prod(c, self);
  if (name == "dot" && args.size() == 1 && kwargs.empty()) return complex_matmul(c, self, args[0]);
  if (!acts_on_parts(name)) refuse_call(c, name);
  return complex_of(call_tensor_method(c, re, name, args, kwargs), call_tensor_method(c, im, name, args, kwargs));
}

}  // namespace

Traced complex_array(const Traced& pairs) {
  Traced t;
  t.kind = Kind::complex;
  t.value = pairs.value;
  t.input = pairs.input;
  t.writeable = pairs.writeable;
  return t;
}

bool is_complex_tensor(const Traced& t) {
  return is_complex(t) && (t.value ? t.value->type.rank > 1 : is_tensor(t.items[0]));
}

bool is_lazy_complex(const Traced& t) {
  if (!is_complex_tensor(t) || t.value) return false;
  const auto view = [](const Traced& part) {
    return part.kind == Kind::tensor && part.tensor->is_view() ? part.tensor.get() : nullptr;
  };
  const Tensor *re = view(t.items[0]), *im = view(t.items[1]);
  return !re || !im || re->base.value != im->base.value || re->axes.back().dim >= 0 || im->axes.back().dim >= 0 ||
         known_integer(re->axes.back().start) != 0 || known_integer(im->axes.back().start) != 1;
}

std::optional<DType> complex_part(PyObject* o) {
  if (const std::optional<DType> part = runtime::torch_complex_part_named(o)) return part;
  const std::optional<int> number = type_number_named(o);
  return number ? runtime::complex_part_of(*number) : std::nullopt;
}

PyTypeObject* complex_class(DType part) { return runtime::complex_scalar_class(part); }

Traced complex_materialised(Context& c, const Traced& t) {
  if (!is_lazy_complex(t)) return t;
  const auto [re, im] = parts_of(c, t);
  const TensorRef both[] = {as_tensor(c, re), as_tensor(c, im)};
  if (both[0]->shares || both[1]->shares) refuse(c, AbortId::operands_, "a name for a conjugated tensor");
  const Traced out = complex_allocate(c, dtype_of_part(c, t), broadcast_shapes(c, both));
  fill(c, out, t);
  return out;
}

Traced complex_where(Context& c, std::span<const Traced> args) {
  if (args.size() != 3 || is_complex(args[0])) refuse_call(c, "where");
  // The sum has the type that both have in common.
  const Traced common = binary(c, BinaryOp::add, args[1], args[2]);
  const DType part = dtype_of_part(c, common);
  const auto choose = [&](const Traced& x, const Traced& y) {
    const Traced all[] = {args[0], x, y};
    if (std::none_of(std::begin(all), std::end(all), is_tensor)) refuse_call(c, "where without arrays");
    return map(c, all, [](Context& g, Scalars s) {
      Emit e(g);
      return np_scalar(e.select(truth(g, s[0]), s[1].value, s[2].value));
    });
  };
  const Traced a = complex_cast(c, args[1], part), b = complex_cast(c, args[2], part);
  return complex_of(choose(a.items[0], b.items[0]), choose(a.items[1], b.items[1]));
}

Traced complex_allocate(Context& c, DType part, std::span<Value* const> shape) {
  std::vector<Value*> extents(shape.begin(), shape.end());
  extents.push_back(c.builder().i64(2));
  return complex_array(allocate(c, part, extents)->base);
}

void complex_assign(Context& c, const Traced& target, const Traced& value) {
  const auto [re, im] = parts_of(c, target);
  c.mark_written(as_tensor(c, re)->base);
  assign_pair(c, as_tensor(c, re), as_tensor(c, im), value);
}

Traced complex_copy(Context& c, const Traced& z) {
  const Traced out = complex_allocate(c, dtype_of_part(c, z), as_tensor(c, parts_of(c, z).first)->shape);
  fill(c, out, z);
  return out;
}

Traced complex_sum(Context& c, const Traced& z, const Axes& axes) {
  const auto [re, im] = parts_of(c, z);
  return complex_of(reduce(c, Reduction::sum, as_tensor(c, re), axes, {}, {}),
                    reduce(c, Reduction::sum, as_tensor(c, im), axes, {}, {}));
}

/// By the quotient of complex numbers that NumPy takes, not one of the parts: with infinities they differ.
Traced complex_mean(Context& c, const Traced& z, const Axes& axes) {
  Emit e(c);
  const TensorRef part = as_tensor(c, parts_of(c, z).first);
  Value* count = e.i64(1);
  for (size_t d = 0; d < axes.reduced.size(); d++) {
    if (axes.reduced[d]) count = e.op(Opcode::mul_, {count, part->shape[d]});
  }
  return binary(c, BinaryOp::true_divide, complex_sum(c, z, axes), np_scalar(e.cast(count, part->dtype)));
}

Traced complex_prod(Context& c, const Traced& z) {
  const auto [re_part, im_part] = parts_of(c, z);
  if (c.exact()) refuse(c, AbortId::exact_function_, "a product of complex arrays");
  const TensorRef re = as_tensor(c, re_part), im = as_tensor(c, im_part);
  Emit e(c);
  Value* const init[] = {e.number(re->dtype, 1), e.number(re->dtype, 0)};
  const std::vector<Value*> results =
      accumulate(c, all_dimensions(*re, "prod"), init, Order::kept, [&](Index i, std::span<Value* const> p) {
        Emit g(c);
        Value *x = re->at(c, i).value, *y = im->at(c, i).value;
        const auto mul = [&](Value* a, Value* b) { return g.op(Opcode::mul_, {a, b}); };
        return std::vector<Value*>{g.op(Opcode::sub_, {mul(p[0], x), mul(p[1], y)}),
                                   g.op(Opcode::add_, {mul(p[0], y), mul(p[1], x)})};
      });
  return complex_of(np_scalar(results[0]), np_scalar(results[1]));
}

Traced complex_getitem(Context& c, const Traced& container, const Traced& index) {
  const auto [re, im] = parts_of(c, container);
  if (!is_tensor(re) || any_complex(std::span(&index, 1))) refuse(c, AbortId::subscript_, "of a complex number");
  return complex_of(tensor_getitem(c, re, index), tensor_getitem(c, im, index));
}

void complex_setitem(Context& c, const Traced& container, const Traced& index, const Traced& value) {
  if (!is_complex_tensor(container)) refuse(c, AbortId::subscript_, "of a complex number");
  if (is_lazy_complex(container)) refuse(c, AbortId::subscript_, "of an expression that is assigned to");
  const auto [re, im] = parts_of(c, container);
  c.mark_written(as_tensor(c, re)->base);
  const Traced at = fixed_index(c, index);
  const bool array = is_complex_tensor(value) || is_tensor(value);
  const bool gathers =
      is_tensor(at) || (at.kind == Kind::tuple && std::any_of(at.items.begin(), at.items.end(), is_tensor));
  if (array && !gathers) {
    const Traced to_re = tensor_getitem(c, re, at), to_im = tensor_getitem(c, im, at);
    if (!is_tensor(to_re)) refuse(c, AbortId::operands_, "an array that is stored as one element");
    assign_pair(c, as_tensor(c, to_re), as_tensor(c, to_im), value);
    return;
  }
  auto [new_re, new_im] = parts_of(c, value);
  if (is_tensor(new_re)) new_re = materialised(c, new_re);
  if (is_tensor(new_im)) new_im = materialised(c, new_im);
  if (is_complex(value) || !array) {
    // A complex number is cast, a Python one too; a real one is stored as NumPy stores it.
    tensor_setitem(c, re, at, new_re);
    tensor_setitem(c, im, at, new_im);
  } else {
    tensor_setitem(c, re, at, new_re);
    tensor_setitem(c, im, at, py_float(Emit(c).f64(0)));
  }
}

void complex_atomic(Context& c, BinaryOp op, const Traced& container, const Traced& index, const Traced& value) {
  if (!is_complex_tensor(container)) refuse(c, AbortId::subscript_, "of a complex number");
  const auto [re, im] = parts_of(c, container);
  const DType part = as_tensor(c, re)->dtype;
  const bool adds = op == BinaryOp::add || op == BinaryOp::subtract;
  if (!adds || !has_atomic(c, op, part, parts_of(c, value).first)) {
    run_in_order(c);
    complex_setitem(c, container, index, binary(c, op, complex_getitem(c, container, index), value));
    return;
  }
  // The sums of the parts are indivisible each, and nobody reads before the loop has ended.
  const Traced z = is_complex_tensor(value) || is_tensor(value) ? value : complex_cast(c, value, part);
  auto [new_re, new_im] = parts_of(c, z);
  // The real parts are stored before the imaginary ones are computed.
  if (is_tensor(new_im)) new_im = tensor(before_stores(c, *as_tensor(c, re), as_tensor(c, new_im), false));
  const Traced at = fixed_index(c, index);
  tensor_atomic(c, op, re, at, new_re);
  tensor_atomic(c, op, im, at, new_im);
}

void complex_update(Context& c, BinaryOp op, const Traced& target, const Traced& value) {
  const Traced result = binary(c, op, target, value);
  const auto [re, im] = parts_of(c, target);
  const TensorRef to = as_tensor(c, re);
  if (!to) refuse(c, AbortId::operands_, "an in-place operator on a 0-d array");
  const Traced new_re = parts_of(c, result).first;
  const TensorRef made = as_tensor(c, new_re);
  bool fits = made->rank() == to->rank();
  for (size_t d = 0; fits && d < to->shape.size(); d++) fits = !is_one(to->shape[d]) || is_one(made->shape[d]);
  if (!fits) refuse(c, AbortId::operands_, "an in-place operator whose result has more elements than the array");
  c.mark_written(to->base);
  assign_pair(c, to, as_tensor(c, im), result);
}

Traced complex_matmul(Context& c, const Traced& a, const Traced& b) {
  const Traced operands[] = {a, b};
  const auto product = [&](const Traced& x, const Traced& y) { return matmul(c, x, y, true); };
  const auto [ar, ai] = parts_of(c, a);
  const auto [br, bi] = parts_of(c, b);
  if (!is_tensor(ar) || !is_tensor(br)) return complex_binary(c, BinaryOp::multiply, a, b);
  if (!is_complex(b)) return complex_of(product(ar, br), product(ai, br));
  if (!is_complex(a)) return complex_of(product(ar, br), product(ar, bi));
  return complex_of(binary(c, BinaryOp::subtract, product(ar, br), product(ai, bi)),
                    binary(c, BinaryOp::add, product(ar, bi), product(ai, br)));
}

Traced complex_attribute(Context& c, const Traced& t, std::string_view name) {
  const auto method = [&] {
    Traced m;
    m.kind = Kind::method;
    m.name = std::string(name);
    m.items = {t};
    return m;
  };
  const bool array = is_complex_tensor(t), torch = is_torch(c, t);
  if (name == "real" || name == "imag") {
    const auto [re, im] = parts_of(c, t);
    return name == "real" ? re : im;
  }
  if (torch && has_torch_method(name)) return method();
  const bool python = !array && !t.value && t.items[0].is_py_float();
  if (!torch && (name == "conjugate" || (name == "conj" && !python))) return method();
  if (!python && !(t.items.size() == 2 && t.items[0].is_scalar() && t.items[0].tag)) {
    const DType part = dtype_of_part(c, t);
    if (name == "dtype" && c.library() == runtime::Library::torch) {
      PyObject* own = runtime::dtype_object(c.library(), part, true);
      if (own) return constant(c, own);
      PyErr_Clear();
      refuse(c, AbortId::attribute_, "dtype");
    }
    if (name == "dtype") {
      const int number = part == DType::f32_ ? NPY_CFLOAT : NPY_CDOUBLE;
      const Ref descr = Ref::steal(reinterpret_cast<PyObject*>(PyArray_DescrFromType(number)));
      return constant(c, descr.get());
    }
    if (name == "itemsize") return py_int(Emit(c).i64(2 * ir::size_of(part)));
    if (!torch && (name == "item" || name == "astype")) return method();
  }
  if (array) {
    const auto [re, im] = parts_of(c, t);
    if (name == "shape" || name == "ndim" || name == "size") return getattr(c, re, name);
    if (name == "T" && torch && as_tensor(c, re)->rank() != 2) refuse(c, AbortId::attribute_, "T of such a tensor");
    if (name == "T") return complex_of(getattr(c, re, name), getattr(c, im, name));
    if (!torch && has_tensor_method(name)) return method();
  }
  refuse(c, AbortId::attribute_, describe(t) + "." + std::string(name));
}

std::optional<Traced> call_complex(Context& c, const Traced& callable, std::span<const Traced> args, Named kwargs) {
  if (callable.kind == Kind::method) {
    const Traced& self = callable.items.at(0);
    if (is_torch(c, self)) return {};
    if (is_complex(self)) return method_call(c, self, callable.name, args, kwargs);
    // x.astype(complex) of a real array or number.
    const std::optional<DType> part =
        callable.name == "astype" ? complex_dtype(argument(args, kwargs, 0, "dtype")) : std::nullopt;
    if (part && args.size() + kwargs.size() == 1) return complex_cast(c, self, *part);
    if (any_complex(args)) {
      if (callable.name == "dot" && args.size() == 1 && kwargs.empty()) return complex_matmul(c, self, args[0]);
      refuse_call(c, callable.name);
    }
    return {};
  }
  if (callable.kind != Kind::object) return {};
  PyObject* object = callable.object.get();
  if (is_torch_function(object)) return {};
  if (c.library() == runtime::Library::torch && any_complex(args)) {
    const char* home = home_of(object);
    if (home && std::strcmp(home, "numpy") == 0) refuse(c, AbortId::call_, "a function of numpy without such arrays");
  }
  if (kwargs.empty()) {
    if (std::optional<Traced> number = constructed_number(c, object, args)) return number;
  }
  const Function* row = find_function(object);
  const char* array_function = row ? nullptr : tensor_function_name(object);
  const bool complex_arguments = any_complex(args);
  if (array_function) {
    const std::string name = array_function;
    if (std::optional<Traced> out = made(c, name, args, kwargs)) return out;
    if (!complex_arguments) return {};
    if (name == "real" || name == "imag" || name == "angle") {
      if (args.size() == 1 && kwargs.empty()) return complex_function(c, name, false, args);
      refuse_call(c, name);
    }
    if (name == "dot" || name == "matmul" || name == "mv") {
      if (args.size() == 2 && kwargs.empty()) return complex_matmul(c, args[0], args[1]);
      refuse_call(c, name);
    }
    if (!is_complex(args[0]) || !is_complex_tensor(args[0])) refuse_call(c, name);
    if (name != "prod" && name != "copy" && name != "mean" && !acts_on_parts(name)) refuse_call(c, name);
    return method_call(c, args[0], name, args.subspan(1), kwargs);
  }
  if (!complex_arguments) return {};
  if (!row) {
    if (PyFunction_Check(object)) return {};
    refuse_call(c, "a function");
  }
  const std::string_view module = row->module, name = row->name;
  if (kwargs.empty() && module == "numpy" && name == "where") return complex_where(c, args);
  if (kwargs.empty() && (module == "numpy" || (module == "builtins" && (name == "abs" || name == "pow")))) {
    if (std::optional<Traced> out = complex_function(c, name, module == "numpy", args)) return out;
  }
  if (kwargs.empty() && module == "builtins" && name == "bool" && args.size() == 1)
    return py_bool(complex_truth(c, args[0]));
  if (module == "builtins" && name == "len" && args.size() == 1 && is_complex_tensor(args[0])) {
    const Traced re[] = {parts_of(c, args[0]).first};
    return call(c, callable, re, {});
  }
  refuse_call(c, std::string(module) + "." + std::string(name));
}

}  // namespace appy::trace
