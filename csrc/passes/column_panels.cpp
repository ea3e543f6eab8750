#include "passes/column_panels.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <utility>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// More would not stay in the cache together.
constexpr size_t kMost = 2;

/// The ops of the steps' loop that compute the value, in their order; false where one of them does anything else.
bool gather(const Value& v, const Op& steps, const Op& rows, std::vector<const Op*>& ops) {
  if (visible_before(v, rows) || &v == induction(rows) || &v == induction(steps)) return true;
  const Op* op = v.op;
  if (!op || op->parent != &body_of(steps)) return false;
  const bool reads = op->code == Opcode::load_ && !writes_to(body_of(rows), *op->view());
  if (!reads && !ir::is_pure(op->code)) return false;
  for (const Value* operand : op->operands) {
    if (!gather(*operand, steps, rows, ops)) return false;
  }
  if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
  return true;
}

ir::Loop in_any_order() {
  ir::Loop lanes;
  lanes.parallel = lanes.simd = true;
  return lanes;
}

struct Subscript {
  Value *at, *from;  // at - from, or at
};

/// The op, of one result, becomes a load.
void load_from(Op& op, Value* view, std::initializer_list<Subscript> subscripts) {
  op.code = Opcode::load_;
  op.operands = {view};
  op.access = std::make_unique<ir::Access>();
  for (const auto& [at, from] : subscripts) op.access->terms += from ? 2 : 1;
  for (const auto& [at, from] : subscripts) {
    ir::Access::Row coef(static_cast<size_t>(op.access->terms), 0);
    coef[op.operands.size() - 1] = 1;
    op.operands.push_back(at);
    if (from) {
      coef[op.operands.size() - 1] = -1;
      op.operands.push_back(from);
    }
    op.access->offset.push_back(0);
    op.access->coef.push_back(coef);
  }
}

}  // namespace

ColumnPanels::ColumnPanels(ir::Graph& graph, const BlockNest& nest)
    : graph_(graph), columns_(*nest.columns), steps_(*nest.steps), turned_(nest.dots) {
  const Op& rows = *nest.rows;
  const Value &column = *induction(columns_), &step = *induction(steps_);
  for (const Op* op = body_of(steps_).first; op; op = op->next) {
    if (op->code != Opcode::load_ || !runs_along(*op, turned_ ? step : column)) continue;
    if (writes_to(body_of(rows), *op->view())) continue;
    bool of_step = false, of_column = false;
    const bool alike = std::all_of(op->terms().begin(), op->terms().end(), [&](const Value* term) {
      of_step |= term == &step;
      of_column |= term == &column;
      return term == &column || term == &step || visible_before(*term, rows);
    });
    if (alike && of_step && of_column && visible_before(*op->view(), rows)) loads_.push_back(op);
  }
  if (loads_.size() > kMost) loads_.clear();
}

void ColumnPanels::alloc(Builder& b, Value* panels, Value* steps, Value* columns) {
  panels_.clear();
  width_ = columns;
  for (const Op* load : loads_) {
    Value* extents[] = {panels, steps, columns};
    panels_.push_back(b.alloc({load->view()->type.dtype, 3, ir::Layout::c}, extents));
    panels_.back()->name = load->view()->name;
  }
}

Value* ColumnPanels::copied(Builder& b, const Op& load, Value* step, Value* column) const {
  Copier copier(graph_);
  copier.map(induction(steps_), step);
  copier.map(induction(columns_), column);
  Op* copy = copier.copy(load);
  b.block()->append(copy);
  return copy->result();
}

void ColumnPanels::fill(Builder& b, Value* begin, Value* end, Value* first, Value* last) const {
  turned_ ? transposed(b, begin, end, first, last) : along_rows(b, begin, end, first, last);
}

/// All panels step by step: rows are long enough to be prefetched, and their pages are found once.
void ColumnPanels::along_rows(Builder& b, Value* begin, Value* end, Value* first, Value* last) const {
  Value* zero = b.i64(0);
  Value *extent = b.op(Opcode::sub_, {end, begin}), *count = emit_ceiling(b, extent, width_);
  emit_loop(b, first, last, {}, [&](Value* step) {
    Value* row = b.op(Opcode::sub_, {step, first});
    emit_loop(b, zero, count, {}, [&](Value* panel) {
      Value* offset = b.op(Opcode::mul_, {panel, width_});
      Value* from = b.op(Opcode::add_, {begin, offset});
      Value* left = b.op(Opcode::pymin_, {b.op(Opcode::sub_, {extent, offset}), width_});
      emit_loop(b, zero, left, in_any_order(), [&](Value* column) {
        for (size_t n = 0; n < loads_.size(); ++n) {
          Value* at[] = {panel, row, column};
          b.store(copied(b, *loads_[n], step, b.op(Opcode::add_, {from, column})), panels_[n], at);
        }
      });
    });
  });
}

