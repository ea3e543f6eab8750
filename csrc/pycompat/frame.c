#include "pycompat/frame.h"

#define Py_BUILD_CORE 1
#include "internal/pycore_frame.h"
#if PY_VERSION_HEX >= 0x030D0000
#include "pycompat/frame_313.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "pycompat/frame_312.h"
#else
#include "pycompat/frame_311.h"
#endif
#undef Py_BUILD_CORE

#include "pycompat/code_position.h"

int appy_frame_current(appy_frame* frame) {
  struct _PyInterpreterFrame* f = APPY_FRAME(PyThreadState_Get());
  if (!is_real(f)) return 0;
  frame->code = code_of(f);
  frame->localsplus = f->localsplus;
  frame->globals = f->f_globals;
  frame->builtins = f->f_builtins;
  frame->names = frame->code->co_flags & CO_OPTIMIZED ? NULL : f->f_locals;
  return 1;
}

int appy_frame_stepped(void) {
  PyThreadState* thread = PyThreadState_Get();
  if (thread->c_tracefunc) return 1;
  struct _PyInterpreterFrame* f = APPY_FRAME(thread);
  return is_real(f) && is_monitored(code_of(f));
}

void appy_frame_fail_at(int line, int column) {
  struct _PyInterpreterFrame* f = APPY_FRAME(PyThreadState_Get());
  if (!is_real(f)) return;
  Py_ssize_t unit = appy_code_unit_at(code_of(f), line, column);
  if (unit >= 0) set_unit(f, unit);
}

static appy_code_chooser choose;

/* Apart, so that the hook itself keeps no registers on the stack. */
static __attribute__((noinline, cold)) PyObject* evaluate_met(PyThreadState* thread, struct _PyInterpreterFrame* f,
                                                              int throwing) {
  PyCodeObject* old = code_of(f);
  if (!throwing && is_starting(f)) {
    PyCodeObject* code = choose(old, APPY_FRAME_FUNCTION(f));
    if (code && code != old) {
      set_code(f, (PyCodeObject*)Py_NewRef(code));
      set_unit(f, -1);
      Py_DECREF(old);
    }
  }
  return _PyEval_EvalFrameDefault(thread, f, throwing);
}

/* Runs at every call of a Python function, so it has to be a few instructions that end in a jump. */
static PyObject* evaluate(PyThreadState* thread, struct _PyInterpreterFrame* f, int throwing) {
  if (__builtin_expect(code_of(f)->co_extra != NULL, 0)) return evaluate_met(thread, f, throwing);
  return _PyEval_EvalFrameDefault(thread, f, throwing);
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
