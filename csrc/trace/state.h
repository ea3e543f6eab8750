// The abstract state of the recorder: slots (variables and stack entries of all frames in one row), and how the states
// of two paths become one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/semantics.h"

namespace appy::trace {

struct Slot {
  enum class Kind : uint8_t {
    value,     // `traced`, Kind::unbound included
    entry,     // what the frame held when the region was entered; not read so far
    absent,    // no such stack entry on this path
    conflict,  // paths brought values that have no common type: may not be read; `why`
    element,   // under `#pragma atomic`: items are container and index of the element that is updated
    update,    // the same with the operand of `op`
  };
  Kind kind = Kind::absent;
  /// value: where traced.bound is false the variable has what it had at entry (else: it is unbound).
  bool maybe_entry = false;
  BinaryOp op = BinaryOp::add;
  Traced traced;
  std::string why;

  static Slot of(Traced t) {
    Slot s;
    s.kind = Kind::value;
    s.traced = std::move(t);
    return s;
  }
  static Slot entry() {
    Slot s;
    s.kind = Kind::entry;
    return s;
  }
};

/// A view of an array, in what paths may differ: where it starts in each dimension of the array, and its extents.
std::vector<Traced> view_words(const Traced&);
/// Are both views of one array, along the same of its dimensions in the same steps?
bool same_kind_of_view(const Traced&, const Traced&);

/// The very same value, so that a merge needs no word for it.
bool same(const Traced&, const Traced&);
bool same(const Slot&, const Slot&);

/// How a slot looks where paths meet, and which words carry it there.
struct Merged {
  Slot shape;          // what is not carried in words is taken from here
  bool value = false;  // a word for the scalar
  bool tag = false;
  bool bound = false;
  Join join;
  std::vector<Merged> items;  // tuple
  /// A variable that is at its entry value on one path and deleted on the other: entry values must be loaded.
  bool needs_entry = false;
};

/// `carry`: scalars get a word even if both are the same value (loops).
Merged merge(const Slot& a, const Slot& b, bool carry);
bool same_shape(const Merged&, const Merged&);
/// A slot of this shape, for further merges; its values are placeholders.
Slot placeholder(const Merged&);
void append_types(const Merged&, std::vector<ir::Type>&);
/// The words of `from` for this merge; emits conversions.
void append_words(Context&, const Merged&, const Slot& from, std::vector<ir::Value*>&);
/// The slot after the merge; takes its words from the front of `words`.
Slot rebuild(Context&, const Merged&, std::span<ir::Value* const>& words);

}  // namespace appy::trace
