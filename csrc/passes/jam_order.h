// Which loops can be unrolled and jammed (jam.cpp), and in which order the ops of their bodies run then.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "ir/ir.h"
#include "passes/range.h"

namespace appy::passes {

/// Is it a loop inside of which there is none, that does nothing but load and add up?
bool adds_up(const ir::Op&);

/// Ops between two jammed loops run copy by copy. So do, at the end, those behind all jammed loops and pure ones that
/// follow from carried values, which each copy has from the one before.
struct JamOrder {
  std::set<const ir::Op*> jammed;      // loops that the copies run as one
  std::set<const ir::Op*> late;        // ops at the end
  std::set<const ir::Value*> chained;  // follow from the carried values

  bool reads_chained(const ir::Op&) const;
  bool is_late_result(const ir::Op& loop, size_t k) const { return chained.count(loop.results[k]) != 0; }
};

/// The order for up to `copies` iterations of `loop` around some of these `innermost` loops, or nothing where they
/// cannot be jammed.
std::optional<JamOrder> order_to_jam(ir::Graph&, Ranges&, ir::Op& loop, const std::set<const ir::Op*>& innermost,
                                     int64_t copies);

}  // namespace appy::passes
