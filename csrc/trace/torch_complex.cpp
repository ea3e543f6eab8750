// torch's functions and methods on complex tensors and numbers.
#include <algorithm>
#include <cstring>

#include "runtime/device_arrays.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;

[[noreturn]] void refuse_call(const Context& c, std::string_view name) {
  refuse(c, AbortId::call_, "torch." + std::string(name) + " of complex numbers with these arguments");
}

/// An argument by its position, or by one of torch's two names for it.
const Traced* argument(Args args, Named kwargs, size_t position, std::string_view name, std::string_view other = "") {
  if (position < args.size()) return &args[position];
  for (const auto& [key, value] : kwargs) {
    if (key == name || (!other.empty() && key == other)) return &value;
  }
  return nullptr;
}

std::optional<DType> complex_dtype(const Traced* t) {
  return t && t->kind == Kind::object ? runtime::torch_complex_part_named(t->object.get()) : std::nullopt;
}

struct Operator {
  const char* name;
  BinaryOp op;
};
constexpr Operator operators[] = {{"add", BinaryOp::add},
                                  {"sub", BinaryOp::subtract},
                                  {"subtract", BinaryOp::subtract},
                                  {"mul", BinaryOp::multiply},
                                  {"multiply", BinaryOp::multiply},
                                  {"div", BinaryOp::true_divide},
                                  {"divide", BinaryOp::true_divide},
                                  {"true_divide", BinaryOp::true_divide},
                                  {"pow", BinaryOp::power},
                                  {"matmul", BinaryOp::matrix_multiply}};

struct OfOne {
  const char* name;
  const char* numpy;
};
constexpr OfOne functions[] = {{"abs", "absolute"},  {"absolute", "absolute"}, {"angle", "angle"},
                               {"exp", "exp"},       {"log", "log"},           {"sqrt", "sqrt"},
                               {"square", "square"}, {"neg", "negative"},      {"negative", "negative"},
                               {"isnan", "isnan"},   {"isinf", "isinf"},       {"isfinite", "isfinite"},
                               {"real", "real"},     {"imag", "imag"},         {"conj_physical", "conjugate"}};

/// The elements of t as a value that is nobody's memory.
Traced value_of(Context& c, const Traced& t) {
  return map(c, std::span(&t, 1), [](Context&, Scalars x) { return x[0]; });
}

/// The memory of a tensor or an element of one, seen conjugated: no value of its own.
Traced conjugated(Context& c, const Traced& z) {
  Traced out = *complex_function(c, "conjugate", false, std::span(&z, 1));
  if (!is_complex_tensor(out)) {
    const ir::Value* of = z.items.empty() ? nullptr : z.items[0].element_of;
    if (!of) refuse_call(c, "conj");
    for (Traced& part : out.items) part.element_of = of;
    return out;
  }
  auto shared = std::make_shared<Tensor>(*as_tensor(c, out.items[1]));
  shared->shares = true;
  out.items[1] = tensor(TensorRef(std::move(shared)));
  return out;
}

/// torch.complex(re, im)
Traced joined(Context& c, Args args, Named kwargs) {
  const Call call(c, "complex", "real imag", args, kwargs);
  const Traced re = call["real"], im = call["imag"];
  const bool fits = is_torch(c, re) && is_torch(c, im) && !is_complex(re) && !is_complex(im) && !re.tag && !im.tag;
  if (!fits || is_tensor(re) != is_tensor(im)) call.refuse_arguments();
  const DType types[] = {torch_type(c, std::span(&re, 1)), torch_type(c, std::span(&im, 1))};
  if (types[0] != types[1] || (types[0] != DType::f32_ && types[0] != DType::f64_)) call.refuse_arguments();
  return is_tensor(re) ? complex_of(value_of(c, re), value_of(c, im)) : complex_of(re, im);
}

Traced where(Context& c, Args args) {
  if (args.size() != 3) refuse_call(c, "where");
  const DType condition = torch_type(c, args.first(1));
  if (condition != DType::bool_) refuse_call(c, "where");
  return complex_where(c, args);
}

