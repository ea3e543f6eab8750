// Carried values that need not be carried: what a loop leaves can be said after it.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// A value that the body only reads as, and only makes from, a narrower type is carried in that type. True if the loop
/// changed.
bool narrow_carried(ir::Graph&, ir::Op& for_loop);

/// A value that the body does not read and that is made of the loop's variable, or does not vary, is computed after the
/// loop; so is one that the first iteration replaces by something that does not vary, or keeps, and the others keep.
/// After this, the region's variables can no longer be followed through its loops (state.h). True if the loop changed.
bool close_carried(ir::Graph&, ir::Op& for_loop);

/// Such a value that the body reads only for its checks and polls to tell is computed for them, of the loop's variable.
/// A loop that may run out of order stays as it is. True if the loop changed.
bool tell_carried(ir::Graph&, ir::Op& for_loop);

}  // namespace appy::passes
