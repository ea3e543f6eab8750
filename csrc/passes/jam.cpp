// Unroll and jam: a few iterations of a loop around sums run together, in one loop inside that carries the sums of all
// of them, so that what they load of the same elements is loaded once and the sums do not wait for each other.
// `for j: for k: s[j] += a[i, k] * b[j, k]` with four j loads a[i, k] once for four products.
//
// The method is the classical one (Callahan, Carr and Kennedy, "Improving register allocation for subscripted
// variables", 1990). Each copy adds up in the order in which the loop did.

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "ir/divisor.h"
#include "ir/ir.h"
#include "passes/jam_order.h"
#include "passes/jammer.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/products_in_turn.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "jam";
/// Operations of the loop inside, in all copies: more would only be a lot of code.
constexpr int64_t kMostOps = 160;
/// So many iterations of a loop run together, those of one in lanes, and of two loops at most.
constexpr std::array<int64_t, 4> kCopies = {1, 2, 4, 8}, kCopiesInLanes = {1, 2, 4, 6}, kCopiesOfTwo = {1, 2, 4, 6};
constexpr int64_t kMostCopies = 4;
/// Loads for each sum, compared with those before: for less it is only more code.
constexpr double kWorthIt = 0.75;
/// Rows that are read at the same time, of all arrays together: a core waits for several lines of memory at a time, and
/// what fetches ahead follows each row by itself. More of them may fall into one set of a first-level cache. Vectors
/// that are as long as lines come as fast, or faster by some percent, with fewer.
constexpr int64_t kMostStreams = 6, kMostStreamsOfLines = 4;
/// Groups of rows for each of several workers.
constexpr int64_t kGroups = 8;
/// Operations for each element that is read, which take no longer than memory does.
constexpr int64_t kOpsOfStream = 2;
/// A mask, and a sum beside what it was: without registers for them the sums go through memory in every iteration.
constexpr int64_t kToMerge = 2;
/// Lanes of processors that have as few registers, at most.
constexpr int64_t kMostLanes = 8;

/// Which loops, and how many iterations of each.
class Jam {
 public:
  explicit Jam(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    while (Op* sums = next()) {
      done_.insert(sums);
      changed |= nest(*sums);
    }
    return changed;
  }

 private:
  struct Target {
    Op* loop = nullptr;
    int64_t copies = 1;
    int64_t least_trips = 0;  // for fewer it stays as it is
  };

  Op* next() {
    sums_.clear();
    Op* found = nullptr;
    ir::walk(*graph_.body, [&](Op& op) {
      if (!adds_up(op)) return;
      sums_.insert(&op);
      if (!found && !done_.count(&op)) found = &op;
    });
    return found;
  }

  bool nest(Op& sums) {
    const std::vector<const Op*> streams = streams_of(sums);
    std::vector<Target> targets = streams.empty() ? targets_of(sums) : rows_of_streams(sums, streams);
    if (targets.empty()) return false;
    if (streams.empty()) choose(sums, targets);
    bool changed = false;
    const Op* inside = &sums;
    for (size_t n = targets.size(); n-- > 0;) {  // outermost first
      if (targets[n].copies < 2) continue;
      Ranges ranges(graph_);
      Op& loop = *targets[n].loop;
      const auto order = order_to_jam(graph_, ranges, loop, sums_, targets[n].copies);
      if (!order || !order->jammed.count(inside)) continue;
      remark(graph_, ir::Severity::note, kStage, loop.loc,
             std::to_string(targets[n].copies) + " iterations of the loop at " + line_of(graph_, loop.loc) +
                 " run together");
      const auto common = jam_loop(graph_, ranges, loop, *order, targets[n].copies, targets[n].least_trips);
      changed = true;
      for (const Op* op : order->jammed) {
        if (sums_.count(op)) done_.insert(op);
      }
      inside = common.at(inside);
      for (size_t m = 0; m < n; ++m) {
        if (const auto found = common.find(targets[m].loop); found != common.end()) targets[m].loop = found->second;
      }
      ir::walk(*graph_.body, [&](Op& op) {
        if (adds_up(op) && sums_.insert(&op).second) done_.insert(&op);
      });
    }
    return changed;
  }

  static Op* lane_loop(Op& sums) {
    Op* found = nullptr;
    for (Op* at = &sums; at; at = ir::enclosing_loop(*at->parent)) {
      if (is_for(*at) && at->loop->simd) found = at;
    }
    return found;
  }

