// What is done to all sums of a loop, one after the other, is done to them as vectors: the reduction leaves them beside
// each other anyway. `Superword level parallelism` of Larsen and Amarasinghe (PLDI 2000), with the sums as seeds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace appy::cpu {

/// Runs of ops behind a loop with `count` sums: each has one op for each sum, all of one kind, in the order of the
/// sums. They are loads, arithmetic on what runs before them made and on values that all share, and stores. Nothing
/// else uses what they make. Other ops between them use none of it.
struct Packs {
  using Run = std::vector<const ir::Op*>;
  size_t count = 0;
  std::vector<Run> runs;
  const ir::Op* end = nullptr;  // what follows the last run
  /// The run that begins with the op, or null.
  const Run* begun_by(const ir::Op&) const;
};

/// Nothing where sums do not fill vectors of so many lanes, or are used otherwise. `uses` by value id.
std::optional<Packs> find_packs(const ir::Op& loop, size_t lanes, std::span<const uint32_t> uses);

}  // namespace appy::cpu
