// The region object: a callable in the constants of a rewritten function. Called without arguments, it runs its
// statement in the frame that calls it. It answers False (not compiled: the original bytecode follows), True (done:
// jump over the statement), or a 1-tuple with the value that the function returns.
#pragma once

#include <Python.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "jit.h"
#include "support/ref.h"

namespace appy::frame {

/// What a region is made of. `code` may be null: the region then adopts the code of the first frame that calls it, in
/// which [begin, end) are the statement's offsets (an unpickled function).
struct RegionParts {
  Ref key;        // str: hash of the code object, its pragmas and options
  int index = 0;  // of the region in its code object
  Ref code;
  int begin = 0, end = 0;
  std::vector<pragma::Placed> pragmas;
  RegionOptions options;
  Ref recipe;  // str or None: a Python expression whose value is this region, also in a process without appy
};

/// Makes the type ready. False with a Python exception set where that fails.
bool init_region_type();
PyTypeObject* region_type();

/// A new reference, or null with an exception set.
PyObject* make_region(RegionParts parts);

/// Gives a region its recipe.
void set_recipe(PyObject* region, PyObject* recipe);

/// The compiler's side of a region; null for one that has no code yet. `region` must be of region_type().
RegionCache* region_cache(PyObject* region);

/// Off: every region answers False.
void set_enabled(bool on);
bool is_enabled();

/// While an object of this type lives, the next region entered in this thread is lowered instead of run, and the
/// region's call fails with the exception `stop`.
class LowerNext {
 public:
  explicit LowerNext(PyObject* stop);
  ~LowerNext();
  LowerNext(const LowerNext&) = delete;
  LowerNext& operator=(const LowerNext&) = delete;
  /// What was lowered, or null where no region was entered. Throws what RegionCache::lower threw.
  std::shared_ptr<Lowered> take();

 private:
  friend class RegionCall;
  PyObject* stop_;
  LowerNext* outer_;
  std::shared_ptr<Lowered> lowered_;
  std::exception_ptr error_;
};

/// Compares what we read of a frame with what Python says: true if they agree. Called from a Python function that has
/// the locals `a` and `b`, in this order, bound to the given objects.
bool frame_reads(PyObject* a, PyObject* b);

}  // namespace appy::frame
