// Which values differ between the lanes of a `simd` loop, and what that means for the loops and conditionals in it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/ir.h"

namespace appy::cpu {

/// Is no loop inside this one?
bool is_innermost(const ir::Op& loop);

class Divergence {
 public:
  explicit Divergence(const ir::Op& simd_loop);

  /// Differs between lanes. The iteration variable of the simd loop itself does, linearly: see `linear`.
  bool varying(const ir::Value* v) const { return v->id < varying_.size() && varying_[v->id]; }
  const ir::Value* linear() const { return loop_.blocks[0]->args[0]; }
  /// Do lanes leave this inner loop at different iterations?
  bool divergent(const ir::Op* inner) const { return divergent_.contains(inner); }
  /// Does a `continue` of this loop stand under a varying condition?
  bool splits(const ir::Op* loop) const { return splits_.contains(loop); }
  /// Everything in the op is uniform and runs once for all lanes.
  bool uniform(const ir::Op& op) const;

  /// A 32-bit integer widened only to index gathers that widen it themselves.
  bool narrow_index(const ir::Value* v) const { return narrow_.contains(v); }

  bool has_divergent_loop() const { return !divergent_.empty(); }
  bool has_varying_if = false;
  bool has_inner_loop = false;
  bool branches_in_loop = false;  // a varying `if` stands in an inner loop, or an inner loop in anything
  bool has_alloc = false;
  bool has_check = false;
  bool has_gather = false;
  bool stores = false, stores_inside = false;  // or updates; in a loop inside
  bool check_after_store = false;
  bool own_break = false;         // a break out of the simd loop itself
  bool unsupported_loop = false;  // an inner for whose per-lane trip count needs a division
  int ops = 0;                    // varying ops
  size_t sums_inside = 0;         // varying carried values of the inner loop that has most
  int widest = 0;                 // bytes of the widest varying element type
  bool value_of_linear = false;   // the iteration variable is needed as a vector

 private:
  bool update(const ir::Block&, bool condition_varies, const ir::Op* loop);
  bool mark(const ir::Value*);
  void find_narrow_indices();
  void survey();

  const ir::Op& loop_;
  std::vector<bool> varying_;
  std::unordered_set<const ir::Op*> divergent_, splits_;
  std::unordered_set<const ir::Value*> narrow_;
};

}  // namespace appy::cpu
