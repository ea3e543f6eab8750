// Does a specialization apply to the frame as it is now? If so: the argument words for its kernel.
#pragma once

#include <Python.h>

#include <array>
#include <memory>
#include <vector>

#include "ir/ir.h"
#include "runtime/alias.h"
#include "runtime/device_arrays.h"
#include "runtime/signature.h"

namespace appy::runtime {

/// A block of memory for one entry: on the stack up to N items, else on the heap.
template <class T, size_t N>
class Scratch {
 public:
  T* reserve(size_t count) {
    if (count <= N) return data_ = inline_.data();
    heap_.resize(count);
    return data_ = heap_.data();
  }
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::array<T, N> inline_;
  std::vector<T> heap_;
};

/// What was read from the frame for one entry.
class Entry {
 public:
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() { release(); }

  Scratch<ir::Word, 80> args;      // as in runtime/kernel.h
  Scratch<PyObject*, 32> objects;  // one an input; null where it is absent. Borrowed, unless held
  std::vector<uintptr_t> streams;  // that arrays name as their own

  /// Owns references to the first `count` objects, for as long as this lives or until release().
  void hold(size_t count);
  /// Takes a new reference that must live as long as the entry.
  void keep(PyObject* fresh) { fresh_.push_back(fresh); }
  void release();

 private:
  size_t held_ = 0;
  std::vector<PyObject*> fresh_;
};

class Guards {
 public:
  /// `scope` is the frame that the signature was traced in: which of its dictionaries has each global is remembered.
  Guards(const Signature&, const ir::Graph&, const Scope& scope);
  ~Guards();

  /// True if every input passes, and arrays overlap exactly where the specialization is the one for overlapping arrays.
  /// Fills entry.args, entry.objects and entry.streams. Runs no Python code, unless arrays of other libraries do when
  /// they are read, and sets no exception.
  bool match(const Scope&, Entry& entry) const;

  /// True if every input passes, were it not for the ranges of Python ints and slices of one element.
  bool matches_beside_ranges(const Scope&) const;

  /// True if every input passes, were it not for any extents of 1 either.
  bool matches_types(const Scope&) const;

  /// True if match() is, and of versions of loops those are wanted that were kept.
  bool is_for_sizes(const Scope&) const;

  /// True if is_for_sizes() is, and no extent is 1 that was something else when the signature was traced.
  bool fits(const Scope&) const;

  /// True if every input passes and written arrays overlap others or themselves, whichever version this is.
  bool overlaps(const Scope&) const;

  /// The name of the input that does not pass, or "overlapping arrays": for messages. Empty where all is well.
  std::string mismatch(const Scope&) const;

  size_t input_count() const { return steps_.size(); }
  size_t word_count() const { return words_; }

 private:
  struct Function;

  /// An input, with everything looked up that does not change.
  struct Step {
    Input::From from = Input::From::fast;
    Input::Guard guard = Input::Guard::is;
    bool in_globals = false;  // global: which of the two dictionaries had it
    bool complex = false;     // scalar, array: of complex numbers
    bool inner = false;       // array: unit stride in the last dimension
    int index = 0, position = 0, size = 0;
    int flags = 0;   // array: NPY_ARRAY_* that must be set
    int number = 0;  // array: type number
    int rank = 0;
    int64_t item_size = 0;  // array
    Library library = Library::numpy;
    int device = host_memory;
    ir::DType dtype = ir::DType::f64_;  // array of another library
    uint64_t asked = 0, single = 0;     // dimensions that must, or where not in `single` must not, have extent 1
    int same_view_as = -1;
    int word = -1;  // where its argument words begin, or -1
    PyScalarType scalar;
    PyTypeObject* cls = nullptr;  // scalar, array of another library: its exact class
    ir::Range range;
    Ref key, object;
    const Function* function = nullptr;
  };

  struct Pair {
    int a, b;
  };
  enum class Compared : uint8_t { types, beside_ranges, all };
  int first_mismatch(const Scope&, Entry&, Compared = Compared::all) const;
  bool read(const Step&, const Scope&, Entry&, PyObject**) const;
  bool pass(const Step&, PyObject*, Entry&, Compared) const;
  bool pass_foreign(const Step&, PyObject*, Entry&, Compared) const;
  Extent extent_of(const Entry&, int input) const;
  bool overlapping(const Entry&) const;
  bool matches_sizes(const Scope&, Entry&) const;

  std::vector<Step> steps_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<Pair> pairs_;  // inputs (arrays) that must be disjoint
  std::vector<int> solo_;    // written arrays that must not overlap themselves
  std::vector<std::string> names_;
  std::vector<ir::Formula> single_;      // extents that must be 1
  std::vector<ir::Formula> not_single_;  // extents that were something else
  std::vector<ir::Formula> settled_;     // conditions under which it does not decline
  size_t words_ = 0;
  bool may_alias_ = false;
  bool foreign_ = false;  // there are arrays of other libraries
};

/// The attribute as `getattr` would find it, where that needs no Python code: module attributes, instance dictionaries
/// and slots, class attributes, `__globals__` of a function; an item where the object is a dict.
/// 1 and a new reference, or 0.
int plain_attribute(PyObject* object, PyObject* name, PyObject** value);

}  // namespace appy::runtime
