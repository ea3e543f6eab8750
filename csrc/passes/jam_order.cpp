#include "passes/jam_order.h"

#include <algorithm>
#include <vector>

#include "passes/dependence.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_unit(const Op& loop) { return constant(*loop.operands[2]) == 1; }

template <class F>
void for_each_read(const Op& op, F&& f) {
  for (const Value* v : op.operands) f(v);
  for (Block* inner : op.blocks) {
    ir::walk(*inner, [&](const Op& at) {
      for (const Value* v : at.operands) f(v);
    });
  }
}

/// Does a carried value only leave the loop, as that of the last iteration?
bool is_overwritten(const Op& loop, size_t k) {
  const Value* arg = body_of(loop).args[1 + k];
  bool read = false;
  ir::walk(body_of(loop), [&](const Op& op) {
    for (size_t i = 0; i < std::min(op.operands.size(), ir::first_state(op)); ++i) read |= op.operands[i] == arg;
  });
  return !read;
}

/// A loop whose iterations can be jammed, and how.
class Candidate {
 public:
  Candidate(ir::Graph& graph, Ranges& ranges, Op& loop, const std::set<const Op*>& innermost, int64_t copies)
      : graph_(graph), ranges_(ranges), loop_(loop), innermost_(innermost), copies_(copies) {}

  std::optional<JamOrder> find() {
    if (!is_unit(loop_) || !left_by_yield_only(loop_) || loop_.loop->simd || loop_.mapping != ir::Mapping::none ||
        loop_.loop->collapse != 1 || !ordered_by_accesses_only(loop_))
      return std::nullopt;
    if (!order_of(loop_)) return std::nullopt;
    if (!has_permission(loop_) && !may_mix()) return std::nullopt;
    return order_;
  }

 private:
  bool holds_innermost(const Op& op) const {
    bool any = innermost_.count(&op) != 0;
    for (Block* inner : op.blocks) ir::walk(*inner, [&](const Op& at) { any |= innermost_.count(&at) != 0; });
    return any;
  }

  /// The loops of the body that are jammed with their bodies.
  bool find_jammed(const Op& loop) {
    for (const Op* op = body_of(loop).first; op; op = op->next) {
      if (!is_for(*op) || !holds_innermost(*op) || !is_unit(*op) || !left_by_yield_only(*op) ||
          !have_most_in_common(ranges_, *op, loop_))
        continue;
      order_.jammed.insert(op);
      if (!innermost_.count(op)) find_jammed(*op);
    }
    return !order_.jammed.empty();
  }

  bool order_of(const Op& loop) {
    if (!find_jammed(loop)) return false;
    for (size_t k = 1; k < body_of(loop).args.size(); ++k) order_.chained.insert(body_of(loop).args[k]);
    const Op* last = nullptr;
    for (const Op* op = body_of(loop).first; op; op = op->next) last = order_.jammed.count(op) ? op : last;
    bool behind = false;
    for (const Op* op = body_of(loop).first; op != body_of(loop).last; op = op->next) {
      if (order_.jammed.count(op)) {
        if (!chain(*op)) return false;
        behind = op == last;
        continue;
      }
      const bool chained = order_.reads_chained(*op);
      if (chained) order_.chained.insert(op->results.begin(), op->results.end());
      if (!chained && !behind) continue;
      if (!behind && !is_pure_inside(*op)) return false;
      order_.late.insert(op);
    }
    return true;
  }

  static bool is_pure_inside(const Op& op) {
    bool pure = ir::is_pure(op.code) || op.code == Opcode::if_;
    for (Block* inner : op.blocks) {
      ir::walk(*inner, [&](const Op& at) {
        pure &= ir::is_pure(at.code) || at.code == Opcode::if_ || at.code == Opcode::yield_;
      });
    }
    return pure;
  }

