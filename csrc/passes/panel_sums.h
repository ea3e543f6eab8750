// The sums of a recurrence, as far as they are computed before the iterations that use them.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/recurrence.h"

namespace appy::passes {

/// Copies of a recurrence's steps outside of its loop, and arrays for what they sum.
class Sums {
 protected:
  Sums(ir::Graph&, const ir::Op& outer, const Recurrence&);

  /// Arrays of these extents, where `b` stands.
  void make_arrays(ir::Builder& b, const std::vector<ir::Value*>& extents);
  const ir::Value& variable() const;
  /// The first step that is not known before iteration `from`.
  ir::Value* split_of(ir::Builder&, ir::Value* from) const;
  /// A loop whose iterations have nothing to do with each other.
  ir::Op* free_loop(ir::Builder&, ir::Value* low, ir::Value* high) const;
  /// What computes the value, for the end of the loop's body.
  void bring(const ir::Value&, Copier&, const ir::Op& loop) const;
  /// What the steps need, for the end of the loop's body.
  void bring_for_steps(Copier&, const ir::Op& loop) const;
  /// An op for the sum of carried value live_[k] at an iteration, without the value that a store has.
  using Access = std::function<ir::Op*(ir::Opcode, size_t k, ir::Value* iteration)>;
  /// The sums at an iteration, for the end of the block.
  std::vector<ir::Value*> load_all(ir::Block&, ir::Value* iteration, const Access&) const;
  void store_all(ir::Block&, ir::Value* iteration, const std::vector<ir::Value*>& values, const Access&) const;
  /// Each iteration before `until` adds its step to the sums of those behind it, instead of the steps, whose results
  /// are nobody's.
  void take_turns(ir::Value* until, const Access&);

  ir::Graph& graph_;
  const ir::Op& outer_;
  Recurrence r_;
  std::vector<size_t> live_;      // carried values that somebody reads
  std::vector<ir::Value*> sums_;  // an array for each of them
};

/// The steps before a tile, in an array for the tile: rows of a matrix product where the program has one.
class Panel : Sums {
 public:
  /// The bounds of the loop between are affine in the outer loop's variable.
  static bool fits(Ranges&, const ir::Op& outer, const Recurrence&);
  /// `b` stands before the loop whose tiles are to be; they have `height` iterations at most. Rows that have the whole
  /// tile are a nest of their own, unless `one_nest`.
  Panel(ir::Graph&, Ranges&, ir::Builder& b, const ir::Op& outer, const Recurrence&, ir::Value* height, bool one_nest);

  /// The nest, where `b` stands: tile iterations [from, until). `poll` is one for its iterations, or null.
  void emit(ir::Builder& b, ir::Value* from, ir::Value* until, const ir::Op* poll);
  /// The steps in the tile that begins at `from` go on from the panel's sums.
  void enter(ir::Value* from);
  /// `iterations` is the tile's loop, or that in one row behind the tile: if it can, each adds its step to the sums of
  /// those behind it, in the panel itself. Nobody else reads these elements.
  void take_turns(ir::Op& iterations) const;

 private:
  /// Points of the loop between, where they go outside: point i has the tile's iterations up to i - above, or all.
  struct Rows {
    ir::Value *low = nullptr, *high = nullptr, *above = nullptr;
  };
  void nest(ir::Builder&, ir::Value* from, ir::Value* until, const Rows&, const ir::Op* poll);
  ir::Value* at(ir::Builder&, const Affine&, ir::Value* variable_is) const;
  void subscribe(ir::Op& access, ir::Value* iteration, ir::Value* point, ir::Value* from) const;

  const ir::Op* between_;
  Affine low_, high_;     // bounds of the loop between
  bool swapped_ = false;  // its points outside, the tile's iterations inside
  bool one_nest_;
  ir::Value* base_ = nullptr;
};

/// The sums of a tile's iterations, or of those in one row behind it, which lie in a panel.
class SumsInPanel : Sums {
 public:
  /// The steps begin with elements of the panel's arrays.
  SumsInPanel(ir::Graph&, const ir::Op& iterations, const Recurrence&);
  void enter();

 private:
  std::vector<const ir::Op*> loads_;  // of live_, with which the steps begin
};

/// The sums of all iterations, in one array, to which tiles, and groups of tiles, add what they make known. They are
/// many and short: there is work for all workers from the first tile on. Without a loop between.
class RunningSums : Sums {
 public:
  static bool fits(const Recurrence&);
  /// `b` stands before the loop whose tiles are to be: the sums of what is known before it.
  RunningSums(ir::Graph&, ir::Builder& b, const ir::Op& outer, const Recurrence&);

  /// The steps [from, until) for the iterations [until, end), where `b` stands.
  void add(ir::Builder& b, ir::Value* from, ir::Value* until, ir::Value* end) const;
  /// In the tile as well, each iteration adds its step to the sums of those behind it. Else they sum when they need it.
  void enter(ir::Value* from, ir::Value* until);

 private:
  Access access() const;
  void nest(ir::Builder&, ir::Value* begin, ir::Value* end, ir::Value* from, ir::Value* until) const;

  ir::Value *begin_, *end_;  // of the loop
};

}  // namespace appy::passes
