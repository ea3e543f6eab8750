// Does all of it work together? Compiles, loads and runs a kernel, for `python -m appy doctor`.
#pragma once

namespace appy::gpu {

/// Throws Error where a small kernel does not give the right answer on this device.
void self_test(int ordinal);

}  // namespace appy::gpu
