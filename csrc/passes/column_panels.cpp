#include "passes/column_panels.h"

#include <algorithm>
#include <memory>

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

}  // namespace

ColumnPanels::ColumnPanels(ir::Graph& graph, const Op& rows, const Op& columns, const Op& steps)
    : graph_(graph), columns_(columns), steps_(steps) {
  const Value &column = *induction(columns), &step = *induction(steps);
  for (const Op* op = body_of(steps).first; op; op = op->next) {
    if (op->code != Opcode::load_ || !runs_along(*op, column) || writes_to(body_of(rows), *op->view())) continue;
    bool of_step = false;
    const bool alike = std::all_of(op->terms().begin(), op->terms().end(), [&](const Value* term) {
      of_step |= term == &step;
      return term == &column || term == &step || visible_before(*term, rows);
    });
    if (alike && of_step && visible_before(*op->view(), rows)) loads_.push_back(op);
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

/// All panels step by step: rows are long enough to be prefetched, and their pages are found once.
void ColumnPanels::fill(Builder& b, Value* begin, Value* end, Value* first, Value* last) const {
  Value *zero = b.i64(0), *one = b.i64(1);
  Value *extent = b.op(Opcode::sub_, {end, begin}), *count = emit_ceiling(b, extent, width_);
  Op* steps = b.for_loop(first, last, one, {}, {});
  b.set_block(&body_of(*steps));
  Value* row = b.op(Opcode::sub_, {induction(*steps), first});
  Op* panels = b.for_loop(zero, count, one, {}, {});
  b.yield({});
  b.set_block(&body_of(*panels));
  Value* offset = b.op(Opcode::mul_, {induction(*panels), width_});
  Value* from = b.op(Opcode::add_, {begin, offset});
  Value* columns_left = b.op(Opcode::pymin_, {b.op(Opcode::sub_, {extent, offset}), width_});
  ir::Loop lanes;
  lanes.parallel = lanes.simd = true;
  Op* columns = b.for_loop(zero, columns_left, one, {}, std::move(lanes));
  b.yield({});
  b.set_block(&body_of(*columns));
  Value* column = b.op(Opcode::add_, {from, induction(*columns)});
  for (size_t n = 0; n < loads_.size(); ++n) {
    Copier copier(graph_);
    copier.map(induction(steps_), induction(*steps));
    copier.map(induction(columns_), column);
    Op* load = copier.copy(*loads_[n]);
    body_of(*columns).append(load);
    Value* at[] = {induction(*panels), row, induction(*columns)};
    b.store(load->result(), panels_[n], at);
  }
  b.yield({});
  b.set_block(steps->parent);
}

void ColumnPanels::redirect(const Copier& copier, Value* panel, Value* begin, Value* first) const {
  for (size_t n = 0; n < loads_.size(); ++n) {
    Op& load = *copier.of(loads_[n]->result())->op;
    load.operands = {panels_[n], panel, copier.of(induction(steps_)), first, copier.of(induction(columns_)), begin};
    load.access = std::make_unique<ir::Access>();
    load.access->terms = 5;
    load.access->offset.assign(3, 0);
    load.access->coef = {{1, 0, 0, 0, 0}, {0, 1, -1, 0, 0}, {0, 0, 0, 1, -1}};
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
      if (v->type.is_view() || !ir::is_real(v->type.dtype) || !is_of_row(*v) || !v->op || v->op->operands.size() < 2 ||
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
  Value* one = b.i64(1);
  Op* rows = b.for_loop(low, high, one, {}, {});
  b.set_block(&body_of(*rows));
  Value* row = b.op(Opcode::sub_, {induction(*rows), low});
  ir::Loop lanes;
  lanes.parallel = lanes.simd = true;
  Op* steps = b.for_loop(first, last, one, {}, std::move(lanes));
  b.yield({});
  b.set_block(&body_of(*steps));
  Copier copier(graph_);
  copier.map(induction(rows_), induction(*rows));
  copier.map(induction(steps_), induction(*steps));
  std::vector<const Op*> ops;
  for (const Value* v : values_) gather(*v, steps_, rows_, ops);
  for (const Op* op : ops) body_of(*steps).append(copier.copy(*op));
  Value* step = b.op(Opcode::sub_, {induction(*steps), first});
  for (size_t n = 0; n < values_.size(); ++n) {
    Value* at[] = {row, step};
    b.store(copier.of(const_cast<Value*>(values_[n])), panels_[n], at);
  }
  b.yield({});
  b.set_block(rows->parent);
}

void RowPanels::redirect(const Copier& copier, Value* low, Value* first) const {
  for (size_t n = 0; n < values_.size(); ++n) {
    Op& op = *copier.of(const_cast<Value*>(values_[n]))->op;
    op.code = Opcode::load_;
    op.operands = {panels_[n], copier.of(induction(rows_)), low, copier.of(induction(steps_)), first};
    op.access = std::make_unique<ir::Access>();
    op.access->terms = 4;
    op.access->offset.assign(2, 0);
    op.access->coef = {{1, -1, 0, 0}, {0, 0, 1, -1}};
  }
}

}  // namespace appy::passes
