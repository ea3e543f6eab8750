#include "trace/functions.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/handlers.h"
#include "trace/tagged.h"
#include "trace/tensor.h"
#include "trace/torch.h"
#include "trace/trace.h"

namespace appy::trace {
namespace {

constexpr Function rows[] = {
#define X(module, name, min, max, handler, code) {#module, #name, min, max, handler, Opcode::code##_},
#include "trace/functions.def"
#undef X
};

/// Callables by identity. A row joins when its module is loaded; its callable is kept alive, so that no other object
/// can take its address.
struct Registry {
  std::unordered_map<PyObject*, const Function*> rows;
  std::unordered_map<const Function*, Ref> callables;
  std::vector<Ref> kept;
  std::vector<std::string> loaded;
};

Registry& registry() {
  static auto* instance = new Registry;  // outlives the interpreter, as its references do
  return *instance;
}

/// The module where it is imported and its functions are not in the registry yet; else null.
PyObject* newly_imported(Registry& r, const char* module) {
  if (std::find(r.loaded.begin(), r.loaded.end(), module) != r.loaded.end()) return nullptr;
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  if (found) r.loaded.emplace_back(module);
  return found;
}

void load(Registry& r, const char* module) {
  PyObject* found = newly_imported(r, module);
  if (!found) return;
  for (const Function& row : rows) {
    if (std::strcmp(row.module, module) != 0) continue;
    Ref callable = Ref::steal(PyObject_GetAttrString(found, row.name));
    const Ref name = callable ? Ref::steal(PyObject_GetAttrString(callable.get(), "__name__")) : Ref();
    PyErr_Clear();
    // What somebody has put in the function's place is a Python function, or has another name.
    if (!name || PyFunction_Check(callable.get()) || !PyUnicode_Check(name.get()) ||
        PyUnicode_CompareWithASCIIString(name.get(), row.name) != 0) {
      continue;
    }
    r.rows.emplace(callable.get(), &row);
    r.callables.emplace(&row, std::move(callable));
  }
}

/// CuPy has NumPy's functions under NumPy's names.
void load_cupy(Registry& r) {
  constexpr const char* module = "cupy";
  PyObject* found = newly_imported(r, module);
  if (!found) return;
  for (const Function& row : rows) {
    if (std::strcmp(row.module, "numpy") != 0) continue;
    const Ref callable = Ref::steal(PyObject_GetAttrString(found, row.name));
    PyErr_Clear();
    const char* home = callable ? home_of(callable.get()) : nullptr;
    if (!home || std::strcmp(home, module) != 0) continue;
    r.rows.emplace(callable.get(), &row);
    r.kept.push_back(callable);
  }
}

constexpr const char* modules[] = {"builtins", "math", "numpy", "scipy.special"};

std::string name_of_callable(const Traced& callable) {
  if (callable.kind == Kind::method) return describe(callable);
  if (callable.kind != Kind::object) return describe(callable);
  const Ref name = Ref::steal(PyObject_GetAttrString(callable.object.get(), "__name__"));
  const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  PyErr_Clear();
  return text ? text : describe(callable);
}

/// The object of a constant argument that cannot change, or null.
PyObject* constant_object(const Traced& t) {
  PyObject* o = t.object.get();
  if (t.kind == Kind::scalar) return t.tag ? nullptr : o;
  if (t.kind != Kind::object) return nullptr;
  return PyLong_CheckExact(o) || PyUnicode_CheckExact(o) || o == Py_None || PyType_Check(o) || PyArray_DescrCheck(o)
             ? o
             : nullptr;
}

/// Calls Python itself where every argument is a constant; empty where one is not, or Python raises.
std::optional<Traced> fold_call(Context& c, PyObject* callable, Args args) {
  const Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (size_t i = 0; i < args.size(); i++) {
    PyObject* o = constant_object(args[i]);
    if (!o) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(o));
  }
  const Ref result = Ref::steal(PyObject_Call(callable, tuple.get(), nullptr));
  if (result) return constant(c, result.get());
  PyErr_Clear();
  return {};
}

bool is_numpy_info(PyObject* callable) {
  PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  for (const char* name : {"finfo", "iinfo", "dtype"}) {
    const Ref type = numpy ? Ref::steal(PyObject_GetAttrString(numpy, name)) : Ref();
    PyErr_Clear();
    if (type.get() == callable) return true;
  }
  return false;
}

/// Ufuncs act on the elements of arrays; of the builtins abs() and pow() do.
bool acts_on_elements(const Function& row) {
  if (std::strcmp(row.module, "math") == 0) return false;
  return std::strcmp(row.module, "builtins") != 0 || row.code == Opcode::abs_;
}

Traced call_row(Context& c, const Function& row, Args args) {
  if (std::any_of(args.begin(), args.end(), is_tensor) && acts_on_elements(row)) {
    return map(c, args, [&row](Context& context, Scalars x) { return call_row(context, row, x); });
  }
  for (size_t i = 0; i < args.size(); i++) {
    if (!args[i].is_scalar() || !args[i].tag) continue;
    return per_alternative(c, args[i], [&](Context& g, const Traced& t) {
      std::vector<Traced> untagged(args.begin(), args.end());
      untagged[i] = t;
      return call_row(g, row, untagged);
    });
  }
  return row.handler(c, row, args);
}

std::optional<DType> scalar_class_dtype(PyObject* callable) {
  for (int i = 0; i <= static_cast<int>(DType::f64_); i++) {
    const auto t = static_cast<DType>(i);
    if (reinterpret_cast<PyObject*>(runtime::scalar_class(t)) == callable) return t;
  }
  return {};
}

}  // namespace

