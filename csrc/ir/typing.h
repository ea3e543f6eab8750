// The type rules of pure ops, shared by the builder and the verifier.
#pragma once

#include <span>
#include <string>

#include "ir/ir.h"

namespace appy::ir {

/// Does the op compute on values of this type? (Operand 1 of select, any operand of the others.)
bool accepts(Opcode, DType);

/// Result type of a pure op that infers it from its operands. Meaningful only if type_fault finds nothing.
DType inferred_type(Opcode, std::span<Value* const> operands);

/// What is wrong with the operand count and types of a pure op and its result type; empty when nothing is.
std::string type_fault(Opcode, DType result, std::span<Value* const> operands);

/// May a loop-carried value or an atomic update of this type combine so?
bool accepts(Combiner, DType);

/// Does every number of `from` convert to `to` unchanged?
bool widens(DType from, DType to);

/// The NaN that is written `nan`: positive, quiet, without a payload.
Word quiet_nan(DType);

/// The word as this type stores it: integers and bool truncated to their width and extended again.
Word canonical(DType, Word);

}  // namespace appy::ir
