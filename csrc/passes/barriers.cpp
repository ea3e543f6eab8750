// Barriers, where `distribute` has said who runs what: between two pieces of code of which one writes memory that the
// other touches, unless whoever touches an element in the one touches it in the other. As late as possible, so that one
// barrier serves all pairs around it.
//
// Two scopes, one after the other. `workers`: the code that all run, in which loops for threads, workers and single
// lanes are one piece each. `lanes`: the same inside each loop for workers.
//
// Rules for editors:
// 1. Code that all run is run by each of them: its loads are everyone's, its stores one lane's.
// 2. Results of distributed loops are known to all: whoever combines them has met all others (a barrier).
// 3. Iterations of a loop for workers never touch what another one writes; but they use the same private arrays.

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Who executes an access.
enum class By : uint8_t { all, one, distributed };

struct Touch {
  const Op* op;
  By by;
  std::vector<const Op*> loops;  // distributed: those that decide who, outermost first

  bool writes() const { return op->code != Opcode::load_; }
  friend bool operator==(const Touch&, const Touch&) = default;
};

using Pending = std::vector<Touch>;

void merge(Pending& into, const Pending& from) {
  for (const Touch& t : from) {
    if (std::find(into.begin(), into.end(), t) == into.end()) into.push_back(t);
  }
}

/// Iterations of two nests are given to the same worker and lane where their variables are equal.
bool count_alike(const std::vector<const Op*>& a, const std::vector<const Op*>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k]->mapping != b[k]->mapping) return false;
    for (size_t bound = 0; bound < 3; ++bound) {
      // Where only the end differs, a single loop still gives the same iterations to the same lanes.
      if (bound == 1 && a.size() == 1) continue;
      if (a[k]->operands[bound] != b[k]->operands[bound]) return false;
    }
  }
  return true;
}

/// In some dimension of the view both subscripts are the same multiple of the two loops' variables and equal otherwise.
bool pinned(const Op& x, const Op& y, const Op& loop_x, const Op& loop_y) {
  const Value *i = induction(loop_x), *j = induction(loop_y);
  for (size_t d = 0; d < x.access->offset.size(); ++d) {
    Affine a = row(x, d), b = row(y, d);
    const Wide step = a.coef(*i);
    if (step == 0 || step != b.coef(*j)) continue;
    a.add(*i, -step);
    b.add(*j, -step);
    a.add(b, -1);
    const auto outside = [](const Affine& sum, const Op& loop) {
      return std::all_of(sum.terms.begin(), sum.terms.end(),
                         [&](const auto& term) { return ir::defined_outside(*term.first, body_of(loop)); });
    };
    if (a.is_constant() && a.constant == 0 && outside(b, loop_x) && outside(b, loop_y)) return true;
  }
  return false;
}

/// Any element is touched by the same lane in both.
bool same_lane(const Touch& a, const Touch& b) {
  if (a.by == By::one && b.by == By::one) return true;
  if (a.by != By::distributed || b.by != By::distributed || a.op->view() != b.op->view()) return false;
  if (!count_alike(a.loops, b.loops)) return false;
  for (size_t k = 0; k < a.loops.size(); ++k) {
    if (!pinned(*a.op, *b.op, *a.loops[k], *b.loops[k])) return false;
  }
  return true;
}

class Inserter {
 public:
  Inserter(ir::Graph& graph, Mapping scope) : graph_(graph), builder_(graph), scope_(scope) {}

  bool run(Block& block, Pending& pending) {
    for (Op* op = block.first; op; op = op->next) step(*op, pending);
    return changed_;
  }

  bool run_worker(Op& loop) {
    Pending pending;
    around(loop, pending, [&](const Touch& t) { return is_private(*t.op->view(), loop); });
    return changed_;
  }

 private:
  bool is_piece(const Op& op) const { return op.mapping != Mapping::none && is_loop(op); }

