/* Positions in the source -> instructions. */
#pragma once

#include <Python.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Index of the first code unit of an instruction that starts at this line and column, the longest in the source; where
 * there is none, or the column is -1, of any at this line; -1 where the line has none. */
Py_ssize_t appy_code_unit_at(PyCodeObject* code, int line, int column);

#ifdef __cplusplus
}
#endif
