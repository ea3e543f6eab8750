// Temporary arrays shrink. A load of an element that was stored before in the same iteration of the same loops becomes
// the stored value; cse.cpp does that where nothing else of the array was stored in between, here other elements may
// have been. An array of which each iteration of a loop uses only its own row becomes a row, made in the loop's body.
//
// Rules for editors:
// 1. Equal subscripts mean one element only at one moment: a store that another iteration may execute counts as
//    different only if neither subscript varies in that loop.
// 2. A row is dead at the end of its iteration only if no loop runs the loop again on the same array.
#include <algorithm>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

/// The two accesses of one view, executed with equal terms, touch different elements.
bool differ_by_constants(const Op& a, const Op& b) {
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    Affine difference = row(a, d);
    difference.add(row(b, d), -1);
    if (difference.is_constant() && difference.constant != 0) return true;
  }
  return false;
}

/// Looks for the store that a load of a temporary certainly reads.
class Source {
 public:
  explicit Source(const Op& load) : load_(load) {}

  const Op* find() const {
    for (const Op* at = &load_;;) {
      for (const Op* before = at->prev; before; before = before->prev) {
        if (before->code == Opcode::store_ && same_element(*before, load_)) return before;
        if (before == load_.view()->op || !spares(*before, nullptr)) return nullptr;
      }
      const Op* owner = at->parent->owner;
      if (!owner) return nullptr;
      if (is_loop(*owner)) {
        // What the element holds at the start of an iteration may come from an earlier one.
        if (!is_invariant(load_, body_of(*owner)) || !spares(*owner, owner)) return nullptr;
      }
      at = owner;
    }
  }

 private:
  /// No store that `op` executes touches the element. `loop`: in any iteration of it.
  bool spares(const Op& op, const Op* loop) const {
    if (op.access) {
      if (op.code == Opcode::load_ || op.view() != load_.view()) return true;
      return differ_by_constants(op, load_) && (!loop || is_invariant(op, body_of(*loop)));
    }
    const Op* around = is_loop(op) && !loop ? &op : loop;
    for (const Block* block : op.blocks) {
      for (const Op* inner = block->first; inner; inner = inner->next) {
        if (!spares(*inner, around)) return false;
      }
    }
    return true;
  }

  const Op& load_;
};

class Contraction {
 public:
  explicit Contraction(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = forward();
    std::vector<Op*> allocs;
    ir::walk(*graph_.body, [&](Op& op) {
      if (op.code == Opcode::alloc_ && !op.escapes) allocs.push_back(&op);
    });
    for (Op* alloc : allocs) {
      for (Op* loop; (loop = loop_of_rows(*alloc)); changed = true) alloc = to_row(*alloc, *loop);
    }
    return changed;
  }

 private:
  bool forward() {
    std::vector<Value*> to(graph_.value_count());
    bool changed = false;
    ir::walk(*graph_.body, [&](Op& op) {
      if (op.code != Opcode::load_ || !ir::is_temporary(*op.view())) return;
      const Op* store = Source(op).find();
      if (!store) return;
      to[op.result()->id] = store->operands[0];
      op.parent->remove(&op);
      changed = true;
    });
    if (changed) ir::replace_uses(graph_, to);
    return changed;
  }

  /// The loop whose variable is the first subscript of all accesses, if each of its iterations may have its own row.
  Op* loop_of_rows(const Op& alloc) {
    const Value* view = alloc.result();
    if (view->type.rank < 1) return nullptr;
    Op* loop = nullptr;
    const Uses uses(graph_);
    for (const Use& use : uses.of(*view)) {
      const Op& op = *use.op;
      if (!op.access || op.view() != view) return nullptr;
      const Affine first = row(op, 0);
      if (first.constant != 0 || first.terms.size() != 1 || first.terms[0].second != 1) return nullptr;
      const Value& variable = *first.terms[0].first;
      Op* owner = variable.op ? nullptr : variable.block->owner;
      if (!owner || !is_for(*owner) || variable.index != 0 || (loop && loop != owner)) return nullptr;
      loop = owner;
    }
    if (!loop || loop->loop->simd || !is_inside(*loop, *alloc.parent)) return nullptr;
    for (const Op* at = loop->parent->owner; at && at != alloc.parent->owner; at = at->parent->owner) {
      if (is_loop(*at)) return nullptr;
    }
    return loop;
  }

  /// The alloc of the row.
  Op* to_row(Op& alloc, Op& loop) {
    Value* view = alloc.result();
    Builder b(graph_);
    b.set_loc(alloc.loc);
    b.set_before(body_of(loop).first);
    ir::Type type = view->type;
    --type.rank;
    Value* made = b.alloc(type, std::span<Value* const>(alloc.operands).subspan(1));
    made->name = view->name;
    const Uses uses(graph_);
    for (const Use& use : uses.of(*view)) {
      Op& op = *use.op;
      op.operands[use.operand] = made;
      op.access->offset.erase(op.access->offset.begin());
      op.access->coef.erase(op.access->coef.begin());
      drop_unused_terms(op);
    }
    alloc.parent->remove(&alloc);
    return made->op;
  }

  static void drop_unused_terms(Op& op) {
    ir::Access& access = *op.access;
    for (size_t k = static_cast<size_t>(access.terms); k-- > 0;) {
      const bool used =
          std::any_of(access.coef.begin(), access.coef.end(), [k](const auto& coef) { return coef[k] != 0; });
      if (used) continue;
      op.operands.erase(op.operands.begin() + static_cast<ptrdiff_t>(op.first_term() + k));
      for (auto& coef : access.coef) coef.erase(coef.begin() + k);
      --access.terms;
    }
  }

  ir::Graph& graph_;
};

}  // namespace

bool contract_arrays(ir::Graph& graph) { return Contraction(graph).run(); }

}  // namespace appy::passes