  /// A jammed loop may hand a chained value on, but not compute with it.
  bool chain(const Op& inner) {
    for (size_t k = 0; k < 3; ++k) {
      if (order_.chained.count(inner.operands[k])) return false;
    }
    bool reads = false;
    ir::walk(body_of(inner), [&](const Op& op) {
      for (const Value* v : op.operands) reads |= order_.chained.count(v) != 0;
    });
    if (reads) return false;
    for (size_t k = 0; k < inner.results.size(); ++k) {
      if (!order_.chained.count(inner.operands[3 + k])) continue;
      if (!is_overwritten(inner, k)) return false;
      order_.chained.insert(inner.results[k]);
    }
    return true;
  }

  // --- dependences ----------------------------------------------------------------------------------------------

  /// When the op runs: what an earlier copy does at a later place runs behind what a later copy does at an earlier one.
  struct Place {
    int at = 0;
    bool mixed = false;  // in a jammed loop: nothing is said of the order of copies there
  };

  Place place_of(Op& op) const {
    const Op* top = ancestor_in(body_of(loop_), op);
    Place place;
    for (const Op* at = body_of(loop_).first; at != top; at = at->next) {
      place.at += order_.jammed.count(at) ? 2 : 0;
    }
    place.mixed = order_.jammed.count(top) != 0;
    place.at += place.mixed;
    return place;
  }

  bool may_mix() {
    if (graph_.may_alias) return false;
    std::vector<Op*> accesses;
    ir::walk(body_of(loop_), [&](Op& op) {
      if (is_access(op)) accesses.push_back(&op);
    });
    for (Op* x : accesses) {
      for (Op* y : accesses) {
        if (x->view() != y->view() || (x->code == Opcode::load_ && y->code == Opcode::load_)) continue;
        const Distance d = distance(*x, *y, loop_);
        if (d.kind == Distance::Kind::none) continue;
        if (d.kind == Distance::Kind::constant &&
            (d.iterations == 0 || d.iterations >= copies_ || d.iterations <= -copies_)) {
          continue;
        }
        const Place earlier = place_of(*x), later = place_of(*y);
        const bool in_order = earlier.at < later.at || (earlier.at == later.at && !earlier.mixed);
        if (!in_order && !touch_others(*x, *y)) return false;
      }
    }
    return true;
  }

  /// x, up to copies_ - 1 iterations before y, touches another element than y.
  bool touch_others(const Op& x, const Op& y) {
    for (int64_t d = 1; d < copies_; ++d) {
      bool differ = false;
      for (size_t n = 0; n < x.access->offset.size() && !differ; ++n) {
        Affine before = row_at(ranges_, x, n, x);
        const bool known = std::all_of(before.terms.begin(), before.terms.end(), [&](const auto& term) {
          return term.first == induction(loop_) || ir::defined_outside(*term.first, body_of(loop_));
        });
        if (!known) continue;
        before.constant -= before.coef(*induction(loop_)) * d;
        Affine difference = row_at(ranges_, y, n, y);
        difference.add(before, -1);
        differ = never_zero(ranges_, difference, y);
      }
      if (!differ) return false;
    }
    return true;
  }

  ir::Graph& graph_;
  Ranges& ranges_;
  Op& loop_;
  const std::set<const Op*>& innermost_;
  const int64_t copies_;
  JamOrder order_;
};

}  // namespace

bool adds_up(const Op& op) {
  if (!is_for(op) || op.results.empty() || !is_unit(op) || !left_by_yield_only(op)) return false;
  bool plain = true, real = false, loads = false;
  ir::walk(*op.blocks[0], [&](const Op& at) {
    loads |= at.code == Opcode::load_;
    plain &= ir::is_pure(at.code) || at.code == Opcode::load_ || at.code == Opcode::poll_ || at.code == Opcode::if_ ||
             at.code == Opcode::yield_;
  });
  for (const Value* v : op.results) real |= ir::is_real(v->type.dtype);
  return plain && real && loads;
}

bool JamOrder::reads_chained(const Op& op) const {
  bool any = false;
  for_each_read(op, [&](const Value* v) { any |= chained.count(v) != 0; });
  return any;
}

std::optional<JamOrder> order_to_jam(ir::Graph& graph, Ranges& ranges, Op& loop, const std::set<const Op*>& innermost,
                                     int64_t copies) {
  return Candidate(graph, ranges, loop, innermost, copies).find();
}

}  // namespace appy::passes
