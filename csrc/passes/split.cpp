// Index-set splitting: where something that an iteration computes from `i + c` is one thing in the first or last
// iterations and another in all others, the loop becomes two, so that the subscripts of the main one are affine and its
// conditions are gone: `wrap(i + c, n)`, `(i + c) % n`, comparisons that a few iterations at an end decide differently,
// and tests of subscripts that not all iterations make. Only loops without inner loops: further out, one select an
// iteration costs nothing.

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/comparisons.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kPeel = 8;  // at most so many iterations make a loop that needs no permission
constexpr int kMostSplits = 3;

/// A place in a loop's range from which on something computed from `iv + rest` changes: iv = -rest.
struct Crossing {
  Op* op;
  Affine rest;
};

class Splitter {
 public:
  explicit Splitter(ir::Graph& graph) : graph_(graph) {}

  /// Splits once. The main part is `loop` itself.
  bool split(Op& loop) {
    if (constant(*loop.operands[2]) != 1 || !exits_of(loop).breaks.empty()) return false;
    return !has_inner_loop(loop) &&
           (wraps(loop) || moduli(loop) || (has_permission(loop) && (comparisons(loop) || guarded_accesses(loop))));
  }

 private:
  // --- wrap(i + c, n): negative in the first iterations ----------------------------------------------------------

  bool wraps(Op& loop) {
    Ranges ranges(graph_);
    const std::vector<Crossing> group = crossing_wraps(ranges, loop);
    if (group.empty()) return false;
    const Crossing& last = *std::min_element(group.begin(), group.end(), [](const Crossing& a, const Crossing& b) {
      return a.rest.constant < b.rest.constant;
    });
    const std::optional<Wide> length = distance(ranges, *loop.operands[0], last.rest, loop);
    Copier copier(graph_);
    Op* first = cut_before(loop, point(loop, last.rest), copier);
    if (length && *length <= kPeel) {
      peel(*first);
    } else if (group.size() == 1) {
      Value* wrapped = copier.of(last.op->result());
      Builder inner(graph_);
      inner.set_loc(wrapped->op->loc);
      inner.set_before(wrapped->op);
      replace(*wrapped->op, inner.op(Opcode::add_, {wrapped->op->operands[0], wrapped->op->operands[1]}));
    }
    for (const Crossing& crossing : group) replace(*crossing.op, crossing.op->operands[0]);
    return true;
  }

  /// The wraps that one split serves: their indices differ by constants.
  std::vector<Crossing> crossing_wraps(Ranges& ranges, Op& loop) {
    std::vector<Crossing> group;
    ir::walk(body_of(loop), [&](Op& op) {
      if (op.code != Opcode::wrap_) return;
      const Value& index = *op.operands[0];
      if (ranges.proves_ge(index, 0, op) || ranges.at(index, op).hi < 0) return;
      auto rest = rest_of(ranges, ranges.affine(index, op), loop);
      if (!rest || (!group.empty() && group[0].rest.terms != rest->terms)) return;
      group.push_back({&op, std::move(*rest)});
    });
    return group;
  }

  // --- (i + c) % n: i + c but in the first and the last iterations -----------------------------------------------

  bool moduli(Op& loop) {
    Ranges ranges(graph_);
    Op* mod = nullptr;
    std::optional<Affine> rest;
    ir::walk(body_of(loop), [&](Op& op) {
      if (mod || op.code != Opcode::mod_ || op.result()->type != ir::scalar(ir::DType::i64_)) return;
      const Value& n = *op.operands[1];
      if (!visible_before(n, loop) || constant(n) || !moderate(ranges.of(n))) return;
      rest = rest_of(ranges, ranges.affine(*op.operands[0], op), loop);
      if (rest) mod = &op;
    });
    if (!mod) return false;
    Value *x = mod->operands[0], *n = mod->operands[1];
    const bool low = !ranges.proves_ge(*x, 0, *mod), high = !ranges.proves_lt(*x, *n, *mod);
    const auto front = distance(ranges, *loop.operands[0], *rest, loop);
    Affine beyond = *rest;  // i + rest - n crosses zero
    beyond.add(ranges.affine(*n, loop), -1);
    const auto back = distance(ranges, *loop.operands[1], beyond, loop);
    if (high) {
      Copier copier(graph_);
      Builder b = before(loop);
      Op* last = cut_after(loop, b.op(Opcode::add_, {n, point(loop, *rest)}), copier);
      if (back && -*back <= kPeel) peel(*last);
    }
    if (low) {
      Copier copier(graph_);
      Op* first = cut_before(loop, point(loop, *rest), copier);
      if (front && *front <= kPeel) peel(*first);
    }
    replace(*mod, x);
    return true;
  }

