// What the entries of a frame's localsplus are.
#pragma once

#include <Python.h>

namespace appy::pycompat {

/// Does localsplus[index] hold a cell object, once the function's first instructions have run?
bool is_cell(PyCodeObject*, int index);

}  // namespace appy::pycompat
