#include "runtime/outputs.h"

#include <algorithm>
#include <vector>

#include "runtime/guards.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"
#include "support/check.h"

namespace appy::runtime {
namespace {

enum class Change : uint8_t { none, set, unset, error };

/// The view of the array that the words describe.
PyObject* make_view(const Output& out, const ir::Word* words, PyObject* base) {
  auto* array = reinterpret_cast<PyArrayObject*>(base);
  std::vector<npy_intp> extents(static_cast<size_t>(out.rank)), strides(static_cast<size_t>(out.rank), 0);
  for (size_t d = 0; d < extents.size(); d++) extents[d] = static_cast<npy_intp>(words[out.axes.size() + d]);
  npy_intp offset = 0;
  for (size_t k = 0; k < out.axes.size(); k++) {
    const npy_intp stride = PyArray_STRIDE(array, static_cast<int>(k));
    offset += static_cast<npy_intp>(words[k]) * stride;
    if (out.axes[k].dim >= 0) strides[static_cast<size_t>(out.axes[k].dim)] += out.axes[k].step * stride;
  }
  // What selects nothing may start behind the end.
  if (std::find(extents.begin(), extents.end(), 0) != extents.end()) offset = 0;
  const int flags = out.writeable ? PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE : 0;
  PyArray_Descr* descr = PyArray_DESCR(array);
  Py_INCREF(descr);
  Ref view = Ref::steal(PyArray_NewFromDescr(&PyArray_Type, descr, out.rank, extents.data(), strides.data(),
                                             PyArray_BYTES(array) + offset, flags, nullptr));
  auto* made = reinterpret_cast<PyArrayObject*>(view.get());
  if (!made || PyArray_SetBaseObject(made, Py_NewRef(base)) < 0) return nullptr;
  PyArray_UpdateFlags(made, NPY_ARRAY_UPDATE_ALL);
  return Py_NewRef(view.get());
}

/// The word of one of an output's types. What no one type holds comes as bits in a np.uint64.
ir::Word number_word(const PyScalarType& held, const PyScalarType& type, ir::Word word) {
  const ir::DType from = graph_type(held), to = graph_type(type);
  const bool bits = from == ir::DType::u64_ && ir::is_real(to);
  return bits ? word : convert_word(from, to, word);
}

/// What happens to the output's variable; on `set`, *value is a new reference.
Change change_of(const Output& out, const ir::Word* results, PyObject* const* objects, const NumpyArrays& arrays,
                 PyObject** value) {
  if (out.bound >= 0 && !results[out.bound]) return out.unset ? Change::unset : Change::none;
  if (out.which >= 0) {
    const auto which = static_cast<int64_t>(results[out.which]);
    if (which == Output::keep) return Change::none;
    if (which == Output::unbind) return Change::unset;
    if (out.view) {
      PyObject* base = out.alloc >= 0 ? arrays.at(out.alloc) : objects[out.input];
      if (!base) return Change::none;  // left before it was made
      *value = make_view(out, results + out.which + 1, base);
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
    return *value ? Change::set : Change::error;
  }
  if (out.tag < 0) {
    *value = make_scalar(out.type, word);
  } else {
    const PyScalarType& type = out.types[results[out.tag]];
    *value = make_scalar(type, number_word(out.type, type, word));
  }
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
                   const NumpyArrays& arrays, int64_t exit, PyObject** returned) {
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
    changes[i] = change_of(out, results, objects, arrays, &values[i]);
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
