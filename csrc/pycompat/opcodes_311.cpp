// Opcodes of CPython 3.11.
#include "pycompat/opcodes.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

#include <opcode.h>

namespace appy::pycompat {

// The exhausted FOR_ITER pops the iterator and jumps to its target.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out) {
  const auto emit = [&](Op op, int a = 0, int b = 0) { out.push_back({op, a, b, offset, next}); };
  switch (opcode) {
#include "pycompat/opcodes_shared.def"

    PLAIN(PRECALL, nop_)
    WITH_ARG(LOAD_ATTR, load_attr_)
    WITH_ARG(LOAD_METHOD, load_method_)
    WITH_ARG(COMPARE_OP, compare_op_)
    PLAIN(UNARY_POSITIVE, unary_positive_)
    PLAIN(LIST_TO_TUPLE, list_to_tuple_)
    WITH_ARG(KW_NAMES, kw_names_)
    FORWARD(FOR_ITER, for_iter_)
    FORWARD(POP_JUMP_FORWARD_IF_TRUE, pop_jump_if_true_)
    FORWARD(POP_JUMP_FORWARD_IF_FALSE, pop_jump_if_false_)
    FORWARD(POP_JUMP_FORWARD_IF_NONE, pop_jump_if_none_)
    FORWARD(POP_JUMP_FORWARD_IF_NOT_NONE, pop_jump_if_not_none_)
    BACKWARD(POP_JUMP_BACKWARD_IF_TRUE, pop_jump_if_true_)
    BACKWARD(POP_JUMP_BACKWARD_IF_FALSE, pop_jump_if_false_)
    BACKWARD(POP_JUMP_BACKWARD_IF_NONE, pop_jump_if_none_)
    BACKWARD(POP_JUMP_BACKWARD_IF_NOT_NONE, pop_jump_if_not_none_)
    FORWARD(JUMP_IF_TRUE_OR_POP, jump_if_true_or_pop_)
    FORWARD(JUMP_IF_FALSE_OR_POP, jump_if_false_or_pop_)
    case LOAD_GLOBAL:
      return emit(Op::load_global_, arg >> 1, arg & 1 ? 1 : 0);
  }
}

}  // namespace appy::pycompat

#endif
