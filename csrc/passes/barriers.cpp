// Barriers, where `distribute` has said who runs what: between two pieces of code of which one writes memory that the
// other touches, unless whoever touches an element in the one touches it in the other. As late as possible, so that one
// barrier serves all pairs around it.
//
// Two scopes, one after the other. `workers`: the code that all run, in which loops for threads, workers and single
// lanes are one piece each; where a worker touches what it alone touched before, its lanes wait for each other only.
// `lanes`: the same inside each loop for workers.
//
// Where it saves barriers, a loop for threads becomes `repeated`: if it is short, each group of workers runs all of its
// iterations and knows what comes of them without waiting for the others. Norms and pivots of factorisations are such
// loops. What it wrote is then behind a barrier of its group for whoever reads it, which is `barrier repeated`.
//
// Rules for editors:
// 1. Code that all run is run by each of them: its loads are everyone's, its stores one lane's. So are loads between
//    the loops of a nest: whoever has an iteration of the inner loop runs them.
// 2. Results of distributed loops are known to all: whoever combines them has met all others (a barrier).
// 3. Iterations of a loop for workers never touch what another one writes; but they use the same private arrays.
// 4. Behind the back edge of a loop, a value of its body is another one.
// 5. A repeated loop is everyone's: other groups may still be at it when the own one goes on. Only what its own
//    group has written may be read without waiting for them.
// 6. A `while` that all run has a barrier of all in each iteration, or a reduction, which is one, even where no access
//    needs it: the host ends loops there.

#include <algorithm>
#include <span>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/repeat.h"
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
  By in_worker = By::one;        // distributed over workers: who of its lanes
  const Op* lanes = nullptr;     // and the loop that decides
  const Block* stale = nullptr;  // what is defined there, or nested there, is another value now
  bool lanes_met = false;        // the lanes of each worker have waited for each other since
  bool repeated = false;         // in a repeated loop
  bool group_met = false;        // and those of each group have waited for each other since

  bool writes() const { return op->code != Opcode::load_; }
  friend bool operator==(const Touch&, const Touch&) = default;
};

using Pending = std::vector<Touch>;

void merge(Pending& into, const Pending& from) {
  for (const Touch& t : from) {
    if (std::find(into.begin(), into.end(), t) == into.end()) into.push_back(t);
  }
}

bool is_worker(Mapping mapping) { return mapping == Mapping::workers || mapping == Mapping::columns; }

/// The value is what it was at the touch.
bool is_current(const Value& v, const Touch& earlier) {
  return !earlier.stale || ir::defined_outside(v, *earlier.stale);
}

/// The lane of an iteration of a repeated loop is that of the thread which would have it otherwise.
Mapping kind_of(const Op& loop) { return loop.mapping == Mapping::repeated ? Mapping::threads : loop.mapping; }

/// Iterations of two nests are given to the same worker and lane where their variables are equal.
bool count_alike(const Touch& earlier, std::span<const Op* const> a, std::span<const Op* const> b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (kind_of(*a[k]) != kind_of(*b[k])) return false;
    // Tiles are computed by whoever has the tile.
    if ((a[k]->loop && a[k]->loop->tiles) || (b[k]->loop && b[k]->loop->tiles)) return false;
    for (size_t bound = 0; bound < 3; ++bound) {
      // Where only the end differs, a single loop still gives the same iterations to the same lanes.
      if (bound == 1 && a.size() == 1) continue;
      const Value& v = *a[k]->operands[bound];
      if (&v != b[k]->operands[bound] || !is_current(v, earlier)) return false;
    }
  }
  return true;
}

