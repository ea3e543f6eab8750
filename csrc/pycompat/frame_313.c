/* CPython 3.13: `f_executable` and `instr_ptr` in the frame, sys.monitoring, function watchers. */
#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000 && PY_VERSION_HEX < 0x030E0000

#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#include "internal/pycore_instruments.h"
#undef Py_BUILD_CORE

#include "pycompat/code_position.h"
#include "pycompat/frame.h"

/* Bit of the tool that sys.settrace uses, whose events are made in every thread. */
enum { settrace_tool = 1 << PY_MONITORING_SYS_TRACE_ID };

int appy_frame_current(appy_frame* frame) {
  struct _PyInterpreterFrame* f = PyThreadState_Get()->current_frame;
  if (!f || f->owner == FRAME_OWNED_BY_CSTACK) return 0;
  frame->code = _PyFrame_GetCode(f);
  frame->localsplus = f->localsplus;
  frame->globals = f->f_globals;
  frame->builtins = f->f_builtins;
  return 1;
}

int appy_frame_stepped(void) {
  PyThreadState* tstate = PyThreadState_Get();
  if (tstate->c_tracefunc) return 1;
  struct _PyInterpreterFrame* f = tstate->current_frame;
  if (!f || f->owner == FRAME_OWNED_BY_CSTACK || !_PyFrame_GetCode(f)->_co_monitoring) return 0;
  const _Py_LocalMonitors* active = &_PyFrame_GetCode(f)->_co_monitoring->active_monitors;
  return ((active->tools[PY_MONITORING_EVENT_LINE] | active->tools[PY_MONITORING_EVENT_INSTRUCTION]) &
          ~settrace_tool) != 0;
}

void appy_frame_fail_at(int line, int column) {
  struct _PyInterpreterFrame* f = PyThreadState_Get()->current_frame;
  if (!f || f->owner == FRAME_OWNED_BY_CSTACK) return;
  Py_ssize_t unit = appy_code_unit_at(_PyFrame_GetCode(f), line, column);
  if (unit >= 0) f->instr_ptr = _PyCode_CODE(_PyFrame_GetCode(f)) + unit;
}

static appy_code_chooser choose;

static PyObject* evaluate(PyThreadState* tstate, struct _PyInterpreterFrame* f, int throwing) {
  if (!throwing && f->owner != FRAME_OWNED_BY_CSTACK && choose) {
    PyCodeObject* old = _PyFrame_GetCode(f);
    if (f->instr_ptr == _PyCode_CODE(old)) {
      PyCodeObject* code = choose(old, f->f_funcobj);
      if (code && code != old) {
        f->f_executable = Py_NewRef(code);
        f->instr_ptr = _PyCode_CODE(code);
        Py_DECREF(old);
      }
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

void appy_function_set_code(PyObject* function, PyCodeObject* code) {
  PyFunctionObject* f = (PyFunctionObject*)function;
  f->func_version = 0;
  Py_INCREF(code);
  Py_SETREF(f->func_code, (PyObject*)code);
}

Py_ssize_t appy_code_slot(void (*release)(void*)) { return PyUnstable_Eval_RequestCodeExtraIndex(release); }

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
  if (PyUnstable_Code_SetExtra((PyObject*)code, slot, data) == 0) return 1;
  PyErr_Clear();
  return 0;
}

#endif
