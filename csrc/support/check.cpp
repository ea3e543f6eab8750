#include "support/check.h"

#include <cstdio>
#include <cstdlib>

namespace appy {

void fatal(const char* file, int line, std::string_view message) {
  std::fprintf(stderr, "appy: internal error at %s:%d: %.*s\n", file, line, static_cast<int>(message.size()),
               message.data());
  std::abort();
}

}  // namespace appy
