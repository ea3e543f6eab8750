// Gives loops to workers and lanes (ir.h, Mapping), from the outermost that may run out of order inwards. Perfectly
// nested ones are one space of iterations: `threads` where nothing inside can use lanes, else `workers` around `lanes`.
// What runs in order and touches memory without such loops inside is one lane's.
//
// Rules for editors:
// 1. Which loop the lanes take is decided by how many memory transactions they need: lanes that run along the last
//    dimension share them.
// 2. A loop without a pragma joins the nest around it where it is proven independent and has one with a pragma inside.
// 3. A loop that runs in order with threads(1) is one worker's, whose lanes run what is parallel inside.
// 4. A loop that leaves early, or carries what cannot be combined, is nobody's but who runs the code around it.

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/dependence.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Effect;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool distributable(const Op& op) {
  return is_for(op) && has_permission(op) && ir::can_reorder(op) && exits_of(op).breaks.empty();
}

bool has_distributable(const Block& block) {
  for (const Op* op = block.first; op; op = op->next) {
    if (distributable(*op)) return true;
    for (const Block* inner : op->blocks) {
      if (has_distributable(*inner)) return true;
    }
  }
  return false;
}

bool touches_memory(const Op& op) {
  const Effect effect = ir::info(op.code).effect;
  if (effect == Effect::load || effect == Effect::store || effect == Effect::atomic) return true;
  return std::any_of(op.blocks.begin(), op.blocks.end(), [](const Block* block) {
    for (const Op* inner = block->first; inner; inner = inner->next) {
      if (touches_memory(*inner)) return true;
    }
    return false;
  });
}

/// What each lane may compute for itself.
bool only_computes(const Op& op) {
  if (ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::yield_) return true;
  return op.code == Opcode::if_ && std::all_of(op.blocks.begin(), op.blocks.end(), [](const Block* arm) {
           for (const Op* at = arm->first; at; at = at->next) {
             if (!only_computes(*at)) return false;
           }
           return true;
         });
}

bool is_written(const Value& view, Block& block) {
  bool found = false;
  ir::walk(block, [&](const Op& op) {
    if (!is_access(op) || op.code == Opcode::load_) return;
    const bool may_overlap = op.graph->may_alias && !ir::alloc_of(view) && !ir::alloc_of(*op.view());
    found |= op.view() == &view || may_overlap;
  });
  return found;
}

bool loads_written(const Op& op, Block& block) {
  if (op.code == Opcode::load_ && is_written(*op.view(), block)) return true;
  for (const Block* inner : op.blocks) {
    for (const Op* at = inner->first; at; at = at->next) {
      if (loads_written(*at, block)) return true;
    }
  }
  return false;
}

/// The loop that the body consists of, beside what each lane may compute for itself; null where there is more.
Op* only_loop(const Op& outer) {
  Op* found = nullptr;
  // Whoever has an iteration of the inner loop loads for itself: what others write meanwhile is not that.
  for (const Op* op = body_of(outer).first; op; op = op->next) {
    if (!is_for(*op) && loads_written(*op, body_of(outer))) return nullptr;
  }
  for (Op* op = body_of(outer).first; op; op = op->next) {
    if (is_for(*op)) {
      if (found) return nullptr;
      found = op;
    } else if (!only_computes(*op)) {
      return nullptr;
    }
  }
  return found;
}

/// A loop without a pragma between two of a nest, whose iterations are independent.
bool joins(const Op& loop) {
  if (has_permission(loop) || !independent(loop)) return false;
  const Op* inner = only_loop(loop);
  return inner && distributable(*inner) && inner->results.empty();
}

/// Transactions that one access of a group of lanes needs, relative to lanes with one each, where neighbouring lanes
/// run neighbouring iterations of the loop.
double transactions(const Op& access, const Op& loop) {
  const Value* view = access.view();
  const auto rank = access.access->offset.size();
  const size_t unit = view->type.layout == ir::Layout::f ? 0 : rank - 1;
  constexpr double one_for_all = 1.0 / 32;
  bool varies = false;
  for (size_t d = 0; d < rank; ++d) {
    const Affine subscript = row(access, d);
    for (const auto& [term, coef] : subscript.terms) {
      if (term == induction(loop)) {
        if (d != unit || coef > 4 || coef < -4) return 1;
        varies = true;
      } else if (!ir::defined_outside(*term, body_of(loop))) {
        const Op* owner = term->op ? nullptr : term->block->owner;
        const bool starts_alike =
            owner && is_for(*owner) && term->index == 0 && ir::defined_outside(*owner->operands[0], body_of(loop));
        if (!starts_alike) return 1;  // a gather, or rows that begin anywhere
      }
    }
  }
  if (!varies) return one_for_all;
  return ir::size_of(view->type.dtype) / 8.0 * 0.25;
}

double cost(const Op& around, const Op& lanes) {
  double total = 0;
  ir::walk(body_of(around), [&](const Op& op) {
    if (is_access(op)) total += transactions(op, lanes);
  });
  return total;
}

class Distributor {
 public:
  explicit Distributor(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    block(*graph_.body, false);
    return changed_;
  }

