// Copies of ops within a graph.
#pragma once

#include <unordered_map>

#include "ir/ir.h"

namespace appy::passes {

/// Copies ops with their blocks; what was copied, or mapped, before is what later copies use.
class Copier {
 public:
  explicit Copier(ir::Graph& graph) : graph_(graph) {}

  void map(const ir::Value* from, ir::Value* to) { map_[from] = to; }
  /// The copy, which stands nowhere yet.
  ir::Op* copy(const ir::Op& from);
  /// The value in the copies; itself where it was not copied.
  ir::Value* of(ir::Value* v) const;

 private:
  ir::Graph& graph_;
  std::unordered_map<const ir::Value*, ir::Value*> map_;
};

}  // namespace appy::passes
