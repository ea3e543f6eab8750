// torch's functions and methods, by those of NumPy on operands of torch's types.
#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/device_arrays.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::Value;

/// What the operands are brought to before NumPy's function is called.
enum class Operands : uint8_t {
  real,    // the common type, float32 where that is no float
  floats,  // the common type, which must be a float
  common,  // the common type
  number,  // the common type, which must not be bool
  any,     // as they are: the function is a test
  choice,  // of the last two the common type; the first is a condition
};

struct Elementwise {
  const char* name;
  const char* numpy;
  Operands operands;
};

constexpr Elementwise elementwise[] = {
    {"abs", "absolute", Operands::number},
    {"absolute", "absolute", Operands::number},
    {"acos", "arccos", Operands::real},
    {"acosh", "arccosh", Operands::real},
    {"arccos", "arccos", Operands::real},
    {"arccosh", "arccosh", Operands::real},
    {"arcsin", "arcsin", Operands::real},
    {"arcsinh", "arcsinh", Operands::real},
    {"arctan", "arctan", Operands::real},
    {"arctan2", "arctan2", Operands::real},
    {"arctanh", "arctanh", Operands::real},
    {"asin", "arcsin", Operands::real},
    {"asinh", "arcsinh", Operands::real},
    {"atan", "arctan", Operands::real},
    {"atan2", "arctan2", Operands::real},
    {"atanh", "arctanh", Operands::real},
    {"ceil", "ceil", Operands::number},
    {"copysign", "copysign", Operands::real},
    {"cos", "cos", Operands::real},
    {"cosh", "cosh", Operands::real},
    {"deg2rad", "deg2rad", Operands::real},
    {"eq", "equal", Operands::common},
    {"exp", "exp", Operands::real},
    {"exp2", "exp2", Operands::real},
    {"expm1", "expm1", Operands::real},
    {"floor", "floor", Operands::number},
    {"fmax", "fmax", Operands::common},
    {"fmin", "fmin", Operands::common},
    {"ge", "greater_equal", Operands::common},
    {"gt", "greater", Operands::common},
    {"hypot", "hypot", Operands::floats},
    {"isfinite", "isfinite", Operands::any},
    {"isinf", "isinf", Operands::any},
    {"isnan", "isnan", Operands::any},
    {"le", "less_equal", Operands::common},
    {"log", "log", Operands::real},
    {"log10", "log10", Operands::real},
    {"log1p", "log1p", Operands::real},
    {"log2", "log2", Operands::real},
    {"logaddexp", "logaddexp", Operands::floats},
    {"logical_and", "logical_and", Operands::any},
    {"logical_not", "logical_not", Operands::any},
    {"logical_or", "logical_or", Operands::any},
    {"logical_xor", "logical_xor", Operands::any},
    {"lt", "less", Operands::common},
    {"maximum", "maximum", Operands::common},
    {"minimum", "minimum", Operands::common},
    {"ne", "not_equal", Operands::common},
    {"neg", "negative", Operands::number},
    {"negative", "negative", Operands::number},
    {"rad2deg", "rad2deg", Operands::real},
    {"reciprocal", "reciprocal", Operands::real},
    {"round", "around", Operands::number},
    {"sign", "sign", Operands::number},
    {"sin", "sin", Operands::real},
    {"sinh", "sinh", Operands::real},
    {"sqrt", "sqrt", Operands::real},
    {"square", "square", Operands::number},
    {"tan", "tan", Operands::real},
    {"tanh", "tanh", Operands::real},
    {"trunc", "trunc", Operands::number},
    {"where", "where", Operands::choice},
};

struct Operator {
  const char* name;
  BinaryOp op;
};

