#include "frame/functions.h"

#include "pycompat/frame.h"
#include "pycompat/functions.h"
#include "support/ref.h"

namespace appy::frame {

namespace {

PyObject* decider = nullptr;
bool deciding = false;
Py_ssize_t slot = -1;  // of code objects: nothing (undecided), `awaited`, `leave`, or an owned code object

char awaited_mark, leave_mark;
void* const awaited = &awaited_mark;  // undecided too, for the hook to find
void* const leave = &leave_mark;

bool is_other(void* known) { return known && known != awaited && known != leave; }

void free_decision(void* known) {
  if (is_other(known)) Py_DECREF(static_cast<PyObject*>(known));
}

bool have_slot() {
  if (slot < 0) slot = appy_code_slot(free_decision);
  return slot >= 0;
}

/// What runs in place of `code`; null: itself. The answer is borrowed from the code object.
PyCodeObject* decision(PyCodeObject* code) {
  void* known = appy_code_get(code, slot);
  if (is_other(known)) return static_cast<PyCodeObject*>(known);
  if (known == leave) return nullptr;
  if (deciding || !decider) return nullptr;
  deciding = true;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Ref result = Ref::steal(PyObject_CallOneArg(decider, reinterpret_cast<PyObject*>(code)));
  if (!result) PyErr_WriteUnraisable(decider);
  PyErr_Restore(type, value, traceback);
  deciding = false;
  bool other = result && PyCode_Check(result.get()) && result.get() != reinterpret_cast<PyObject*>(code);
  void* mark = other ? static_cast<void*>(result.get()) : leave;
  if (!appy_code_set(code, slot, mark)) return nullptr;
  return other ? reinterpret_cast<PyCodeObject*>(result.release()) : nullptr;
}

PyCodeObject* choose(PyCodeObject* code, PyObject* function) {
  PyCodeObject* other = appy_code_get(code, slot) ? decision(code) : nullptr;
  if (!other) return nullptr;
  if (function && PyFunction_Check(function) && PyFunction_GET_CODE(function) == reinterpret_cast<PyObject*>(code)) {
    appy_function_set_code(function, other);
  }
  // The frame is already there: the other code has to fit in.
  return other->co_stacksize <= code->co_stacksize ? other : nullptr;
}

void created(PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyCodeObject* other = decision(code)) appy_function_set_code(function, other);
}

}  // namespace

void set_decider(PyObject* decide) { Py_XSETREF(decider, Py_XNewRef(decide)); }

bool await_code(PyCodeObject* code) {
  return have_slot() && (is_other(appy_code_get(code, slot)) || appy_code_set(code, slot, awaited));
}

bool install_hook() { return have_slot() && appy_hook_install(choose) == 0; }
bool remove_hook() { return appy_hook_remove() == 0; }
bool hook_installed() { return appy_hook_installed() != 0; }

bool watch_functions(bool on) {
  if (on && !have_slot()) return false;
  return appy_watch_functions(on ? created : nullptr) == 0;
}

void replace_constant(PyCodeObject* code, Py_ssize_t index, PyObject* value) {
  PyObject* old = PyTuple_GET_ITEM(code->co_consts, index);
  PyTuple_SET_ITEM(code->co_consts, index, Py_NewRef(value));
  Py_DECREF(old);
}

}  // namespace appy::frame
