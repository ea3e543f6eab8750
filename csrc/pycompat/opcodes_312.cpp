// Opcodes of CPython 3.12.
#include "pycompat/opcodes.h"

#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000

#include <opcode.h>

namespace appy::pycompat {

// The exhausted FOR_ITER pops the iterator and jumps past END_FOR.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out) {
  const auto emit = [&](Op op, int a = 0, int b = 0) { out.push_back({op, a, b, offset, next}); };
  switch (opcode) {
#include "pycompat/opcodes_shared.def"

    WITH_ARG(KW_NAMES, kw_names_)
    case LOAD_GLOBAL:
      return emit(Op::load_global_, arg >> 1, arg & 1 ? 1 : 0);
    case COMPARE_OP:
      return emit(Op::compare_op_, arg >> 4);
    case FOR_ITER:
      return emit(Op::for_iter_, next + 2 * arg + 2);
  }
}

}  // namespace appy::pycompat

#endif
