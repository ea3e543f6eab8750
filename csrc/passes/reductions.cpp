// Reduction recognition: how each carried value of a parallel or simd loop depends on the iterations (combiners.def).
// A loop with a value that is an ordinary recurrence loses its permission.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/carried.h"
#include "passes/chain.h"
#include "passes/comparisons.h"
#include "passes/latch.h"
#include "passes/loops.h"
#include "passes/state.h"

namespace appy::passes {

using ir::Builder;
using ir::Carried;
using ir::Combiner;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "reductions";

/// A comparison read as "update OP old".
struct Order {
  Combiner combiner = Combiner::recur_;
  bool strict = true;
};

/// The comparison of update and old that decides a merge: the condition itself or a factor of a conjunction.
std::optional<Order> order_of(const Value& condition, const Merge& merge) {
  const Op* c = condition.op;
  if (!c) return std::nullopt;
  if (c->code == Opcode::and_ && merge.when) {
    const auto left = order_of(*c->operands[0], merge);
    return left ? left : order_of(*c->operands[1], merge);
  }
  Opcode code = c->code;
  if (!is_order(code)) return std::nullopt;
  if (c->operands[0] == merge.old && c->operands[1] == merge.update) {
    code = mirrored(code);
  } else if (c->operands[0] != merge.update || c->operands[1] != merge.old) {
    return std::nullopt;
  }
  if (!merge.when) {
    if (ir::is_real(merge.update->type.dtype)) return std::nullopt;  // "not less" takes a NaN
    code = inverse(code);
  }
  const bool less = code == Opcode::lt_ || code == Opcode::le_;
  return Order{less ? Combiner::pymin_ : Combiner::pymax_, code == Opcode::lt_ || code == Opcode::gt_};
}

class Classifier {
 public:
  Classifier(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop) {}

  bool run() {
    bool changed = close_inductions();
    const std::vector<Carried> before = loop_.loop->carried;
    const size_t count = carried_count(loop_);
    done_.assign(count, false);
    for (size_t k = 0; k < count; ++k) changed |= latch(k);
    for (size_t k = 0; k < count; ++k) {
      if (!done_[k]) changed |= simple(k, false);
    }
    for (size_t k = 0; k < count; ++k) {
      if (!done_[k]) leader(k, count);
    }
    // A flag that is set with a minimum follows it: only now is one that is left a reduction of its own.
    for (size_t k = 0; k < count; ++k) {
      if (!done_[k]) changed |= simple(k, true);
    }
    for (size_t k = 0; k < count; ++k) {
      if (!done_[k]) changed |= fixed_assignment(k);
    }
    for (size_t k = 0; k < count; ++k) {
      if (!done_[k]) conditional(k, count);
    }
    changed |= loop_.loop->carried != before;
    return settle() || changed;
  }

 private:
  Carried& carried(size_t k) { return loop_.loop->carried[k]; }
  Value* arg(size_t k) { return body_of(loop_).args[1 + k]; }
  Value* init(size_t k) { return loop_.operands[3 + k]; }

  /// As the graph is now; whoever changes it resets them.
  const Uses& uses() {
    if (!uses_) uses_.emplace(graph_);
    return *uses_;
  }

  size_t shadow(const Chain& chain, Value* key, Value* init, std::string name) {
    const size_t index = add_shadow(graph_, loop_, chain, key, init, std::move(name));
    uses_.reset();
    return index;
  }

  void set(size_t k, Carried c) {
    carried(k) = c;
    done_[k] = true;
  }

  // --- closed forms ---------------------------------------------------------------------------------------------

