// How long-running compiled code learns of Ctrl-C: a flag that it tests and a handler that it then calls.
#pragma once

namespace appy::runtime {

/// Called without the GIL on the thread that runs the region while *flag is not 0. Returns non-zero if a Python
/// exception is now set, and clears the flag once the matter is settled.
using PollHandler = int (*)();

/// Installs what the frame layer provides; until then nothing interrupts.
void set_poll(const volatile int* flag, PollHandler);
const volatile int* poll_flag();
int poll();

}  // namespace appy::runtime