/// In some dimension of the view both subscripts are the same multiple of the two loops' variables and equal otherwise.
bool pinned(const Touch& earlier, const Op& y, const Op& loop_x, const Op& loop_y) {
  const Op& x = *earlier.op;
  const Value *i = induction(loop_x), *j = induction(loop_y);
  for (size_t d = 0; d < x.access->offset.size(); ++d) {
    Affine a = row(x, d), b = row(y, d);
    const Wide step = a.coef(*i);
    if (step == 0 || step != b.coef(*j)) continue;
    a.add(*i, -step);
    b.add(*j, -step);
    a.add(b, -1);
    const bool outside = std::all_of(b.terms.begin(), b.terms.end(), [&](const auto& term) {
      return ir::defined_outside(*term.first, body_of(loop_x)) && ir::defined_outside(*term.first, body_of(loop_y)) &&
             is_current(*term.first, earlier);
    });
    if (a.is_constant() && a.constant == 0 && outside) return true;
  }
  return false;
}

/// Any element is touched by those that have the same iterations of these loops.
bool meet_in(const Touch& earlier, const Touch& b, std::span<const Op* const> x, std::span<const Op* const> y) {
  if (earlier.op->view() != b.op->view() || !count_alike(earlier, x, y)) return false;
  for (size_t k = 0; k < x.size(); ++k) {
    if (!pinned(earlier, *b.op, *x[k], *y[k])) return false;
  }
  return true;
}

/// In some dimension the subscripts of the one are all below those of the other.
bool disjoint(Ranges& ranges, const Op& a, const Op& b) {
  const auto interval = [&](const Op& access, size_t d) {
    const Affine subscript = row(access, d);
    Wide lo = subscript.constant, hi = subscript.constant;
    for (const auto& [term, coef] : subscript.terms) {
      const ir::Range range = ranges.of(*term);
      lo += coef * (coef > 0 ? range.lo : range.hi);
      hi += coef * (coef > 0 ? range.hi : range.lo);
    }
    return std::pair(lo, hi);
  };
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    const auto [a_lo, a_hi] = interval(a, d);
    const auto [b_lo, b_hi] = interval(b, d);
    if (a_hi < b_lo || b_hi < a_lo) return true;
  }
  return false;
}

/// Who has to wait for each other between the touches of an array: none is nobody.
Mapping apart(const Touch& earlier, const Touch& b) {
  if (earlier.by == By::one && b.by == By::one) return Mapping::none;
  if (earlier.by != By::distributed || b.by != By::distributed) return Mapping::workers;
  if (!meet_in(earlier, b, earlier.loops, b.loops)) return Mapping::workers;
  // The lanes of a column are those of several workers elsewhere.
  if (earlier.loops[0]->mapping == Mapping::columns) return Mapping::workers;
  if (earlier.loops[0]->mapping != Mapping::workers || earlier.lanes_met) return Mapping::none;
  if (earlier.in_worker == By::one && b.in_worker == By::one) return Mapping::none;
  if (earlier.in_worker != By::distributed || b.in_worker != By::distributed) return Mapping::lanes;
  return meet_in(earlier, b, {&earlier.lanes, 1}, {&b.lanes, 1}) ? Mapping::none : Mapping::lanes;
}

/// The same, where one of the touches is in a repeated loop, whether it is repeated or not.
Mapping apart_repeated(const Touch& earlier, const Touch& b) {
  if (!earlier.repeated || !earlier.writes() || b.writes()) return Mapping::workers;
  // Of two loops one may be short and the other one not, unless they are as long.
  const bool as_long = !b.repeated || (b.loops[0]->operands[1] == earlier.loops[0]->operands[1] &&
                                       is_current(*b.loops[0]->operands[1], earlier));
  const bool same_lane = b.by == By::distributed && as_long && meet_in(earlier, b, earlier.loops, b.loops);
  return earlier.group_met || same_lane ? Mapping::none : Mapping::repeated;
}

/// Of two scopes the one whose barrier serves for both.
Mapping wider(Mapping a, Mapping b) {
  for (const Mapping scope : {Mapping::workers, Mapping::repeated, Mapping::lanes}) {
    if (a == scope || b == scope) return scope;
  }
  return Mapping::none;
}

