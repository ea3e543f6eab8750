// The pass of hoist.cpp with and without belief in what pragmas promise.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

/// `believed`: in loops that still have their permission no iteration reads what another writes; only after
/// `dependence` has taken the permissions that are provably false.
enum class Promises : uint8_t { ignored, believed };

bool hoist_invariants(ir::Graph&, Promises);

}  // namespace appy::passes
