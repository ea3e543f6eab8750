// What is known of integer values: intervals, and differences of the shape a + c <= b, on demand over the structured
// graph. It knows parameters' promised ranges, extents in [0, 2^47), loop variables from bounds and step, carried
// values, ranges of dtypes, and the conditions that dominate a place: enclosing `if`s, checks passed, arms that left
// the loop.
//
// Everything said is said of the exact (unbounded) integers: an `add` is taken apart only where it cannot wrap.
#pragma once

#include <memory>
#include <optional>

#include "ir/ir.h"
#include "passes/affine.h"

namespace appy::passes {

/// Answers stay right while a client removes checks that these answers prove, replaces values by equal ones and inserts
/// new ops. After moving an op to an earlier place say moved(). After changing a loop's bounds or an `if`, make a new
/// one (it is cheap: nothing is computed before it is asked for).
///
/// `where` always means "just before this op executes"; pass a block's terminator for its end. A value asked about must
/// be visible there, except that its operands need not be.
class Ranges {
 public:
  explicit Ranges(const ir::Graph&);
  ~Ranges();
  Ranges(const Ranges&) = delete;
  Ranges& operator=(const Ranges&) = delete;

  /// Bounds of an integer or bool value, wherever it is visible. A u64 whose hi is INT64_MAX may lie above it.
  ir::Range of(const ir::Value&);
  /// The same, narrowed by the conditions that hold at `where`.
  ir::Range at(const ir::Value&, const ir::Op& where);

  /// a < b, a <= b; i64 or narrower integers.
  bool proves_lt(const ir::Value& a, const ir::Value& b, const ir::Op& where);
  bool proves_le(const ir::Value& a, const ir::Value& b, const ir::Op& where);
  /// a <= b where that is found at once: for questions whose answer only tidies up.
  bool sees_le(const ir::Value& a, const ir::Value& b, const ir::Op& where);
  /// a + c <= b, in exact integers (proves_le(i, 2, n): i + 2 <= n).
  bool proves_le(const ir::Value& a, int64_t c, const ir::Value& b, const ir::Op& where);
  /// a >= c, a <= c.
  bool proves_ge(const ir::Value& a, int64_t c, const ir::Op& where);
  bool proves_le(const ir::Value& a, int64_t c, const ir::Op& where);
  /// sum <= 0 (the sum's atoms are integer values).
  bool proves_nonpositive(const Affine& sum, const ir::Op& where);

  /// The value of a bool at `where`, where the conditions there decide it (comparisons, and/or/not, ovf_*).
  std::optional<bool> decide(const ir::Value& condition, const ir::Op& where);

  /// Every row of a load, store or atomic lies in [0, extent) when executed at `where` (not necessarily where it is).
  bool in_bounds(const ir::Op& access, const ir::Op& where);

  /// How many iterations a `for` has: bounds of the trip count, at the loop.
  ir::Range trips(const ir::Op& loop);
  /// The same as far as intervals say, which costs no search: whether there is an iteration at all takes one.
  int64_t most_trips(const ir::Op& loop);
  bool always_runs(const ir::Op& loop) { return trips(loop).lo > 0; }
  bool never_runs(const ir::Op& loop);

  /// The op stands at another place now: what held at its old one is forgotten of its results and those nested in it.
  void moved(const ir::Op&);

  /// The value as an affine sum of atoms that equals it in exact integers at `where`.
  Affine affine(const ir::Value&, const ir::Op& where);

 private:
  /// Of the loop's variable: the lower bound, and the upper one, which it does not take; nothing where the sign of the
  /// step is not known.
  struct Ends {
    const ir::Value &low, &high;
  };
  std::optional<Ends> ends(const ir::Op& loop);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace appy::passes