/// One panel: as many steps as a line of the cache has at a time, which are loaded and stored as transposed squares
/// (csrc/cpu/vector_strided.cpp).
void ColumnPanels::transposed(Builder& b, Value* begin, Value* end, Value* first, Value* last) const {
  Value *zero = b.i64(0), *columns = b.op(Opcode::sub_, {end, begin});
  const auto some = [&](const Op& load, Value* view, Value* step, int64_t together) {
    emit_loop(b, zero, columns, in_any_order(), [&](Value* column) {
      Value *from = b.op(Opcode::add_, {begin, column}), *row = b.op(Opcode::sub_, {step, first});
      const auto behind = [&](Value* v, int64_t u) { return u ? b.op(Opcode::add_, {v, b.i64(u)}) : v; };
      std::vector<Value*> loaded;
      for (int64_t u = 0; u < together; ++u) loaded.push_back(copied(b, load, behind(step, u), from));
      for (int64_t u = 0; u < together; ++u) {
        Value* at[] = {zero, behind(row, u), column};
        b.store(loaded[static_cast<size_t>(u)], view, at);
      }
    });
  };
  for (size_t n = 0; n < loads_.size(); ++n) {
    const int64_t size = ir::size_of(loads_[n]->result()->type.dtype), line = size < 4 ? 1 : ir::kCacheLine / size;
    Value* squares = b.op(Opcode::floordiv_, {b.op(Opcode::sub_, {last, first}), b.i64(line)});
    Value* done = b.op(Opcode::mul_, {squares, b.i64(line)});
    emit_loop(b, zero, squares, {}, [&](Value* square) {
      Value* step = b.op(Opcode::add_, {first, b.op(Opcode::mul_, {square, b.i64(line)})});
      some(*loads_[n], panels_[n], step, line);
    });
    emit_loop(b, b.op(Opcode::add_, {first, done}), last, {},
              [&](Value* step) { some(*loads_[n], panels_[n], step, 1); });
  }
}

void ColumnPanels::redirect(const Copier& copier, Value* panel, Value* begin, Value* first) const {
  for (size_t n = 0; n < loads_.size(); ++n) {
    Op& load = *copier.of(loads_[n]->result())->op;
    load_from(load, panels_[n],
              {{panel, nullptr}, {copier.of(induction(steps_)), first}, {copier.of(induction(columns_)), begin}});
  }
}

RowPanels::RowPanels(ir::Graph& graph, const Op& rows, const Op& steps) : graph_(graph), rows_(rows), steps_(steps) {
  const auto is_of_row = [&](const Value& v) {
    std::vector<const Op*> ops;
    return v.op && v.op->parent == &body_of(steps) && gather(v, steps, rows, ops);
  };
  for (const Op* op = body_of(steps).first; op; op = op->next) {
    if (op->results.size() == 1 && is_of_row(*op->result())) continue;
    // What is loaded, or converted, is as near as it would be in a panel.
    for (const Value* v : op->operands) {
      if (v->type.is_view() || !ir::is_real(v->type.dtype) || !is_of_row(*v) || v->op->operands.size() < 2 ||
          v->op->code == Opcode::load_)
        continue;
      if (std::find(values_.begin(), values_.end(), v) == values_.end()) values_.push_back(v);
    }
  }
  if (values_.size() > kMost) values_.clear();
}

void RowPanels::alloc(Builder& b, Value* rows, Value* steps) {
  panels_.clear();
  for (const Value* v : values_) {
    Value* extents[] = {rows, steps};
    panels_.push_back(b.alloc({v->type.dtype, 2, ir::Layout::c}, extents));
    panels_.back()->name = v->name;
  }
}

void RowPanels::fill(Builder& b, Value* low, Value* high, Value* first, Value* last) const {
  std::vector<const Op*> ops;
  for (const Value* v : values_) gather(*v, steps_, rows_, ops);
  emit_loop(b, low, high, {}, [&](Value* row) {
    Value* n_row = b.op(Opcode::sub_, {row, low});
    emit_loop(b, first, last, in_any_order(), [&](Value* step) {
      Copier copier(graph_);
      copier.map(induction(rows_), row);
      copier.map(induction(steps_), step);
      for (const Op* op : ops) b.block()->append(copier.copy(*op));
      Value* at[] = {n_row, b.op(Opcode::sub_, {step, first})};
      for (size_t n = 0; n < values_.size(); ++n) {
        b.store(copier.of(const_cast<Value*>(values_[n])), panels_[n], at);
      }
    });
  });
}

void RowPanels::redirect(const Copier& copier, Value* low, Value* first) const {
  for (size_t n = 0; n < values_.size(); ++n) {
    Op& op = *copier.of(const_cast<Value*>(values_[n]))->op;
    load_from(op, panels_[n], {{copier.of(induction(rows_)), low}, {copier.of(induction(steps_)), first}});
  }
}

}  // namespace appy::passes
