// What jam.cpp and jam_rows.cpp share: a few iterations of a loop become one, with one copy of each loop inside.
#pragma once

#include <cstdint>
#include <map>

#include "ir/ir.h"
#include "passes/jam_order.h"
#include "passes/range.h"

namespace appy::passes {

/// Puts a loop over groups of `copies` iterations before the loop, which does those that are left: all of them where
/// there are fewer than `least`. The copies' common loops, by the loops that they are copies of.
std::map<const ir::Op*, ir::Op*> jam_loop(ir::Graph&, Ranges&, ir::Op& loop, const JamOrder&, int64_t copies,
                                          int64_t least = 0);

}  // namespace appy::passes
