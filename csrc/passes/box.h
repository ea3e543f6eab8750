// The box of elements that accesses to one view touch, computed in front of the loops around them.
#pragma once

#include <optional>
#include <span>

#include "passes/extremes.h"

namespace appy::passes {

/// Of one dimension; `begin` is null where that is 0.
struct Span {
  ir::Value *begin, *extent;
};

/// From the least subscript of these accesses to the greatest one, where the extremes' builder stands: at least what
/// they touch, or all of the dimension where that would not fit into 64 bits. Nothing where it is not known there.
std::optional<Span> span_of(Ranges&, Extremes&, std::span<const ir::Op* const> accesses, size_t dimension);

}  // namespace appy::passes
