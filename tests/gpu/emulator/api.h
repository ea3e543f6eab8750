// What a compiled kernel and the emulated device know of each other. Included by both.
#pragma once

#include <cstddef>
#include <cstdint>

namespace appy_emulator {

/// The emulated thread that runs now.
struct Thread {
  unsigned thread[3];
  unsigned block[3];
  unsigned block_size[3];
  unsigned grid_size[3];
  unsigned lane;
  unsigned char* shared;  // of its block
};

struct Votes {
  int any, all, count;
};

struct Api {
  Thread* const* current;
  /// Waits for the threads of the block that have not returned.
  Votes (*barrier)(int predicate);
  /// Waits for the lanes in `mask` that have not returned, and gives what each of them passed.
  const uint64_t* (*exchange)(unsigned mask, uint64_t value);
  /// Waits until no lane of the warp can run, and gives those that wait here.
  unsigned (*active)();
  /// Lets other threads run.
  void (*pause)();
  /// Ends the launch with an error.
  void (*trap)();
};

/// How a kernel is called: `arguments` as cuLaunchKernel gets them.
using Kernel = void (*)(void** arguments);

/// What NVRTC makes here: this, then a shared object.
struct Prologue {
  char magic[8];
  int32_t architecture;
  int32_t ptx;
  uint64_t bytes;
};
inline constexpr char kMagic[8] = {'a', 'p', 'p', 'y', 'e', 'm', 'u', '1'};

}  // namespace appy_emulator
