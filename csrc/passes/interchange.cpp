// A loop that runs in order around one that may run in lanes changes places with it, where each lane has elements of
// its own: `for k: C[i, :] += a[i, k] * B[k, :]` goes over the row once, with the row's elements in registers
// (promote), and not once for each k, with the lanes waiting for each other.

#include "passes/interchange.h"

#include <algorithm>
#include <vector>

#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// A poll says nothing of where the loops are that somebody could rely on (may_interchange).
bool is_plain(const Op& op) { return ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::poll_; }

/// The loop that the body consists of, beside what computes for it.
Op* only_loop(const Op& outer) {
  Op* found = nullptr;
  for (Op* op = body_of(outer).first; op != body_of(outer).last; op = op->next) {
    if (is_for(*op) ? found != nullptr : !is_plain(*op)) return nullptr;
    if (is_for(*op)) found = op;
  }
  return found;
}

/// Each iteration of the inner loop touches elements of its own, of those that it writes: the same ones in every
/// iteration of the outer loop.
bool touch_their_own(const Op& outer, const Op& inner) {
  bool fits = true;
  std::vector<const Op*> accesses, stores;
  ir::walk(body_of(outer), [&](const Op& op) {
    fits &= is_plain(op) || op.code == Opcode::store_ || op.code == Opcode::if_ || op.code == Opcode::yield_ ||
            &op == &inner;
    if (is_access(op)) accesses.push_back(&op);
    if (op.code == Opcode::store_) stores.push_back(&op);
  });
  if (!fits || stores.empty()) return false;
  for (const Op* store : stores) {
    bool own = false;
    for (size_t d = 0; d < store->access->offset.size(); ++d) {
      const Affine subscript = row(*store, d);
      own |= subscript.coef(*induction(inner)) != 0;
      for (const auto& [term, coef] : subscript.terms) {
        if (term != induction(inner) && !ir::defined_outside(*term, body_of(outer))) return false;
      }
    }
    if (!own) return false;
    for (const Op* access : accesses) {
      if (access->view() != store->view()) continue;
      if (!is_inside(*access, body_of(inner)) || !same_element(*access, *store)) return false;
    }
  }
  return true;
}

bool has_poll(const Op& loop) {
  bool found = false;
  ir::walk(body_of(loop), [&](const Op& op) { found |= op.code == Opcode::poll_; });
  return found;
}

bool run(Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    Op* inner = nullptr;
    if (may_interchange(*op, inner)) changed |= swap_loops(*op, *inner);
    for (Block* nested : op->blocks) changed |= run(*nested);
  }
  return changed;
}

}  // namespace

bool may_interchange(const Op& outer, Op*& inner) {
  if (!is_for(outer) || has_permission(outer) || !outer.results.empty() || !left_by_yield_only(outer)) return false;
  if (has_poll(outer) && !interruptible_anywhere(outer)) return false;
  inner = only_loop(outer);
  return inner && has_permission(*inner) && inner->results.empty() && left_by_yield_only(*inner) &&
         touch_their_own(outer, *inner);
}

bool interchange(ir::Graph& graph) { return !graph.may_alias && run(*graph.body); }

}  // namespace appy::passes
