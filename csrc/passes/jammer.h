// What jam.cpp and jam_rows.cpp share: a few iterations of a loop become one, with one copy of each loop inside.
//
// Bounds of the loop inside that move with the unrolled one (triangles) leave a part that all copies have, which they
// run together, and parts before and behind it, which each copy runs by itself, without lanes where it adds up.
#pragma once

#include <cstdint>
#include <map>

#include "ir/ir.h"
#include "passes/jam_order.h"
#include "passes/range.h"

namespace appy::passes {

/// AVX-512 has as many vector registers, and mask registers of its own for conditions; with fewer, masks are vectors.
inline constexpr int64_t kRegistersBesideMasks = 32;

/// Puts a loop over groups of `copies` iterations before the loop, which does those that are left: all of them where
/// there are fewer than `least_trips`. The copies' common loops, by the loops that they are copies of.
std::map<const ir::Op*, ir::Op*> jam_loop(ir::Graph&, Ranges&, ir::Op& loop, const JamOrder&, int64_t copies,
                                          int64_t least_trips = 0);

}  // namespace appy::passes
