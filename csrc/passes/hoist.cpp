// Moves what does not change in a loop in front of it, parallel loops included, innermost loops first: pure ops, loads,
// checks, and whole loops.
//
// Pure ops are total and may run when the loop does not. A load moves only where it is in bounds in front of the loop,
// or where the loop certainly reaches it; of a view that the loop writes, only where permission promises that no
// iteration reads what another writes, and in front of the iteration's own stores. A check moves only if the first
// iteration certainly reaches it with nothing before it that has an effect; where the loop may not run at all, it is
// guarded by that.
#include "passes/hoist.h"

#include <algorithm>
#include <unordered_set>

#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Builder;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

class Hoister {
 public:
  Hoister(ir::Graph& graph, Promises promises)
      : graph_(graph), ranges_(graph), builder_(graph), depth_(graph.value_count()), promises_(promises) {}

  bool run() {
    nest(*graph_.body, 0);
    block(*graph_.body);
    return moved_any_;
  }

 private:
  /// Loop nesting depth of each value.
  void nest(Block& b, uint32_t depth) {
    for (Value* arg : b.args) set_depth(*arg, depth);
    for (Op* op = b.first; op; op = op->next) {
      for (Value* result : op->results) set_depth(*result, depth);
      for (Block* inner : op->blocks) nest(*inner, depth + (is_loop(*op) ? 1 : 0));
    }
  }

  void set_depth(const Value& v, uint32_t depth) {
    if (depth_.size() <= v.id) depth_.resize(v.id + 1);
    depth_[v.id] = depth;
  }

  void block(Block& b) {
    for (Op *op = b.first, *next; op; op = next) {
      next = op->next;
      for (Block* inner : op->blocks) {
        if (is_loop(*op)) ++level_;
        block(*inner);
        if (is_loop(*op)) --level_;
      }
      if (is_loop(*op)) loop(*op);
    }
  }

  /// Loops in the region are left and entered in order, so `level_` is the depth of the values around `loop`.
  bool is_invariant(const Value& v) const { return depth_[v.id] <= level_; }

  bool is_invariant(const Op& op) const {
    for (const Value* operand : op.operands) {
      if (!is_invariant(*operand)) return false;
    }
    return true;
  }

  void loop(Op& op) {
    loop_ = &op;
    moved_ = 0;
    runs_ = nullptr;
    written_.clear();
    note_written(body_of(op));
    stored_.clear();
    believes_ = promises_ == Promises::believed && has_permission(op);
    if (believes_) note_doubtful(body_of(op));
    always_runs_ = {};
    certain_ = true;
    acted_ = false;
    body(body_of(op), true);
    if (moved_ > 0) {
      remark(graph_, ir::Severity::note, "hoist", op.loc,
             "hoisted " + std::to_string(moved_) + (moved_ == 1 ? " operation" : " operations") +
                 " out of the loop at " + line_of(graph_, op.loc));
    }
  }

  void note_written(const Block& b) {
    for (const Op* op = b.first; op; op = op->next) {
      if (op->blocks.empty() && writes(*op)) written_.insert(op->view());
      for (const Block* inner : op->blocks) note_written(*inner);
    }
  }

  /// Views of which no promise is believed: all iterations update one of their elements, in order or atomically.
  void note_doubtful(Block& b) {
    ir::walk(b, [&](Op& op) {
      if (op.code == Opcode::atomic_ || (op.code == Opcode::store_ && passes::is_invariant(op, b))) {
        stored_.insert(op.view());
      }
    });
  }

  /// May an element that a load of the view reads here, in one iteration, change before another iteration reads it?
  bool changes(const Value* view) const {
    if (graph_.may_alias && !ir::alloc_of(*view)) {
      return std::any_of(written_.begin(), written_.end(), [](const Value* v) { return !ir::alloc_of(*v); });
    }
    const auto key = const_cast<Value*>(view);
    return written_.count(key) > 0 && (!believes_ || stored_.count(key) > 0);
  }