Traced reduced(Context& c, std::string_view name, Args args, Named kwargs) {
  std::vector<std::pair<std::string, Traced>> renamed(kwargs.begin(), kwargs.end());
  for (auto& [key, value] : renamed) key = key == "axis" ? "dim" : key == "keepdims" ? "keepdim" : key;
  const Call call(c, std::string(name).c_str(), "input dim keepdim", args, renamed);
  if (!is_complex_tensor(args[0])) call.refuse_arguments();
  Axes axes = call.axes(as_tensor(c, parts_of(c, args[0]).first)->rank(), "dim");
  axes.keep = call.flag("keepdim");
  return name == "sum" ? complex_sum(c, args[0], axes) : complex_mean(c, args[0], axes);
}

Traced cumulated(Context& c, Args args, Named kwargs) {
  const Call call(c, "cumsum", "input dim", args, kwargs);
  if (!is_complex_tensor(args[0])) call.refuse_arguments();
  const auto [re, im] = parts_of(c, args[0]);
  const Axes axes = call.axes(as_tensor(c, re)->rank(), "dim");
  if (!call.given("dim") || std::count(axes.reduced.begin(), axes.reduced.end(), true) != 1) call.refuse_arguments();
  const auto axis = static_cast<int>(std::find(axes.reduced.begin(), axes.reduced.end(), true) - axes.reduced.begin());
  const auto sums = [&](const Traced& part) { return cumulate(c, BinaryOp::add, as_tensor(c, part), axis, {}); };
  return complex_of(sums(re), sums(im));
}

struct Product {
  const char* name;
  int left, right;
};
constexpr Product products[] = {{"dot", 1, 1}, {"vdot", 1, 1}, {"mv", 2, 1}, {"mm", 2, 2}};

Traced product(Context& c, const Product& p, Args args) {
  if (args.size() != 2 || !is_complex_tensor(args[0]) || !is_complex_tensor(args[1])) refuse_call(c, p.name);
  const auto rank = [&](const Traced& z) { return as_tensor(c, parts_of(c, z).first)->rank(); };
  if (rank(args[0]) != p.left || rank(args[1]) != p.right) refuse_call(c, p.name);
  const bool conjugates = !std::strcmp(p.name, "vdot");
  const Traced left = conjugates ? *complex_function(c, "conjugate", false, args.first(1)) : args[0];
  return binary(c, BinaryOp::matrix_multiply, left, args[1]);
}

/// zeros_like and its like, zeros and its like; empty where what is made is not complex.
std::optional<Traced> made(Context& c, std::string_view name, Args args, Named kwargs) {
  const std::string_view kind = name.substr(0, name.find('_'));
  const bool like = name.ends_with("_like"), filled = kind == "full";
  if (kind != "zeros" && kind != "ones" && kind != "empty" && !(filled && like)) return {};
  const Traced* dtype = argument({}, kwargs, 0, "dtype");
  const bool source_is_complex = like && !args.empty() && is_complex(args[0]);
  std::optional<DType> part = complex_dtype(dtype);
  if (!part && (dtype || !source_is_complex)) {
    if (source_is_complex) refuse_call(c, name);
    return {};
  }
  std::vector<Value*> shape;
  const size_t known = (like ? 1 : args.size()) + (filled ? 1 : 0);
  if (args.size() + kwargs.size() != known + (dtype ? 1 : 0)) refuse_call(c, name);
  if (like) {
    const TensorRef source = as_tensor(c, parts_of(c, args[0]).first);
    if (!source) refuse_call(c, name);
    if (!part) part = source->dtype;
    shape = source->shape;
  } else {
    const bool tuple = args.size() == 1 && args[0].kind == Kind::tuple;
    Emit e(c);
    for (const Traced& extent : tuple ? Args(args[0].items) : args) {
      shape.push_back(as_index(c, extent));
      e.check(ir::CheckKind::decline_, e.ge(shape.back(), e.i64(0)));
    }
    c.make_arrays_of("torch.cpu", std::string(name).c_str());
  }
  if (shape.empty()) refuse_call(c, name);
  const Traced out = complex_allocate(c, *part, shape);
  if (kind == "empty") return out;
  const Traced* value = filled ? argument(args, kwargs, 1, "fill_value") : nullptr;
  const Traced number = value ? *value : py_float(Emit(c).f64(kind == "ones"));
  if (!number.is_scalar() && !(is_complex(number) && !is_complex_tensor(number))) refuse_call(c, name);
  complex_assign(c, out, number);
  return out;
}

