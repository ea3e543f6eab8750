#include "pycompat/signals.h"

#define Py_BUILD_CORE 1 /* before Python.h: pycore_gc.h of 3.12 redefines what it declares otherwise */
#include <Python.h>

#include "internal/pycore_runtime.h"

const volatile int* appy_signal_flag(void) {
#if PY_VERSION_HEX >= 0x030D0000
  return &_PyRuntime.signals.is_tripped;
#elif PY_VERSION_HEX >= 0x030C0000
  return (const volatile int*)&_PyRuntime.signals.is_tripped;
#else
  return (const volatile int*)&_PyRuntime.ceval.signals_pending;
#endif
}

int appy_run_signal_handlers(void) {
  if (PyThread_get_thread_ident() != _PyRuntime.main_thread) return 0;
  PyGILState_STATE state = PyGILState_Ensure();
#if PY_VERSION_HEX < 0x030C0000
  /* Only the interpreter's loop lowers this flag, and it does not run here. Its other flag, which makes it look at this
   * one, stays up. As there, a handler that raises may have left others to run. */
  _Py_atomic_store(&_PyRuntime.ceval.signals_pending, 0);
#endif
  int raised = PyErr_CheckSignals() < 0;
#if PY_VERSION_HEX < 0x030C0000
  if (raised) _Py_atomic_store(&_PyRuntime.ceval.signals_pending, 1);
#endif
  PyGILState_Release(state);
  return raised;
}