  /// Emits what one iteration adds to carried value k of `loop`, before loop_; null where that is no fixed amount.
  Value* increment(Builder& b, const Op& loop, size_t k) {
    const Exits exits = exits_of(loop);
    if (exits.next.size() != 1 || !exits.breaks.empty()) return nullptr;
    const Value* from = body_of(loop).args[first_carried(loop) + k];
    Value* total = nullptr;
    const auto fixed = [&](const Value* v) { return ir::defined_outside(*v, body_of(loop_)); };
    const auto add = [&](Opcode code, Value* v) { total = b.op(code, {total ? total : b.i64(0), v}); };
    for (Value* v = exits.next[0]->operands[k]; v != from;) {
      if (!v->op || fixed(v)) return nullptr;
      const Op& op = *v->op;
      if ((op.code == Opcode::add_ || op.code == Opcode::sub_) && fixed(op.operands[1]) && !fixed(op.operands[0])) {
        add(op.code, op.operands[1]);
        v = op.operands[0];
      } else if (op.code == Opcode::add_ && fixed(op.operands[0])) {
        add(op.code, op.operands[0]);
        v = op.operands[1];
      } else if (is_for(op) && fixed(op.operands[0]) && fixed(op.operands[1]) && fixed(op.operands[2])) {
        Value* inner = increment(b, op, v->index);
        if (!inner) return nullptr;
        add(Opcode::add_, b.op(Opcode::mul_, {emit_trips(b, op), inner}));
        v = op.operands[3 + v->index];
      } else {
        return nullptr;
      }
    }
    return total;
  }

  /// True where the variable is read for more than adding to it.
  bool is_read(size_t k) {
    const Chain chain(uses(), loop_, k);
    return !chain.valid() || chain.combiner() != Combiner::sum_ || !chain.merges().empty() || !chain.compares().empty();
  }

  bool close_inductions() {
    bool changed = false;
    for (size_t k = 0; k < carried_count(loop_); ++k) {
      if (arg(k)->type != ir::scalar(DType::i64_) || !is_read(k)) continue;
      Builder b(graph_);
      b.set_loc(loop_.loc);
      b.set_before(&loop_);
      Value* step = increment(b, loop_, k);
      if (!step) continue;
      b.set_before(body_of(loop_).first);
      Value* iteration = b.op(Opcode::sub_, {induction(loop_), loop_.operands[0]});
      if (constant(*loop_.operands[2]) != 1) iteration = b.op(Opcode::floordiv_, {iteration, loop_.operands[2]});
      Value* value = b.op(Opcode::add_, {init(k), b.op(Opcode::mul_, {iteration, step})});
      ir::replace_uses(graph_, arg(k), value);
      uses_.reset();
      changed = true;
    }
    return changed;
  }

  // --- one value by itself --------------------------------------------------------------------------------------

  static bool all_updates_are(const Chain& chain, int64_t value) {
    for (const Merge& merge : chain.merges()) {
      if (merge.update->type.dtype != DType::bool_ || constant(*merge.update) != value) return false;
    }
    return true;
  }

  bool needs_order(Combiner combiner, DType type) const {
    return graph_.exact && ir::is_real(type) && combiner != Combiner::and_ && combiner != Combiner::or_;
  }

  /// `flags`: Booleans that are set under a condition, too.
  bool simple(size_t k, bool flags) {
    if (!is_used(uses(), *arg(k))) {
      set(k, {Combiner::last_});
      return false;
    }
    const Chain chain(uses(), loop_, k);
    if (!chain.valid() || !chain.compares().empty()) return false;
    if (chain.is_invariant()) {
      ir::replace_uses(graph_, loop_.results[k], init(k));
      ir::replace_uses(graph_, arg(k), init(k));
      uses_.reset();
      set(k, {Combiner::last_});
      return true;
    }
    Combiner combiner = chain.combiner();
    if (!flags && arg(k)->type.dtype == DType::bool_ && (combiner == Combiner::or_ || !chain.merges().empty())) {
      return false;
    }
    if (!chain.merges().empty()) {
      const bool any = all_updates_are(chain, 1), all = all_updates_are(chain, 0);
      if (combiner == Combiner::recur_ && (any || all)) combiner = any ? Combiner::or_ : Combiner::and_;
      const bool fits = (combiner == Combiner::or_ && any) || (combiner == Combiner::and_ && all);
      if (!fits) return false;
    }
    if (combiner == Combiner::recur_ || needs_order(combiner, arg(k)->type.dtype)) return false;
    set(k, {combiner});
    return false;
  }

