// A loop that is being traced.
#pragma once

#include <vector>

#include "trace/recorder.h"

namespace appy::trace {

struct Recorder::LoopContext {
  const bytecode::NaturalLoop* loop = nullptr;
  std::vector<Slot> entry;      // where the body starts, with the carried values in place
  std::vector<Slot> before;     // the slots as the loop is reached
  std::vector<size_t> carried;  // slots
  std::vector<Merged> plan;     // how each is carried
  std::vector<Merged> next;     // the same, widened by what the back edges and exits brought
  std::set<size_t> wide;        // slots that need more than the dtype of the NumPy scalars that they hold
  std::vector<size_t> more;     // slots that turned out to change
  std::vector<Merged> more_plan;
  int collapse = 1;  // loops of the nest that its clause speaks of, this one among them
  bool widened = false;
  bool many_exits = false;             // the exit taken is carried as well
  int exhausted = -1;                  // node after the last iteration; -1: none
  std::vector<Outcome::Target> exits;  // that were taken

  void left(const Outcome::Target& t) {
    for (const Outcome::Target& known : exits) {
      if (known.node == t.node) return;
    }
    exits.push_back(t);
  }
};

}  // namespace appy::trace