class Inserter {
 public:
  Inserter(ir::Graph& graph, Mapping scope) : graph_(graph), builder_(graph), ranges_(graph), scope_(scope) {}

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
  /// Where control leaves the iterations of a loop that all run.
  struct Left {
    Pending loop, iteration;
  };

  bool is_piece(const Op& op) const { return op.mapping != Mapping::none && is_loop(op); }

  void step(Op& op, Pending& pending) {
    if (op.code == Opcode::barrier_) return passed(op.mapping, pending);
    if (op.code == Opcode::break_ || op.code == Opcode::continue_) {
      merge(op.code == Opcode::break_ ? left_.back().loop : left_.back().iteration, pending);
      return pending.clear();
    }
    if (is_access(op)) return before(op, {{&op, op.code == Opcode::load_ ? By::all : By::one, {}}}, pending);
    if (is_piece(op)) {
      before(op, touches(op), pending);
      if (!op.results.empty() && op.mapping != Mapping::repeated) pending.clear();
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

  void passed(Mapping scope, Pending& pending) const {
    if (scope == scope_) return pending.clear();
    Pending met;
    for (Touch& t : pending) {
      t.lanes_met = true;
      t.group_met |= scope == Mapping::repeated && t.repeated;
    }
    merge(met, pending);
    pending = met;
  }

  /// A loop that everyone runs: its iterations follow each other.
  template <class Keep>
  void around(Op& loop, Pending& pending, Keep keep) {
    const Pending at_entry = pending;
    for (bool settled = false; !settled;) {
      Pending now = pending;
      const bool changed_before = changed_;
      changed_ = false;
      left_.emplace_back();
      run(body_of(loop), now);
      const Left left = std::move(left_.back());
      left_.pop_back();
      merge(now, left.iteration);
      merge(now, left.loop);
      std::erase_if(now, [&](const Touch& t) { return !keep(t); });
      for (Touch& t : now) {
        if (!t.stale || !is_inside(loop, *t.stale)) t.stale = &body_of(loop);
      }
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
    Path path;
    collect(piece, path, found);
    return found;
  }

  /// The loops around an access inside a piece that decide who executes it.
  struct Path {
    std::vector<const Op*> loops;
    By in_worker = By::all;
    const Op* lanes = nullptr;
  };

  void collect(const Op& op, const Path& around, std::vector<Touch>& found) const {
    Path path = around;
    if (op.mapping == Mapping::threads || is_worker(op.mapping) || op.mapping == Mapping::repeated ||
        op.mapping == scope_) {
      path.loops.push_back(&op);
    } else if (op.mapping == Mapping::lanes) {
      path.in_worker = By::distributed;
      path.lanes = &op;
    } else if (op.mapping == Mapping::single) {
      path.in_worker = By::one;
    }
    if (is_access(op) && !is_own(op, path)) found.push_back(touch(op, path));
    for (const Block* inner : op.blocks) {
      for (const Op* at = inner->first; at; at = at->next) collect(*at, path, found);
    }
  }

  static Touch touch(const Op& access, const Path& path) {
    if (path.loops.empty()) return {&access, By::one, {}};
    const Op& last = *path.loops.back();
    for (const Op* at = body_of(last).first; at; at = at->next) {
      if (at->mapping == last.mapping && is_loop(*at)) return {&access, By::all, {}};
    }
    const bool elected = path.in_worker == By::all && access.code != Opcode::load_;
    Touch made{&access, By::distributed, path.loops, elected ? By::one : path.in_worker, path.lanes};
    made.repeated = last.mapping == Mapping::repeated;
    return made;
  }

  /// An array that each iteration makes for itself.
  static bool is_own(const Op& access, const Path& path) {
    return std::any_of(path.loops.begin(), path.loops.end(),
                       [&](const Op* loop) { return is_private(*access.view(), *loop); });
  }

  void before(Op& op, const std::vector<Touch>& now, Pending& pending) {
    Mapping scope = Mapping::none;
    for (const Touch& b : now) {
      for (const Touch& earlier : pending) scope = wider(scope, conflict(earlier, b));
    }
    if (scope != Mapping::none) {
      // Inside a worker there are only its lanes.
      if (scope_ == Mapping::lanes) scope = Mapping::lanes;
      builder_.set_before(&op);
      builder_.set_loc(op.loc);
      builder_.barrier(scope);
      passed(scope, pending);
      changed_ = true;
    }
    merge(pending, now);
  }

  Mapping conflict(const Touch& earlier, const Touch& b) {
    if (!earlier.writes() && !b.writes()) return Mapping::none;
    if (earlier.op->code == Opcode::atomic_ && b.op->code == Opcode::atomic_ && earlier.op->combiner == b.op->combiner)
      return Mapping::none;
    const Value *x = earlier.op->view(), *y = b.op->view();
    const bool may_overlap = graph_.may_alias && !ir::alloc_of(*x) && !ir::alloc_of(*y);
    if (x == y && never_meet(earlier, b)) return Mapping::none;
    if (x == y) return earlier.repeated || b.repeated ? apart_repeated(earlier, b) : apart(earlier, b);
    return may_overlap && !(earlier.by == By::one && b.by == By::one) ? Mapping::workers : Mapping::none;
  }

  /// `x[i]`, which all load, is none of `x[j]` with j from i + 1 on; nor is anything in column i any of those in column
  /// j.
  bool never_meet(const Touch& earlier, const Touch& b) {
    if (disjoint(ranges_, *earlier.op, *b.op)) return true;
    const Op& op = *earlier.op;
    for (size_t d = 0; d < op.access->offset.size(); ++d) {
      const Affine subscript = row(op, d);
      const bool known = std::all_of(subscript.terms.begin(), subscript.terms.end(), [&](const auto& term) {
        return visible_before(*term.first, *b.op) && is_current(*term.first, earlier);
      });
      if (known && differ_in(ranges_, op, *b.op, d, *b.op)) return true;
    }
    return false;
  }

  ir::Graph& graph_;
  ir::Builder builder_;
  Ranges ranges_;
  Mapping scope_;
  std::vector<Left> left_;
  bool changed_ = false;
};

bool insert_for_all(ir::Graph& graph) {
  Pending pending;
  return Inserter(graph, Mapping::workers).run(*graph.body, pending);
}

/// All that run the block meet in it, whatever its conditions.
bool meets(const Block& block) {
  for (const Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::barrier_ && op->mapping == Mapping::workers) return true;
    const bool distributed = op->mapping == Mapping::threads || is_worker(op->mapping);
    if (is_loop(*op) && distributed && !op->results.empty()) return true;
    if (op->code != Opcode::if_) continue;
    bool skips = false;
    for (Block* arm : op->blocks) {
      ir::walk(*arm, [&](const Op& inner) { skips |= inner.code == Opcode::continue_; });
    }
    if (skips) return false;
  }
  return false;
}

/// Where all meet the host can end a loop. One that nothing else need ever end has such a place.
bool meet_in_open_loops(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    if (is_loop(*op) && op->mapping != Mapping::none) continue;
    for (Block* inner : op->blocks) changed |= meet_in_open_loops(graph, *inner);
    if (op->code != Opcode::while_ || meets(body_of(*op))) continue;
    ir::Builder builder(graph);
    builder.set_before(body_of(*op).first);
    builder.set_loc(op->loc);
    builder.barrier(Mapping::workers);
    changed = true;
  }
  return changed;
}

}  // namespace

bool barriers(ir::Graph& graph) {
  bool changed = repeat_loops(graph, insert_for_all);
  changed |= insert_for_all(graph);
  changed |= meet_in_open_loops(graph, *graph.body);
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