/// Those that are operators; an `alpha` or a rounding mode is refused.
constexpr Operator operators[] = {
    {"add", BinaryOp::add},
    {"bitwise_and", BinaryOp::and_},
    {"bitwise_or", BinaryOp::or_},
    {"bitwise_xor", BinaryOp::xor_},
    {"div", BinaryOp::true_divide},
    {"divide", BinaryOp::true_divide},
    {"floor_divide", BinaryOp::floor_divide},
    {"matmul", BinaryOp::matrix_multiply},
    {"mul", BinaryOp::multiply},
    {"multiply", BinaryOp::multiply},
    {"pow", BinaryOp::power},
    {"remainder", BinaryOp::remainder},
    {"sub", BinaryOp::subtract},
    {"subtract", BinaryOp::subtract},
    {"true_divide", BinaryOp::true_divide},
};

bool is_wide_unsigned(DType t) { return t == DType::u16_ || t == DType::u32_ || t == DType::u64_; }

Traced call_operands(Context& c, const Elementwise& f, Args args) {
  const auto refuse_them = [&] { refuse(c, AbortId::call_, std::string("torch.") + f.name + " with these arguments"); };
  std::vector<Traced> operands(args.begin(), args.end());
  const size_t first = f.operands == Operands::choice ? 1 : 0;
  if (operands.size() <= first || !std::any_of(args.begin(), args.end(), [&](auto& t) { return is_torch(c, t); })) {
    refuse_them();
  }
  if (first) {
    const bool tensor = is_tensor(args[0]);
    const DType condition = tensor                ? as_tensor(c, args[0])->dtype
                            : args[0].is_scalar() ? args[0].type.dtype
                                                  : DType::i8_;
    if (condition != DType::bool_) refuse_them();
  }
  if (f.operands != Operands::any) {
    DType type = torch_type(c, args.subspan(first));
    if (f.operands == Operands::real && !ir::is_real(type)) type = DType::f32_;
    const bool fits = f.operands == Operands::floats   ? ir::is_real(type)
                      : f.operands == Operands::number ? type != DType::bool_
                                                       : true;
    if (!fits || is_wide_unsigned(type)) refuse_them();
    for (size_t k = first; k < operands.size(); k++) operands[k] = torch_cast(c, operands[k], type);
    if (ir::is_real(type) && std::string_view(f.name) == "sign") {  // of NaN it is 0
      const Traced choice[] = {call_elementwise(c, "isnan", operands), py_float(Emit(c).f64(0)), operands[0]};
      operands[0] = torch_cast(c, call_elementwise(c, "where", choice), type);
    }
  }
  Traced result = call_elementwise(c, f.numpy, operands);
  if (result.kind == Kind::zero_d) result.kind = Kind::scalar;
  return result;
}

/// torch takes NumPy's names of the arguments, too.
std::string own_name(const std::string& name) {
  return name == "axis" ? "dim" : name == "keepdims" ? "keepdim" : name == "a" || name == "x" ? "input" : name;
}

struct Reducer {
  const char* name;
  Reduction kind;
  bool (*takes)(DType);
  bool sums;  // of integers in int64
};

bool any_type(DType t) { return !is_wide_unsigned(t); }
bool numbers(DType t) { return any_type(t) && t != DType::bool_; }
bool floats(DType t) { return ir::is_real(t); }
bool not_bytes(DType t) { return t != DType::u8_ && !is_wide_unsigned(t); }

constexpr Reducer reducers[] = {
    {"sum", Reduction::sum, any_type, true},      {"prod", Reduction::prod, any_type, true},
    {"mean", Reduction::mean, floats, false},     {"std", Reduction::std, floats, false},
    {"var", Reduction::var, floats, false},       {"amax", Reduction::max, any_type, false},
    {"amin", Reduction::min, any_type, false},    {"max", Reduction::max, any_type, false},
    {"min", Reduction::min, any_type, false},     {"any", Reduction::any, not_bytes, false},
    {"all", Reduction::all, not_bytes, false},    {"argmax", Reduction::argmax, numbers, false},
    {"argmin", Reduction::argmin, numbers, false}};

