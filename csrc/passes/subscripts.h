// Comparing the subscripts of accesses to one view.
#pragma once

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/range.h"

namespace appy::passes {

bool is_access(const ir::Op&);
/// Both accesses have the same view and, row by row, the same affine function of the same values.
bool same_element(const ir::Op& a, const ir::Op& b);
/// The same element in iterations of the two loops that have the same number.
bool same_element_in(const ir::Op& x, const ir::Op& loop_x, const ir::Op& y, const ir::Op& loop_y);
/// The block, or what is nested in it, stores to the view.
bool writes_to(ir::Block&, const ir::Value& view);
/// The value runs along memory: it stands in the last subscript alone, by itself.
bool runs_along(const ir::Op& access, const ir::Value& variable);
/// Row d of an access as an affine sum of its terms, without looking into them.
Affine row(const ir::Op& access, size_t d);
/// The same with every term taken apart as far as it is exact at `where`.
Affine row_at(Ranges&, const ir::Op& access, size_t d, const ir::Op& where);
/// Proven at `where` (where the terms are visible): the two accesses of one view differ in this dimension.
bool differ_in(Ranges&, const ir::Op& a, const ir::Op& b, size_t dimension, const ir::Op& where);
/// Proven at `where` (where all terms are visible): the two accesses of one view touch different elements.
bool different_elements(Ranges&, const ir::Op& a, const ir::Op& b, const ir::Op& where);
/// Proven at `where`: the sum, of values that are visible there, is not 0.
bool never_zero(Ranges&, const Affine& sum, const ir::Op& where);
/// A load or store, without what it stores, of view[at - from]; it stands nowhere yet.
ir::Op* relative_access(ir::Graph&, ir::LocId, ir::Opcode, ir::Value* view, ir::Value* at, ir::Value* from);
/// A load of what the store stores to; it has no result yet and stands nowhere.
ir::Op* load_of(ir::Graph&, const ir::Op& store);
/// Emits such a load in front of an op for where the condition holds, and 0 for where not. The builder goes on there.
ir::Value* load_where(ir::Builder&, ir::Value* condition, ir::Op* load, ir::Op* before);
/// The view and every term of the access are defined outside the block.
bool is_invariant(const ir::Op& access, const ir::Block&);

}  // namespace appy::passes
