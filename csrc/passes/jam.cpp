// Unroll and jam: a few iterations of a loop around sums run together, in one loop inside that carries the sums of all
// of them, so that what they load of the same elements is loaded once and the sums do not wait for each other.
// `for j: for k: s[j] += a[i, k] * b[j, k]` with four j loads a[i, k] once for four products.
//
// The method is the classical one (Callahan, Carr and Kennedy, "Improving register allocation for subscripted
// variables", 1990). Each copy adds up in the order in which the loop did.
//
// Bounds of the loop inside that move with the unrolled one (triangles) leave a part that all copies have, which they
// run together, and parts before and behind it, which each copy runs by itself, without lanes.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/jam_order.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "jam";
/// Operations of the loop inside, in all copies: more would only be a lot of code.
constexpr int64_t kMostOps = 160;
/// So many iterations of a loop run together at most, and so many of one around vectors of several sums.
constexpr int64_t kMostCopies = 4;
constexpr int64_t kMostOfOne = 8;
/// Loads for each sum, compared with those before: for less it is only more code.
constexpr double kWorthIt = 0.75;

/// Rewrites one loop.
class Jammer {
 public:
  Jammer(ir::Graph& graph, Ranges& ranges, Op& loop, const JamOrder& order, int64_t copies)
      : graph_(graph), ranges_(ranges), loop_(loop), order_(order), count_(copies), builder_(graph) {
    for (int64_t u = 0; u < copies; ++u) copies_.emplace_back(graph);
    for (const Op* inner : order.jammed) {
      slopes_[inner] = {*slope(ranges, *inner->operands[0], loop, *inner),
                        *slope(ranges, *inner->operands[1], loop, *inner)};
    }
  }

  /// The loop over groups of iterations, in front of the loop, which does those that are left.
  Op* run() {
    Builder& b = builder_;
    b.set_loc(loop_.loc);
    b.set_before(&loop_);
    Value *lower = loop_.operands[0], *upper = loop_.operands[1];
    Value* trips = b.op(Opcode::pymax_, {b.op(Opcode::sub_, {upper, lower}), b.i64(0)});
    Value* middle = b.op(Opcode::add_, {lower, whole_groups(trips)});
    ir::Loop attributes = *loop_.loop;
    attributes.chunk = (attributes.chunk + count_ - 1) / count_;
    attributes.le = (attributes.le + count_ - 1) / count_;
    const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
    Op* groups = b.for_loop(lower, middle, b.i64(count_), inits, std::move(attributes));
    loop_.operands[0] = middle;
    for (size_t k = 0; k < inits.size(); ++k) loop_.operands[3 + k] = groups->results[k];
    const Block& from = body_of(loop_);
    Block& into = body_of(*groups);
    for (size_t k = 0; k < from.args.size(); ++k) {
      into.args[k]->name = from.args[k]->name;
      copies_[0].map(from.args[k], into.args[k]);
    }
    b.set_block(&into);
    for (int64_t u = 1; u < count_; ++u) copies_[u].map(from.args[0], b.op(Opcode::add_, {into.args[0], b.i64(u)}));
    body(from, into);
    end(from, into);
    return groups;
  }

  /// The copies' common loop, by the loop that they are copies of.
  Op* common(const Op* inner) const {
    const auto found = common_.find(inner);
    return found == common_.end() ? nullptr : found->second;
  }

 private:
  Value* whole_groups(Value* trips) {
    Builder& b = builder_;
    if ((count_ & (count_ - 1)) != 0) {
      return b.op(Opcode::mul_, {b.op(Opcode::floordiv_, {trips, b.i64(count_)}), b.i64(count_)});
    }
    int64_t bits = 0;
    while (int64_t{1} << bits < count_) ++bits;
    return b.op(Opcode::mul_, {b.op(Opcode::shr_, {trips, b.i64(bits)}), b.i64(count_)});
  }

  void body(const Block& from, Block& into) {
    std::vector<const Op*> segment;
    const auto flush = [&] {
      for (Copier& copy : copies_) {
        for (const Op* op : segment) {
          if (op->code != Opcode::poll_ || &copy == &copies_[0]) into.append(copy.copy(*op));
        }
      }
      segment.clear();
    };
    for (const Op* op = from.first; op != from.last; op = op->next) {
      if (order_.jammed.count(op)) {
        flush();
        inner_loop(*op, into);
      } else if (!order_.late.count(op)) {
        segment.push_back(op);
      }
    }
    flush();
  }

