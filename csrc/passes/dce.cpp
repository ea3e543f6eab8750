// Dead code: mark what an effect, a result or the way out of a needed loop depends on; sweep the rest. Carried values
// live and die with their arguments, so dead cycles go too, and stores to a temporary live and die with what reads it.
// A `while` may run forever, so it stays.
#include <unordered_map>
#include <unordered_set>

#include "passes/loops.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

class DeadCode {
 public:
  explicit DeadCode(ir::Graph& graph) : graph_(graph), live_(graph.value_count()) {}

  bool run() {
    roots(*graph_.body);
    mark_polls(*graph_.body);
    for (;;) {
      if (!values_.empty()) {
        Value* v = values_.back();
        values_.pop_back();
        reach(*v);
      } else if (!loops_.empty()) {
        Op* loop = loops_.back();
        loops_.pop_back();
        for (Op* leave : exits(*loop).breaks) need_around(*leave);
        for (Op* next : exits(*loop).next) need_around(*next);
      } else {
        break;
      }
    }
    sweep(*graph_.body);
    return changed_;
  }

 private:
  void roots(Block& block) {
    for (Op* op = block.first; op; op = op->next) {
      const Effect effect = ir::info(op->code).effect;
      const bool acts = effect == Effect::store || effect == Effect::atomic || effect == Effect::guard;
      // A poll only serves the work around it: it keeps no finite loop alive, see sweep().
      if (op->access && ir::is_temporary(*op->view())) {
        if (acts) stores_[op->view()->op].push_back(op);
      } else if (op->code == Opcode::alloc_) {
        if (op->escapes) mark(op->result());
      } else if (acts && op->code != Opcode::poll_) {
        for (Value* v : op->operands) mark(v);
        need_around(*op);
      }
      if (op->code == Opcode::while_) need(*op);
      for (Block* inner : op->blocks) roots(*inner);
    }
    if (!block.owner) {
      for (Value* v : block.last->operands) mark(v);
    }
  }

  void mark(Value* v) {
    if (live_[v->id]) return;
    live_[v->id] = true;
    values_.push_back(v);
  }

  /// A control op that has to stay, with everything that decides what it does.
  void need(Op& op) {
    if (!needed_.insert(&op).second) return;
    const size_t count = op.code == Opcode::if_ ? 1 : first_init(op);
    for (size_t i = 0; i < count; ++i) mark(op.operands[i]);
    if (is_loop(op)) loops_.push_back(&op);
    for (Block* inner : op.blocks) mark_polls(*inner);
    need_around(op);
  }

  void mark_polls(Block& block) {
    for (Op* op = block.first; op; op = op->next) {
      if (op->code != Opcode::poll_) continue;
      for (Value* v : op->operands) mark(v);
    }
  }

  void need_around(Op& op) {
    if (op.parent->owner) need(*op.parent->owner);
  }

  const Exits& exits(Op& loop) {
    auto [at, fresh] = exits_.try_emplace(&loop);
    if (fresh) at->second = exits_of(loop);
    return at->second;
  }

  void mark_carried(Op& loop, size_t k) {
    mark(loop.results[k]);
    mark(body_of(loop).args[first_carried(loop) + k]);
    mark(loop.operands[first_init(loop) + k]);
    for (const auto* ends : {&exits(loop).next, &exits(loop).breaks}) {
      for (Op* end : *ends) mark(end->operands[k]);
    }
    if (!is_for(loop)) return;
    const ir::Carried& carried = loop.loop->carried[k];
    if (carried.leader < 0) return;
    mark(loop.results[carried.leader]);
    const int tie = loop.loop->carried[carried.leader].tie;
    if (tie >= 0) mark(loop.results[tie]);
  }

