// Stores that go around the caches (vmovnt...): those of a simd loop that writes more than the last-level cache holds.
// A plain store first reads the line that it writes, and what it writes drives out what others may need. Which stores
// qualify is found here, from the graph; whether there is enough to write is known when the loops around are entered.
#pragma once

#include <span>
#include <vector>

#include "ir/ir.h"

namespace appy::cpu {

struct Stream {
  std::vector<const ir::Op*> stores;  // of neighbouring elements, each written once
  std::vector<const ir::Op*> loops;   // whose iterations write different elements, the simd loop first
  int64_t bytes = 0;                  // that an iteration of the innermost loop moves and that have to go somewhere
};

/// The stream of a loop whose body is a straight line; no stores: there is none.
Stream find_stream(const ir::Graph&, std::span<const ir::Op* const> accesses, const ir::Op& simd_loop);
/// All accesses of a region.
std::vector<const ir::Op*> accesses_of(const ir::Graph&);

/// Bytes of the last-level caches that the threads of this process use.
int64_t last_level_cache();

}  // namespace appy::cpu
