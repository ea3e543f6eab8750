#include "jit_tuning.h"

#include "support/ref.h"

namespace appy {

namespace {

struct Functions {
  Ref load, save, progress;
};

Functions& functions() {
  static auto& all = *new Functions;  // outlives the interpreter, as it holds its objects
  return all;
}

/// Holds the GIL and what exception there was.
class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~Gil() {
    if (PyErr_Occurred()) {
      if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
        PyErr_Clear();
        PyErr_SetInterrupt();  // Ctrl-C is the program's matter
      } else {
        PyErr_WriteUnraisable(nullptr);
      }
    }
    PyErr_Restore(type_, value_, traceback_);
    PyGILState_Release(state_);
  }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
  PyObject *type_, *value_, *traceback_;
};

}  // namespace

void set_tuning(PyObject* load, PyObject* save, PyObject* progress) {
  functions() = {Ref::borrow(load), Ref::borrow(save), Ref::borrow(progress)};
}

gpu::TuningStore tuning_store(const std::string& name) {
  gpu::TuningStore store;
  store.load = [](const std::string& key) -> std::string {
    const Gil gil;
    if (!functions().load) return {};
    const Ref found = Ref::steal(PyObject_CallFunction(functions().load.get(), "s", key.c_str()));
    const char* text = found ? PyUnicode_AsUTF8(found.get()) : nullptr;
    return text ? text : "";
  };
  store.save = [](const std::string& key, const std::string& choice) {
    const Gil gil;
    if (functions().save) Ref::steal(PyObject_CallFunction(functions().save.get(), "ss", key.c_str(), choice.c_str()));
  };
  store.progress = [name](int done, int all) {
    const Gil gil;
    if (functions().progress)
      Ref::steal(PyObject_CallFunction(functions().progress.get(), "sii", name.c_str(), done, all));
  };
  return store;
}

}  // namespace appy
