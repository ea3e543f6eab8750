// Arrays of the frame: NumPy's and those of other libraries. All of a region's are of one library and in one memory.
//
// An element of an array of CuPy's or torch's is, to Python, a 0-d array that shares the memory: a later store to the
// array shows through it, and `x += 1` stores to the array. In the graph it is a value. Where the two would differ, the
// region is refused: Traced::element_of and its neighbours say of each scalar what it would be.
#include <algorithm>

#include "runtime/device_arrays.h"
#include "runtime/numpy.h"
#include "support/abort.h"
#include "trace/complex.h"
#include "trace/recorder.h"

namespace appy::trace {

using runtime::ForeignArray;
using runtime::Input;
using runtime::Library;

namespace {

ForeignArray described(PyArrayObject* a) {
  ForeignArray out;
  const int number = PyArray_DESCR(a)->type_num;
  const std::optional<ir::DType> part = runtime::complex_part_of(number);
  out.data = PyArray_BYTES(a);
  out.rank = PyArray_NDIM(a);
  out.dtype = part ? *part : *runtime::dtype_of(number);
  out.complex = part.has_value();
  out.writeable = PyArray_ISWRITEABLE(a);
  std::copy_n(PyArray_DIMS(a), out.rank, out.shape.begin());
  std::copy_n(PyArray_STRIDES(a), out.rank, out.strides.begin());
  return out;
}

ir::Layout layout_of(const ForeignArray& a) {
  if (a.is_contiguous(false)) return a.complex ? ir::Layout::pairs : ir::Layout::c;
  if (a.complex) return ir::Layout::inner;
  if (a.is_contiguous(true)) return ir::Layout::f;
  const bool inner = a.rank > 0 && a.strides[static_cast<size_t>(a.rank) - 1] == a.item_size();
  return inner ? ir::Layout::inner : ir::Layout::strided;
}

/// The scalars that a number consists of: the parts of a complex one, or itself.
std::span<Traced> scalars_of(Traced& t) { return t.kind == Kind::complex ? std::span(t.items) : std::span(&t, 1); }

/// Of an array that is made: the one that the others are on.
constexpr int unknown_device = -2;

std::string owner_of(Library library, int device) {
  if (device == unknown_device) return std::string("of ") + runtime::name_of(library);
  return std::string("of ") + runtime::name_of(library) + " " + runtime::place_name(device);
}

}  // namespace

Traced Recorder::read_array(Library library, PyObject* value, Input in) {
  ForeignArray a;
  if (library == Library::numpy) {
    auto* array = reinterpret_cast<PyArrayObject*>(value);
    PyArray_Descr* descr = PyArray_DESCR(array);
    if (PyDataType_HASFIELDS(descr)) {
      in.guard = Input::Guard::records;
      Traced t = object(value);
      t.input = add_input(std::move(in));
      return t;
    }
    const bool known = runtime::dtype_of(descr->type_num) || runtime::complex_part_of(descr->type_num);
    if (!known || PyArray_NDIM(array) > ForeignArray::max_rank) abort(AbortId::array_dtype_, in.name);
    if (PyArray_ISBYTESWAPPED(array)) abort(AbortId::byte_order_, in.name);
    a = described(array);
    in.aligned = PyArray_ISALIGNED(array);
  } else {
    if (const char* why = runtime::read_array(library, value, &a)) {
      abort(AbortId::foreign_array_, in.name + ", " + owner_of(library, a.device) + ", " + why);
    }
    in.aligned = a.is_aligned();
    in.object = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(value)));
  }
  in.library = library;
  in.device = a.device;
  enter_library(library, a.device, in.name);
  in.guard = Input::Guard::array;
  in.dtype = a.dtype;
  in.rank = a.rank;
  in.layout = layout_of(a);
  in.complex = a.complex;
  for (size_t i = 0; i < arrays_.size() && in.same_view_as < 0; ++i) {
    if (signature_.inputs[i].guard != Input::Guard::array || signature_.inputs[i].same_view_as >= 0) continue;
    const ForeignArray& b = arrays_[i];
    const auto rank = static_cast<size_t>(a.rank);
    if (a.data != b.data || a.rank != b.rank || a.dtype != b.dtype || a.complex != b.complex) continue;
    if (!std::equal(a.shape.begin(), a.shape.begin() + rank, b.shape.begin())) continue;
    if (!std::equal(a.strides.begin(), a.strides.begin() + rank, b.strides.begin())) continue;
    in.same_view_as = static_cast<int>(i);
    in.param = signature_.inputs[i].param;
  }
  if (in.same_view_as < 0) {
    ir::Type type{a.dtype, static_cast<int8_t>(in.rank + in.complex), in.layout};
    in.param = parameter(type, in.name);
    samples_.array(graph_->body->args[static_cast<size_t>(in.param)], {a.shape.begin(), a.shape.begin() + a.rank});
  }
  Traced t;
  t.kind = Kind::array;
  t.value = graph_->body->args[static_cast<size_t>(in.param)];
  t.writeable = a.writeable;
  t.input = add_input(std::move(in));
  const bool complex = a.complex;
  arrays_[static_cast<size_t>(t.input)] = std::move(a);
  return complex ? complex_array(t) : t;
}

