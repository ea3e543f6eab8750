/* Frames of CPython 3.13: `f_executable` and `instr_ptr`; the innermost one in the thread; those of C calls have no
 * code. */
#pragma once

#include "pycompat/monitoring.h"

#define APPY_FRAME(thread) ((thread)->current_frame)
#define APPY_FRAME_FUNCTION(frame) ((frame)->f_funcobj)

static inline int is_real(const struct _PyInterpreterFrame* f) { return f && f->owner != FRAME_OWNED_BY_CSTACK; }
static inline PyCodeObject* code_of(const struct _PyInterpreterFrame* f) { return (PyCodeObject*)f->f_executable; }
static inline void set_code(struct _PyInterpreterFrame* f, PyCodeObject* code) { f->f_executable = (PyObject*)code; }

/* Points the frame at a code unit as at an instruction that is running; -1: the code is to be started. */
static inline void set_unit(struct _PyInterpreterFrame* f, Py_ssize_t unit) {
  f->instr_ptr = _PyCode_CODE(code_of(f)) + (unit < 0 ? 0 : unit);
}
static inline int is_starting(const struct _PyInterpreterFrame* f) { return f->instr_ptr == _PyCode_CODE(code_of(f)); }