std::span<const Function> all_functions() { return rows; }

PyObject* callable_of(const Function& row) {
  Registry& r = registry();
  load(r, row.module);
  const auto found = r.callables.find(&row);
  return found == r.callables.end() ? nullptr : found->second.get();
}

void find_functions() {
  Registry& r = registry();
  for (const char* module : modules) load(r, module);
  load_cupy(r);
}

const Function* find_function(PyObject* callable) {
  find_functions();
  const Registry& r = registry();
  const auto found = r.rows.find(callable);
  return found == r.rows.end() ? nullptr : found->second;
}

const char* home_of(PyObject* callable) {
  // A ufunc has the module of its class.
  for (PyObject* of : {callable, reinterpret_cast<PyObject*>(Py_TYPE(callable))}) {
    const Ref module = Ref::steal(PyObject_GetAttrString(of, "__module__"));
    const char* name = module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8(module.get()) : nullptr;
    PyErr_Clear();
    for (const char* home : {"numpy", "appy", "cupy", "torch"}) {
      const size_t size = std::strlen(home);
      if (name && std::strncmp(name, home, size) == 0 && (!name[size] || name[size] == '.')) return home;
    }
  }
  return nullptr;
}

void require_inexact(const Context& c, const Function& f) {
  if (c.exact()) refuse(c, AbortId::exact_function_, std::string(f.module) + "." + f.name);
}

std::string error_text_of(const Function& f, double argument) {
  return error_text([&] { return PyObject_CallFunction(callable_of(f), "d", argument); });
}

std::string error_text_of(const Function& f, double a, double b) {
  return error_text([&] { return PyObject_CallFunction(callable_of(f), "dd", a, b); });
}

std::optional<int> type_number_named(PyObject* o) {
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(o, &descr)) {
    PyErr_Clear();
    return {};
  }
  const Ref owned = Ref::steal(reinterpret_cast<PyObject*>(descr));
  if (!PyArray_ISNBO(descr->byteorder)) return {};
  return descr->type_num;
}

std::optional<DType> dtype_named(PyObject* o) {
  if (std::strcmp(Py_TYPE(o)->tp_name, "torch.dtype") == 0) return runtime::torch_dtype_named(o);
  const std::optional<int> number = type_number_named(o);
  return number ? runtime::dtype_of(*number) : std::nullopt;
}

Traced as_numpy(Context& c, const Traced& t) {
  const Traced x = number(c, t);
  return np_scalar(x.value);
}

ir::Value* as_double(Context& c, const Traced& t) { return Emit(c).cast(number(c, t).value, DType::f64_); }