Traced call_reducer(Context& c, const Reducer& r, Args args, Named kwargs) {
  const bool moments = r.kind == Reduction::std || r.kind == Reduction::var;
  // max(x, y) is the larger of each; max(x, dim) has positions too.
  const bool extreme = !std::strcmp(r.name, "max") || !std::strcmp(r.name, "min");
  if (extreme && args.size() == 2 && kwargs.empty() && is_torch(c, args[1])) {
    const Elementwise larger{r.name, r.kind == Reduction::max ? "maximum" : "minimum", Operands::common};
    return call_operands(c, larger, args);
  }
  const Call call(c, r.name, moments ? "input dim correction keepdim" : "input dim keepdim dtype", args, kwargs);
  if (extreme && (args.size() > 1 || !kwargs.empty())) call.refuse_arguments();
  if (moments && args.size() > 2) call.refuse_arguments();
  const TensorRef t = call.array("input");
  Axes axes = call.axes(t->rank(), "dim");
  axes.keep = call.flag("keepdim");
  const bool position = r.kind == Reduction::argmax || r.kind == Reduction::argmin;
  if (!r.takes(t->dtype) || (call.given("dtype") && !r.sums) || t->rank() == 0) call.refuse_arguments();
  if (position && axes.keep && !call.given("dim")) call.refuse_arguments();
  if (position && std::count(axes.reduced.begin(), axes.reduced.end(), true) > 1 && call.given("dim")) {
    call.refuse_arguments();
  }
  std::optional<DType> dtype = call.dtype();
  if (r.sums && !dtype && !ir::is_real(t->dtype)) dtype = DType::i64_;
  Traced less;
  if (moments) less = call.given("correction") ? call["correction"] : py_int(c.builder().i64(1));
  return reduce(c, r.kind, t, axes, dtype, less);
}

Traced cumulative(Context& c, BinaryOp op, const char* name, Args args, Named kwargs) {
  const Call call(c, name, "input dim dtype", args, kwargs);
  const TensorRef t = call.array("input");
  const Axes axes = call.axes(t->rank(), "dim");
  if (!call.given("dim") || std::count(axes.reduced.begin(), axes.reduced.end(), true) != 1 || !any_type(t->dtype)) {
    call.refuse_arguments();
  }
  const auto axis = std::find(axes.reduced.begin(), axes.reduced.end(), true) - axes.reduced.begin();
  const std::optional<DType> given = call.dtype();
  return cumulate(c, op, t, static_cast<int>(axis), given || ir::is_real(t->dtype) ? given : DType::i64_);
}

/// dot, mv and mm are products of vectors and matrices, of one dtype.
Traced product(Context& c, const char* name, int left, int right, Args args, Named kwargs) {
  const Call call(c, name, "input other", args, kwargs);
  const TensorRef a = call.array("input"), b = call.array("other");
  if (a->rank() != left || b->rank() != right || a->dtype != b->dtype) call.refuse_arguments();
  return binary(c, BinaryOp::matrix_multiply, tensor(a), tensor(b));
}

Traced made(Context& c, DType type, std::span<Value* const> shape, const Traced* filler,
            ir::Layout layout = ir::Layout::c) {
  const TensorRef out = allocate(c, type, shape, {}, layout);
  if (filler) assign(c, out, *filler);
  return out->base;
}

Traced made_like(Context& c, const char* name, Args args, Named kwargs) {
  const Call call(c, name, std::strcmp(name, "full_like") ? "input dtype" : "input fill_value dtype", args, kwargs);
  const TensorRef t = call.array("input");
  const DType type = call.dtype().value_or(t->dtype);
  const Traced number = std::strcmp(name, "full_like") ? py_int(c.builder().i64(name[0] == 'o')) : call["fill_value"];
  if (!number.is_scalar()) call.refuse_arguments();
  const Traced filler = torch_cast(c, number, type);
  return made(c, type, t->shape, name[0] == 'e' ? nullptr : &filler, kept_order(t));
}