  /// `found = found or c`: the types that such an expression may leave move with it.
  bool latch(size_t k) {
    if (done_[k]) return false;
    const auto found = find_latch(Uses(graph_), loop_, k);
    if (!found) return false;
    if (found->members_are_fixed) {
      set(k, {found->stop ? Combiner::or_ : Combiner::and_});
      return false;
    }
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(body_of(loop_).first);
    Value* iteration = b.op(Opcode::sub_, {induction(loop_), loop_.operands[0]});
    if (constant(*loop_.operands[2]) != 1) iteration = b.op(Opcode::floordiv_, {iteration, loop_.operands[2]});
    const auto leader = static_cast<int>(add_order(graph_, loop_, *found, iteration).order);
    set(k, {Combiner::follow_first_, leader});
    for (size_t member : found->members) set(member, {Combiner::follow_first_, leader});
    return true;
  }

  // --- argmin, argmax -------------------------------------------------------------------------------------------

  std::optional<Order> leader_order(const Chain& chain) {
    std::optional<Order> order;
    const auto agree = [&](std::optional<Order> o) {
      if (!o || (order && (order->combiner != o->combiner || order->strict != o->strict))) return false;
      order = o;
      return true;
    };
    for (const Merge& merge : chain.merges()) {
      if (!merge.condition || !merge.old || !agree(order_of(*merge.condition, merge))) return std::nullopt;
    }
    if (chain.combiner() == Combiner::minimum_ || chain.combiner() == Combiner::maximum_) {
      if (!chain.merges().empty()) return std::nullopt;
      order = Order{chain.combiner(), true};
    } else if (chain.combiner() == Combiner::pymin_ || chain.combiner() == Combiner::pymax_) {
      // The shadow of pymin(new, old) is non-strict, and only integers get here with the old value second.
      if (!agree(Order{chain.combiner(), true})) return std::nullopt;
    } else if (chain.combiner() != Combiner::recur_) {
      return std::nullopt;
    }
    return order;
  }

  /// Nothing but the group may depend on the comparisons: they see partial results only.
  bool comparisons_stay_inside(const std::vector<const Chain*>& group) {
    const auto member = [&](const Value& v) {
      for (const Chain* chain : group) {
        if (chain->has(v)) return true;
      }
      return false;
    };
    std::vector<const Op*> conditions(group[0]->compares().begin(), group[0]->compares().end());
    for (size_t i = 0; i < conditions.size(); ++i) {
      for (const Use& use : uses().of(*conditions[i]->result())) {
        const Op& op = *use.op;
        if (use.operand >= ir::first_state(op)) continue;
        if (op.code == Opcode::or_ && member(*op.result())) continue;
        if (op.code == Opcode::and_ || op.code == Opcode::not_) {
          conditions.push_back(&op);
        } else if (op.code == Opcode::select_) {
          if (use.operand != 0 || !member(*op.result())) return false;
        } else if (op.code == Opcode::if_) {
          for (const Value* result : op.results) {
            if (!member(*result)) return false;
          }
          for (const ir::Block* arm : op.blocks) {
            for (const Op* inner = arm->first; inner; inner = inner->next) {
              const ir::Effect effect = ir::info(inner->code).effect;
              const bool harmless = effect == ir::Effect::pure || effect == ir::Effect::load;
              if (!harmless && inner->code != Opcode::yield_) return false;
            }
          }
        } else {
          return false;
        }
      }
    }
    return true;
  }

