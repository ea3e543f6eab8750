// A row that a worker's lanes load twice, kept: `t = exp(x - max(x))` loads x for the maximum and then again for t,
// from a cache that the rows of others have been through meanwhile. The first loop puts it where the second one writes
// t, an array of the worker's own, which a backend has in fast memory where it fits.
//
// It runs behind `distribute`, which says what the lanes' loops are; `barriers` sees to who waits for whom.
//
// Rules for editors:
// 1. Both loops count alike, and the second one stores t in each iteration at the place of its own variable, as the
//    first thing that is done to t: no element is kept that t has no room for, and none that is not kept is read.
// 2. What is kept is written by nobody as long as the worker is at the iteration.

#include <algorithm>
#include <array>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_lanes(const Op& op) { return is_for(op) && op.mapping == Mapping::lanes; }

/// view[i] of a vector.
bool is_at(const Op& access, const Value& i) {
  if (access.access->offset.size() != 1) return false;
  Affine sum = row(access, 0);
  sum.add(i, -1);
  return sum.is_constant() && sum.constant == 0;
}

/// The accesses of an array in the worker's code, in its order.
std::vector<Op*> accesses_of(const Value& view, const Op& worker) {
  std::vector<Op*> found;
  ir::walk(body_of(worker), [&](Op& op) {
    if (is_access(op) && op.view() == &view) found.push_back(&op);
  });
  return found;
}

class Keeper {
 public:
  Keeper(ir::Graph& graph, Op& worker) : graph_(graph), worker_(worker) {}

  bool run() {
    bool changed = false;
    std::vector<Op*> arrays;
    for (Op* op = body_of(worker_).first; op; op = op->next) {
      if (op->code == Opcode::alloc_ && !op->escapes && op->result()->type.rank == 1) arrays.push_back(op);
    }
    for (Op* alloc : arrays) changed |= keep_in(*alloc);
    return changed;
  }

 private:
  bool keep_in(Op& alloc) {
    const std::vector<Op*> accesses = accesses_of(*alloc.result(), worker_);
    if (accesses.empty() || accesses[0]->code != Opcode::store_) return false;
    const Op& store = *accesses[0];
    Op* second = store.parent->owner;
    if (!is_lanes(*second) || second->parent != &body_of(worker_) || !is_at(store, *induction(*second))) return false;
    if (!ordered_by_accesses_only(*second)) return false;  // a check may say that t has no room
    const bool one_element = std::all_of(accesses.begin(), accesses.end(), [&](const Op* op) {
      return !is_inside(*op, body_of(*second)) || is_at(*op, *induction(*second));
    });
    if (!one_element) return false;
    for (Op* load = body_of(*second).first; load != &store; load = load->next) {
      if (load->code != Opcode::load_ || load->view()->type.dtype != alloc.result()->type.dtype ||
          writes_to(body_of(worker_), *load->view()) || is_private(*load->view(), worker_)) {
        continue;
      }
      Op* first = nullptr;
      Op* earlier = loaded_before(alloc, *second, *load, &first);
      if (!earlier) continue;
      keep(alloc, *first, *earlier, *second, *load);
      return true;
    }
    return false;
  }

  /// The load of the same element in an earlier loop, where there could be an array by then.
  Op* loaded_before(const Op& alloc, const Op& second, const Op& load, Op** first) const {
    for (Op* loop = body_of(worker_).first; loop != &second; loop = loop->next) {
      if (!is_lanes(*loop) || !count_alike(*loop, second) || !ordered_by_accesses_only(*loop)) continue;
      const bool in_time = std::all_of(alloc.operands.begin(), alloc.operands.end(),
                                       [&](const Value* extent) { return visible_before(*extent, *loop); });
      for (Op* op = body_of(*loop).first; in_time && op; op = op->next) {
        if (op->code != Opcode::load_ || !same_element_in(*op, *loop, load, second)) continue;
        *first = loop;
        return op;
      }
    }
    return nullptr;
  }

  void keep(Op& alloc, Op& first, Op& earlier, const Op& second, Op& load) {
    body_of(worker_).remove(&alloc);
    body_of(worker_).insert_before(&first, &alloc);
    ir::Builder b(graph_);
    b.set_before(earlier.next);
    b.set_loc(earlier.loc);
    const std::array<Value*, 1> at = {induction(first)};
    b.store(earlier.result(), alloc.result(), at);
    load.operands = {alloc.result(), induction(second)};
    load.access->terms = 1;
    load.access->offset = {0};
    load.access->coef = {{1}};
  }

  ir::Graph& graph_;
  Op& worker_;
};

}  // namespace

bool keep(ir::Graph& graph) {
  if (graph.may_alias) return false;
  std::vector<Op*> workers;
  ir::walk(*graph.body, [&](Op& op) {
    if (is_for(op) && op.mapping == Mapping::workers) workers.push_back(&op);
  });
  bool changed = false;
  for (Op* worker : workers) changed |= Keeper(graph, *worker).run();
  return changed;
}

}  // namespace appy::passes
