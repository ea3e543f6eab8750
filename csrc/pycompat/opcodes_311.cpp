// Opcodes of CPython 3.11.
#include "pycompat/opcodes.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

#include <opcode.h>

namespace appy::pycompat {

// The exhausted FOR_ITER pops the iterator and jumps to its target.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out) {
  const auto emit = [&](Op op, int a = 0, int b = 0) { out.push_back({op, a, b, offset, next}); };
  switch (opcode) {
    case NOP:
    case RESUME:
    case MAKE_CELL:
    case COPY_FREE_VARS:
    case PRECALL:
    case CACHE:
      return emit(Op::nop_);
    case POP_TOP:
      return emit(Op::pop_top_);
    case PUSH_NULL:
      return emit(Op::push_null_);
    case COPY:
      return emit(Op::copy_, arg);
    case SWAP:
      return emit(Op::swap_, arg);
    case LOAD_CONST:
      return emit(Op::load_const_, arg);
    case LOAD_ASSERTION_ERROR:
      return emit(Op::load_assertion_error_);
    case LOAD_FAST:
      return emit(Op::load_fast_, arg);
    case STORE_FAST:
      return emit(Op::store_fast_, arg);
    case DELETE_FAST:
      return emit(Op::delete_fast_, arg);
    case LOAD_DEREF:
      return emit(Op::load_deref_, arg);
    case STORE_DEREF:
      return emit(Op::store_deref_, arg);
    case DELETE_DEREF:
      return emit(Op::delete_deref_, arg);
    case LOAD_GLOBAL:
      return emit(Op::load_global_, arg >> 1, arg & 1 ? 1 : 0);
    case STORE_GLOBAL:
      return emit(Op::store_global_, arg);
    case DELETE_GLOBAL:
      return emit(Op::delete_global_, arg);
    case LOAD_ATTR:
      return emit(Op::load_attr_, arg);
    case LOAD_METHOD:
      return emit(Op::load_method_, arg);
    case STORE_ATTR:
      return emit(Op::store_attr_, arg);
    case BINARY_OP:
      return arg >= NB_INPLACE_ADD ? emit(Op::binary_op_, arg - NB_INPLACE_ADD, 1) : emit(Op::binary_op_, arg);
    case UNARY_NEGATIVE:
      return emit(Op::unary_negative_);
    case UNARY_INVERT:
      return emit(Op::unary_invert_);
    case UNARY_NOT:
      return emit(Op::unary_not_);
    case COMPARE_OP:
      return emit(Op::compare_op_, arg);
    case IS_OP:
      return emit(Op::is_op_, arg);
    case CONTAINS_OP:
      return emit(Op::contains_op_, arg);
    case BINARY_SUBSCR:
      return emit(Op::binary_subscr_);
    case STORE_SUBSCR:
      return emit(Op::store_subscr_);
    case BUILD_TUPLE:
      return emit(Op::build_tuple_, arg);
    case BUILD_SLICE:
      return emit(Op::build_slice_, arg);
    case UNPACK_SEQUENCE:
      return emit(Op::unpack_sequence_, arg);
    case GET_ITER:
      return emit(Op::get_iter_);
    case FOR_ITER:
      return emit(Op::for_iter_, next + 2 * arg);
    case JUMP_FORWARD:
      return emit(Op::jump_, next + 2 * arg);
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      return emit(Op::jump_, next - 2 * arg);
    case POP_JUMP_FORWARD_IF_TRUE:
      return emit(Op::pop_jump_if_true_, next + 2 * arg);
    case POP_JUMP_FORWARD_IF_FALSE:
      return emit(Op::pop_jump_if_false_, next + 2 * arg);
    case POP_JUMP_FORWARD_IF_NONE:
      return emit(Op::pop_jump_if_none_, next + 2 * arg);
    case POP_JUMP_FORWARD_IF_NOT_NONE:
      return emit(Op::pop_jump_if_not_none_, next + 2 * arg);
    case POP_JUMP_BACKWARD_IF_TRUE:
      return emit(Op::pop_jump_if_true_, next - 2 * arg);
    case POP_JUMP_BACKWARD_IF_FALSE:
      return emit(Op::pop_jump_if_false_, next - 2 * arg);
    case POP_JUMP_BACKWARD_IF_NONE:
      return emit(Op::pop_jump_if_none_, next - 2 * arg);
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return emit(Op::pop_jump_if_not_none_, next - 2 * arg);
    case JUMP_IF_TRUE_OR_POP:
      return emit(Op::jump_if_true_or_pop_, next + 2 * arg);
    case JUMP_IF_FALSE_OR_POP:
      return emit(Op::jump_if_false_or_pop_, next + 2 * arg);
    case CALL:
      return emit(Op::call_, arg);
    case RAISE_VARARGS:
      return emit(Op::raise_varargs_, arg);
    case RETURN_VALUE:
      return emit(Op::return_value_);
    case UNARY_POSITIVE:
      return emit(Op::unary_positive_);
    case LIST_TO_TUPLE:
      return emit(Op::list_to_tuple_);
    case KW_NAMES:
      return emit(Op::kw_names_, arg);
    case RERAISE:
      return emit(Op::unsupported_, opcode, 1);
    default:
      return emit(Op::unsupported_, opcode);
  }
}

}  // namespace appy::pycompat

#endif
