#include "pycompat/locals.h"

namespace appy::pycompat {

bool is_cell(PyCodeObject* code, int index) {
  // Bits of co_localspluskinds, the same in all supported versions; CPython names them in an internal header.
  constexpr int fast_cell = 0x40, fast_free = 0x80;
  return PyBytes_AS_STRING(code->co_localspluskinds)[index] & (fast_cell | fast_free);
}

}  // namespace appy::pycompat
