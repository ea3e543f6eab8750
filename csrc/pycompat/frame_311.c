/* CPython 3.11: `f_code` and `prev_instr` in the frame, tracing state in `_PyCFrame`, no monitoring, no watchers. */
#include <Python.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#undef Py_BUILD_CORE

#include "pycompat/code_position.h"
#include "pycompat/frame.h"

int appy_frame_current(appy_frame* frame) {
  struct _PyInterpreterFrame* f = PyThreadState_Get()->cframe->current_frame;
  if (!f) return 0;
  frame->code = f->f_code;
  frame->localsplus = f->localsplus;
  frame->globals = f->f_globals;
  frame->builtins = f->f_builtins;
  return 1;
}

int appy_frame_stepped(void) { return PyThreadState_Get()->c_tracefunc != NULL; }

void appy_frame_fail_at(int line, int column) {
  struct _PyInterpreterFrame* f = PyThreadState_Get()->cframe->current_frame;
  if (!f) return;
  Py_ssize_t unit = appy_code_unit_at(f->f_code, line, column);
  if (unit >= 0) f->prev_instr = _PyCode_CODE(f->f_code) + unit;
}

static appy_code_chooser choose;

static PyObject* evaluate(PyThreadState* tstate, struct _PyInterpreterFrame* f, int throwing) {
  /* A frame that starts, in a function: its next instruction is the first one. */
  if (!throwing && f->prev_instr == _PyCode_CODE(f->f_code) - 1 && choose) {
    PyCodeObject* code = choose(f->f_code, (PyObject*)f->f_func);
    if (code && code != f->f_code) {
      PyCodeObject* old = f->f_code;
      f->f_code = (PyCodeObject*)Py_NewRef(code);
      f->prev_instr = _PyCode_CODE(code) - 1;
      Py_DECREF(old);
    }
  }
  return _PyEval_EvalFrameDefault(tstate, f, throwing);
}

int appy_hook_install(appy_code_chooser chooser) {
  PyInterpreterState* interp = PyInterpreterState_Get();
  _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interp);
  if (now != evaluate && now != _PyEval_EvalFrameDefault) return -1;
  choose = chooser;
  _PyInterpreterState_SetEvalFrameFunc(interp, evaluate);
  return 0;
}

int appy_hook_remove(void) {
  PyInterpreterState* interp = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interp) != evaluate) return -1;
  _PyInterpreterState_SetEvalFrameFunc(interp, _PyEval_EvalFrameDefault);
  return 0;
}

int appy_hook_installed(void) { return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == evaluate; }

int appy_watch_functions(appy_function_watcher created) {
  (void)created;
  return -1;
}

void appy_function_set_code(PyObject* function, PyCodeObject* code) {
  PyFunctionObject* f = (PyFunctionObject*)function;
  f->func_version = 0;
  Py_INCREF(code);
  Py_SETREF(f->func_code, (PyObject*)code);
}

Py_ssize_t appy_code_slot(void (*release)(void*)) { return _PyEval_RequestCodeExtraIndex(release); }

/* What co_extra points to, as in codeobject.c; PyUnstable_Code_GetExtra is too slow for every call of a function. */
struct code_extra {
  Py_ssize_t size;
  void* slots[1];
};

void* appy_code_get(PyCodeObject* code, Py_ssize_t slot) {
  const struct code_extra* extra = (const struct code_extra*)code->co_extra;
  return extra && slot < extra->size ? extra->slots[slot] : NULL;
}

int appy_code_set(PyCodeObject* code, Py_ssize_t slot, void* data) {
  if (_PyCode_SetExtra((PyObject*)code, slot, data) == 0) return 1;
  PyErr_Clear();
  return 0;
}

#endif
