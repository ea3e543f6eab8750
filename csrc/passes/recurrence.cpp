#include "passes/recurrence.h"

#include <algorithm>
#include <set>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr Wide kFar = Wide{1} << 40;

Wide ceil_div(Wide a, Wide b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }

/// Loads and computes, and nothing else, with all that is inside.
bool only_computes(const Block& block) {
  for (const Op* op = block.first; op; op = op->next) {
    if (op->code == Opcode::if_) {
      for (const Block* arm : op->blocks) {
        if (!only_computes(*arm)) return false;
      }
    } else if (!ir::is_pure(op->code) && op->code != Opcode::load_ && op->code != Opcode::yield_ &&
               op->code != Opcode::poll_) {
      return false;
    }
  }
  return true;
}

class Finder {
 public:
  Finder(Ranges& ranges, const Op& outer) : ranges_(ranges), outer_(outer) {}

  std::vector<Recurrence> run() {
    if (outer_.graph->may_alias || has_permission(outer_) || !left_by_yield_only(outer_)) return {};
    if (constant(*outer_.operands[2]) != 1 || !is_plain()) return {};
    std::vector<Op*> between;
    search(body_of(outer_), between);
    return std::move(found_);
  }

 private:
  bool is_plain() {
    bool plain = true;
    ir::walk(body_of(outer_), [&](Op& op) {
      plain &= op.code != Opcode::check_ && op.code != Opcode::atomic_ && op.code != Opcode::while_ &&
               op.code != Opcode::barrier_;
      if (op.code == Opcode::store_) stores_.push_back(&op);
    });
    return plain && !stores_.empty();
  }

  void search(Block& block, std::vector<Op*>& between) {
    for (Op* op = block.first; op; op = op->next) {
      if (!is_for(*op) || !left_by_yield_only(*op)) continue;
      Recurrence r{op, between, 0, false};
      if (fits(r)) {
        found_.push_back(r);
        continue;
      }
      between.push_back(op);
      search(body_of(*op), between);
      between.pop_back();
    }
  }

  bool fits(Recurrence& r) {
    if (r.steps->results.empty() || constant(*r.steps->operands[2]) != 1 || !only_computes(body_of(*r.steps)))
      return false;
    allowed_ = {induction(outer_)};
    for (const Op* loop : r.between) allowed_.insert(induction(*loop));
    for (const Op* loop : r.between) {
      for (size_t k = 0; k < 3; ++k) {
        if (!is_known(*loop->operands[k])) return false;
      }
    }
    for (size_t k = 0; k < r.steps->operands.size(); ++k) {
      if (!is_known(*r.steps->operands[k]) && (k < 3 || !is_told_after(*r.steps, k - 3))) return false;
    }
    bool known = true;
    std::optional<Wide> delta;
    ir::walk(body_of(*r.steps), [&](const Op& op) {
      for (const Value* v : op.operands) {
        known = known && (!ir::defined_outside(*v, body_of(*r.steps)) || is_known(*v) || op.code == Opcode::poll_);
      }
      if (op.code != Opcode::load_) return;
      for (const Op* store : stores_) {
        if (store->view() != op.view() || never_meet(op, *store)) continue;
        const auto limit = below(op, *store, *r.steps);
        known &= limit.has_value();
        if (limit) delta = delta ? std::min(*delta, *limit) : *limit;
      }
    });
    return known && delta && settle(r, *delta);
  }

  /// Carried value k says where the loop ended, and no step reads it.
  static bool is_told_after(const Op& steps, size_t k) {
    const Value *arg = body_of(steps).args[1 + k], *next = body_of(steps).last->operands[k];
    bool read = false;
    ir::walk(body_of(steps), [&](const Op& op) {
      read |= op.code != Opcode::poll_ && std::find(op.operands.begin(), op.operands.end(), arg) != op.operands.end();
    });
    return !read && (next == induction(steps) || ir::defined_outside(*next, body_of(steps)));
  }

  /// Computed from the variables of the loops and from what is the same all the time.
  bool is_known(const Value& v) const {
    if (ir::defined_outside(v, body_of(outer_)) || allowed_.count(&v)) return true;
    if (!v.op || !v.op->blocks.empty()) return false;
    if (v.op->code == Opcode::load_) {
      const bool written =
          std::any_of(stores_.begin(), stores_.end(), [&](const Op* store) { return store->view() == v.op->view(); });
      if (written) return false;
    } else if (!ir::is_pure(v.op->code)) {
      return false;
    }
    return std::all_of(v.op->operands.begin(), v.op->operands.end(), [&](const Value* x) { return is_known(*x); });
  }

