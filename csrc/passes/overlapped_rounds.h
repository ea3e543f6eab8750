// What overlapping tiles of one and of two dimensions have in common: rounds of several iterations of the loop around
// the phases, and how they are emitted.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "passes/arithmetic.h"
#include "passes/final_values.h"
#include "passes/loops.h"
#include "passes/stencil.h"

namespace appy::passes {

class OverlappedRounds : protected Arithmetic {
 protected:
  OverlappedRounds(ir::Graph& graph, const Stencil& stencil)
      : Arithmetic(graph), graph_(graph), stencil_(stencil), loop_(*stencil.loop), values_(*stencil.loop) {}

  Value* both(Value* x, Value* y) { return b_.op(ir::Opcode::and_, {x, y}); }
  Value* le(Value* x, Value* y) { return b_.op(ir::Opcode::le_, {x, y}); }
  Value* load(Value* view, std::vector<Value*> at) { return b_.load(view, at); }
  void store(Value* v, Value* view, std::vector<Value*> at) { b_.store(v, view, at); }

  /// Follows from the region's arguments without its running.
  bool is_known(const Value& v) const;
  /// What a tile of any dimension cannot have; empty where nothing is in the way.
  std::string common_obstacle() const;

  /// A loop that runs in order.
  ir::Loop control() const;
  /// One over elements or tiles.
  ir::Loop any_order() const;
  ir::Op* loop(Value* from, Value* to, ir::Loop kind, const char* name);
  ir::Op* count_to(Value* end, ir::Loop kind, const char* name) { return loop(i64(0), end, std::move(kind), name); }
  /// Ends a loop's body; the builder goes on behind the loop.
  void close(ir::Op& loop, ir::Block& around);

  /// The loop's variable in its n-th iteration.
  Value* iteration(Value* n) { return emit_iteration(b_, loop_, n); }
  /// What the loop's scalars are worth in the end.
  std::vector<Value*> results();
  /// The n-th iteration is about to begin: what of it the phases get.
  void begin_round(Value* n, Copier& copier);

  ir::Graph& graph_;
  const Stencil& stencil_;
  ir::Op& loop_;
  FinalValues values_;
  Value *trips_ = nullptr, *steps_ = nullptr, *rounds_ = nullptr, *pays_ = nullptr;
};

}  // namespace appy::passes
