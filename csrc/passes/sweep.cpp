// One sweep over a matrix that one nest writes element by element and the next one sums down its columns: the sums go
// by blocks of columns, rows inside (csrc/trace/tensor_product.cpp), and the elements are made where they are added up.
// Nothing is computed twice; the matrix is stored once and no longer read again. What is added to the bytes moved is
// what the producer reads for a whole row, once for each block of columns.
//
// Rules for editors:
// 1. The blocks and rows of the sums have to be shown to hold each element exactly once: the producer runs where the
//    element was loaded, and nowhere else.
// 2. The producer moves behind what stands between the two nests: nothing there, and nothing in the sums, may write
//    what it reads or touch what it writes.

#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/producer.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Columns of a block, at least, where there are several.
constexpr int64_t kColumns = 128;
/// Up to so many columns one worker takes all of them. Workers that write halves of short rows fetch lines of each
/// other's at the ends of every row: two then take longer than one.
constexpr int64_t kColumnsOfOne = 960;

/// Where the op has this code and `operand` is one of two, the other one; else null.
const Value* other_operand(const Value& v, Opcode code, const Value& operand) {
  if (!v.op || v.op->code != code) return nullptr;
  if (v.op->operands[0] == &operand) return v.op->operands[1];
  return v.op->operands[1] == &operand ? v.op->operands[0] : nullptr;
}

/// A load of row scale * r + offset, r being the variable of the loop `rows`, in a loop over a block of columns.
struct Load {
  Op* op = nullptr;
  Op* lanes = nullptr;
  Op* rows = nullptr;
  int64_t scale = 1, offset = 0;
};