/// Something of this library has a part in the region.
void Recorder::enter_library(Library library, int device, const std::string& name) {
  const bool open = signature_.device == unknown_device || device == unknown_device;
  if (!library_name_.empty() && signature_.library == library && open) {
    if (device != unknown_device) signature_.device = device;
    return;
  }
  if (!library_name_.empty() && (signature_.library != library || signature_.device != device)) {
    abort(AbortId::mixed_arrays_, library_name_ + " is " + owner_of(signature_.library, signature_.device) + ", " +
                                      name + " is " + owner_of(library, device));
  }
  if (!library_name_.empty()) return;
  if (library == Library::torch && !runtime::torch_defaults_to_float32()) {
    abort(AbortId::foreign_array_, name + ", a tensor where torch's default dtype is not float32,");
  }
  library_name_ = name;
  signature_.library = library;
  signature_.device = device;
}

void Recorder::make_arrays_of(const char* module, const char* function) {
  std::string home = module;
  if (home == "appy") {
    PyObject* appy = PyDict_GetItemString(PyImport_GetModuleDict(), "appy");
    const Ref lib = Ref::steal(appy ? PyObject_GetAttrString(appy, "tensorlib") : nullptr);
    const char* name = lib && PyModule_Check(lib.get()) ? PyModule_GetName(lib.get()) : nullptr;
    PyErr_Clear();
    home = name ? name : "numpy";
  }
  const std::string what = home + "." + function;
  if (home == "torch.cpu") return enter_library(Library::torch, runtime::host_memory, "torch." + std::string(function));
  if (home == "numpy") return enter_library(Library::numpy, runtime::host_memory, what);
  if (home != "cupy" && home != "torch") abort(AbortId::call_, what);
  enter_library(home == "cupy" ? Library::cupy : Library::torch, unknown_device, what);
}

/// Arrays are made where the others are, so there has to be another one.
void Recorder::require_place() const {
  if (signature_.device == unknown_device) {
    abort(AbortId::mixed_arrays_, library_name_ + " makes an array beside none that is there");
  }
  // They are none of torch's numbers.
  if (signature_.library == Library::torch && numpy_scalars_) {
    abort(AbortId::mixed_arrays_, library_name_ + " is torch's, and there is a number of NumPy's");
  }
}

/// Is such a scalar a 0-d array to Python?
bool Recorder::is_zero_d_array(const Traced& t) const {
  const bool library = signature_.library == Library::cupy || signature_.library == Library::torch;
  if (library && t.kind == Kind::complex && !t.value) return is_zero_d_array(t.items[0]);
  if (!library || t.kind != Kind::scalar) return false;
  if (!t.tag) return t.is_np();
  return std::any_of(t.types.begin(), t.types.end(),
                     [](const auto& type) { return type.kind == runtime::ScalarKind::np_scalar; });
}

void Recorder::mark_element(const Traced& container) {
  Traced& t = slots_.back().traced;
  const Traced& part = container.kind == Kind::complex && !container.value ? container.items[0] : container;
  const bool view = part.kind == Kind::tensor && part.tensor->is_view();
  if (!is_zero_d_array(t) || !(view || part.kind == Kind::array || part.kind == Kind::complex)) return;
  for (Traced& s : scalars_of(t)) s.element_of = view ? part.tensor->base.value : part.value;
}

/// The array is stored to: what shares its memory is not what it was.
void Recorder::outdate_elements(const Traced& array) {
  for (Slot& s : slots_) {
    if (s.kind != Slot::Kind::value) continue;
    for (Traced& t : scalars_of(s.traced)) {
      const ir::Value* of = t.element_of;
      if (of && (of == array.value || of == &any_array || graph_->may_alias)) t.outdated = true;
    }
  }
}

/// x op= y on a scalar that is a 0-d array to Python.
void Recorder::review_in_place(const Traced& before, const Traced& after) const {
  if (before.kind == Kind::complex && after.kind == Kind::complex && !before.value) {
    return review_in_place(before.items[0], after.items[0]);
  }
  if (!is_zero_d_array(before)) return;
  constexpr const char* what = "a variable that is updated in place";
  if (before.element_of) abort(AbortId::element_, std::string(what) + " is an element of an array, which would change");
  if (before.shared) abort(AbortId::element_, std::string(what) + " is a 0-d array with a second name");
  const auto types = [](const Traced& t) { return t.tag ? t.types : std::vector{t.type}; };
  const std::vector<runtime::PyScalarType> held = types(before);
  const auto kept = [&](const auto& type) {
    return type.kind != runtime::ScalarKind::np_scalar || std::find(held.begin(), held.end(), type) != held.end();
  };
  const std::vector<runtime::PyScalarType> made = types(after);
  if (after.kind != Kind::scalar || !std::all_of(made.begin(), made.end(), kept)) {
    abort(AbortId::element_, std::string(what) + " is a 0-d array of another dtype than the result");
  }
}

/// Another variable that holds the very same 0-d array.
void Recorder::share(Traced& t) {
  if (!is_zero_d_array(t)) return;
  for (Slot& s : slots_) {
    if (s.kind != Slot::Kind::value || s.traced.kind != t.kind || s.traced.value != t.value) continue;
    const std::span<Traced> own = scalars_of(t), other = scalars_of(s.traced);
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k].kind == Kind::scalar && own[k].value == other[k].value) own[k].shared = other[k].shared = true;
    }
  }
}

}  // namespace appy::trace
