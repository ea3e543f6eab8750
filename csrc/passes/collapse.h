// What two loops that become one have to agree in.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// Iterations may be combined in any order and number: the value takes part in no group, and is no recurrence or last
/// value.
bool accumulates(const ir::Carried&);

/// The loop that the body consists of, beside pure ops and polls; null where there is more.
ir::Op* only_loop_in(const ir::Op& outer);

}  // namespace appy::passes
