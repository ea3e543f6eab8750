// Scalar promotion: an element that a loop loads and stores at an address that does not vary in it becomes a carried
// value, loaded before the loop and stored after it; reductions.cpp then sees `y[i] += ...` as it sees `s += ...`.
//
// Rules for editors:
// 1. Nothing may leave the region from inside the loop while the element's value is only in a register: no checks stay
//    inside. A poll may stay in a loop with permission and inside one (interrupted, they promise nothing of elements).
//    Temporaries are exempt: they are gone when the region is left.
// 2. Nothing is loaded or stored where Python would not: both are guarded by "the loop runs", and a store that every
//    path of the loop may skip is also guarded by "it was reached" where other iterations run at the same time.
// 3. Every other access of the view in the loop is proven to touch another element; other views do not overlap unless
//    Graph::may_alias, which leaves the region's own arrays.

#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool stores(const Op& op, const Op& cell) {
  if (op.code == Opcode::store_) return same_element(op, cell);
  for (const Block* block : op.blocks) {
    for (const Op* inner = block->first; inner; inner = inner->next) {
      if (stores(*inner, cell)) return true;
    }
  }
  return false;
}

/// Rewrites one loop so that the cell lives in a value (and, where wanted, a flag that says whether it was stored).
class Promotion {
 public:
  Promotion(ir::Graph& graph, const Op& cell, bool flag)
      : graph_(graph), cell_(cell), to_(graph.value_count()), builder_(graph), flagged_(flag) {}

  void run(Op& loop, std::vector<Value*>& current) {
    enter(loop, current);
    to_.resize(graph_.value_count());
    ir::replace_uses(graph_, to_);
  }

 private:
  using Current = std::vector<Value*>;  // the cell's value; the flag

  void enter(Op& loop, Current& current) {
    Current args;
    const size_t first = loop.results.size();
    for (Value* v : current) args.push_back(append_carried(loop, v, {}, cell_.view()->name).arg);
    carrying_.push_back(&loop);
    block(body_of(loop), args);
    carrying_.pop_back();
    current.assign(loop.results.begin() + static_cast<std::ptrdiff_t>(first), loop.results.end());
  }

  bool is_carrying(const Op* op) const {
    for (const Op* known : carrying_) {
      if (known == op) return true;
    }
    return false;
  }

  void block(Block& block, Current current) {
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      if (op->code == Opcode::load_ && same_element(*op, cell_)) {
        if (to_.size() <= op->result()->id) to_.resize(graph_.value_count());
        to_[op->result()->id] = current[0];
        block.remove(op);
      } else if (op->code == Opcode::store_ && same_element(*op, cell_)) {
        current[0] = op->operands[0];
        if (flagged_) {
          builder_.set_before(op);
          current[1] = builder_.boolean(true);
        }
        block.remove(op);
      } else if (ir::is_terminator(op->code)) {
        const bool of_if = op->code == Opcode::yield_ && block.owner->code == Opcode::if_;
        const Op* target = of_if ? block.owner : ir::enclosing_loop(block);
        if (is_carrying(target)) op->operands.insert(op->operands.end(), current.begin(), current.end());
      } else if (!op->blocks.empty()) {
        nested(*op, current);
      }
    }
  }

  void nested(Op& op, Current& current) {
    const bool merges = stores(op, cell_);
    if (is_loop(op)) {
      if (merges) {
        enter(op, current);
      } else {
        block(body_of(op), current);
      }
    } else {
      const size_t first = op.results.size();
      if (merges) {
        for (Value* v : current) ir::add_result(op, v->type);
        carrying_.push_back(&op);
      }
      for (Block* arm : op.blocks) block(*arm, current);
      if (merges) {
        carrying_.pop_back();
        current.assign(op.results.begin() + static_cast<std::ptrdiff_t>(first), op.results.end());
      }
    }
  }

  ir::Graph& graph_;
  const Op& cell_;
  std::vector<Value*> to_;
  Builder builder_;
  bool flagged_;
  std::vector<const Op*> carrying_;
};

/// Executed in the first iteration of the loop, whatever happens.
bool is_unconditional(const Op& op, const Op& loop) {
  if (op.parent != &body_of(loop)) return false;
  for (const Op* before = op.prev; before; before = before->prev) {
    if (before->code == Opcode::if_) {
      for (const Op* exit : exits_of(loop).breaks) {
        if (is_inside(*exit, *before->blocks[0]) || is_inside(*exit, *before->blocks[1])) return false;
      }
      for (const Op* exit : exits_of(loop).next) {
        if (is_inside(*exit, *before->blocks[0]) || is_inside(*exit, *before->blocks[1])) return false;
      }
    }
    if (before->code == Opcode::while_) return false;  // it may never end
  }
  return true;
}