  void step(Op& op, Pending& pending) {
    if (op.code == Opcode::barrier_) {
      if (op.mapping == scope_) pending.clear();
      return;
    }
    if (is_access(op)) return before(op, {{&op, op.code == Opcode::load_ ? By::all : By::one, {}}}, pending);
    if (is_piece(op)) {
      before(op, touches(op), pending);
      if (!op.results.empty()) pending.clear();
      return;
    }
    if (is_loop(op)) return around(op, pending, [](const Touch&) { return true; });
    Pending after;
    for (Block* inner : op.blocks) {
      Pending arm = pending;
      run(*inner, arm);
      merge(after, arm);
    }
    if (!op.blocks.empty()) pending = after;
  }

  /// A loop that everyone runs: its iterations follow each other.
  template <class Keep>
  void around(Op& loop, Pending& pending, Keep keep) {
    const Pending at_entry = pending;
    for (bool settled = false; !settled;) {
      Pending now = pending;
      const bool changed_before = changed_;
      changed_ = false;
      run(body_of(loop), now);
      std::erase_if(now, [&](const Touch& t) { return !keep(t); });
      Pending next = at_entry;
      merge(next, now);
      settled = !changed_ && next.size() <= pending.size();
      merge(pending, next);
      if (changed_) pending = next;
      changed_ |= changed_before;
    }
  }

  std::vector<Touch> touches(const Op& piece) const {
    std::vector<Touch> found;
    std::vector<const Op*> loops;
    collect(piece, loops, found);
    return found;
  }

  void collect(const Op& op, std::vector<const Op*>& loops, std::vector<Touch>& found) const {
    const bool decides = op.mapping == Mapping::threads || op.mapping == Mapping::workers ||
                         op.mapping == Mapping::columns || (op.mapping == Mapping::lanes && scope_ == Mapping::lanes);
    if (decides) loops.push_back(&op);
    if (is_access(op) && !is_own(op, loops)) {
      found.push_back({&op, loops.empty() ? By::one : By::distributed, loops});
    }
    for (const Block* inner : op.blocks) {
      for (const Op* at = inner->first; at; at = at->next) collect(*at, loops, found);
    }
    if (decides) loops.pop_back();
  }

  /// An array that each iteration makes for itself.
  static bool is_own(const Op& access, const std::vector<const Op*>& loops) {
    return std::any_of(loops.begin(), loops.end(), [&](const Op* loop) { return is_private(*access.view(), *loop); });
  }

  void before(Op& op, const std::vector<Touch>& now, Pending& pending) {
    const bool conflict = std::any_of(now.begin(), now.end(), [&](const Touch& a) {
      return std::any_of(pending.begin(), pending.end(), [&](const Touch& b) { return conflicts(b, a); });
    });
    if (conflict) {
      builder_.set_before(&op);
      builder_.set_loc(op.loc);
      builder_.barrier(scope_);
      pending.clear();
      changed_ = true;
    }
    merge(pending, now);
  }

  bool conflicts(const Touch& a, const Touch& b) const {
    if (!a.writes() && !b.writes()) return false;
    if (a.op->code == Opcode::atomic_ && b.op->code == Opcode::atomic_ && a.op->combiner == b.op->combiner)
      return false;
    const Value *x = a.op->view(), *y = b.op->view();
    const bool may_overlap = graph_.may_alias && !ir::alloc_of(*x) && !ir::alloc_of(*y);
    if (x != y && !may_overlap) return false;
    return x != y ? !(a.by == By::one && b.by == By::one) : !same_lane(a, b);
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  Mapping scope_;
  bool changed_ = false;
};

}  // namespace

bool barriers(ir::Graph& graph) {
  Pending pending;
  bool changed = Inserter(graph, Mapping::workers).run(*graph.body, pending);
  std::vector<Op*> workers;
  ir::walk(*graph.body, [&](Op& op) {
    // Of several nested ones the innermost holds the worker's code.
    if (op.mapping == Mapping::columns) workers.push_back(&op);
    if (op.mapping != Mapping::workers || !is_loop(op)) return;
    Op* inner = body_of(op).first;
    while (inner && inner->mapping != Mapping::workers) inner = inner->next;
    if (!inner) workers.push_back(&op);
  });
  for (Op* loop : workers) changed |= Inserter(graph, Mapping::lanes).run_worker(*loop);
  return changed;
}

}  // namespace appy::passes
