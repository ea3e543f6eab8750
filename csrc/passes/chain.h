// How a carried value flows through one iteration of a loop.
//
// The chain of a carried value holds every value that is "the variable so far": the loop's argument, what an update
// makes of it, and what conditionals and inner loops merge it into. A value from outside the chain enters at a merge
// and replaces the variable. Uses as a check's or poll's state do not count: they are settled separately (state.h).
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/ir.h"
#include "passes/loops.h"

namespace appy::passes {

/// A place where a value from outside the chain may replace the running one.
struct Merge {
  ir::Op* op = nullptr;            // select, if, pymin/pymax, or the terminator that passes the new value on
  ir::Value* condition = nullptr;  // select, if
  bool when = true;                // the new value is taken when the condition is this
  ir::Value* update = nullptr;
  ir::Value* old = nullptr;  // the chain value on the other side; null where there is none
};

class Chain {
 public:
  /// The chain of the loop's carried value k.
  Chain(const Uses&, ir::Op& loop, size_t k);

  /// False where a chain value has a use that neither updates nor merges nor compares it.
  bool valid() const { return valid_; }
  bool has(const ir::Value& v) const { return v.id < member_.size() && member_[v.id]; }
  /// The operation of the updates; recur where there is none.
  ir::Combiner combiner() const { return combiner_; }
  /// Comparisons of a chain value with a value from outside, and tests whether it is NaN.
  const std::vector<ir::Op*>& compares() const { return compares_; }
  const std::vector<Merge>& merges() const { return merges_; }
  ir::Value* arg() const { return arg_; }
  size_t index() const { return k_; }
  /// The value does not change in the loop.
  bool is_invariant() const {
    return valid_ && combiner_ == ir::Combiner::recur_ && merges_.empty() && compares_.empty();
  }

 private:
  void push(ir::Value*);
  void follow(const Use&);
  void combine(ir::Combiner, const Use&);
  void close();
  void merge_at_exits(const ir::Op& loop, size_t k);

  const Uses& uses_;
  ir::Op& loop_;
  size_t k_;
  ir::Value* arg_;
  bool valid_ = true;
  ir::Combiner combiner_ = ir::Combiner::recur_;
  std::vector<bool> member_;
  std::vector<ir::Value*> members_;
  std::vector<ir::Op*> compares_;
  std::vector<Merge> merges_;
  std::vector<std::pair<ir::Op*, size_t>> updates_;  // binary op, its chain operand
};

/// Adds a carried value that is `key` where the last replacement of `chain` happened and `init` where none did: it
/// merges wherever the chain merges. Returns its carried index.
size_t add_shadow(ir::Graph&, ir::Op& loop, const Chain& chain, ir::Value* key, ir::Value* init, std::string name);

/// True if `follower` is replaced exactly where `leader` is, under the very conditions.
bool moves_with(const Chain& leader, const Chain& follower, const ir::Op& loop);

}  // namespace appy::passes
