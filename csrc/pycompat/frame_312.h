/* Frames of CPython 3.12: `f_code` and `prev_instr`; the innermost one in `_PyCFrame`; those of C calls have no
 * code. */
#pragma once

#include "pycompat/monitoring.h"

#define APPY_FRAME(thread) ((thread)->cframe->current_frame)
#define APPY_FRAME_FUNCTION(frame) ((frame)->f_funcobj)

static inline int is_real(const struct _PyInterpreterFrame* f) { return f && f->owner != FRAME_OWNED_BY_CSTACK; }
static inline PyCodeObject* code_of(const struct _PyInterpreterFrame* f) { return f->f_code; }
static inline void set_code(struct _PyInterpreterFrame* f, PyCodeObject* code) { f->f_code = code; }

/* Points the frame at a code unit as at an instruction that is running; -1: the code is to be started. */
static inline void set_unit(struct _PyInterpreterFrame* f, Py_ssize_t unit) {
  f->prev_instr = _PyCode_CODE(f->f_code) + unit;
}
static inline int is_starting(const struct _PyInterpreterFrame* f) {
  return f->prev_instr == _PyCode_CODE(f->f_code) - 1;
}
