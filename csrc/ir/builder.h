// Appends ops to a block. Types are inferred by the op's rule; mismatched operands are a fatal error (our bug).
#pragma once

#include <initializer_list>
#include <span>

#include "ir/ir.h"

namespace appy::ir {

class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph), block_(graph.body) {}

  Graph& graph() { return graph_; }
  Block* block() const { return block_; }
  void set_block(Block* block) { block_ = block, before_ = nullptr; }
  /// New ops go before `op` instead of the block's end.
  void set_before(Op* op) { block_ = op->parent, before_ = op; }
  void set_loc(LocId loc) { loc_ = loc; }
  LocId loc() const { return loc_; }

  Value* constant(DType, Word);
  Value* i64(int64_t v) { return constant(DType::i64_, static_cast<Word>(v)); }
  Value* f64(double);
  Value* boolean(bool v) { return constant(DType::bool_, v); }

  /// Any pure op whose result follows from its operands.
  Value* op(Opcode, std::initializer_list<Value*>);
  Value* op(Opcode, std::span<Value* const>);
  Value* cast(Value*, DType);
  Value* bitcast(Value*, DType);
  Value* select(Value* cond, Value* a, Value* b) { return op(Opcode::select_, {cond, a, b}); }
  Value* dim(Value* view, int d);
  /// A new array of this type (layout c), one extent a dimension.
  Value* alloc(Type view, std::span<Value* const> extents);

  /// Subscripts given as plain i64 values: one term a dimension with coefficient 1.
  Value* load(Value* view, std::span<Value* const> index);
  Op* store(Value* value, Value* view, std::span<Value* const> index);
  Op* atomic(Combiner, Value* value, Value* view, std::span<Value* const> index);

  /// `state` empty: the scalars keep what they had before the region.
  Op* check(Check, Value* ok, std::span<Value* const> info, std::span<Value* const> state);
  Op* poll(std::span<Value* const> state);
  Op* barrier(Mapping scope);

  /// The body block gets its arguments (iv first, then carried); the caller fills it and ends it with a terminator.
  Op* for_loop(Value* lower, Value* upper, Value* step, std::span<Value* const> inits, Loop);
  Op* while_loop(std::span<Value* const> inits);
  /// Two empty blocks; results are added by the caller's types once the arms are known.
  Op* if_op(Value* cond, std::span<const Type> results);
  Op* terminator(Opcode, std::span<Value* const>);
  Op* yield(std::span<Value* const> v) { return terminator(Opcode::yield_, v); }

 private:
  Op* insert(Op*);
  Graph& graph_;
  Block* block_;
  Op* before_ = nullptr;
  LocId loc_ = 0;
};

}  // namespace appy::ir
