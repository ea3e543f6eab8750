#include "pycompat/code_position.h"

Py_ssize_t appy_code_unit_at(PyCodeObject* code, int line, int column) {
  Py_ssize_t on_line = -1, found = -1;
  int found_line = 0, found_column = 0; /* where it ends */
  for (Py_ssize_t unit = 0; unit < Py_SIZE(code); ++unit) {
    int start_line, start_column, end_line, end_column;
    int offset = 2 * (int)unit;
    if (!PyCode_Addr2Location(code, offset, &start_line, &start_column, &end_line, &end_column)) continue;
    if (start_line != line) continue;
    if (on_line < 0) on_line = unit;
    if (column < 0 || start_column != column) continue;
    if (end_line < found_line || (end_line == found_line && end_column <= found_column)) continue;
    found = unit;
    found_line = end_line;
    found_column = end_column;
  }
  return found >= 0 ? found : on_line;
}
