// Comparing the subscripts of accesses to one view.
#pragma once

#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/range.h"

namespace appy::passes {

bool is_access(const ir::Op&);
/// Both accesses have the same view and, row by row, the same affine function of the same values.
bool same_element(const ir::Op& a, const ir::Op& b);
/// Row d of an access as an affine sum of its terms, without looking into them.
Affine row(const ir::Op& access, size_t d);
/// The same with every term taken apart as far as it is exact at `where`.
Affine row_at(Ranges&, const ir::Op& access, size_t d, const ir::Op& where);
/// Proven at `where` (where all terms are visible): the two accesses of one view touch different elements.
bool different_elements(Ranges&, const ir::Op& a, const ir::Op& b, const ir::Op& where);
/// The view and every term of the access are defined outside the block.
bool is_invariant(const ir::Op& access, const ir::Block&);

}  // namespace appy::passes
