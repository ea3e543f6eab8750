// Memory of large arrays that regions, and appy.empty and the like, make: what NumPy gives back is kept for the next
// one, so that a function called again and again does not have the system clear pages for each result.
#pragma once

#include <Python.h>

#include "support/ref.h"

namespace appy::runtime {

/// In its scope this thread's new NumPy arrays have memory that is kept when they die. The system may take what is kept
/// whenever it runs short. Requires the GIL.
class Recycling {
 public:
  Recycling();
  ~Recycling();
  Recycling(const Recycling&) = delete;
  Recycling& operator=(const Recycling&) = delete;

 private:
  Ref before_;  // null: there is no such memory, and NumPy's is used
};

}  // namespace appy::runtime
