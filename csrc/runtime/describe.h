// Types as people read them, for explain and messages.
#pragma once

#include <Python.h>

#include <string>

#include "runtime/signature.h"

namespace appy::runtime {

/// "x: float64[:, :] c, n: int": the inputs that a specialization depends on by type.
std::string describe(const Signature&);

/// The same for the named locals of a frame as they are now.
std::string describe(const Scope&);

/// "float64[:, :] c", "int", "np.float32", "str".
std::string describe_type(PyObject*);

}  // namespace appy::runtime
