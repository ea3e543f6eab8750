/* Frames of CPython 3.11: `f_code` and `prev_instr`; the innermost one in `_PyCFrame`; no monitoring. */
#pragma once

#define APPY_FRAME(thread) ((thread)->cframe->current_frame)
#define APPY_FRAME_FUNCTION(frame) ((PyObject*)(frame)->f_func)

static inline int is_real(const struct _PyInterpreterFrame* f) { return f != NULL; }
static inline PyCodeObject* code_of(const struct _PyInterpreterFrame* f) { return f->f_code; }
static inline void set_code(struct _PyInterpreterFrame* f, PyCodeObject* code) { f->f_code = code; }

/* Points the frame at a code unit as at an instruction that is running; -1: the code is to be started. */
static inline void set_unit(struct _PyInterpreterFrame* f, Py_ssize_t unit) {
  f->prev_instr = _PyCode_CODE(f->f_code) + unit;
}
static inline int is_starting(const struct _PyInterpreterFrame* f) {
  return f->prev_instr == _PyCode_CODE(f->f_code) - 1;
}

static inline int is_monitored(PyCodeObject* code) {
  (void)code;
  return 0;
}
