// Large blocks of memory, kept when they are given back for whoever asks next: a call that is made again and again does
// not have the system clear pages each time. The system may take what is kept whenever it runs short.
#pragma once

#include <cstddef>

namespace appy::runtime {

/// Less than this is malloc()'s, which keeps its memory itself.
constexpr size_t kFewestPages = size_t{4} << 20;

struct Pages {
  char* at = nullptr;    // a multiple of 2 MB; null: there is no memory
  size_t bytes = 0;      // at least what was asked for, and at most a third more
  bool cleared = false;  // all bytes are 0
};

/// At least `bytes` bytes, kFewestPages or more. For any thread.
Pages take_pages(size_t bytes);

/// What take_pages returned.
void give_pages(void* at, size_t bytes);

}  // namespace appy::runtime
