// What generated code and the C++ around it share at run time: the context of one run and the helpers it calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::cpu {

/// One per thread that runs generated code. Machine code uses the offsets of these fields.
struct Context {
  const volatile int* flag = nullptr;  // polled; non-zero calls `poll_slow`
  runtime::Failure failure;            // written before generated code returns Status::failed
  int64_t threads = 1;
  void* team = nullptr;        // the Team whose range this thread runs a part of, or null
  int64_t iteration_base = 0;  // first trip of the chunk being run, for Failure::iteration
};

using RegionEntry = int64_t (*)(Context*, const ir::Word* args, ir::Word* results);

/// The flag was set: returns 0 to go on, else the status to leave with.
int64_t poll_slow(Context*);

/// What an outlined body sees of the function that holds its loop: words put there by that function.
using Closure = ir::Word;

/// Runs trips [begin, end); `slot` numbers the chunk in iteration order and selects its partial results.
using BodyEntry = int64_t (*)(Context*, Closure*, int64_t begin, int64_t end, int64_t slot);

/// A `for parallel` as generated code describes it.
struct ParallelLoop {
  BodyEntry body;
  Closure* closure;
  int64_t trips;
  int64_t cost;      // estimated nanoseconds x 16 of one iteration
  int64_t chunk;     // 0: automatic
  int64_t threads;   // num_threads, 0: default
  int64_t dynamic;   // schedule
  int64_t align;     // chunks are multiples of it where possible
  ir::Word* partials;  // room for kMaxSlots rows of `row_words`, or null where nothing is reduced
  int64_t row_words;
  int64_t slots;     // out: rows in use
};

/// Chunks of one loop that has reductions; more would only lengthen the combining loop.
inline constexpr int64_t kMaxSlots = 256;

/// Splits the range over the pool's threads. Returns a Status; the failure of the first failing iteration is in the
/// context.
int64_t run_parallel(Context*, ParallelLoop*);

}  // namespace appy::cpu
