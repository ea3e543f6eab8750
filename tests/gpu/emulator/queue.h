// What streams of the emulated device were given, for the parts of the library beside the driver.
#pragma once

#include <functional>

/// Done when something waits for it. Zero, or the driver's error.
int appy_emulator_enqueue(std::function<int()> what);