  void leader(size_t k, size_t count) {
    const Chain chain(uses(), loop_, k);
    if (!chain.valid() || chain.compares().empty()) return;
    const auto order = leader_order(chain);
    if (!order) return;
    std::vector<Chain> followers;
    for (size_t f = 0; f < count; ++f) {
      if (done_[f] || f == k) continue;
      Chain candidate(uses(), loop_, f);
      if (!candidate.valid() || !candidate.compares().empty()) continue;
      if (candidate.combiner() != Combiner::recur_ && candidate.combiner() != Combiner::or_) continue;
      if (moves_with(chain, candidate, loop_)) followers.push_back(std::move(candidate));
    }
    std::vector<const Chain*> group = {&chain};
    for (const Chain& f : followers) group.push_back(&f);
    if (!comparisons_stay_inside(group)) return;
    if (followers.empty()) {
      if (!needs_order(order->combiner, arg(k)->type.dtype)) set(k, {order->combiner});
      return;
    }
    const Combiner follow = order->strict ? Combiner::follow_first_ : Combiner::follow_last_;
    const auto at = static_cast<int>(k);
    const auto key = std::find_if(followers.begin(), followers.end(), [&](const Chain& f) { return is_key(f); });
    // A partial result that is as good as another one has been updated as that has, where each update is better.
    const auto tie = order->strict && key != followers.end()
                         ? static_cast<int>(key->index())
                         : static_cast<int>(shadow(chain, iteration_key(), least(), "tie"));
    carried(static_cast<size_t>(tie)) = {follow, at};
    set(k, {order->combiner, -1, tie});
    for (const Chain& f : followers) set(f.index(), {follow, at});
  }

  // --- conditional assignment -----------------------------------------------------------------------------------

  /// Before the loop: the one value that every merge assigns, if it does not vary in the loop.
  Value* assigned(const Chain& chain) {
    Value* found = nullptr;
    for (const Merge& merge : chain.merges()) {
      Value* v = merge.update;
      const bool is_const = v->op && v->op->code == Opcode::const_;
      if (!is_const && !visible_before(*v, loop_)) return nullptr;
      if (found && found != v &&
          !(is_const && found->op && found->op->code == Opcode::const_ && found->type == v->type &&
            found->op->imm == v->op->imm)) {
        return nullptr;
      }
      if (!found) found = v;
    }
    if (!found || visible_before(*found, loop_)) return found;
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(&loop_);
    return b.constant(found->type.dtype, found->op->imm);
  }

  /// `if c: v = fixed`: all that counts is whether it happened.
  bool fixed_assignment(size_t k) {
    const Chain chain(uses(), loop_, k);
    if (!chain.valid() || chain.combiner() != Combiner::recur_ || !chain.compares().empty()) return false;
    Value* value = assigned(chain);
    if (!value) return false;
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(&loop_);
    Value *no = b.boolean(false), *yes = b.boolean(true);
    const size_t flag = shadow(chain, yes, no, "assigned");
    carried(flag) = {Combiner::or_};
    Value* result = loop_.results[k];
    b.set_before(loop_.next);
    Value* after = b.select(loop_.results[flag], value, init(k));
    ir::replace_uses(graph_, result, after);
    ir::replace_uses(graph_, arg(k), init(k));
    for (Op* exit : exits_of(loop_).next) exit->operands[k] = value;
    set(k, {Combiner::last_});
    return true;
  }

  void conditional(size_t k, size_t count) {
    const Chain chain(uses(), loop_, k);
    if (!chain.valid() || chain.combiner() != Combiner::recur_ || !chain.compares().empty()) return;
    std::vector<size_t> followers = {k};
    for (size_t f = k + 1; f < count; ++f) {
      if (done_[f]) continue;
      const Chain other(uses(), loop_, f);
      if (!other.valid() || other.combiner() != Combiner::recur_ || !other.compares().empty()) continue;
      if (moves_with(chain, other, loop_)) followers.push_back(f);
    }
    const auto at = static_cast<int>(shadow(chain, iteration_key(), least(), "updated"));
    const auto tie = static_cast<int>(shadow(chain, iteration_key(), least(), "tie"));
    carried(static_cast<size_t>(at)) = {Combiner::maximum_, -1, tie};
    carried(static_cast<size_t>(tie)) = {Combiner::follow_last_, at};
    for (size_t f : followers) set(f, {Combiner::follow_last_, at});
  }

  /// Each update is a number that grows from iteration to iteration.
  bool is_key(const Chain& chain) const {
    if (loop_.results[chain.index()]->type != ir::scalar(DType::i64_) || chain.combiner() != Combiner::recur_)
      return false;
    return std::all_of(chain.merges().begin(), chain.merges().end(), [&](const Merge& m) { return grows(*m.update); });
  }

