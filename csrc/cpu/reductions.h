// What the combiners of loop-carried values mean to a backend.
#pragma once

#include "ir/ir.h"

namespace appy::cpu {

ir::Opcode opcode_of(ir::Combiner);
bool is_follower(ir::Combiner);
/// What partial results of a combiner that counts each update start from: the loop's initial value is combined once.
/// Those of the others may start from that value.
ir::Word neutral(ir::Combiner, ir::DType);
/// May the iterations of this `for` run in another order, as far as its carried values go?
bool can_reorder(const ir::Op& loop);

}  // namespace appy::cpu
