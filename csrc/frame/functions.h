// Functions that exist, or come to exist, with their original code: the PEP 523 hook, function watchers, and constants
// of fresh code objects. Each code object is decided once, by a Python callable.
#pragma once

#include <Python.h>

namespace appy::frame {

/// Sets the callable `decide(code) -> code | None`, which chooses what runs in a code object's place.
void set_decider(PyObject* decide);

/// Has the hook decide this code object when a frame starts in it. The hook meets no others. False where memory is
/// short.
bool await_code(PyCodeObject* code);

/// Installs or removes the hook. False where another hook stands in the interpreter.
bool install_hook();
bool remove_hook();
bool hook_installed();

/// Gives new functions their decided code. False where this CPython has no function watchers.
bool watch_functions(bool on);

/// Puts `value` at `index` of the constants of a code object that has not run yet.
void replace_constant(PyCodeObject* code, Py_ssize_t index, PyObject* value);

}  // namespace appy::frame