  /// Loads of arrays whose every element is used once: memory is what the loops wait for.
  static std::vector<const Op*> streams_of(Op& sums) {
    std::vector<const Op*> found;
    ir::walk(body_of(sums), [&](const Op& op) {
      if (op.code != Opcode::load_) return;
      bool once = true;
      for (const Op* at = &sums; at; at = ir::enclosing_loop(*at->parent)) once &= is_for(*at) && follows(op, *at);
      if (once) found.push_back(&op);
    });
    return found;
  }

  /// Is a row's part of the array gone through again, which may be in a cache until then?
  static bool is_used_beside(const Value& view, const Op& sums, Op& rows) {
    bool found = false;
    ir::walk(body_of(rows),
             [&](const Op& op) { found |= is_access(op) && op.view() == &view && !is_inside(op, body_of(sums)); });
    return found;
  }

  /// As many rows as memory is read faster with, if lanes run along them and computing takes no longer than reading.
  std::vector<Target> rows_of_streams(Op& sums, const std::vector<const Op*>& streams) {
    Op* rows = ir::enclosing_loop(*sums.parent);
    const auto count = static_cast<int64_t>(streams.size());
    const int64_t most = graph_.registers < kRegistersBesideMasks ? kMostStreams : kMostStreamsOfLines;
    const int64_t copies = most / count;
    if (copies < 2 || lane_loop(sums) != &sums || !rows || !is_for(*rows)) return {};
    if (rows->loop->chunk != 0 && rows->loop->chunk < copies) return {};
    for (const Op* load : streams) {
      if (!runs_along(*load, *induction(sums)) || is_used_beside(*load->view(), sums, *rows)) return {};
    }
    for (size_t n = 0; n < 3; ++n) {
      if (depends(*sums.operands[n], *rows)) return {};
    }
    int64_t ops = 0;
    ir::walk(body_of(sums), [&](const Op& op) {
      ops += ir::is_pure(op.code) && op.code != Opcode::const_ && op.result() && ir::is_real(op.result()->type.dtype);
    });
    if (ops > kOpsOfStream * count) return {};
    Ranges ranges(graph_);
    Affine groups = ranges.affine(*rows->operands[1], *rows);
    groups.add(ranges.affine(*rows->operands[0], *rows), -1);
    groups.constant -= copies - 1;
    if (ranges.proves_nonpositive(groups, *rows)) return {};  // it is what another one left
    // Where workers share them nobody has a group more than others that matters.
    const int64_t workers = rows->loop->parallel ? std::max(1, graph_.workers) : 1;
    return {{rows, copies, workers > 1 ? kGroups * workers * copies : 0}};
  }

  /// Does the element depend on which iteration of the loop it is?
  static bool follows(const Op& access, const Op& loop) {
    return std::any_of(access.terms().begin(), access.terms().end(), [&](const Value* v) { return depends(*v, loop); });
  }

  static bool depends(const Value& v, const Op& loop) {
    if (&v == induction(loop)) return true;
    if (ir::defined_outside(v, body_of(loop)) || !v.op) return false;
    return std::any_of(v.op->operands.begin(), v.op->operands.end(),
                       [&](const Value* operand) { return depends(*operand, loop); });
  }

  /// Loops around the sums that may be unrolled and whose iterations load something together; the innermost first.
  std::vector<Target> targets_of(Op& sums) {
    std::vector<Target> targets;
    for (Op* at = ir::enclosing_loop(*sums.parent); at && targets.size() < 2; at = ir::enclosing_loop(*at->parent)) {
      if (!is_for(*at)) break;
      if (at->loop->simd) continue;
      bool shared = false, own = false;
      ir::walk(body_of(sums), [&](const Op& op) {
        if (op.code == Opcode::load_) (moves_access(op, *at) ? own : shared) = true;
        for (const Value* v : op.operands) own |= ir::defined_outside(*v, body_of(sums)) && moves(*v, *at);
      });
      if (!shared || !own) continue;
      Ranges ranges(graph_);
      const auto order = order_to_jam(graph_, ranges, *at, sums_, kMostCopies);
      if (order && order->jammed.count(&sums)) targets.push_back({at});
    }
    return targets;
  }

  /// Are there sums behind each other, between which none is left to be unrolled?
  static bool runs_in_order_inside(Op& sums, const Op& loop) {
    for (const Op* at = ir::enclosing_loop(*sums.parent); at && at != &loop; at = ir::enclosing_loop(*at->parent)) {
      if (!is_for(*at) || !has_permission(*at)) return true;
    }
    return false;
  }

  /// What the loop around the sums loads in each iteration.
  struct Load {
    std::vector<bool> moves;  // with each target
    int products = 0;         // which of the two that are added in turn need it, one bit each
  };