class Sweeper {
 public:
  explicit Sweeper(ir::Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      Producer producer;
      if (read_producer(*op, producer)) {
        if (Op* sums = loop_behind(producer); sums && fits(producer, *sums)) {
          merge(producer, *sums);
          changed = true;
          continue;
        }
      }
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  bool fits(const Producer& p, const Op& sums) {
    const ir::Loop &x = *p.loop->loop, &y = *sums.loop;
    if (!has_permission(sums) || !counts_all(sums) || x.annotated != y.annotated) return false;
    if (x.schedule != y.schedule || x.chunk != y.chunk || x.threads != y.threads || y.collapse != 1) return false;
    if (p.row_bytes >= kColumns * ir::size_of(p.view()->type.dtype)) return false;
    loads_.clear();
    bool plain = true;
    ir::walk(body_of(sums), [&](Op& op) {
      plain &= op.code != Opcode::check_ && op.code != Opcode::break_ && op.code != Opcode::continue_;
      if (!is_access(op)) return;
      if (op.code != Opcode::load_) plain &= !p.reads.contains(op.view()) && op.view() != p.view();
      if (op.view() != p.view()) return;
      Load load;
      plain &= op.code == Opcode::load_ && read_load(op, sums, load);
      loads_.push_back(load);
    });
    return plain && !loads_.empty() && covers_columns(p, sums) && covers_rows(p, sums);
  }

  static bool read_load(Op& op, const Op& sums, Load& load) {
    load.op = &op;
    load.lanes = op.parent->owner;
    if (!load.lanes || !is_for(*load.lanes) || !counts_by_one(*load.lanes)) return false;
    load.rows = load.lanes->parent->owner;
    if (!load.rows || !is_for(*load.rows) || !counts_by_one(*load.rows) || load.rows->parent != &body_of(sums))
      return false;
    if (load.lanes->loop->annotated != sums.loop->annotated) return false;
    if (!is_row(op, 1, *induction(*load.lanes), 1, 0)) return false;
    const Affine at = row(op, 0);
    const Value& r = *induction(*load.rows);
    if (at.terms.size() != 1 || at.coef(r) < 1 || at.coef(r) > 64 || at.constant < 0 || at.constant >= at.coef(r))
      return false;
    load.scale = static_cast<int64_t>(at.coef(r));
    load.offset = static_cast<int64_t>(at.constant);
    return true;
  }

  /// Block b of the count holds [b * width, min(b * width + width, columns)), the width being columns / count, rounded
  /// up.
  bool covers_columns(const Producer& p, const Op& sums) {
    ranges_ = std::make_unique<Ranges>(graph_);
    const Value &block = *induction(sums), &count = *sums.operands[1], &columns = *p.inner->operands[1];
    const Value *low = loads_[0].lanes->operands[0], *high = loads_[0].lanes->operands[1];
    for (const Load& load : loads_) {
      if (load.lanes->operands[0] != low || load.lanes->operands[1] != high) return false;
    }
    const Value* width = other_operand(*low, Opcode::mul_, block);
    if (!width || !high->op || high->op->code != Opcode::pymin_) return false;
    const Value *end = high->op->operands[0], *last = high->op->operands[1];
    if (other_operand(*end, Opcode::add_, *low) != width) std::swap(end, last);
    if (other_operand(*end, Opcode::add_, *low) != width || !equal(*ranges_, *last, columns, sums)) return false;
    if (!width->op || width->op->code != Opcode::floordiv_ || width->op->operands[1] != &count) return false;
    Affine rest = ranges_->affine(*width->op->operands[0], sums);
    rest.add(ranges_->affine(*last, sums), -1);
    rest.add(ranges_->affine(count, sums), -1);
    width_ = width, columns_ = last, low_ = low, end_ = end, high_ = high;
    return rest.is_constant() && rest.constant == -1 && ranges_->proves_ge(count, 1, sums) &&
           ranges_->proves_ge(*last, 0, sums);
  }

  /// `scale` rows at a time from 0 on, and those that are left one by one; or all of them one by one.
  bool covers_rows(const Producer& p, const Op& sums) {
    const Value& rows = *p.loop->operands[1];
    const Load& first = loads_[0];
    if (constant(*first.rows->operands[0]) != 0) return false;
    const auto together = static_cast<size_t>(first.scale);
    if (together == 1) return loads_.size() == 1 && equal(*ranges_, *first.rows->operands[1], rows, sums);
    if (loads_.size() != together + 1) return false;
    std::set<int64_t> offsets;
    for (size_t k = 0; k < together; ++k) {
      if (loads_[k].rows != first.rows || loads_[k].scale != first.scale) return false;
      offsets.insert(loads_[k].offset);
    }
    const Load& rest = loads_.back();
    if (offsets.size() != together || rest.rows == first.rows || rest.scale != 1) return false;
    const Value& groups = *first.rows->operands[1];
    const Value* scale = other_operand(*rest.rows->operands[0], Opcode::mul_, groups);
    const Value& all = *rest.rows->operands[1];
    if (!scale || constant(*scale) != first.scale || !equal(*ranges_, all, rows, sums)) return false;
    if (!groups.op || groups.op->operands.size() != 2 || groups.op->operands[0] != &all) return false;
    const auto by = constant(*groups.op->operands[1]);
    const bool divides = groups.op->code == Opcode::floordiv_ ? by == first.scale
                                                              : groups.op->code == Opcode::shr_ && by && *by >= 0 &&
                                                                    *by < 32 && int64_t{1} << *by == first.scale;
    return divides && ranges_->proves_ge(all, 0, sums);
  }

  void merge(const Producer& p, Op& sums) {
    remark(graph_, ir::Severity::note, "sweep", p.loop->loc,
           "the loop at " + line_of(graph_, p.loop->loc) + " runs inside the one at " + line_of(graph_, sums.loc) +
               ", which sums its columns");
    p.loop->parent->remove(p.loop);
    std::vector<Value*> to(graph_.value_count());
    for (const Load& load : loads_) {
      Builder b(graph_);
      b.set_loc(p.loop->loc);
      b.set_before(load.lanes);
      Value* r = induction(*load.rows);
      Value* at = r;
      if (load.scale != 1) at = b.op(Opcode::mul_, {r, b.i64(load.scale)});
      if (load.offset != 0) at = b.op(Opcode::add_, {at, b.i64(load.offset)});
      Value* element = copy_element(graph_, p, *at, *load.lanes, *induction(*load.lanes), *load.op);
      to[load.op->result()->id] = element;
      load.op->parent->remove(load.op);
    }
    ir::replace_uses(graph_, to);
    if (sums.loop->parallel) keep_short_rows_whole(sums);
  }

  bool is_over_columns(const Op& op) const { return is_for(op) && op.operands[0] == low_ && op.operands[1] == high_; }

  /// Does the number of blocks change nothing but who computes which columns? Loops of a program may have this form and
  /// do more in each block.
  bool may_have_other_blocks(const Op& sums) const {
    const Value* block = induction(sums);
    bool may = sums.results.empty();
    ir::walk(body_of(sums), [&](Op& op) {
      const bool columns = is_over_columns(op);
      if (columns) may &= op.results.empty();
      for (const Value* v : op.operands) {
        if (v == block) may &= &op == low_->op;
        if (v == width_) may &= &op == low_->op || &op == end_->op;
        if (v == low_) may &= &op == end_->op || columns;
        if (v == end_) may &= &op == high_->op;
        if (v == high_) may &= columns;
      }
      if (!is_access(op) || op.code == Opcode::load_) return;
      const Op* loop = ir::enclosing_loop(*op.parent);
      while (loop != &sums && !is_over_columns(*loop)) loop = ir::enclosing_loop(*loop->parent);
      may &= loop != &sums;
    });
    return may;
  }

  void keep_short_rows_whole(Op& sums) {
    const auto outside = [&](const Value& v) { return ir::defined_outside(v, body_of(sums)); };
    if (constant(*sums.operands[1]) || !outside(*columns_) || !outside(*width_)) return;
    if (!may_have_other_blocks(sums)) return;
    Builder b(graph_);
    b.set_loc(sums.loc);
    b.set_before(&sums);
    Value *columns = const_cast<Value*>(columns_), *one = b.i64(1);
    Value* few = b.op(Opcode::le_, {columns, b.i64(kColumnsOfOne)});
    Value* count = b.select(few, one, sums.operands[1]);
    Value* width = b.select(few, columns, const_cast<Value*>(width_));
    sums.operands[1] = count;
    ir::walk(body_of(sums),
             [&](Op& op) { std::replace(op.operands.begin(), op.operands.end(), const_cast<Value*>(width_), width); });
  }

  ir::Graph& graph_;
  std::unique_ptr<Ranges> ranges_;
  std::vector<Load> loads_;
  const Value *width_ = nullptr, *columns_ = nullptr;  // of the sums' blocks, of all of them
  // Of a block: block * width, that and width, and the lesser of that and all columns.
  const Value *low_ = nullptr, *end_ = nullptr, *high_ = nullptr;
};

}  // namespace

bool sweep(ir::Graph& graph) { return !graph.may_alias && Sweeper(graph).run(*graph.body); }

}  // namespace appy::passes
