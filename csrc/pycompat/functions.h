/* Function objects as they are made, and a place for our data in code objects. */
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls `created(function)` for every function object that is made, just after; or stops it with NULL. Returns 0; -1
 * where this CPython has no function watchers (before 3.12), or none to spare. */
typedef void (*appy_function_watcher)(PyObject* function);
int appy_watch_functions(appy_function_watcher created);

/* Replaces the code of a function that has not run yet; no check, no audit event. */
void appy_function_set_code(PyObject* function, PyCodeObject* code);

/* A slot for our data in every code object, freed by `release`. Returns its number, or -1. */
Py_ssize_t appy_code_slot(void (*release)(void*));
/* What the slot holds, or NULL. */
void* appy_code_get(PyCodeObject* code, Py_ssize_t slot);
/* Returns 1, or 0 where memory is short; sets no exception. */
int appy_code_set(PyCodeObject* code, Py_ssize_t slot, void* data);

#ifdef __cplusplus
}
#endif