  static std::vector<Load> loads_of(Op& sums, const std::vector<Target>& targets) {
    std::vector<Load> loads;
    std::array<std::set<const Op*>, 2> needed;
    const Uses uses(*sums.graph);
    for (size_t k = 0; k < sums.results.size(); ++k) {
      const auto products = products_of(uses, sums, k);
      if (!products) continue;
      for (const Value* v : products->first->operands) add_needed(*v, body_of(sums), needed[0]);
      for (size_t n = 0; n < 2; ++n) add_needed(*products->second->operands[n], body_of(sums), needed[1]);
    }
    ir::walk(body_of(sums), [&](Op& op) {
      if (op.code != Opcode::load_) return;
      Load load;
      for (const Target& t : targets) load.moves.push_back(moves_access(op, *t.loop));
      for (int n = 0; n < 2; ++n) load.products |= static_cast<int>(needed[static_cast<size_t>(n)].count(&op)) << n;
      loads.push_back(std::move(load));
    });
    return loads;
  }

  /// Does a row's term take more than one operation on vectors?
  static bool computes_before_adding(Op& sums, const Op& lanes, const Op& rows) {
    size_t ops = 0;
    ir::walk(body_of(sums), [&](const Op& op) {
      ops += ir::is_pure(op.code) && op.result() && depends(*op.result(), lanes) && depends(*op.result(), rows);
    });
    return ops > sums.results.size();
  }

  /// As few loads for each sum as there are registers for.
  void choose(Op& sums, std::vector<Target>& targets) {
    const Op* lanes = lane_loop(sums);
    const bool across = lanes && lanes != &sums;
    const int64_t registers = graph_.registers;
    // What is left of a row is added under a mask.
    const bool in_masks = lanes == &sums && ir::divisor_of_trips(sums) % kMostLanes != 0;
    const int64_t merging = in_masks && registers < kRegistersBesideMasks ? kToMerge : 0;
    const std::vector<Load> loads = loads_of(sums, targets);
    int64_t ops = 0;  // beside loads
    ir::walk(body_of(sums), [&](const Op& op) { ops += op.code != Opcode::load_; });
    const auto carried = static_cast<int64_t>(sums.results.size());
    const bool unfinished = across && computes_before_adding(sums, *lanes, *targets[0].loop);
    double least = kWorthIt * static_cast<double>(loads.size()) / static_cast<double>(carried) + 1e-9;
    int64_t inner_best = 1, outer_best = 1;
    const bool in_turn = targets.size() == 1 && runs_in_order_inside(sums, *targets[0].loop);
    const auto& copies = across ? kCopiesInLanes : targets.size() > 1 ? kCopiesOfTwo : kCopies;
    for (const int64_t inner : copies) {
      if (inner > kMostCopies) {
        // More iterations are left behind the last group. Where a sum waits for the one before it, other rows are all
        // that there is to do.
        if (!across && !in_turn && targets.size() == 1) least *= kWorthIt;
        Ranges ranges(graph_);
        const auto order = order_to_jam(graph_, ranges, *targets[0].loop, sums_, inner);
        if (!order || !order->jammed.count(&sums)) break;
      }
      for (int64_t outer = 1; outer <= (targets.size() > 1 ? kMostCopies : 1); ++outer) {
        const int64_t all = carried * inner * outer;
        const bool turns = takes_turns(sums, all);
        int64_t made = 0, of_any = 0;
        std::array<int64_t, 2> of_product = {};
        for (const Load& load : loads) {
          const int64_t with_outer = load.moves.size() > 1 && load.moves[1] ? outer : 1;
          made += (load.moves[0] ? inner : 1) * with_outer;
          if (load.moves[0]) continue;
          if (!turns || load.products == 0) of_any += with_outer;
          for (size_t n = 0; turns && n < 2; ++n) of_product[n] += (load.products >> n & 1) * with_outer;
        }
        const int64_t kept = 1 + of_any + std::max(of_product[0], of_product[1]);
        // Lanes across the sums: two vectors of each, of what all of them load, and of what is not added at once.
        const int64_t pairs = all + std::max<int64_t>(kept - 1, 1) + (unfinished && !turns);
        if (across ? 2 * pairs + 1 > registers : all + kept + merging > registers) continue;
        if (made + ops * inner * outer > kMostOps) continue;
        const double cost = static_cast<double>(made) / static_cast<double>(all);
        if (cost >= least) continue;
        least = cost;
        inner_best = inner;
        outer_best = outer;
      }
    }
    targets[0].copies = inner_best;
    if (targets.size() > 1) targets[1].copies = outer_best;
  }

  ir::Graph& graph_;
  std::set<const Op*> sums_, done_;
};

}  // namespace

bool jam(ir::Graph& graph) { return !graph.may_alias && Jam(graph).run(); }

}  // namespace appy::passes
