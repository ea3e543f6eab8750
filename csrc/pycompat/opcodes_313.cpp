// Opcodes of CPython 3.13.
#include "pycompat/opcodes.h"

#if PY_VERSION_HEX >= 0x030d0000 && PY_VERSION_HEX < 0x030e0000

#include <opcode.h>

namespace appy::pycompat {

namespace {

// Arguments of CALL_INTRINSIC_1; CPython names them in an internal header.
constexpr int intrinsic_unary_positive = 5;
constexpr int intrinsic_list_to_tuple = 6;

}  // namespace

// The exhausted FOR_ITER pops the iterator and jumps past END_FOR and POP_TOP; calls want the NULL above the callable.
void translate(int opcode, int arg, int offset, int next, std::vector<Decoded>& out) {
  const auto emit = [&](Op op, int a = 0, int b = 0) { out.push_back({op, a, b, offset, next}); };
  switch (opcode) {
    case NOP:
    case RESUME:
    case MAKE_CELL:
    case COPY_FREE_VARS:
    case END_FOR:
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
      return emit(Op::load_global_, arg >> 1, arg & 1 ? 2 : 0);
    case STORE_GLOBAL:
      return emit(Op::store_global_, arg);
    case DELETE_GLOBAL:
      return emit(Op::delete_global_, arg);
    case LOAD_ATTR:
      return emit(arg & 1 ? Op::load_method_ : Op::load_attr_, arg >> 1);
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
      return emit(Op::compare_op_, arg >> 5);
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
      return emit(Op::for_iter_, next + 2 * arg + 4);
    case JUMP_FORWARD:
      return emit(Op::jump_, next + 2 * arg);
    case JUMP_BACKWARD:
    case JUMP_BACKWARD_NO_INTERRUPT:
      return emit(Op::jump_, next - 2 * arg);
    case POP_JUMP_IF_TRUE:
      return emit(Op::pop_jump_if_true_, next + 2 * arg);
    case POP_JUMP_IF_FALSE:
      return emit(Op::pop_jump_if_false_, next + 2 * arg);
    case POP_JUMP_IF_NONE:
      return emit(Op::pop_jump_if_none_, next + 2 * arg);
    case POP_JUMP_IF_NOT_NONE:
      return emit(Op::pop_jump_if_not_none_, next + 2 * arg);
    case CALL:
      return emit(Op::call_, arg);
    case RAISE_VARARGS:
      return emit(Op::raise_varargs_, arg);
    case RETURN_VALUE:
      return emit(Op::return_value_);
    case LOAD_FAST_CHECK:
      return emit(Op::load_fast_check_, arg);
    case BINARY_SLICE:
      return emit(Op::binary_slice_);
    case STORE_SLICE:
      return emit(Op::store_slice_);
    case RETURN_CONST:
      emit(Op::load_const_, arg);
      return emit(Op::return_value_);
    case CALL_INTRINSIC_1:
      if (arg == intrinsic_unary_positive) return emit(Op::unary_positive_);
      if (arg == intrinsic_list_to_tuple) return emit(Op::list_to_tuple_);
      return emit(Op::unsupported_, opcode);
    case TO_BOOL:
      return emit(Op::to_bool_);
    case CALL_KW:
      return emit(Op::call_kw_, arg);
    case LOAD_FAST_LOAD_FAST:
      emit(Op::load_fast_, arg >> 4);
      return emit(Op::load_fast_, arg & 15);
    case STORE_FAST_LOAD_FAST:
      emit(Op::store_fast_, arg >> 4);
      return emit(Op::load_fast_, arg & 15);
    case STORE_FAST_STORE_FAST:
      emit(Op::store_fast_, arg >> 4);
      return emit(Op::store_fast_, arg & 15);
    case RERAISE:
      return emit(Op::unsupported_, opcode, 1);
    default:
      return emit(Op::unsupported_, opcode);
  }
}

}  // namespace appy::pycompat

#endif