/// zeros(2, 3), zeros((2, 3)): float32, in the host's memory where no device is named.
Traced made_of_numbers(Context& c, const char* name, Args args, Named kwargs) {
  std::vector<Traced> extents(args.begin(), args.end());
  if (args.size() == 1 && args[0].kind == Kind::tuple) extents = args[0].items;
  const Call call(c, name, "dtype", {}, kwargs);
  std::vector<Value*> shape;
  Emit e(c);
  for (const Traced& extent : extents) {
    shape.push_back(as_index(c, extent));
    e.check(ir::CheckKind::decline_, e.ge(shape.back(), e.i64(0)));
  }
  c.make_arrays_of("torch.cpu", name);
  const DType type = call.dtype().value_or(DType::f32_);
  const Traced filler = torch_cast(c, py_int(e.i64(name[0] == 'o')), type);
  return made(c, type, shape, name[0] == 'e' ? nullptr : &filler);
}

std::optional<Traced> call_by_name(Context& c, std::string_view name, Args args, Named kwargs) {
  const bool plain = kwargs.empty();
  for (const Elementwise& f : elementwise) {
    if (name != f.name) continue;
    if (!plain) refuse(c, AbortId::call_, "torch." + std::string(name) + " with keyword arguments");
    return call_operands(c, f, args);
  }
  for (const Operator& f : operators) {
    if (name != f.name) continue;
    if (!plain || args.size() != 2) refuse(c, AbortId::call_, "torch." + std::string(name) + " with these arguments");
    return binary(c, f.op, args[0], args[1]);
  }
  std::vector<std::pair<std::string, Traced>> renamed(kwargs.begin(), kwargs.end());
  for (auto& [key, value] : renamed) key = own_name(key);
  for (const Reducer& r : reducers) {
    if (name == r.name) return call_reducer(c, r, args, renamed);
  }
  if (name == "cumsum") return cumulative(c, BinaryOp::add, "cumsum", args, renamed);
  if (name == "cumprod") return cumulative(c, BinaryOp::multiply, "cumprod", args, renamed);
  if (name == "dot") return product(c, "dot", 1, 1, args, kwargs);
  if (name == "mv") return product(c, "mv", 2, 1, args, kwargs);
  if (name == "mm") return product(c, "mm", 2, 2, args, kwargs);
  if (name == "bitwise_not" && plain && args.size() == 1) return unary(c, UnaryOp::invert, args[0]);
  for (const char* like : {"zeros_like", "ones_like", "empty_like", "full_like"}) {
    if (name == like) return made_like(c, like, args, renamed);
  }
  if (name == "clone" && plain && args.size() == 1 && is_tensor(args[0]))
    return materialised(c, as_tensor(c, args[0]))->base;
  if ((name == "t" || name == "transpose") && !args.empty() && is_tensor(args[0])) {
    const TensorRef t = as_tensor(c, args[0]);
    if (name == "t" && args.size() == 1 && t->rank() <= 2) return tensor(transposed(c, t));
    if (name == "transpose" && args.size() == 3 && t->rank() == 2) {
      const auto a = known_integer(args[1].value), b = known_integer(args[2].value);
      if (a && b && (*a & 1) != (*b & 1) && std::abs(*a) <= 2 && std::abs(*b) <= 2) return tensor(transposed(c, t));
    }
  }
  return {};
}

constexpr const char* functions_only[] = {"zeros", "ones", "empty"};
constexpr const char* complex_only[] = {"complex", "real", "imag"};
constexpr const char* others[] = {"cumsum",     "cumprod",   "dot",           "mv",        "mm",    "bitwise_not",
                                  "zeros_like", "ones_like", "empty_like",    "full_like", "clone", "t",
                                  "transpose",  "conj",      "conj_physical", "angle",     "vdot"};
constexpr const char* methods_only[] = {"size", "dim",  "numel", "item",     "to",    "float", "double",
                                        "int",  "long", "half",  "bfloat16", "fill_", "zero_", "copy_"};

