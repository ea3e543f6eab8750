// Bounds of a value over all iterations of the loops around it, as code: two values computed before those loops.
//
// The bounds are sound (no iteration leaves them) wherever all `overflows` are false. They are `exact` where the loops
// reach them, roughly: a test on exact bounds fails only if an iteration fails it. Conditions that dominate the place
// cut a loop variable's range. A value loaded from an integer array that the region does not write is bounded by a loop
// over the part of the array that is read (an inspector).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/range.h"

namespace appy::passes {

struct Bounds {
  ir::Value* lo = nullptr;
  ir::Value* hi = nullptr;
  bool exact = true;
  std::set<const ir::Op*> loops;  // whose iterations it varies with
  bool varies() const { return lo != hi; }
};

/// A comparison that holds at a place.
struct Fact {
  const ir::Op* compare = nullptr;
  bool holds = true;
};

/// What must be true to get from before `outer` to `where`.
struct Path {
  std::vector<Fact> facts;
  bool opaque = false;  // a condition that is no comparison of integers, a `while`, or a loop left by break
};
Path path_to(const ir::Op& where, const ir::Op& outer);

class Extremes {
 public:
  /// What inspectors found, by load; kept by the client for as long as their code stays.
  using Inspected = std::map<const ir::Op*, Bounds>;

  /// Code goes before `outer`, an op of the region's body. Inspectors in `inspected` stand before it already.
  Extremes(ir::Graph&, Ranges&, ir::Op& outer, Inspected inspected);

  /// Bounds of an integer value as seen at `where`.
  std::optional<Bounds> of(const ir::Value&, const ir::Op& where);
  std::optional<Bounds> of(const Affine&, const ir::Op& where);

  /// True if every fact on the path cuts the range of one loop variable by something that the loops do not change.
  bool cuts_exactly(const Path&, const ir::Op& where);

  ir::Builder& builder() { return builder_; }
  bool is_before(const ir::Value&) const;
  const Inspected& inspected() const { return inspected_; }
  /// Conditions under which the bounds are wrong because their computation overflowed; forgets them.
  std::vector<ir::Value*> take_overflows();

 private:
  std::optional<Bounds> atom(const ir::Value&, const ir::Op& where);
  std::optional<Bounds> compute(const ir::Value&, const ir::Op& where);
  std::optional<Bounds> variable(const ir::Op& loop, const ir::Op& where);
  std::optional<Bounds> between_ends(const Affine&, const ir::Op& where);
  bool adjoin(const Affine& first, const Affine& last);
  const ir::Op* looked_up(const Affine&) const;
  void clip(Bounds&, const ir::Op& loop, const ir::Op& where);
  std::optional<Bounds> product(const ir::Op&, const ir::Op& where);
  std::optional<Bounds> either(const ir::Value& a, const ir::Op& at_a, const ir::Value& b, const ir::Op& at_b);
  std::optional<Bounds> counter(const ir::Op& loop, size_t k);
  std::optional<Bounds> converted(const ir::Op& loop, size_t k);
  std::optional<Bounds> inspect(const ir::Op& load);
  std::optional<Bounds> constant_range(const ir::Value&, const ir::Op& where);

  ir::Value* arithmetic(ir::Opcode, ir::Opcode overflow, ir::Value* a, ir::Value* b);
  ir::Value* add(ir::Value* a, ir::Value* b) { return arithmetic(ir::Opcode::add_, ir::Opcode::ovf_add_, a, b); }
  ir::Value* sub(ir::Value* a, ir::Value* b) { return arithmetic(ir::Opcode::sub_, ir::Opcode::ovf_sub_, a, b); }
  ir::Value* mul(ir::Value* a, ir::Value* b) { return arithmetic(ir::Opcode::mul_, ir::Opcode::ovf_mul_, a, b); }
  ir::Value* least(ir::Value* a, ir::Value* b);
  ir::Value* greatest(ir::Value* a, ir::Value* b);
  ir::Value* number(int64_t);

  ir::Graph& graph_;
  Ranges& ranges_;
  ir::Op& outer_;
  ir::Builder builder_;
  std::set<const ir::Op*> active_;  // loops whose variable is being bounded
  std::set<const ir::Value*> open_;
  Inspected inspected_;
  std::map<int64_t, ir::Value*> numbers_;
  std::map<std::tuple<ir::Opcode, const ir::Value*, const ir::Value*>, ir::Value*> made_;
  std::vector<ir::Value*> overflows_;
};

}  // namespace appy::passes
