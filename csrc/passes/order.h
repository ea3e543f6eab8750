// Which iterations of a loop come to an element first.
#pragma once

#include <vector>

#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/range.h"

namespace appy::passes {

/// Where the accesses of one view touch one element they do so in the same iteration of the loop: in some dimension
/// both subscripts are the same multiple of its variable, and equal otherwise, in what is defined outside of `fixed`.
bool pinned(const ir::Op& a, const ir::Op& b, const ir::Op& loop, const ir::Block& fixed);
bool pinned(const ir::Op& a, const ir::Op& b, const ir::Op& loop);

/// No two iterations of the loop touch one element through these.
bool meet_in_one_iteration(const ir::Op& a, const ir::Op& b, const ir::Op& loop);

/// What the sum is not below (`least`) or not above while `loop` runs, in its variable and what is defined outside of
/// it: several, where it is the smaller of two.
std::vector<Affine> bounds_of(Ranges&, const Affine& sum, bool least, const ir::Op& loop);

/// Proven: where both touch one element, `first` does so in an earlier iteration of the loop, or where `or_in_same` in
/// the same one.
bool is_earlier(Ranges&, const ir::Op& first, const ir::Op& second, const ir::Op& loop, bool or_in_same);

/// In an iteration of the loop `first` is executed before `second` where both touch one element.
bool comes_before(ir::Op& first, ir::Op& second, const ir::Op& loop);

}  // namespace appy::passes
