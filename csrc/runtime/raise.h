// From a failed check to the exception that Python would have raised.
#pragma once

#include <Python.h>

#include <string>

#include "ir/ir.h"
#include "runtime/kernel.h"
#include "runtime/signature.h"
#include "support/ref.h"

namespace appy::runtime {

/// Sets the Python exception of the failed check, with the message of the running NumPy and Python and a note that
/// names the source line, the helpers it was inlined through, and the iteration of a parallel loop.
void raise_failure(const ir::Op& check, const Failure&, const Scope&);

/// An exception that is raised later, when the frame is gone.
struct LateError {
  Ref type;
  std::string message, note;
};
/// `region` names the region, `named` is the class of a `raise` in the source, or null.
LateError late_error(const ir::Op& check, const Failure&, PyObject* named, const std::string& region, int device);
void raise(const LateError&);

/// The class that `raise E(...)` in the source names, as the frame sees it; null for other checks. Borrowed.
PyObject* class_raised_by(const ir::Op& check, const Scope&);

/// Raises what went wrong with a device, its driver or its compiler: the package's DeviceError, or its
/// DeviceMemoryError, once they are known.
void raise_device_error(bool out_of_memory, const std::string& message);
void set_device_errors(PyObject* error, PyObject* memory);

/// True for failures after which the interpreter can do the whole statement again, as long as the region reads nothing
/// that it writes: a Python int that left 64 bits, and values that compiled code cannot follow.
inline bool can_run_again(const ir::Op& check) { return can_run_again(check.check->kind); }

/// The iteration variable of the outermost loop around a failed check, where the state that it left tells; else -1.
int64_t iteration_of(const ir::Op& check, const ir::Word* state);

/// Where the source of an op stands, and the calls it was inlined at: "a.py, line 3, called from b.py, line 9".
std::string describe_location(const ir::Graph&, ir::LocId);

}  // namespace appy::runtime