  // --- comparisons that a few iterations at an end decide differently --------------------------------------------

  bool comparisons(Op& loop) {
    Ranges ranges(graph_);
    std::vector<Op*> found;
    ir::walk(body_of(loop), [&](Op& op) {
      if (is_comparison(op.code) && op.operands[0]->type == ir::scalar(ir::DType::i64_)) found.push_back(&op);
    });
    for (Op* op : found) {
      if (!ranges.decide(*op->result(), *op) && comparison(ranges, loop, *op)) return true;
    }
    return false;
  }

  bool comparison(Ranges& ranges, Op& loop, Op& op) {
    Affine difference = ranges.affine(*op.operands[0], op);
    difference.add(ranges.affine(*op.operands[1], op), -1);
    Opcode code = op.code;
    if (difference.coef(*induction(loop)) == -1) {
      Affine negative;
      negative.add(difference, -1);
      difference = negative;
      code = mirrored(code);
    }
    auto rest = rest_of(ranges, difference, loop);
    if (!rest) return false;
    // The comparison is one thing where i + rest < 0 and another from there on.
    const bool equality = code == Opcode::eq_ || code == Opcode::ne_;
    if (code == Opcode::le_ || code == Opcode::gt_) rest->constant -= 1;
    Affine next = *rest;
    next.constant -= 1;
    const bool first_side = code == Opcode::lt_ || code == Opcode::le_ || code == Opcode::ne_;
    const auto front = distance(ranges, *loop.operands[0], equality ? next : *rest, loop);
    const auto back = distance(ranges, *loop.operands[1], *rest, loop);
    if (front && *front > 0 && *front <= kPeel && (!equality || *front == 1)) {
      Copier copier(graph_);
      peel(*cut_before(loop, point(loop, equality ? next : *rest), copier));
      return decide(op, equality ? code == Opcode::ne_ : !first_side);
    }
    if (back && *back < 0 && -*back <= kPeel && (!equality || *back == -1)) {
      Copier copier(graph_);
      peel(*cut_after(loop, point(loop, *rest), copier));
      return decide(op, first_side);
    }
    return false;
  }

  bool decide(Op& op, bool value) {
    Builder b(graph_);
    b.set_loc(op.loc);
    b.set_before(&op);
    replace(op, b.boolean(value));
    return true;
  }

  // --- `i + c < n` of an access under a condition ----------------------------------------------------------------

  /// As a rule all iterations pass it, but it cannot be tested before the loop: an iteration that does not get there
  /// must not fail. Those that pass it are a loop of their own.
  bool guarded_accesses(Op& loop) {
    Ranges ranges(graph_);
    std::vector<Op*> tests;
    ir::walk(body_of(loop), [&](Op& op) {
      if (op.code == Opcode::check_ && op.parent != &body_of(loop)) conjuncts(*op.operands[0], tests);
    });
    for (Op* test : tests) {
      if (test->code != Opcode::lt_ || test->operands[0]->type != ir::scalar(ir::DType::i64_)) continue;
      if (!is_inside(*test, body_of(loop)) || ranges.decide(*test->result(), *test)) continue;
      Affine difference = ranges.affine(*test->operands[0], *test);
      difference.add(ranges.affine(*test->operands[1], *test), -1);
      const auto rest = rest_of(ranges, difference, loop);
      if (!rest) continue;
      Copier copier(graph_);
      cut_after(loop, point(loop, *rest), copier);
      return decide(*test, true);
    }
    return false;
  }

  static void conjuncts(const Value& condition, std::vector<Op*>& found) {
    if (!condition.op) return;
    if (condition.op->code != Opcode::and_) return found.push_back(condition.op);
    for (const Value* part : condition.op->operands) conjuncts(*part, found);
  }

  // --- cutting ---------------------------------------------------------------------------------------------------

  Builder before(Op& loop) {
    Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(&loop);
    return b;
  }