ir::Value* as_index(Context& c, const Traced& t) {
  Emit e(c);
  if (t.is_scalar() && t.tag) {
    const auto index = [](Context& g, const Traced& x) { return py_int(as_index(g, x)); };
    return per_alternative(c, t, index).value;
  }
  if (!t.is_scalar() || ir::is_real(t.value->type.dtype)) refuse(c, AbortId::unsupported_type_, describe(t));
  if (t.is_np() && t.type.dtype == DType::bool_) refuse(c, AbortId::unsupported_type_, describe(t));
  if (t.value->type.dtype == DType::u64_) {
    e.check(ir::CheckKind::overflow_, e.le(t.value, e.constant(DType::u64_, INT64_MAX)));
  }
  return e.cast(t.value, DType::i64_);
}

namespace {

/// A function of CuPy's or torch's speaks of arrays of its own; torch's tensors know none of NumPy's.
void review_library(Context& c, PyObject* callable) {
  const char* home = home_of(callable);
  const bool is_torch = c.library() == runtime::Library::torch;
  if (!home || std::strcmp(home, "appy") == 0) return;
  const bool fits = std::strcmp(home, "numpy") == 0   ? !is_torch
                    : std::strcmp(home, "torch") == 0 ? is_torch
                                                      : c.library() == runtime::Library::cupy;
  if (!fits) refuse(c, AbortId::call_, std::string("a function of ") + home + " without such arrays");
}

}  // namespace

Traced call_elementwise(Context& c, const char* numpy_name, Args args) {
  for (const Function& row : rows) {
    if (std::strcmp(row.module, "numpy") != 0 || std::strcmp(row.name, numpy_name) != 0) continue;
    const auto count = static_cast<int>(args.size());
    if (count < row.min_args || count > row.max_args) {
      refuse(c, AbortId::call_, std::string(numpy_name) + " with these arguments");
    }
    return call_row(c, row, args);
  }
  refuse(c, AbortId::call_, numpy_name);
}

std::optional<Traced> call(Context& c, const Traced& callable, Args args,
                           std::span<const std::pair<std::string, Traced>> kwargs) {
  if (std::optional<Traced> result = call_complex(c, callable, args, kwargs)) return result;
  if (callable.kind == Kind::method) {
    const Traced& self = callable.items.at(0);
    if (is_torch(c, self)) return call_torch_method(c, self, callable.name, args, kwargs);
    if (self.kind == Kind::array || self.kind == Kind::tensor) {
      return call_tensor_method(c, self, callable.name, args, kwargs);
    }
    if (!kwargs.empty()) refuse(c, AbortId::call_, name_of_callable(callable) + " with keyword arguments");
    if (self.kind == Kind::object) return callable.name == "at" ? ufunc_at(c, self, args) : ufunc_outer(c, self, args);
    return call_method(c, callable.items.at(0), callable.name, args);
  }
  if (callable.kind != Kind::object) refuse(c, AbortId::call_, name_of_callable(callable));
  PyObject* object = callable.object.get();
  if (std::optional<Traced> result = call_torch(c, object, args, kwargs)) return result;
  if (const std::optional<DType> t = scalar_class_dtype(object); t && kwargs.empty() && args.size() <= 1) {
    return np_scalar(args.empty() ? Emit(c).integer(*t, 0) : constructed(c, args[0], *t));
  }
  const Function* row = find_function(object);
  if (row || !makes_arrays_of_numbers(object)) review_library(c, object);
  if (!row) {
    if (std::optional<Traced> result = call_tensor_function(c, object, args, kwargs)) return result;
    const char* home = home_of(object);
    const bool library = home && (std::strcmp(home, "cupy") == 0 || std::strcmp(home, "torch") == 0);
    if (PyFunction_Check(object) && !library) return {};
    if (kwargs.empty() && is_numpy_info(object)) {
      if (std::optional<Traced> folded = fold_call(c, object, args)) return folded;
    }
    refuse(c, AbortId::call_, name_of_callable(callable));
  }
  const auto count = static_cast<int>(args.size());
  if (!kwargs.empty() || count < row->min_args || (row->max_args >= 0 && count > row->max_args)) {
    refuse(c, AbortId::call_, name_of_callable(callable) + " with these arguments");
  }
  // NumPy's results of constants are folded in the graph, so that no warning comes out of tracing.
  const bool python = std::strcmp(row->module, "builtins") == 0 || std::strcmp(row->module, "math") == 0;
  if ((python || c.exact()) && std::strcmp(row->name, "range") != 0) {
    if (std::optional<Traced> folded = fold_call(c, object, args)) return folded;
  }
  return call_row(c, *row, args);
}

}  // namespace appy::trace