  /// Is it greater in every later iteration, whatever inner loops have done? So is i + c, and with inner loops over
  /// whole rows the number of an element, i * columns + j.
  bool grows(const Value& v) const {
    if (&v == induction(loop_)) return constant(*loop_.operands[2]).value_or(0) > 0;
    if (!v.op || v.op->code != Opcode::add_) return false;
    for (const size_t k : {0, 1}) {
      const Value &a = *v.op->operands[k], &b = *v.op->operands[1 - k];
      if (ir::defined_outside(a, body_of(loop_)) && grows(b)) return true;
      const Op* product = a.op && a.op->code == Opcode::mul_ ? a.op : nullptr;
      const Op* inner = b.block ? b.block->owner : nullptr;
      if (!product || !inner || !is_for(*inner) || induction(*inner) != &b) continue;
      if (constant(*inner->operands[0]) != 0 || constant(*inner->operands[2]) != 1) continue;
      for (const size_t m : {0, 1}) {
        const Value &columns = *product->operands[m], &end = *inner->operands[1];
        const bool same = &columns == &end || (constant(columns) && constant(columns) == constant(end));
        if (same && grows(*product->operands[1 - m])) return true;
      }
    }
    return false;
  }

  /// A number that grows from iteration to iteration.
  Value* iteration_key() {
    Value *iv = induction(loop_), *step = loop_.operands[2];
    const auto s = constant(*step);
    if (s && *s > 0) return iv;
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(body_of(loop_).first);
    Value* down = b.op(Opcode::not_, {iv});
    return s ? down : b.select(b.op(Opcode::gt_, {step, b.i64(0)}), iv, down);
  }

  Value* least() {
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(&loop_);
    return b.i64(INT64_MIN);
  }

  // --- the verdict ----------------------------------------------------------------------------------------------

  bool settle() {
    for (size_t k = 0; k < done_.size(); ++k) {
      if (done_[k]) continue;
      const std::string name = arg(k)->name.empty() ? "a variable" : "'" + arg(k)->name + "'";
      const Chain chain(uses(), loop_, k);
      const bool reducible = chain.valid() && chain.merges().empty() && chain.combiner() != Combiner::recur_;
      if (reducible && needs_order(chain.combiner(), arg(k)->type.dtype)) {
        run_in_order(ir::Severity::note, name + " is reduced in sequential order (exact=True)");
      } else {
        run_in_order(ir::Severity::warning,
                     name + " depends on its value in the previous iteration and is no reduction");
      }
      return true;
    }
    bool changed = false;
    if (settle_state(graph_, loop_, changed)) return changed;
    run_in_order(ir::Severity::warning, "a check inside the loop needs the scalars of the failing iteration");
    return true;
  }

  void run_in_order(ir::Severity severity, const std::string& why) {
    loop_.loop->parallel = loop_.loop->simd = false;
    for (Carried& c : loop_.loop->carried) c = {};
    remark(graph_, severity, kStage, loop_.loc, "the loop at " + line_of(graph_, loop_.loc) + " runs in order: " + why);
  }

  ir::Graph& graph_;
  Op& loop_;
  std::vector<bool> done_;
  std::optional<Uses> uses_;
};

}  // namespace

bool reductions(ir::Graph& graph) {
  bool changed = false;
  const std::vector<Op*> loops = for_loops(graph);
  for (size_t i = loops.size(); i-- > 0;) changed |= narrow_carried(graph, *loops[i]);
  for (Op* loop : loops) {
    if (!has_permission(*loop)) continue;
    if (!exits_of(*loop).breaks.empty()) {
      loop->loop->parallel = loop->loop->simd = false;
      remark(graph, ir::Severity::note, kStage, loop->loc,
             "the loop at " + line_of(graph, loop->loc) + " runs in order: it is left by break or return");
      changed = true;
      continue;
    }
    changed |= Classifier(graph, *loop).run();
  }
  for (size_t i = loops.size(); i-- > 0;) changed |= close_carried(graph, *loops[i]);
  return changed;
}

}  // namespace appy::passes
