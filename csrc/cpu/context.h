// What generated code and the C++ around it share at run time: the context of one run and the helpers it calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::cpu {

struct Team;
struct Teams;
class Memory;

/// Returns the teams of a run to the thread's cache.
void give_back(Teams*);

/// One per thread that runs generated code. Machine code uses the offsets of these fields.
struct Context {
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (teams) give_back(teams);
  }

  const volatile int* flag = nullptr;  // polled; non-zero calls `poll_slow`
  runtime::Failure failure;            // written before generated code returns Status::failed
  int64_t threads = 1;
  Team* team = nullptr;               // the parallel loop that this thread runs a part of, or null
  int64_t chunk = 0;                  // of that loop
  Memory* memory = nullptr;           // of the arrays that this thread makes
  runtime::Arrays* arrays = nullptr;  // makes those that escape
  bool no_memory = false;             // why the status is interrupted
  bool spread = false;                // the region's last parallel loop ran on several threads
  bool told = false;                  // results hold what the poll before the pending loop tells
  Teams* teams = nullptr;             // of the region's parallel loops
};

/// Returns a Status or kInterruptedBefore.
using RegionEntry = int64_t (*)(Context*, const ir::Word* args, ir::Word* results);

/// Instead of Status::interrupted: a loop that was pending was, and results hold what the poll before it tells, if
/// anything.
constexpr int64_t kInterruptedBefore = 16;

/// The flag was set: returns 0 to go on, else the status to leave with, or kInterruptedBefore.
int64_t poll_slow(Context*);

/// What an outlined body gets from the function that runs its loop: the words below, then captured values, then the
/// initial values of what the loop reduces.
using Closure = ir::Word;
enum ClosureWord : int { kArgs, kLower, kStep, kPartials, kFirstCaptured };

/// Runs trips [begin, end); `chunk` counts the chunks in iteration order and selects the row of partial results.
using BodyEntry = int64_t (*)(Context*, Closure*, int64_t begin, int64_t end, int64_t chunk);

/// A view that the loop's body only updates, by atomics of one combiner.
struct AtomicTarget {
  uint32_t word;  // its first argument word
  int8_t rank;    // 1 or 2
  ir::DType dtype;
  ir::Combiner combiner;
  ir::Layout layout;
};
static_assert(sizeof(AtomicTarget) == 8);
constexpr int64_t kMaxTargets = 4;

/// Who has which iterations: one `share` each, or several parts, of which others take the last ones: `stretches` of
/// parts beside each other, or where iterations differ in length every n-th, `in_turn`.
enum class Dealing : uint8_t { shares, stretches, in_turn };

/// A `for parallel` as generated code describes it.
struct ParallelLoop {
  BodyEntry body;
  BodyEntry alone;  // the body for a single thread, whose atomics are plain updates; the same where there are none
  Closure* closure;
  int64_t trips;
  int64_t cost;       // of one iteration, estimated, in 1/16 ns
  int64_t chunk;      // schedule's or block's, 0: automatic
  int64_t threads;    // num_threads, 0: default
  int64_t dealing;    // a Dealing: from the schedule, or what iterations are like
  int64_t fixed;      // likewise: each worker has its share, and nothing of another's
  int64_t align;      // chunk bounds are multiples of it where possible
  int64_t may_pend;   // what follows needs no word of others until the next loop, or finish_parallel
  int64_t polls;      // an interrupt may leave it; without, it is done as a whole or not at all
  int64_t row_words;  // of partial results; 0: nothing is reduced
  int64_t closure_words;
  int64_t arg_words;
  int64_t targets;  // views that workers may have private copies of; 0: none, or not of all
  AtomicTarget target[kMaxTargets];
  ir::Word* partials;  // out: row_words words for each chunk
  int64_t chunks;      // out
};

/// Splits the range over the pool's threads. Returns a Status, or kInterruptedBefore; the failure of the first failing
/// iteration is in the context. A loop that may pend can still be running when this returns done; the next one, and
/// whatever returns another status, waits for it first, and returns its status where that is another.
int64_t run_parallel(Context*, ParallelLoop*);

/// Waits for the pending loop, if there is one. Returns as run_parallel does.
int64_t finish_parallel(Context*);

}  // namespace appy::cpu
