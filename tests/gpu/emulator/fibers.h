// Runs the threads of a launch as fibers of one thread of the processor.
#pragma once

#include <cstddef>
#include <string>

#include "api.h"

namespace appy_emulator {

struct Grid {
  unsigned blocks[3], threads[3];
  size_t shared_bytes;
  bool cooperative;  // all blocks at once; else one after the other
};

/// Runs a kernel to its end. Returns 0, or the driver's error for what went wrong, with the reason in `why`.
/// APPY_EMULATOR_ORDER: forward (default), reverse, depth (who has just been let go runs first, so that one block runs
/// ahead of the others as far as it may), or a number that starts a random order of threads.
int run_grid(const Grid&, Kernel, void** arguments, std::string& why);

const Api* api();

}  // namespace appy_emulator
