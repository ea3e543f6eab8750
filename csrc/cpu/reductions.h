// What the combiners of loop-carried values mean to a backend.
#pragma once

#include "ir/ir.h"

namespace appy::cpu {

ir::Opcode opcode_of(ir::Combiner);
bool is_follower(ir::Combiner);
/// True if each partial result may start from the loop's initial value; the others start from `neutral`, and the
/// initial value is combined once.
bool starts_from_init(ir::Combiner);
ir::Word neutral(ir::Combiner, ir::DType);
/// May the iterations of this `for` run in another order, as far as its carried values go?
bool can_reorder(const ir::Op& loop);

}  // namespace appy::cpu
