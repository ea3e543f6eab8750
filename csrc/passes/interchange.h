// Loops that may change places.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// Does the loop run in order around one that may run in lanes (`inner`), each iteration of which has elements of its
/// own, the same ones in every iteration of the outer loop?
bool may_interchange(const ir::Op& outer, ir::Op*& inner);

}  // namespace appy::passes
