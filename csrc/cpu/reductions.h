// What the combiners of loop-carried values mean to a backend.
#pragma once

#include "ir/ir.h"

namespace appy::cpu {

ir::Opcode opcode_of(ir::Combiner);
/// What partial results of a combiner that counts each update start from: the loop's initial value is combined once.
/// Those of the others may start from that value.
ir::Word neutral(ir::Combiner, ir::DType);

}  // namespace appy::cpu
