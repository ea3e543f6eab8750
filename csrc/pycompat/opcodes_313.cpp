// Opcodes of CPython 3.13.
#include "pycompat/opcodes.h"

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000

#include <opcode.h>

namespace appy::pycompat {

// The exhausted FOR_ITER pops the iterator and jumps past END_FOR and POP_TOP; calls want the NULL above the callable.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out) {
  const auto emit = [&](Op op, int a = 0, int b = 0) { out.push_back({op, a, b, offset, next}); };
  switch (opcode) {
#include "pycompat/opcodes_shared.def"

    PLAIN(TO_BOOL, to_bool_)
    WITH_ARG(CALL_KW, call_kw_)
    case LOAD_GLOBAL:
      return emit(Op::load_global_, arg >> 1, arg & 1 ? 2 : 0);
    case COMPARE_OP:
      return emit(Op::compare_op_, arg >> 5);
    case FOR_ITER:
      return emit(Op::for_iter_, next + 2 * arg + 4);
    case LOAD_FAST_LOAD_FAST:
      emit(Op::load_fast_, arg >> 4);
      return emit(Op::load_fast_, arg & 15);
    case STORE_FAST_LOAD_FAST:
      emit(Op::store_fast_, arg >> 4);
      return emit(Op::load_fast_, arg & 15);
    case STORE_FAST_STORE_FAST:
      emit(Op::store_fast_, arg >> 4);
      return emit(Op::store_fast_, arg & 15);
  }
}

}  // namespace appy::pycompat

#endif