  /// What comes after all jammed loops, copy by copy, and the values for the next group.
  void end(const Block& from, Block& into) {
    builder_.set_block(&into);
    for (int64_t u = 0; u < count_; ++u) {
      Copier& copy = copies_[u];
      for (size_t k = 1; u > 0 && k < from.args.size(); ++k) {
        copy.map(from.args[k], copies_[u - 1].of(from.last->operands[k - 1]));
      }
      for (const Op* op = from.first; op != from.last; op = op->next) {
        if (order_.jammed.count(op)) hand_on(*op, u);
        if (order_.late.count(op) && (op->code != Opcode::poll_ || u == 0)) into.append(copy.copy(*op));
      }
    }
    std::vector<Value*> next;
    for (Value* v : from.last->operands) next.push_back(copies_.back().of(v));
    builder_.set_block(&into);
    builder_.yield(next);
  }

  /// What a loop leaves of its last iteration is what was there before where it has none.
  void hand_on(const Op& inner, int64_t u) {
    Copier& copy = copies_[u];
    for (size_t k = 0; k < inner.results.size(); ++k) {
      if (!order_.is_late_result(inner, k)) continue;
      Value* made = copy.of(inner.results[k]);
      if (ranges_.trips(inner).lo > 0) continue;
      Value* runs = builder_.op(Opcode::lt_, {copy.of(inner.operands[0]), copy.of(inner.operands[1])});
      copy.map(inner.results[k], builder_.select(runs, made, copy.of(inner.operands[3 + k])));
    }
  }

  struct Bounds {
    Value *lower, *upper;
  };

