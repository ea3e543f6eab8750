// What the variables that a loop carries are worth behind some of its iterations, without running them: loop variables
// and the like, which the body hands on and nothing computes with.
#pragma once

#include <unordered_map>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"

namespace appy::passes {

/// Values inside of one `for`, at one of its iterations.
class FinalValues {
 public:
  explicit FinalValues(const ir::Op& loop) : loop_(loop) {}

  /// Are iterations in a row, as far as carried value k goes, worth the last of them?
  bool last_counts(size_t k) const;
  /// May emit() compute the value? It is visible in the loop's body.
  bool may_emit(const ir::Value&) const;

  /// Where emit() stands the loop's variable is `iv`, and its carried values are these.
  void at(ir::Value* iv, const std::vector<ir::Value*>& carried);
  /// At the end of the builder's block.
  ir::Value* emit(ir::Builder&, ir::Value*);

 private:
  bool is_invariant(const ir::Value&) const;
  bool is_free(const ir::Value&) const;
  bool is_handed_on(const ir::Value&, const ir::Value& arg) const;
  bool may_emit_result(const ir::Value&) const;
  ir::Value* emit_result(ir::Builder&, const ir::Op& inner, size_t k);

  const ir::Op& loop_;
  std::unordered_map<const ir::Value*, ir::Value*> known_;
};

/// What the polls of a loop tell, and what copies of them tell instead.
using Told = std::unordered_map<const ir::Value*, ir::Value*>;
/// May told_at() compute it?
bool may_tell(const ir::Op& loop, const FinalValues&);
/// As it is at the iteration where the values stand.
Told told_at(ir::Builder&, const ir::Op& loop, FinalValues&);
/// A copy of the op, of that loop or in it, whose polls tell that.
ir::Op* copy_telling(const ir::Op&, Copier&, const Told&);

}  // namespace appy::passes
