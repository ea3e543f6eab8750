#include "runtime/outputs.h"

#include <algorithm>
#include <vector>

#include "runtime/device_arrays.h"
#include "runtime/guards.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "support/check.h"

namespace appy::runtime {
namespace {

enum class Change : uint8_t { none, set, unset, error };

/// The view of the array that the words describe. One with an axis more than the array has is of the real or of the
/// imaginary parts of complex numbers.
PyObject* make_view(const Output& out, const ir::Word* words, PyObject* base) {
  auto* array = reinterpret_cast<PyArrayObject*>(base);
  const auto rank = static_cast<size_t>(PyArray_NDIM(array));
  const std::optional<ir::DType> part =
      out.axes.size() > rank ? complex_part_of(PyArray_DESCR(array)->type_num) : std::nullopt;
  std::vector<npy_intp> extents(static_cast<size_t>(out.rank)), strides(static_cast<size_t>(out.rank), 0);
  for (size_t d = 0; d < extents.size(); d++) extents[d] = static_cast<npy_intp>(words[out.axes.size() + d]);
  npy_intp offset = 0;
  for (size_t k = 0; k < out.axes.size(); k++) {
    const npy_intp stride = k < rank ? PyArray_STRIDE(array, static_cast<int>(k)) : PyArray_ITEMSIZE(array) / 2;
    offset += static_cast<npy_intp>(words[k]) * stride;
    if (out.axes[k].dim >= 0) strides[static_cast<size_t>(out.axes[k].dim)] += out.axes[k].step * stride;
  }
  // What selects nothing may start behind the end.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) offset = 0;
  const int flags = out.writeable ? PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE : 0;
  PyArray_Descr* descr = part ? PyArray_DescrFromType(type_number(*part)) : PyArray_DESCR(array);
  if (!part) Py_INCREF(descr);
  Ref view = Ref::steal(PyArray_NewFromDescr(&PyArray_Type, descr, out.rank, extents.data(), strides.data(),
                                             PyArray_BYTES(array) + offset, flags, nullptr));
  auto* made = reinterpret_cast<PyArrayObject*>(view.get());
  if (!made || PyArray_SetBaseObject(made, Py_NewRef(base)) < 0) return nullptr;
  PyArray_UpdateFlags(made, NPY_ARRAY_UPDATE_ALL);
  return Py_NewRef(view.get());
}

/// The same of an array of another library, by the subscripts and the order of dimensions that give it.
PyObject* make_foreign_view(const Output& out, const ir::Word* words, Library library, PyObject* base) {
  const size_t axes = out.axes.size();
  const auto number = [](int64_t n) { return Ref::steal(PyLong_FromLongLong(n)); };
  int64_t extents[ForeignArray::max_rank];
  const int rank = extents_of(base, extents);
  if (rank < 0) return nullptr;
  const bool part = axes > static_cast<size_t>(rank);
  const Ref array =
      part ? Ref::steal(PyObject_GetAttrString(base, words[axes - 1] ? "imag" : "real")) : Ref::borrow(base);
  const Ref subscripts = Ref::steal(PyTuple_New(rank));
  std::vector<int> dims;  // of the view, in the order in which the array has them
  for (size_t k = 0; subscripts && k < static_cast<size_t>(rank); k++) {
    const auto start = static_cast<int64_t>(words[k]);
    const auto [dim, step] = out.axes[k];
    Ref item = number(start);
    if (dim >= 0) {
      dims.push_back(dim);
      const auto extent = static_cast<int64_t>(words[axes + static_cast<size_t>(dim)]);
      const int64_t stop = extent > 0 ? start + step * extent : 0;
      const Ref first = extent > 0 ? item : number(0), by = number(extent > 0 ? step : 1);
      const Ref end = stop < 0 ? Ref::borrow(Py_None) : number(stop);
      item = Ref::steal(first && by && end ? PySlice_New(first.get(), end.get(), by.get()) : nullptr);
    }
    if (!item) return nullptr;
    PyTuple_SET_ITEM(subscripts.get(), static_cast<Py_ssize_t>(k), item.release());
  }
  Ref view = Ref::steal(array && subscripts ? PyObject_GetItem(array.get(), subscripts.get()) : nullptr);
  if (!view) return nullptr;
  if (!std::is_sorted(dims.begin(), dims.end())) {
    std::vector<int> order(dims.size());
    for (size_t k = 0; k < dims.size(); k++) {
      const auto before = std::count_if(dims.begin(), dims.end(), [&](int d) { return d < dims[k]; });
      order[static_cast<size_t>(before)] = static_cast<int>(k);
    }
    const Ref items = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(order.size())));
    for (size_t k = 0; items && k < order.size(); k++) {
      PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(k), number(order[k]).release());
    }
    const char* method = library == Library::torch ? "permute" : "transpose";
    view = Ref::steal(items ? PyObject_CallMethod(view.get(), method, "(O)", items.get()) : nullptr);
    if (!view) return nullptr;
  }
  if (dims.size() == static_cast<size_t>(out.rank)) return view.release();
  // The others are new ones, of extent 1.
  const Ref items = Ref::steal(PyTuple_New(out.rank));
  const Ref whole = Ref::steal(PySlice_New(nullptr, nullptr, nullptr));
  for (int d = 0; items && whole && d < out.rank; d++) {
    const bool own = std::find(dims.begin(), dims.end(), d) != dims.end();
    PyTuple_SET_ITEM(items.get(), d, Py_NewRef(own ? whole.get() : Py_None));
  }
  return items ? PyObject_GetItem(view.get(), items.get()) : nullptr;
}

