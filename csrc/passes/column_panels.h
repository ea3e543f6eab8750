// Panels: what a block of columns reads, step by step, in one piece, so that it comes from memory once for a group of
// rows, in the order in which they read it, and from few pages; and what a row computes in each step, whatever the
// column, computed once for all panels.
#pragma once

#include <vector>

#include "ir/builder.h"
#include "passes/block_nest.h"
#include "passes/copier.h"

namespace appy::passes {

/// Loads in a nest's steps that columns make alike for each row, along memory column by column; or, of dots, step by
/// step, where panels are transposed.
class ColumnPanels {
 public:
  ColumnPanels(ir::Graph&, const BlockNest&);
  bool empty() const { return loads_.empty(); }

  /// Arrays for so many panels, each for so many steps and columns.
  void alloc(ir::Builder&, ir::Value* panels, ir::Value* steps, ir::Value* columns);
  /// Copies what columns from `begin` up to `end`, no more than there are panels for, need in steps from `first` up to
  /// `last`.
  void fill(ir::Builder&, ir::Value* begin, ir::Value* end, ir::Value* first, ir::Value* last) const;
  /// The loads' copies read this panel, which begins with column `begin` and step `first`.
  void redirect(const Copier&, ir::Value* panel, ir::Value* begin, ir::Value* first) const;

 private:
  ir::Value* copied(ir::Builder&, const ir::Op& load, ir::Value* step, ir::Value* column) const;
  void along_rows(ir::Builder&, ir::Value* begin, ir::Value* end, ir::Value* first, ir::Value* last) const;
  void transposed(ir::Builder&, ir::Value* begin, ir::Value* end, ir::Value* first, ir::Value* last) const;

  ir::Graph& graph_;
  const ir::Op &columns_, &steps_;
  const bool turned_;
  std::vector<const ir::Op*> loads_;
  std::vector<ir::Value*> panels_;
  ir::Value* width_ = nullptr;
};

/// Values that `steps` computes of the row and the step alone, for columns to use.
class RowPanels {
 public:
  RowPanels(ir::Graph&, const ir::Op& rows, const ir::Op& steps);
  bool empty() const { return values_.empty(); }
  void clear() { values_.clear(); }

  /// Arrays for so many rows and steps.
  void alloc(ir::Builder&, ir::Value* rows, ir::Value* steps);
  /// Computes the values of rows from `low` up to `high`, no more than there is room for, in steps from `first` up to
  /// `last`.
  void fill(ir::Builder&, ir::Value* low, ir::Value* high, ir::Value* first, ir::Value* last) const;
  /// Copies of the values are read from the panel that begins with this row and step.
  void redirect(const Copier&, ir::Value* low, ir::Value* first) const;

 private:
  ir::Graph& graph_;
  const ir::Op &rows_, &steps_;
  std::vector<const ir::Value*> values_;
  std::vector<ir::Value*> panels_;
};

}  // namespace appy::passes
