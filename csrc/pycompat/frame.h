/* The frame of the Python function that called us, and the frame evaluation hook (PEP 523). What differs between
 * CPython versions stands in frame_3xx.h, one file a version. C, because CPython's internal headers are. */
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All references are borrowed and live as long as the frame does. */
typedef struct appy_frame {
  PyCodeObject* code;
  PyObject** localsplus; /* locals, cells, free variables; then the stack */
  PyObject* globals;
  PyObject* builtins;
  PyObject* names; /* where the code of a module or a class body keeps its names; NULL for a function's code */
} appy_frame;

/* Fills in the innermost Python frame of this thread. Returns 1, or 0 where there is none. No exception is set. */
int appy_frame_current(appy_frame* frame);

/* 1 if the innermost Python frame is being stepped through: a trace function (sys.settrace) in this thread, or a
 * monitoring tool with LINE or INSTRUCTION events in its code. */
int appy_frame_stepped(void);

/* Makes the innermost Python frame report that it failed at this line and column (-1: any), until it goes on; without
 * effect where its code has no instruction there. To be called just before the exception is returned to it. The same is
 * done by the RERAISE instruction, so handlers are still found by the call that fails. */
void appy_frame_fail_at(int line, int column);

/* Called for each frame that starts in a code object with data of anyone's in its slots (functions.h); all others run
 * undisturbed. Returns a borrowed code object to run in its place, which has the same frame layout, or NULL to run the
 * code as it is. Sets no exception. `function` is borrowed. */
typedef PyCodeObject* (*appy_code_chooser)(PyCodeObject* code, PyObject* function);

/* Installs the hook in this interpreter, or takes it out. Returns 0, or -1 where another hook is installed. */
int appy_hook_install(appy_code_chooser chooser);
int appy_hook_remove(void);
/* 1 while the hook is installed. */
int appy_hook_installed(void);

#ifdef __cplusplus
}
#endif