/// What is left of a NumPy scalar where the arrays are another library's, which has 0-d arrays in its place. Takes the
/// reference.
PyObject* as_element(const Signature& signature, const PyScalarType& type, bool complex, PyObject* number) {
  const bool element = type.kind == ScalarKind::np_scalar && signature.library != Library::numpy;
  if (!number || !element || !makes_arrays(signature.library)) return number;
  const Ref held = Ref::steal(number);
  return make_zero_d(signature.library, signature.device, type.dtype, complex, number);
}

/// The word of one of an output's types. What no one type holds comes as bits in a np.uint64.
ir::Word number_word(const PyScalarType& held, const PyScalarType& type, ir::Word word) {
  const ir::DType from = graph_type(held), to = graph_type(type);
  const bool bits = from == ir::DType::u64_ && ir::is_real(to);
  return bits ? word : convert_word(from, to, word);
}

/// What happens to the output's variable; on `set`, *value is a new reference.
Change change_of(const Signature& signature, const Output& out, const ir::Word* results, PyObject* const* objects,
                 const MadeArrays& arrays, PyObject** value) {
  if (out.bound >= 0 && !results[out.bound]) return out.unset ? Change::unset : Change::none;
  if (out.which >= 0) {
    const auto which = static_cast<int64_t>(results[out.which]);
    if (which == Output::keep) return Change::none;
    if (which == Output::unbind) return Change::unset;
    if (out.view) {
      PyObject* base = out.alloc >= 0 ? arrays.at(out.alloc) : objects[out.input];
      if (!base) return Change::none;  // left before it was made
      const ir::Word* words = results + out.which + 1;
      const bool foreign = signature.library != Library::numpy;
      *value = foreign ? make_foreign_view(out, words, signature.library, base) : make_view(out, words, base);
      return *value ? Change::set : Change::error;
    }
    const bool made = which >= Output::first_slot;
    *value = Py_XNewRef(made ? arrays.at(static_cast<int>(which - Output::first_slot)) : objects[which]);
    APPY_CHECK(*value, "an output is an array that exists");
    return Change::set;
  }
  if (out.result < 0 && out.alloc >= 0) {
    *value = Py_XNewRef(arrays.at(out.alloc));
    return *value ? Change::set : Change::none;  // left before it was made
  }
  if (out.result < 0) {
    *value = Py_XNewRef(out.input >= 0 ? objects[out.input] : out.object.get());
    return *value ? Change::set : Change::unset;
  }
  ir::Word word = results[out.result];
  if (out.imaginary >= 0) {
    const PyScalarType& type = out.tag < 0 ? out.type : out.types[results[out.tag]];
    *value = make_complex(type, number_word(out.type, type, word), number_word(out.type, type, results[out.imaginary]));
    *value = as_element(signature, type, true, *value);
    return *value ? Change::set : Change::error;
  }
  const PyScalarType& type = out.tag < 0 ? out.type : out.types[results[out.tag]];
  *value = make_scalar(type, out.tag < 0 ? word : number_word(out.type, type, word));
  *value = as_element(signature, type, false, *value);
  return *value ? Change::set : Change::error;
}

/// Stores the value (its reference is taken over), or unbinds the variable where it is null.
bool assign(const Output& out, const Scope& scope, PyObject* value) {
  if (out.to == Output::To::fast) {
    PyObject* old = std::exchange(scope.localsplus[out.index], value);
    Py_XDECREF(old);
    return true;
  }
  Ref owned = Ref::steal(value);
  if (out.to == Output::To::cell) return PyCell_Set(scope.localsplus[out.index], value) == 0;
  if (value) return PyDict_SetItem(scope.globals, out.name.get(), value) == 0;
  if (PyDict_DelItem(scope.globals, out.name.get()) < 0) PyErr_Clear();
  return true;
}

}  // namespace

bool write_outputs(const Signature& signature, const Scope& scope, const ir::Word* results, PyObject* const* objects,
                   const MadeArrays& arrays, int64_t exit, PyObject** returned) {
  const std::vector<Output>& outputs = signature.outputs;
  Scratch<PyObject*, 32> values;
  Scratch<Change, 32> changes;
  values.reserve(outputs.size());
  changes.reserve(outputs.size());
  for (size_t i = 0; i < outputs.size(); i++) {
    const Output& out = outputs[i];
    values[i] = nullptr;
    changes[i] = Change::none;
    if (out.to == Output::To::ret && (exit == 0 || out.index != exit)) continue;
    changes[i] = change_of(signature, out, results, objects, arrays, &values[i]);
    if (changes[i] == Change::error) {
      for (size_t k = 0; k < i; k++) Py_XDECREF(values[k]);
      return false;
    }
  }
  // All values exist before the first old one is dropped: a destructor may run anything.
  bool ok = true;
  for (size_t i = 0; i < outputs.size(); i++) {
    if (changes[i] == Change::none) continue;
    if (outputs[i].to == Output::To::ret)
      *returned = values[i];
    else
      ok = assign(outputs[i], scope, values[i]) && ok;
  }
  return ok;
}

}  // namespace appy::runtime
