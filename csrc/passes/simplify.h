// Constant folding and algebraic identities of single pure ops.
#pragma once

#include "ir/builder.h"
#include "ir/ir.h"

namespace appy::passes {

/// A value equal to the op's result, or null where nothing simpler is known. New ops are inserted before `op`. Floats
/// are taken at their word: NaN, infinities, signed zeros and rounding keep their meaning.
ir::Value* simplify(ir::Op& op, ir::Builder&);

}  // namespace appy::passes