  /// `top`: the body itself, whose ops run in the first iteration as long as `certain_`.
  void body(Block& b, bool top) {
    for (Op *op = b.first, *next; op; op = next) {
      next = op->next;
      const Effect effect = ir::info(op->code).effect;
      if (effect == Effect::pure) {
        if (is_invariant(*op)) move(*op);
      } else if (effect == Effect::load) {
        if (is_invariant(*op) && !changes(op->view())) hoist_load(*op, top);
      } else if (op->code == Opcode::check_) {
        if (!top || !certain_ || acted_ || !move_check(*op)) certain_ = false;
      } else if (op->code == Opcode::if_) {
        for (Block* arm : op->blocks) body(*arm, false);
        if (may_leave(*op)) {
          certain_ = false;
        } else if (top && certain_ && is_invariant_region(*op)) {
          move_region(*op);
        }
      } else if (is_loop(*op)) {
        if (top && certain_ && is_invariant_region(*op)) {
          move_region(*op);
        } else if (may_leave(*op) || op->code == Opcode::while_) {
          certain_ = false;
        }
      } else if (effect == Effect::guard) {
        certain_ = false;
      }
      if (writes(*op)) {
        acted_ = acted_ || writes_lasting(*op);
        note_stored(*op);
      }
    }
  }

  void note_stored(Op& op) {
    if (op.blocks.empty()) stored_.insert(op.view());
    for (Block* inner : op.blocks) {
      ir::walk(*inner, [&](Op& at) {
        if (at.blocks.empty() && writes(at)) stored_.insert(at.view());
      });
    }
  }

  bool always_runs() {
    if (!always_runs_) always_runs_ = !is_for(*loop_) || ranges_.always_runs(*loop_);
    return *always_runs_;
  }

  void hoist_load(Op& op, bool top) {
    const bool reached = top && certain_;
    if ((reached && always_runs()) || ranges_.in_bounds(op, *loop_)) {
      move(op);
    } else if (reached) {
      move_guarded(op);
      ++moved_;
    }
  }

  /// May the op end the region, the loop or its iteration?
  static bool may_leave(const Op& op) {
    for (const Block* inner : op.blocks) {
      for (const Op* at = inner->first; at; at = at->next) {
        const Effect effect = ir::info(at->code).effect;
        if (effect == Effect::guard || at->code == Opcode::while_) return true;
        if (!is_loop(op) && (at->code == Opcode::break_ || at->code == Opcode::continue_)) return true;
        if (may_leave(*at)) return true;
      }
    }
    return false;
  }

  /// A loop or conditional without effects whose every input is invariant.
  bool is_invariant_region(const Op& region) const {
    if (region.results.empty() || !is_invariant(region)) return false;
    bool fine = true;
    const auto inside = [&](const Value& v) {
      return std::any_of(region.blocks.begin(), region.blocks.end(),
                         [&](const Block* inner) { return !ir::defined_outside(v, *inner); });
    };
    for (Block* inner : region.blocks) {
      ir::walk(*inner, [&](Op& op) {
        const Effect effect = ir::info(op.code).effect;
        if (effect == Effect::store || effect == Effect::atomic || effect == Effect::alloc) fine = false;
        if (op.code == Opcode::check_) fine = false;
        if (effect == Effect::load && changes(op.view())) fine = false;
        for (const Value* operand : op.operands) {
          if (fine && !is_invariant(*operand) && !inside(*operand)) fine = false;
        }
      });
    }
    return fine;
  }

  void place(Op& op, uint32_t depth) {
    op.parent->remove(&op);
    loop_->parent->insert_before(loop_, &op);
    for (Value* result : op.results) set_depth(*result, depth);
    ranges_.moved(op);
  }

  void move(Op& op) {
    place(op, level_);
    if (op.code != Opcode::const_) ++moved_;
    moved_any_ = true;
  }

  /// The condition that the loop runs at all.
  Value* runs() {
    if (!runs_) {
      builder_.set_before(loop_);
      builder_.set_loc(loop_->loc);
      const Op* before = loop_->prev;
      runs_ = emit_runs(builder_, *loop_);
      for (Op* made = before ? before->next : loop_->parent->first; made != loop_; made = made->next) {
        for (Value* result : made->results) set_depth(*result, level_);
      }
    }
    return runs_;
  }

  bool is_argument(const Value& v) const { return !v.op && v.block == loop_->blocks[0]; }