  void inner_loop(const Op& inner, Block& into) {
    Builder& b = builder_;
    b.set_loc(inner.loc);
    b.set_block(&into);
    const auto [lower, upper] = slopes_.at(&inner);
    std::vector<std::vector<Value*>> values(copies_.size());  // carried values, by copy
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < inner.results.size(); ++k) {
        values[u].push_back(order_.is_late_result(inner, k) ? b.constant(inner.results[k]->type.dtype, 0)
                                                            : copies_[u].of(inner.operands[3 + k]));
      }
    }
    const auto bound = [&](size_t k, bool last) {
      return copies_[last ? copies_.size() - 1 : 0].of(inner.operands[k]);
    };
    // From the last lower bound of all to the first upper bound of all.
    const Bounds all{bound(0, lower > 0), bound(1, upper < 0)};
    if (lower != 0) {
      for (size_t u = 0; u < copies_.size(); ++u) {
        if (copies_[u].of(inner.operands[0]) == all.lower) continue;
        b.set_block(&into);
        Value* until = b.op(Opcode::pymin_, {all.lower, copies_[u].of(inner.operands[1])});
        alone(inner, u, {copies_[u].of(inner.operands[0]), until}, values[u], into);
      }
    }
    together(inner, all, values, into);
    if (upper != 0) {
      for (size_t u = 0; u < copies_.size(); ++u) {
        if (copies_[u].of(inner.operands[1]) == all.upper) continue;
        b.set_block(&into);
        Value* from = b.op(Opcode::pymax_, {all.lower, all.upper});
        alone(inner, u, {from, copies_[u].of(inner.operands[1])}, values[u], into);
      }
    }
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < inner.results.size(); ++k) copies_[u].map(inner.results[k], values[u][k]);
    }
  }

  /// A part of one copy's loop, of fewer iterations than there are copies.
  void alone(const Op& inner, size_t u, Bounds bounds, std::vector<Value*>& values, Block& into) {
    Op* made = copies_[u].copy(inner);
    made->operands = {bounds.lower, bounds.upper, made->operands[2]};
    made->operands.insert(made->operands.end(), values.begin(), values.end());
    if (adds_up(inner)) {
      made->loop->simd = made->loop->parallel = false;
      for (ir::Carried& c : made->loop->carried) c = {};
    }
    into.append(made);
    values = made->results;
  }

  void together(const Op& inner, Bounds bounds, std::vector<std::vector<Value*>>& values, Block& into) {
    Builder& b = builder_;
    b.set_block(&into);
    ir::Loop attributes = *inner.loop;
    attributes.carried.clear();
    const size_t each = inner.results.size();
    std::vector<Value*> inits;
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (ir::Carried c : inner.loop->carried) {
        const auto offset = static_cast<int>(u * each);
        if (c.leader >= 0) c.leader += offset;
        if (c.tie >= 0) c.tie += offset;
        attributes.carried.push_back(c);
      }
      inits.insert(inits.end(), values[u].begin(), values[u].end());
    }
    Op* made = b.for_loop(bounds.lower, bounds.upper, copies_[0].of(inner.operands[2]), inits, std::move(attributes));
    common_[&inner] = made;
    const Block& from = body_of(inner);
    Block& block = body_of(*made);
    block.args[0]->name = from.args[0]->name;
    for (size_t u = 0; u < copies_.size(); ++u) {
      copies_[u].map(from.args[0], block.args[0]);
      for (size_t k = 0; k < each; ++k) {
        Value* arg = block.args[1 + u * each + k];
        arg->name = from.args[1 + k]->name;
        copies_[u].map(from.args[1 + k], arg);
      }
    }
    body(from, block);
    std::vector<Value*> next;
    for (Copier& copy : copies_) {
      for (Value* v : from.last->operands) next.push_back(copy.of(v));
    }
    b.set_block(&block);
    b.yield(next);
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < each; ++k) values[u][k] = made->results[u * each + k];
    }
  }

  ir::Graph& graph_;
  Ranges& ranges_;
  Op& loop_;
  const JamOrder& order_;
  int64_t count_;
  Builder builder_;
  std::vector<Copier> copies_;
  std::map<const Op*, Op*> common_;
  std::map<const Op*, std::pair<Wide, Wide>> slopes_;  // of the bounds of jammed loops, before anything is rewritten
};

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
    if (streams(sums)) return false;
    std::vector<Target> targets = targets_of(sums);
    if (targets.empty()) return false;
    choose(sums, targets);
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
      Jammer jammer(graph_, ranges, loop, *order, targets[n].copies);
      jammer.run();
      changed = true;
      for (const Op* op : order->jammed) {
        if (sums_.count(op)) done_.insert(op);
      }
      inside = jammer.common(inside);
      for (size_t m = 0; m < n; ++m) {
        if (Op* common = jammer.common(targets[m].loop)) targets[m].loop = common;
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

  /// Is an array read whose every element is used once? Then memory is what the loops wait for.
  static bool streams(Op& sums) {
    bool found = false;
    ir::walk(body_of(sums), [&](const Op& op) {
      if (op.code != Opcode::load_) return;
      bool once = true;
      for (const Op* at = &sums; at; at = ir::enclosing_loop(*at->parent)) once &= is_for(*at) && follows(op, *at);
      found |= once;
    });
    return found;
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

  /// As few loads for each sum as there are registers for.
  void choose(Op& sums, std::vector<Target>& targets) {
    const Op* lanes = lane_loop(sums);
    const bool across = lanes && lanes != &sums;
    const int64_t registers = graph_.registers;
    std::vector<std::vector<bool>> loads;  // by load: does it move with the target?
    int64_t ops = 0;
    ir::walk(body_of(sums), [&](const Op& op) {
      ++ops;
      if (op.code != Opcode::load_) return;
      loads.emplace_back();
      for (const Target& t : targets) loads.back().push_back(moves_access(op, *t.loop));
    });
    const auto carried = static_cast<int64_t>(sums.results.size());
    double least = kWorthIt * static_cast<double>(loads.size()) / static_cast<double>(carried) + 1e-9;
    int64_t inner_best = 1, outer_best = 1;
    const int64_t most = across || targets.size() > 1 ? kMostCopies : kMostOfOne;
    for (int64_t inner = 1; inner <= most; inner *= 2) {
      if (inner > kMostCopies) {
        // More iterations are left behind the last group.
        least *= kWorthIt;
        Ranges ranges(graph_);
        const auto order = order_to_jam(graph_, ranges, *targets[0].loop, sums_, inner);
        if (!order || !order->jammed.count(&sums)) break;
      }
      for (int64_t outer = 1; outer <= (targets.size() > 1 ? kMostCopies : 1); ++outer) {
        int64_t made = 0, kept = 1;
        for (const std::vector<bool>& load : loads) {
          const bool with_outer = load.size() > 1 && load[1];
          made += (load[0] ? inner : 1) * (with_outer ? outer : 1);
          if (!load[0]) kept += with_outer ? outer : 1;
        }
        const int64_t all = carried * inner * outer;
        // Lanes across the sums: two vectors of each, and of what is loaded.
        if (across ? 2 * (all + 1) + 1 > registers : all + kept > registers) continue;
        if (ops * inner * outer > kMostOps) continue;
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