  /// lower <= at <= upper, or lower where the loop does not run.
  Value* clamped(Op& loop, Value* at) {
    Builder b = before(loop);
    return b.op(Opcode::maximum_, {loop.operands[0], b.op(Opcode::minimum_, {at, loop.operands[1]})});
  }

  /// A copy of the loop runs the iterations before `at`, the loop itself the others.
  Op* cut_before(Op& loop, Value* at, Copier& copier) {
    Value* middle = clamped(loop, at);
    Op* first = copier.copy(loop);
    loop.parent->insert_before(&loop, first);
    first->operands[1] = middle;
    loop.operands[0] = middle;
    for (size_t k = 0; k < first->results.size(); ++k) loop.operands[3 + k] = first->results[k];
    return first;
  }

  /// The loop itself runs the iterations before `at`, a copy the others.
  Op* cut_after(Op& loop, Value* at, Copier& copier) {
    Value* middle = clamped(loop, at);
    Op* last = copier.copy(loop);
    loop.parent->insert_before(loop.next, last);
    std::vector<Value*> to(graph_.value_count());
    for (size_t k = 0; k < loop.results.size(); ++k) to[loop.results[k]->id] = last->results[k];
    ir::replace_uses(graph_, to);
    loop.operands[1] = middle;
    last->operands[0] = middle;
    for (size_t k = 0; k < loop.results.size(); ++k) last->operands[3 + k] = loop.results[k];
    return last;
  }

  /// A handful of iterations: no lanes, no workers, no polls.
  static void peel(Op& loop) {
    loop.loop->parallel = loop.loop->simd = false;
    for (ir::Carried& c : loop.loop->carried) c = {};
    Block& body = body_of(loop);
    for (Op *op = body.first, *next; op; op = next) {
      next = op->next;
      if (op->code == Opcode::poll_) body.remove(op);
    }
  }

  /// -rest, before the loop.
  Value* point(Op& loop, const Affine& rest) {
    Builder b = before(loop);
    Value* sum = nullptr;
    for (const auto& [value, coef] : rest.terms) {
      Value* term = b.op(Opcode::mul_, {const_cast<Value*>(value), b.i64(static_cast<int64_t>(-coef))});
      sum = sum ? b.op(Opcode::add_, {sum, term}) : term;
    }
    Value* offset = b.i64(static_cast<int64_t>(-rest.constant));
    return sum ? b.op(Opcode::add_, {sum, offset}) : offset;
  }

  /// -rest - bound, where that is a constant.
  static std::optional<Wide> distance(Ranges& ranges, const Value& bound, const Affine& rest, const Op& loop) {
    Affine d;
    d.add(rest, -1);
    d.add(ranges.affine(bound, loop), -1);
    return d.is_constant() ? std::optional(d.constant) : std::nullopt;
  }

  void replace(Op& op, Value* by) {
    ir::replace_uses(graph_, op.result(), by);
    op.parent->remove(&op);
  }

  /// What is added to the loop's variable in `index`, if it does not vary and its negation does not overflow.
  static std::optional<Affine> rest_of(Ranges& ranges, Affine index, const Op& loop) {
    const Value* iv = induction(loop);
    if (index.coef(*iv) != 1) return std::nullopt;
    index.add(*iv, -1);
    for (const auto& [value, coef] : index.terms) {
      if (!visible_before(*value, loop) || coef < INT16_MIN || coef > INT16_MAX) return std::nullopt;
      if (value->type != ir::scalar(ir::DType::i64_) || !moderate(ranges.of(*value))) return std::nullopt;
    }
    if (index.terms.size() > 8 || index.constant < INT32_MIN || index.constant > INT32_MAX) return std::nullopt;
    return index;
  }

  /// Sums of a few of these, each times 16 bits, stay in 64 bits, as does a loop variable minus that.
  static bool moderate(const ir::Range& r) { return r.lo >= -kFar && r.hi <= kFar; }
  static constexpr int64_t kFar = int64_t{1} << 47;

  ir::Graph& graph_;
};

}  // namespace

bool split(ir::Graph& graph) {
  bool changed = false;
  Splitter splitter(graph);
  for (Op* loop : for_loops(graph)) {
    for (int n = 0; n < kMostSplits && splitter.split(*loop); ++n) changed = true;
  }
  return changed;
}

}  // namespace appy::passes
