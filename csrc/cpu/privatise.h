// Private copies of the views that a parallel loop updates atomically: each worker updates its own, without locks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/context.h"

namespace appy::cpu {

/// The most elements of all targets together.
constexpr int64_t kMaxPrivate = 4096;

/// Can updates of this type and combiner go to a copy that is merged later?
bool can_privatise(ir::DType, ir::Combiner);

/// Words that one worker needs for its copies, a multiple of a cache line; 0: the targets are large, overlap, or are
/// not worth it.
size_t private_words(const ParallelLoop&);

/// Builds in `memory` a closure whose targets are copies full of identities. Returns the closure.
Closure* make_private(const ParallelLoop&, ir::Word* memory);

/// Adds the copies that `closure` refers to to the targets. Not to be called by two threads at once.
void merge_private(const ParallelLoop&, const Closure* closure);

}  // namespace appy::cpu
