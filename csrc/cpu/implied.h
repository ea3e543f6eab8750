// Checks that a later one makes superfluous as long as that one holds.
#pragma once

#include "ir/ir.h"

namespace appy::cpu {

/// The check that is made and fails wherever this one does, later in its block with nothing but loads, pure ops and
/// checks in between; null: there is none. That a number lies between two bounds implies that it is neither NaN nor
/// infinite. That its cast to an i64 is an index within an extent implies that there is such an i64: the processor's
/// conversion makes the least one of any other number.
const ir::Op* implied_by(const ir::Op& check);

}  // namespace appy::cpu