/// May iterations of a loop around it use the same view at the same time?
bool runs_beside_others(const Op& loop, const Value& view) {
  for (const Op* outer = ir::enclosing_loop(*loop.parent); outer; outer = ir::enclosing_loop(*outer->parent)) {
    if (is_private(view, *outer)) return false;
    if (has_permission(*outer)) return true;
  }
  return false;
}

class Promoter {
 public:
  explicit Promoter(ir::Graph& graph) : graph_(graph) {}

  bool loop(Op& loop) {
    const bool any = !graph_.may_alias && leaves_nothing_behind(loop);
    bool changed = false;
    while (promote_one(loop, any)) changed = true;
    return changed;
  }

 private:
  static bool leaves_nothing_behind(const Op& loop) {
    bool fine = true;
    ir::walk(body_of(loop), [&](Op& op) {
      if (op.code == Opcode::check_) fine = false;
      if (op.code == Opcode::poll_ && !interruptible_anywhere(loop)) fine = false;
    });
    return fine;
  }

  /// `any`: not only elements of temporaries.
  bool promote_one(Op& loop, bool any) {
    std::vector<Op*> stores;
    ir::walk(body_of(loop), [&](Op& op) {
      if (op.code != Opcode::store_ || !is_invariant(op, body_of(loop))) return;
      if (any || ir::is_temporary(*op.view())) stores.push_back(&op);
    });
    for (Op* store : stores) {
      if (promote(loop, *store)) return true;
    }
    return false;
  }

  bool promote(Op& loop, const Op& cell) {
    Ranges ranges(graph_);
    bool separate = true, anyway = false, stored = false, loads = false;
    ir::walk(body_of(loop), [&](Op& op) {
      if (!is_access(op) || op.view() != cell.view()) return;
      if (op.code != Opcode::atomic_ && same_element(op, cell)) {
        const bool unconditional = is_unconditional(op, loop);
        anyway |= unconditional;
        stored |= unconditional && op.code == Opcode::store_;
        loads |= op.code == Opcode::load_;
      } else if (!different_elements(ranges, op, cell, op)) {
        separate = false;
      }
    });
    if (!separate) return false;
    const bool in_bounds = ranges.in_bounds(cell, loop);
    if (!anyway && !in_bounds) return false;
    const bool flag = !stored && runs_beside_others(loop, *cell.view());
    const bool always_runs = ranges.always_runs(loop);
    rewrite(loop, cell, {.load = loads || !stored, .flag = flag, .guard = !always_runs});
    return true;
  }

  struct How {
    bool load;   // the value before the loop can be seen
    bool flag;   // store only what was stored
    bool guard;  // the loop may not run
  };

  void rewrite(Op& loop, const Op& cell, How how) {
    const ir::Type type = ir::scalar(cell.view()->type.dtype);
    Builder b(graph_);
    b.set_loc(cell.loc);
    b.set_before(&loop);
    Value* runs = how.guard ? emit_runs(b, loop) : nullptr;
    std::vector<Value*> current;
    if (!how.load) {
      current.push_back(b.constant(type.dtype, 0));
    } else if (!runs) {
      Op* load = load_of(graph_, cell);
      loop.parent->insert_before(&loop, load);
      current.push_back(ir::add_result(*load, type));
    } else {
      current.push_back(load_where(b, runs, load_of(graph_, cell), &loop));
    }
    b.set_before(&loop);
    if (how.flag) current.push_back(b.boolean(false));
    Op* const after = loop.next;
    Promotion(graph_, cell, how.flag).run(loop, current);

    b.set_before(after);
    Value* condition = how.flag ? current[1] : runs;
    Block* target = loop.parent;
    Op* position = after;
    if (condition) {
      Op* guard = b.if_op(condition, {});
      for (Block* arm : guard->blocks) {
        b.set_block(arm);
        b.yield({});
      }
      target = guard->blocks[0];
      position = target->last;
    }
    Op* store = graph_.new_op(Opcode::store_, cell.loc);
    store->access = std::make_unique<ir::Access>(*cell.access);
    store->operands = cell.operands;
    store->operands[0] = current[0];
    target->insert_before(position, store);
  }

  ir::Graph& graph_;
};

}  // namespace

bool promote(ir::Graph& graph) {
  bool changed = false;
  Promoter promoter(graph);
  // Outermost first: what an outer loop keeps in a value needs nothing from the inner ones.
  for (Op* loop : for_loops(graph)) changed |= promoter.loop(*loop);
  return changed;
}

}  // namespace appy::passes
