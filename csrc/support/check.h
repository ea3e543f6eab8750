// The third tier of errors: an invariant of our own is broken. Prints and aborts.
#pragma once

#include <string_view>

namespace appy {

[[noreturn]] void fatal(const char* file, int line, std::string_view message);

}  // namespace appy

#define APPY_CHECK(condition, message)                            \
  do {                                                            \
    if (!(condition)) ::appy::fatal(__FILE__, __LINE__, message); \
  } while (0)