  void reach(Value& v) {
    if (!v.op) {
      Op* owner = v.block->owner;
      if (!owner) return;
      need(*owner);
      if (v.index >= first_carried(*owner)) mark_carried(*owner, v.index - first_carried(*owner));
      return;
    }
    Op& op = *v.op;
    if (op.blocks.empty()) {
      for (Value* operand : op.operands) mark(operand);
      if (const auto found = stores_.find(&op); found != stores_.end()) {
        for (Op* store : found->second) {
          for (Value* operand : store->operands) mark(operand);
          need_around(*store);
        }
      }
      return;
    }
    need(op);
    if (is_loop(op)) return mark_carried(op, v.index);
    for (Block* arm : op.blocks) {
      if (arm->last->code == Opcode::yield_) mark(arm->last->operands[v.index]);
    }
  }

  void sweep(Block& block) {
    for (Op *op = block.last, *prev; op; op = prev) {
      prev = op->prev;
      const Effect effect = ir::info(op->code).effect;
      if (op->access && effect != Effect::load) {
        if (!live_[op->view()->id] && op->view()->op) remove(*op);
      } else if (effect == Effect::pure || effect == Effect::load || effect == Effect::alloc) {
        if (!live_[op->result()->id]) remove(*op);
      } else if (!op->blocks.empty()) {
        if (!needed_.count(op)) {
          remove(*op);
        } else {
          trim(*op);
          for (Block* inner : op->blocks) sweep(*inner);
        }
      }
    }
  }

  void remove(Op& op) {
    op.parent->remove(&op);
    changed_ = true;
  }

  /// Removes dead results of an op that stays, with what feeds them.
  void trim(Op& op) {
    std::vector<size_t> dead;
    for (size_t k = op.results.size(); k-- > 0;) {
      if (!live_[op.results[k]->id]) dead.push_back(k);
    }
    if (dead.empty()) return;
    changed_ = true;
    std::vector<Op*> ends;
    if (is_loop(op)) {
      ends.assign(exits(op).next.begin(), exits(op).next.end());
      ends.insert(ends.end(), exits(op).breaks.begin(), exits(op).breaks.end());
    } else {
      for (Block* arm : op.blocks) {
        if (arm->last->code == Opcode::yield_) ends.push_back(arm->last);
      }
    }
    for (size_t k : dead) {
      for (Op* end : ends) end->operands.erase(end->operands.begin() + static_cast<ptrdiff_t>(k));
      op.results.erase(op.results.begin() + static_cast<ptrdiff_t>(k));
      if (!is_loop(op)) continue;
      op.operands.erase(op.operands.begin() + static_cast<ptrdiff_t>(first_init(op) + k));
      auto& args = body_of(op).args;
      args.erase(args.begin() + static_cast<ptrdiff_t>(first_carried(op) + k));
      if (is_for(op)) drop_carried(*op.loop, static_cast<int>(k));
    }
    for (size_t i = 0; i < op.results.size(); ++i) op.results[i]->index = static_cast<uint32_t>(i);
    for (Block* inner : op.blocks) {
      for (size_t i = 0; i < inner->args.size(); ++i) inner->args[i]->index = static_cast<uint32_t>(i);
    }
  }

  static void drop_carried(ir::Loop& loop, int k) {
    loop.carried.erase(loop.carried.begin() + k);
    for (ir::Carried& c : loop.carried) {
      for (int* index : {&c.leader, &c.tie}) {
        if (*index == k) *index = -1;
        if (*index > k) --*index;
      }
    }
  }

  ir::Graph& graph_;
  std::vector<bool> live_;
  std::unordered_set<Op*> needed_;
  std::unordered_map<const Op*, std::vector<Op*>> stores_;  // to temporaries, and atomics, by the alloc
  std::unordered_map<Op*, Exits> exits_;
  std::vector<Value*> values_;
  std::vector<Op*> loops_;
  bool changed_ = false;
};

}  // namespace

bool dce(ir::Graph& graph) {
  const bool changed = DeadCode(graph).run();
  graph.renumber();
  return changed;
}

}  // namespace appy::passes
