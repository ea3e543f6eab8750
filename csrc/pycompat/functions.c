#include "pycompat/functions.h"

#if PY_VERSION_HEX >= 0x030C0000

static appy_function_watcher on_created;
static int watcher_id = -1;

static int watch(PyFunction_WatchEvent event, PyFunctionObject* function, PyObject* value) {
  (void)value;
  if (event == PyFunction_EVENT_CREATE && on_created) on_created((PyObject*)function);
  return 0;
}

int appy_watch_functions(appy_function_watcher created) {
  on_created = created;
  if (created && watcher_id < 0) {
    watcher_id = PyFunction_AddWatcher(watch);
    if (watcher_id < 0) {
      PyErr_Clear();
      return -1;
    }
  } else if (!created && watcher_id >= 0) {
    PyFunction_ClearWatcher(watcher_id);
    watcher_id = -1;
  }
  return 0;
}

#else

#define PyUnstable_Eval_RequestCodeExtraIndex _PyEval_RequestCodeExtraIndex
#define PyUnstable_Code_SetExtra _PyCode_SetExtra

int appy_watch_functions(appy_function_watcher created) {
  (void)created;
  return -1;
}

#endif

void appy_function_set_code(PyObject* function, PyCodeObject* code) {
  PyFunctionObject* f = (PyFunctionObject*)function;
  f->func_version = 0;
  Py_INCREF(code);
  Py_SETREF(f->func_code, (PyObject*)code);
}

Py_ssize_t appy_code_slot(void (*release)(void*)) { return PyUnstable_Eval_RequestCodeExtraIndex(release); }

/* What co_extra points to, as in codeobject.c; PyUnstable_Code_GetExtra looks the interpreter up first. */
struct code_extra {
  Py_ssize_t size;
  void* slots[1];
};

void* appy_code_get(PyCodeObject* code, Py_ssize_t slot) {
  const struct code_extra* extra = (const struct code_extra*)code->co_extra;
  return extra && slot < extra->size ? extra->slots[slot] : NULL;
}

int appy_code_set(PyCodeObject* code, Py_ssize_t slot, void* data) {
  if (PyUnstable_Code_SetExtra((PyObject*)code, slot, data) == 0) return 1;
  PyErr_Clear();
  return 0;
}
