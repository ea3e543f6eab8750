// What the entries of a frame's localsplus are.
#pragma once

#include <Python.h>

namespace appy::pycompat {

/// Does localsplus[index] hold a cell object, once the function's first instructions have run?
bool is_cell(PyCodeObject*, int index);

/// Marks variables as hidden as they are in `other`, a code object with the same variables: those of comprehensions in
/// modules and class bodies (3.12 and later), which code.replace() makes ordinary ones. `code` has not run yet. False
/// where the variables differ.
bool copy_kinds(PyCodeObject* code, PyCodeObject* other);

}  // namespace appy::pycompat