bool is_one_of(std::string_view name, std::span<const char* const> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_function(std::string_view name) {
  const auto named = [&](const auto& row) { return name == row.name; };
  return std::any_of(std::begin(elementwise), std::end(elementwise), named) ||
         std::any_of(std::begin(operators), std::end(operators), named) ||
         std::any_of(std::begin(reducers), std::end(reducers), named) || is_one_of(name, others);
}

/// The name under which torch has the callable; null where it is none that is known here.
const char* name_of(PyObject* callable) {
  static auto* const known = new std::unordered_map<PyObject*, const char*>;  // with the callables, for good
  PyObject* torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (torch && known->empty()) {
    const auto add = [&](const char* name) {
      Ref function = Ref::steal(PyObject_GetAttrString(torch, name));
      PyErr_Clear();
      if (function && !PyFunction_Check(function.get())) known->emplace(function.release(), name);
    };
    for (const Elementwise& f : elementwise) add(f.name);
    for (const Operator& f : operators) add(f.name);
    for (const Reducer& r : reducers) add(r.name);
    for (const char* name : others) add(name);
    for (const char* name : functions_only) add(name);
    for (const char* name : complex_only) add(name);
  }
  const auto found = known->find(callable);
  return found == known->end() ? nullptr : found->second;
}

}  // namespace

bool is_torch_function(PyObject* callable) { return name_of(callable) != nullptr; }

std::optional<Traced> call_torch(Context& c, PyObject* callable, Args args, Named kwargs) {
  const char* name = name_of(callable);
  if (!name) return {};
  if (std::optional<Traced> result = call_torch_complex(c, name, args, kwargs)) return result;
  if (is_one_of(name, functions_only)) return made_of_numbers(c, name, args, kwargs);
  std::optional<Traced> result = call_by_name(c, name, args, kwargs);
  if (!result) refuse(c, AbortId::call_, std::string("torch.") + name + " with these arguments");
  return result;
}

bool has_torch_method(std::string_view name) {
  return (has_function(name) && !name.ends_with("_like")) || is_one_of(name, methods_only);
}

Traced call_torch_method(Context& c, const Traced& self, const std::string& name, Args args, Named kwargs) {
  std::vector<Traced> all = {self};
  all.insert(all.end(), args.begin(), args.end());
  if (std::optional<Traced> result = call_torch_complex(c, name, all, kwargs)) return *result;
  const auto cast = [&](DType to) { return torch_cast(c, self, to); };
  if (kwargs.empty() && args.empty()) {
    if (name == "float") return cast(DType::f32_);
    if (name == "double") return cast(DType::f64_);
    if (name == "half") return cast(DType::f16_);
    if (name == "bfloat16") return cast(DType::bf16_);
    if (name == "int") return cast(DType::i32_);
    if (name == "long") return cast(DType::i64_);
    if (name == "item" && !is_tensor(self)) return call_method(c, number(c, self), name, args);
    if (name == "dim") return getattr(c, self, "ndim");
    if (name == "size") return getattr(c, self, "shape");
    if (name == "zero_" && is_tensor(self)) {
      assign(c, as_tensor(c, self), py_int(c.builder().i64(0)));
      return self;
    }
    if (name == "numel") {
      Emit e(c);
      Value* count = e.i64(1);
      const TensorRef t = is_tensor(self) ? as_tensor(c, self) : nullptr;
      for (size_t d = 0; t && d < t->shape.size(); d++) count = e.op(Opcode::mul_, {count, t->shape[d]});
      return py_int(count);
    }
  }
  if (kwargs.empty() && args.size() == 1) {
    if (name == "size") return getitem(c, getattr(c, self, "shape"), args[0]);
    if (name == "to" && args[0].kind == Kind::object) {
      if (const auto to = runtime::torch_dtype_named(args[0].object.get())) return cast(*to);
    }
    const bool numbers = args[0].is_scalar() && !args[0].tag;
    if (is_tensor(self) && ((name == "fill_" && numbers) || (name == "copy_" && is_tensor(args[0])))) {
      assign(c, as_tensor(c, self), args[0]);
      return self;
    }
  }
  if (!is_one_of(name, methods_only)) {
    if (std::optional<Traced> result = call_by_name(c, name, all, kwargs)) return *result;
  }
  refuse(c, AbortId::call_, describe(self) + "." + name + " with these arguments");
}

}  // namespace appy::trace