  /// In some dimension, the one is always below the other, whichever iterations they belong to.
  bool never_meet(const Op& load, const Op& store) {
    const auto separate = [&](const Op& low, const Op& high, size_t d) {
      auto greatest = extreme(ranges_, row_at(ranges_, low, d, low), false, outer_);
      const auto least = extreme(ranges_, row_at(ranges_, high, d, high), true, outer_);
      if (!greatest || !least || greatest->coef(variable()) != 0 || least->coef(variable()) != 0) return false;
      greatest->add(*least, -1);
      return greatest->is_constant() && greatest->constant < 0;
    };
    for (size_t d = 0; d < load.access->offset.size(); ++d) {
      if (separate(load, store, d) || separate(store, load, d)) return true;
    }
    return false;
  }

  /// In some dimension iterations from t on store at scale * t + c or above, and steps load scale * k + c' with c' no
  /// more than that: how far below t + result k has to be.
  std::optional<Wide> below(const Op& load, const Op& store, const Op& steps) {
    std::optional<Wide> best;
    for (size_t d = 0; d < load.access->offset.size(); ++d) {
      auto least = extreme(ranges_, row_at(ranges_, store, d, store), true, outer_);
      if (!least) continue;
      const Wide scale = least->coef(variable());
      Affine at = row_at(ranges_, load, d, load);
      if (scale < 1 || at.coef(*induction(steps)) != scale) continue;
      at.add(*induction(steps), -scale);
      const auto greatest = extreme(ranges_, at, false, outer_);
      if (!greatest || greatest->coef(variable()) != 0) continue;
      least->add(variable(), -scale);
      least->add(*greatest, -1);
      if (!least->is_constant()) continue;
      const Wide limit = ceil_div(least->constant, scale);
      if (!best || limit > *best) best = limit;
    }
    return best;
  }

  bool settle(Recurrence& r, Wide delta) {
    const Affine upper = ranges_.affine(*r.steps->operands[1], *r.steps);
    const auto greatest = extreme(ranges_, upper, false, outer_);
    if (!greatest || greatest->coef(variable()) != 1) return false;
    const auto least = extreme(ranges_, upper, true, outer_);
    if (least && least->coef(variable()) == 1 && least->terms.size() == 1) {
      delta = std::min(delta, least->constant);
      r.complete = true;
    }
    r.in_turn =
        r.complete && greatest->terms.size() == 1 && greatest->constant == delta && begins_below(*r.steps, delta);
    if (delta < -kFar || delta > kFar) return false;
    r.delta = static_cast<int64_t>(delta);
    return true;
  }

  /// No iteration leaves out steps of the first iterations.
  bool begins_below(const Op& steps, Wide delta) {
    auto greatest = extreme(ranges_, ranges_.affine(*steps.operands[0], steps), false, outer_);
    if (!greatest) return false;
    greatest->add(ranges_.affine(*outer_.operands[0], outer_), -1);
    return greatest->is_constant() && greatest->constant <= delta;
  }

  const Value& variable() const { return *induction(outer_); }

  Ranges& ranges_;
  const Op& outer_;
  std::vector<const Op*> stores_;
  std::set<const Value*> allowed_;
  std::vector<Recurrence> found_;
};

}  // namespace

std::vector<Recurrence> recurrences_of(Ranges& ranges, const Op& outer) { return Finder(ranges, outer).run(); }

std::optional<int64_t> most_trips(Ranges& ranges, const Op& loop) {
  std::vector<const Value*> ends = {loop.operands[1]};
  if (const Op* least = ends[0]->op; least && least->code == Opcode::pymin_)
    ends.assign(least->operands.begin(), least->operands.end());
  for (const Value* end : ends) {
    Affine span = ranges.affine(*end, loop);
    span.add(ranges.affine(*loop.operands[0], loop), -1);
    if (span.is_constant() && span.constant > 0 && span.constant < kFar) return static_cast<int64_t>(span.constant);
  }
  return {};
}

std::optional<Affine> extreme(Ranges& ranges, Affine sum, bool least, const Op& loop) {
  constexpr int kMost = 8;
  for (int n = 0; n < kMost; ++n) {
    const auto inner = std::find_if(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      return term.first != induction(loop) && !ir::defined_outside(*term.first, body_of(loop));
    });
    if (inner == sum.terms.end()) return sum;
    const auto [v, coef] = *inner;
    const Op* owner = v->op ? nullptr : v->block->owner;
    if (!owner || !is_for(*owner) || v->index != 0) return std::nullopt;
    const auto step = constant(*owner->operands[2]);
    if (!step || *step == 0) return std::nullopt;
    const bool at_first = ((coef > 0) == least) == (*step > 0);
    Affine bound = ranges.affine(*owner->operands[at_first ? 0 : 1], *owner);
    if (!at_first) bound.constant += *step > 0 ? -1 : 1;
    sum.add(*v, -coef);
    sum.add(bound, coef);
  }
  return std::nullopt;
}

}  // namespace appy::passes
