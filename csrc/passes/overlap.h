// What iterations of a loop have in common where the loops inside run through them together.
#pragma once

#include <optional>

#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/range.h"

namespace appy::passes {

/// May iterations of the loop, at the same place of the loops inside, have different values here?
bool moves(const ir::Value&, const ir::Op& loop);
/// May they touch different elements?
bool moves_access(const ir::Op& access, const ir::Op& loop);
/// How far one of the bounds of a loop inside, `where`, moves with the loop's variable, or as far at most where it is
/// cut off; nothing: in another way.
std::optional<Wide> slope(Ranges&, const ir::Value& bound, const ir::Op& loop, const ir::Op& where);
/// Iterations of `loop` that follow each other run through most of `inner` together: at most one of its bounds moves,
/// by one.
bool have_most_in_common(Ranges&, const ir::Op& inner, const ir::Op& loop);

}  // namespace appy::passes
