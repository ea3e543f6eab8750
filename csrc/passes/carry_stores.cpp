// Scalar replacement in recurrences (Callahan, Carr and Kennedy, "Improving register allocation for subscripted
// variables", PLDI 1990): what an iteration stores, and one soon behind it loads, is carried from one to the other,
// `y[i] = a * y[i - 1] + x[i]`. A load right behind its store takes longer than the operations between the two.
//
// Rules for editors:
// 1. The loop runs in order, and each of its iterations gets as far as the loads and the store: nothing leaves it, and
//    nothing in it checks.
// 2. Nobody else stores to the view in the loop, nor to another that may be the same.
// 3. The first iterations load what was there before the loop, in front of it, and only if the iteration runs that
//    would have loaded it.

#include <algorithm>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Iterations between a store and a load of it, at most, and values that a loop carries for that.
constexpr int64_t kMostApart = 3;
constexpr size_t kMostCarried = 6;

struct Load {
  Op* op;
  int64_t apart;  // iterations since what it loads was stored
};

bool runs_in_order(const Op& loop) {
  return is_for(loop) && !has_permission(loop) && left_by_yield_only(loop) && !has_inner_loop(loop) &&
         constant(*loop.operands[2]).value_or(0) != 0;
}

/// Each iteration gets to its end.
bool leaves_nowhere(const Op& loop) {
  bool fine = true;
  ir::walk(body_of(loop), [&](const Op& op) { fine &= op.code != Opcode::check_ && op.code != Opcode::while_; });
  return fine;
}

/// The store's subscripts are known in front of the loop but for the loop's variable, with which they change.
bool moves_with(const Op& store, const Op& loop) {
  bool moves = false;
  for (size_t d = 0; d < store.access->offset.size(); ++d) {
    for (const auto& [term, coef] : row(store, d).terms) {
      moves |= term == induction(loop);
      if (term != induction(loop) && !ir::defined_outside(*term, body_of(loop))) return false;
    }
  }
  return moves;
}

/// How many iterations ago the store stored what the load loads; 0 where that is not always the same number.
int64_t iterations_apart(const Op& load, const Op& store, const Op& loop) {
  const Wide step = *constant(*loop.operands[2]);
  std::optional<Wide> apart;
  for (size_t d = 0; d < store.access->offset.size(); ++d) {
    Affine difference = row(store, d);
    const Wide each = difference.coef(*induction(loop)) * step;
    const Affine other = row(load, d);
    difference.add(other, -1);
    if (!difference.is_constant()) return 0;
    if (each == 0 && difference.constant != 0) return 0;
    if (each == 0) continue;
    if (difference.constant % each != 0 || (apart && *apart != difference.constant / each)) return 0;
    apart = difference.constant / each;
  }
  return apart && *apart >= 1 && *apart <= kMostApart ? static_cast<int64_t>(*apart) : 0;
}

class Carrying {
 public:
  Carrying(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop) {}

  bool run() {
    std::vector<Op*> stores;
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (op->code == Opcode::store_ && moves_with(*op, loop_) && is_alone(*op)) stores.push_back(op);
    }
    bool changed = false;
    for (Op* store : stores) changed |= carry(*store);
    return changed;
  }

 private:
  /// No other op of the loop stores where the store may.
  bool is_alone(const Op& store) const {
    bool alone = true;
    ir::walk(body_of(loop_), [&](const Op& op) {
      if (&op == &store || (op.code != Opcode::store_ && op.code != Opcode::atomic_)) return;
      const bool fresh = ir::alloc_of(*op.view()) || ir::alloc_of(*store.view());
      alone &= op.view() != store.view() && (!graph_.may_alias || fresh);
    });
    return alone;
  }

  bool carry(Op& store) {
    std::vector<Load> loads;
    int64_t most = 0;
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (op->code != Opcode::load_ || op->view() != store.view()) continue;
      const int64_t apart = iterations_apart(*op, store, loop_);
      if (apart > 0) loads.push_back({op, apart});
      most = std::max(most, apart);
    }
    if (loads.empty() || carried_ + static_cast<size_t>(most) > kMostCarried) return false;
    carried_ += static_cast<size_t>(most);
    remark(graph_, ir::Severity::note, "carry_stores", store.loc,
           "what " + line_of(graph_, store.loc) + " stores is carried to the next iterations");
    Builder b(graph_);
    b.set_loc(store.loc);
    Op& yield = *body_of(loop_).last;
    Value* before = store.operands[0];
    for (int64_t n = 1; n <= most; ++n) {
      b.set_before(&loop_);
      // The first iteration that loads it.
      int64_t first = most;
      for (const Load& load : loads) {
        if (load.apart >= n) first = std::min(first, load.apart);
      }
      Value* init = stored_before(b, store, n, first - n);
      Value* arg = append_carried(loop_, init, {}, store.view()->name).arg;
      yield.operands.push_back(before);
      before = arg;
      for (const Load& load : loads) {
        if (load.apart == n) ir::replace_uses(graph_, load.op->result(), arg);
      }
    }
    for (const Load& load : loads) load.op->parent->remove(load.op);
    return true;
  }

  /// What the n-th iteration in front of the first one would have stored to has in memory, if there is an iteration
  /// `first`.
  Value* stored_before(Builder& b, const Op& store, int64_t n, int64_t first) {
    const int64_t step = *constant(*loop_.operands[2]);
    Value* at = b.op(Opcode::add_, {loop_.operands[0], b.i64(-n * step)});
    Value* runs = first == 0 ? emit_runs(b, loop_) : b.op(Opcode::gt_, {emit_trips(b, loop_), b.i64(first)});
    Op* load = load_of(graph_, store);
    std::replace(load->operands.begin(), load->operands.end(), induction(loop_), at);
    return load_where(b, runs, load, &loop_);
  }

  ir::Graph& graph_;
  Op& loop_;
  size_t carried_ = 0;
};

}  // namespace

bool carry_stores(ir::Graph& graph) {
  bool changed = false;
  for (Op* loop : for_loops(graph)) {
    if (runs_in_order(*loop) && leaves_nowhere(*loop)) changed |= Carrying(graph, *loop).run();
  }
  return changed;
}

}  // namespace appy::passes