  /// The value in the first iteration, or null.
  Value* in_first_iteration(Value& v) const {
    if (is_invariant(v)) return &v;
    if (!is_argument(v)) return nullptr;
    if (is_for(*loop_)) return v.index == 0 ? loop_->operands[0] : loop_->operands[2 + v.index];
    return loop_->operands[v.index];
  }

  bool move_check(Op& op) {
    if (!is_invariant(*op.operands[0])) return false;
    std::vector<Value*> operands = op.operands;
    for (Value*& operand : operands) {
      operand = in_first_iteration(*operand);
      if (!operand) return false;
    }
    if (!always_runs()) {
      Value* ok = runs();
      builder_.set_before(loop_);
      Value* idle = builder_.op(Opcode::not_, {ok});
      operands[0] = builder_.op(Opcode::or_, {idle, operands[0]});
      set_depth(*idle, level_);
      set_depth(*operands[0], level_);
    }
    op.operands = std::move(operands);
    move(op);
    return true;
  }

  /// Moves an op of the body in front of the loop, under the condition that the loop runs.
  void move_guarded(Op& op) {
    Value* condition = runs();
    std::vector<ir::Type> types;
    for (const Value* result : op.results) types.push_back(result->type);
    builder_.set_before(loop_);
    builder_.set_loc(op.loc);
    Op* guard = builder_.if_op(condition, types);
    std::vector<std::pair<Value*, Value*>> replaced;
    for (size_t i = 0; i < types.size(); ++i) {
      set_depth(*guard->results[i], level_);
      guard->results[i]->name = op.results[i]->name;
      replaced.emplace_back(op.results[i], guard->results[i]);
    }
    substitute(body_of(*loop_), replaced);
    op.parent->remove(&op);
    guard->blocks[0]->append(&op);
    ranges_.moved(op);
    for (Value* result : op.results) set_depth(*result, level_);
    builder_.set_block(guard->blocks[0]);
    builder_.yield(op.results);
    builder_.set_block(guard->blocks[1]);
    std::vector<Value*> nothing;
    for (const ir::Type& type : types) {
      nothing.push_back(builder_.constant(type.dtype, 0));
      set_depth(*nothing.back(), level_);
    }
    builder_.yield(nothing);
    moved_any_ = true;
  }

  void move_region(Op& region) {
    if (always_runs()) {
      place(region, level_);
    } else {
      move_guarded(region);
    }
    shift_depths(region);
    moved_any_ = true;
    if (!is_loop(region)) {
      ++moved_;
      return;
    }
    remark(graph_, ir::Severity::note, "hoist", region.loc,
           "the loop at " + line_of(graph_, region.loc) + " does not depend on the loop at " +
               line_of(graph_, loop_->loc) + " around it and runs once before it");
  }

  static void substitute(Block& b, const std::vector<std::pair<Value*, Value*>>& replaced) {
    ir::walk(b, [&](Op& op) {
      for (Value*& operand : op.operands) {
        for (const auto& [from, to] : replaced) {
          if (operand == from) operand = to;
        }
      }
    });
  }

  /// What moved is nested one level less.
  void shift_depths(Op& op) {
    for (Block* inner : op.blocks) {
      for (Value* arg : inner->args) --depth_[arg->id];
      for (Op* at = inner->first; at; at = at->next) {
        for (Value* result : at->results) --depth_[result->id];
        shift_depths(*at);
      }
    }
  }

  ir::Graph& graph_;
  Ranges ranges_;
  Builder builder_;
  std::vector<uint32_t> depth_;
  uint32_t level_ = 0;
  Promises promises_;

  Op* loop_ = nullptr;
  std::unordered_set<Value*> written_;  // somewhere in the loop
  std::unordered_set<Value*> stored_;   // in the iteration, before the op at hand; and what note_doubtful found
  Value* runs_ = nullptr;
  bool believes_ = false;            // iterations do not read what others write
  std::optional<bool> always_runs_;  // of the loop, where it was asked for
  bool certain_ = true;              // the first iteration reaches this op of the body
  bool acted_ = false;               // something before it had an effect
  int moved_ = 0;
  bool moved_any_ = false;
};

}  // namespace

bool hoist_invariants(ir::Graph& graph, Promises promises) { return Hoister(graph, promises).run(); }

bool hoist(ir::Graph& graph) { return hoist_invariants(graph, Promises::ignored); }

}  // namespace appy::passes