 private:
  /// `in_worker`: one worker runs the block, with all its lanes; else all workers do.
  void block(Block& b, bool in_worker) {
    for (Op *op = b.first, *next; op; op = next) {
      next = op->next;
      if (distributable(*op)) {
        in_worker ? give_to_lanes(*op) : give(*op);
      } else if (!in_worker && is_for(*op) && op->loop->threads == 1 && has_distributable(body_of(*op))) {
        give_to_one(*op);
      } else if (is_loop(*op) && !has_distributable(body_of(*op))) {
        if (touches_memory(*op)) map(*op, Mapping::single);
      } else {
        for (Block* inner : op->blocks) block(*inner, in_worker);
      }
    }
  }

  void map(Op& op, Mapping to) {
    op.mapping = to;
    changed_ = true;
  }

  void give(Op& outer) {
    std::vector<Op*> nest = {&outer};
    for (Op* at = &outer; at->results.empty();) {
      at = only_loop(*at);
      if (!at || !at->results.empty() || !(distributable(*at) || joins(*at))) break;
      nest.push_back(at);
    }
    Op& last = *nest.back();
    const bool divided = has_distributable(body_of(last)), stays = divided && lanes_stay_outside(nest);
    if (stays && nest.size() == 1 && is_plain(last)) {
      map(last, Mapping::columns);
      block(body_of(last), true);
      return;
    }
    if (divided && !(stays && all_reduce(last))) {
      // Workers count through all iterations of a nest: it has as many for each of the outer ones.
      const auto moves = std::find_if(nest.begin() + 1, nest.end(), [&](const Op* loop) {
        return std::any_of(loop->operands.begin(), loop->operands.begin() + 3,
                           [&](const Value* bound) { return !ir::defined_outside(*bound, body_of(outer)); });
      });
      nest.erase(moves, nest.end());
      for (Op* loop : nest) map(*loop, Mapping::workers);
      block(body_of(*nest.back()), true);
      return;
    }
    for (Op* loop : nest) map(*loop, Mapping::threads);
    put_best_innermost(nest);
  }

  /// Lanes along the nest's last loop need fewer transactions than lanes along those inside it.
  bool lanes_stay_outside(const std::vector<Op*>& nest) {
    const Op& last = *nest.back();
    if (contains(body_of(last), Effect::alloc)) return false;
    double inside = 0, outside = 0;
    ir::walk(body_of(last), [&](const Op& op) {
      if (!distributable(op) || has_distributable(body_of(op))) return;
      inside += cost(op, op);
      outside += cost(op, last);
    });
    return outside < inside;
  }

  static bool all_reduce(const Op& loop) {
    bool all = true;
    ir::walk(body_of(loop), [&](const Op& op) { all &= !distributable(op) || !op.results.empty(); });
    return all;
  }

  /// The body does nothing but combine values, store what comes of it, and change elements by it: nothing in it may
  /// leave the iteration, and every worker does it alike.
  static bool is_plain(const Op& loop) {
    if (!loop.results.empty()) return false;
    for (const Op* op = body_of(loop).first; op; op = op->next) {
      const bool plain = ir::is_pure(op->code) || op->code == Opcode::load_ || op->code == Opcode::store_ ||
                         op->code == Opcode::yield_;
      if (!plain &&
          !(distributable(*op) && !has_distributable(body_of(*op)) && (!op->results.empty() || is_plain(*op))))
        return false;
    }
    return true;
  }

  /// Neighbouring lanes run neighbouring iterations of the innermost loop.
  void put_best_innermost(std::vector<Op*>& nest) {
    if (nest.size() < 2) return;
    Op& innermost = *nest.back();
    const auto least = std::min_element(nest.rbegin(), nest.rend(), [&](const Op* a, const Op* b) {
      return cost(innermost, *a) < cost(innermost, *b);
    });
    for (auto at = static_cast<size_t>(nest.rend() - least) - 1; at + 1 < nest.size(); ++at) {
      if (!swap_loops(*nest[at], *nest[at + 1])) return;
    }
  }

  /// A loop that runs in order, by one worker and its lanes.
  void give_to_one(Op& loop) {
    Op* const after = loop.next;
    loop.parent->remove(&loop);
    ir::Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(after);
    ir::Loop one;
    one.parallel = true;
    one.annotated = loop.loop->annotated;
    one.carried.assign(loop.results.size(), {ir::Combiner::last_});
    const std::vector<Value*> inits(loop.operands.begin() + 3, loop.operands.end());
    Op* worker = b.for_loop(b.i64(0), b.i64(1), b.i64(1), inits, std::move(one));
    std::vector<Value*> to(graph_.value_count());
    for (size_t k = 0; k < loop.results.size(); ++k) to[loop.results[k]->id] = worker->results[k];
    ir::replace_uses(graph_, to);
    body_of(*worker).append(&loop);
    b.set_block(&body_of(*worker));
    b.yield(loop.results);
    map(*worker, Mapping::workers);
    block(body_of(*worker), true);
  }

  /// In a worker: the lanes take the innermost loops, those around them run one iteration after the other.
  void give_to_lanes(Op& loop) {
    Op* inner = loop.results.empty() ? only_loop(loop) : nullptr;
    const bool deeper = inner && distributable(*inner) && cost(loop, *inner) <= cost(loop, loop);
    const bool makes_arrays = contains(body_of(loop), Effect::alloc) && has_distributable(body_of(loop));
    if (deeper || makes_arrays) {
      block(body_of(loop), true);
    } else {
      map(loop, Mapping::lanes);
    }
  }

  ir::Graph& graph_;
  bool changed_ = false;
};

}  // namespace

bool distribute(ir::Graph& graph) { return Distributor(graph).run(); }

}  // namespace appy::passes
