// Moves arrays that the region makes out of conditionals and of loops whose iterations run in order, as far up as their
// extents go with them: what is made once has its address and strides in registers. Its contents are unspecified when
// it is made, so iterations may share it; iterations of a parallel or simd loop may not.
//
// Rules for editors:
// 1. An alloc executes where it did not before: there its extents become 0, unless it is known to be reached.
// 2. A check in front of it may be what keeps its extents sensible. It moves past one only where its size is known, or
//    where nothing was written yet: then memory that is not to be had sends the statement to the interpreter.
#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "ir/footprint.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

constexpr int64_t kSmall = int64_t{1} << 20;  // elements

/// May control leave the block, or stay away for ever, at this op?
bool may_leave(const Op& op) {
  if (ir::info(op.code).effect == ir::Effect::guard || op.code == Opcode::while_) return true;
  if (op.code == Opcode::break_ || op.code == Opcode::continue_) return true;
  for (const Block* block : op.blocks) {
    for (const Op* inner = block->first; inner; inner = inner->next) {
      if (may_leave(*inner)) return true;
    }
  }
  return false;
}

class Allocs {
 public:
  explicit Allocs(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    std::vector<Op*> found;
    ir::walk(*graph_.body, [&](Op& op) {
      if (op.code == Opcode::alloc_ && op.parent->owner) found.push_back(&op);
    });
    for (Op* alloc : found) {
      while (alloc->parent->owner && may_move(*alloc)) up(*alloc);
    }
    return changed_;
  }

 private:
  bool may_move(const Op& alloc) const {
    const Op& owner = *alloc.parent->owner;
    if (has_permission(owner)) return false;
    for (const Value* extent : alloc.operands) {
      if (!liftable(*extent, owner)) return false;
    }
    return is_certain(alloc) || is_small(alloc) || ir::nothing_written_before(owner);
  }

  /// The value exists in front of `owner`, or may be computed there.
  static bool liftable(const Value& v, const Op& owner) {
    if (visible_before(v, owner)) return true;
    if (!v.op || !ir::is_pure(v.op->code)) return false;
    for (const Value* operand : v.op->operands) {
      if (!liftable(*operand, owner)) return false;
    }
    return true;
  }

  /// Executed whenever its block is, in a loop's first iteration at least.
  static bool is_certain(const Op& alloc) {
    for (const Op* before = alloc.prev; before; before = before->prev) {
      if (may_leave(*before)) return false;
    }
    return true;
  }

  static bool is_small(const Op& alloc) {
    int64_t elements = 1;
    for (const Value* extent : alloc.operands) {
      const auto n = constant(*extent);
      if (!n || *n < 0 || *n > kSmall) return false;
      elements *= *n;
      if (elements > kSmall) return false;
    }
    return true;
  }

  void lift(Value& v, Op& owner) {
    if (visible_before(v, owner)) return;
    for (Value* operand : v.op->operands) lift(*operand, owner);
    v.op->parent->remove(v.op);
    owner.parent->insert_before(&owner, v.op);
  }

  void up(Op& alloc) {
    Op& owner = *alloc.parent->owner;
    const bool first_arm = alloc.parent == owner.blocks[0];
    for (Value* extent : alloc.operands) lift(*extent, owner);
    Builder b(graph_);
    b.set_loc(alloc.loc);
    b.set_before(&owner);
    const bool varies = std::any_of(alloc.operands.begin(), alloc.operands.end(),
                                    [](const Value* extent) { return !constant(*extent); });
    Value* reached = nullptr;
    if (varies && owner.code == Opcode::if_) {
      reached = first_arm ? owner.operands[0] : b.op(Opcode::not_, {owner.operands[0]});
    } else if (varies && is_for(owner) && Ranges(graph_).trips(owner).lo < 1) {
      reached = emit_runs(b, owner);
    }
    alloc.parent->remove(&alloc);
    for (Value*& extent : alloc.operands) {
      if (constant(*extent)) continue;
      if (reached) extent = b.select(reached, extent, b.i64(0));
      if (Ranges(graph_).of(*extent).lo < 0) extent = b.op(Opcode::maximum_, {extent, b.i64(0)});
    }
    owner.parent->insert_before(&owner, &alloc);
    changed_ = true;
  }

  ir::Graph& graph_;
  bool changed_ = false;
};

}  // namespace

bool allocs(ir::Graph& graph) { return Allocs(graph).run(); }

}  // namespace appy::passes