/// Of the shape, which the parts have as well; changes in place; conversions.
std::optional<Traced> method(Context& c, std::string_view name, Args args, Named kwargs) {
  const Traced& self = args[0];
  if (!kwargs.empty()) return {};
  if (name == "to" && args.size() == 2) {
    const std::optional<DType> part = complex_dtype(&args[1]);
    if (part) return complex_cast(c, self, *part);
  }
  if (!is_complex(self)) return {};
  const Traced re = parts_of(c, self).first;
  if (name == "size" || name == "dim" || name == "numel") {
    return call_torch_method(c, re, std::string(name), args.subspan(1), {});
  }
  if (name == "clone" && args.size() == 1 && is_complex_tensor(self)) return complex_copy(c, self);
  const bool transposes = (name == "t" && args.size() == 1) || (name == "transpose" && args.size() == 3);
  if (transposes && is_complex_tensor(self)) {
    const auto part = [&](const Traced& t) { return call_torch_method(c, t, std::string(name), args.subspan(1), {}); };
    return complex_of(part(re), part(parts_of(c, self).second));
  }
  if (name == "item" && args.size() == 1 && !is_complex_tensor(self)) {
    const auto part = [&](const Traced& t) { return py_float(Emit(c).cast(t.value, DType::f64_)); };
    if (re.tag) return {};
    return complex_of(part(re), part(parts_of(c, self).second));
  }
  const bool sets = ((name == "fill_" || name == "copy_") && args.size() == 2) || (name == "zero_" && args.size() == 1);
  if (!sets || !is_complex_tensor(self) || is_lazy_complex(self)) return {};
  const bool array = args.size() == 2 && (is_tensor(args[1]) || is_complex_tensor(args[1]));
  if (name != "zero_" && array != (name == "copy_")) return {};
  complex_assign(c, self, name == "zero_" ? py_float(Emit(c).f64(0)) : args[1]);
  return self;
}

}  // namespace

std::optional<Traced> call_torch_complex(Context& c, std::string_view name, Args args, Named kwargs) {
  if (name == "complex") return joined(c, args, kwargs);
  if (std::optional<Traced> out = made(c, name, args, kwargs)) return out;
  const bool complex_arguments = any_complex(args);
  if (!args.empty() && (complex_arguments || name == "to")) {
    if (std::optional<Traced> out = method(c, name, args, kwargs)) return out;
  }
  const bool named = std::any_of(kwargs.begin(), kwargs.end(), [](const auto& kw) { return is_complex(kw.second); });
  if (!complex_arguments) {
    if (named) refuse_call(c, name);
    return {};
  }
  if (is_complex(args[0]) && (name == "sum" || name == "mean")) return reduced(c, name, args, kwargs);
  if (name == "cumsum") return cumulated(c, args, kwargs);
  if (!kwargs.empty()) refuse_call(c, name);
  if (name == "prod" && args.size() == 1 && is_complex_tensor(args[0])) return complex_prod(c, args[0]);
  if (name == "where") return where(c, args);
  if (name == "reciprocal" && args.size() == 1)
    return binary(c, BinaryOp::true_divide, py_float(Emit(c).f64(1)), args[0]);
  if ((name == "eq" || name == "ne") && args.size() == 2) {
    return compare(c, name == "eq" ? CompareOp::eq : CompareOp::ne, args[0], args[1]);
  }
  for (const Product& p : products) {
    if (name == p.name) return product(c, p, args);
  }
  for (const Operator& row : operators) {
    if (name == row.name && args.size() == 2) return binary(c, row.op, args[0], args[1]);
  }
  if (name == "conj" && args.size() == 1) return conjugated(c, args[0]);
  for (const OfOne& f : functions) {
    if (name == f.name && args.size() == 1 && is_complex(args[0])) return complex_function(c, f.numpy, true, args);
  }
  refuse_call(c, name);
}

}  // namespace appy::trace
