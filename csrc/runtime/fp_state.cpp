#include "runtime/fp_state.h"

#include <Python.h>

#include <vector>

#include "support/ref.h"

namespace appy::runtime {
namespace {

Ref import_attribute(const char* module, const char* name) {
  Ref m = Ref::steal(PyImport_ImportModule(module));
  Ref value = m ? Ref::steal(PyObject_GetAttrString(m.get(), name)) : Ref();
  if (!value) PyErr_Clear();
  return value;
}

bool is_text(PyObject* object, const char* text) {
  return object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
}

/// NumPy keeps its error state in a context variable whose value is an immutable capsule: the same capsule means the
/// same state.
class NumpyErrors {
 public:
  NumpyErrors()
      : variable_(import_attribute("numpy._core.umath", "_extobj_contextvar")),
        geterr_(import_attribute("numpy", "geterr")) {}

  bool silent() {
    PyObject* state = nullptr;
    if (!variable_ || !geterr_ || PyContextVar_Get(variable_.get(), nullptr, &state) < 0) {
      PyErr_Clear();
      return false;
    }
    Ref current = Ref::steal(state);
    if (!seen_ || current.get() != seen_.get()) {
      bool found = evaluate();  // may run other threads, which must not see half of this
      seen_ = current;
      silent_ = found;
      return found;
    }
    return silent_;
  }

 private:
  bool evaluate() const {
    Ref modes = Ref::steal(PyObject_CallNoArgs(geterr_.get()));
    if (!modes || !PyDict_Check(modes.get())) return PyErr_Clear(), false;
    PyObject *key, *mode;
    for (Py_ssize_t at = 0; PyDict_Next(modes.get(), &at, &key, &mode);)
      if (!is_text(mode, "ignore") && !is_text(mode, "warn")) return false;
    return true;
  }

  Ref variable_, geterr_, seen_;
  bool silent_ = false;
};

/// warnings.filters is a list that is replaced or edited in place; its items are tuples. Comparing the items by
/// identity notices every edit, since the ones remembered are kept alive.
class WarningFilters {
 public:
  WarningFilters()
      : module_(Ref::steal(PyImport_ImportModule("warnings"))),
        key_(Ref::steal(PyUnicode_InternFromString("filters"))) {
    PyErr_Clear();
  }

  bool silent() {
    PyObject* filters =
        module_ && key_ ? PyDict_GetItemWithError(PyModule_GetDict(module_.get()), key_.get()) : nullptr;
    if (!filters || !PyList_CheckExact(filters)) return PyErr_Clear(), false;
    auto size = static_cast<size_t>(PyList_GET_SIZE(filters));
    bool same = known_ && size == seen_.size();
    for (size_t i = 0; same && i < size; i++)
      same = PyList_GET_ITEM(filters, static_cast<Py_ssize_t>(i)) == seen_[i].get();
    if (!same) {
      std::vector<Ref> items;
      for (size_t i = 0; i < size; i++)
        items.push_back(Ref::borrow(PyList_GET_ITEM(filters, static_cast<Py_ssize_t>(i))));
      bool found = evaluate(items);
      seen_.swap(items);
      known_ = true;
      silent_ = found;
      return found;
    }
    return silent_;
  }

 private:
  /// The first filter that may speak of a RuntimeWarning decides; one limited to a message, module or line decides only
  /// if it is an error.
  static bool evaluate(const std::vector<Ref>& items) {
    for (const Ref& item : items) {
      PyObject* filter = item.get();
      if (!PyTuple_Check(filter) || PyTuple_GET_SIZE(filter) != 5) return false;
      int applies = PyObject_IsSubclass(PyExc_RuntimeWarning, PyTuple_GET_ITEM(filter, 2));
      if (applies < 0) return PyErr_Clear(), false;
      if (!applies) continue;
      if (is_text(PyTuple_GET_ITEM(filter, 0), "error")) return false;
      bool always = PyTuple_GET_ITEM(filter, 1) == Py_None && PyTuple_GET_ITEM(filter, 3) == Py_None;
      if (always) return true;
    }
    return true;
  }

  Ref module_, key_;
  std::vector<Ref> seen_;
  bool known_ = false, silent_ = false;
};

}  // namespace

bool float_errors_are_silent() {
  // Never destroyed: the interpreter is gone when static destructors run.
  static auto& errors = *new NumpyErrors;
  static auto& filters = *new WarningFilters;
  return errors.silent() && filters.silent();
}

}  // namespace appy::runtime
