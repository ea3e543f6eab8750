// Loop distribution: a loop that runs in order becomes several, one for each group of statements that needs its order,
// where one of them then needs none (Kennedy and McKinley, 1993). `distribute` is the name of another pass.
//
//   for i: { for k < i: c[k, :] += a[i, k] * b[i, :];  c[i, :] = sum of a[i, k] * b[k, :] over k < i }
//
// First all rows get their sums, then they are updated by all later ones.

#include <algorithm>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/dependence.h"
#include "passes/loops.h"
#include "passes/order.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "fission";
constexpr size_t kMost = 8;

template <class F>
void for_each_inside(Op& op, F&& f) {
  f(op);
  for (Block* inner : op.blocks) ir::walk(*inner, f);
}

class Fission {
 public:
  Fission(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), ranges_(graph) {}

  bool run() {
    if (!is_plain() || independent(loop_) || !find_pieces() || !find_groups()) return false;
    return divide();
  }

 private:
  /// Ops that are executed together: one that stores, and what computes for it alone.
  struct Piece {
    std::set<const Op*> ops;
    std::vector<Op*> accesses;
    size_t group = 0;
  };

  bool is_plain() {
    ir::walk(body_of(loop_), [&](Op& op) {
      if (op.code == Opcode::store_) written_.insert(op.view());
    });
    return !has_permission(loop_) && loop_.results.empty() && left_by_yield_only(loop_) &&
           constant(*loop_.operands[2]).value_or(0) != 0 && loop_.loop->threads != 1 && ordered_by_accesses_only(loop_);
  }

  static bool has_lanes(Op& op) {
    bool found = false;
    for_each_inside(op, [&](Op& at) { found |= has_permission(at); });
    return found;
  }

  bool find_pieces() {
    for (Op* op = body_of(loop_).first; op != body_of(loop_).last; op = op->next) {
      if (!writes(*op)) continue;
      if (pieces_.size() == kMost || !has_lanes(*op)) return false;
      collect(*op, pieces_.emplace_back());
    }
    if (pieces_.size() < 2) return false;
    for (size_t p = 0; p < pieces_.size(); ++p) {
      for (const Op* op : pieces_[p].ops) {
        for (size_t q = 0; q < p; ++q) {
          // What several compute each may compute for itself, unless it reads what the loop writes.
          if (pieces_[q].ops.count(op) && loads_written(*op)) return false;
        }
      }
      for (Op* op = body_of(loop_).first; op; op = op->next) {
        if (!pieces_[p].ops.count(op)) continue;
        for_each_inside(*op, [&](Op& at) {
          if (is_access(at) && written_.count(at.view())) pieces_[p].accesses.push_back(&at);
        });
      }
    }
    return true;
  }

  bool loads_written(const Op& op) const {
    bool found = false;
    for_each_inside(const_cast<Op&>(op),
                    [&](Op& at) { found |= at.code == Opcode::load_ && written_.count(at.view()) != 0; });
    return found;
  }

  /// The op of the loop's body, and those whose values it needs.
  void collect(Op& op, Piece& piece) {
    if (!piece.ops.insert(&op).second) return;
    for_each_inside(op, [&](Op& at) {
      for (const Value* v : at.operands) {
        if (v->op && v->op->parent == &body_of(loop_)) collect(*v->op, piece);
      }
    });
  }

  /// Where both touch one element `first` does so first. A load of the one piece may stand before the other piece.
  bool precedes(Op& first, Op& second) {
    const bool in_iteration = comes_before(first, second, loop_);
    return (in_iteration && pinned(first, second, loop_)) || is_earlier(ranges_, first, second, loop_, in_iteration);
  }

  /// Pieces that have to stay together, in an order in which they may follow each other.
  bool find_groups() {
    const size_t n = pieces_.size();
    std::vector<std::vector<bool>> before(n, std::vector<bool>(n));  // the loop of the one before that of the other
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        bool forth = true, back = true, any = false;
        for (Op* a : pieces_[p].accesses) {
          for (Op* b : pieces_[q].accesses) {
            if (a->view() != b->view() || (a->code == Opcode::load_ && b->code == Opcode::load_)) continue;
            any = true;
            forth &= precedes(*a, *b);
            back &= precedes(*b, *a);
          }
        }
        before[p][q] = any && !back;
        before[q][p] = any && !forth;
      }
    }
    for (size_t k = 0; k < n; ++k) {
      for (size_t p = 0; p < n; ++p) {
        for (size_t q = 0; q < n; ++q) before[p][q] = before[p][q] || (before[p][k] && before[k][q]);
      }
    }
    std::vector<bool> placed(n);
    while (std::find(placed.begin(), placed.end(), false) != placed.end()) {
      for (size_t p = 0; p < n; ++p) {
        if (placed[p]) continue;
        bool ready = true;
        for (size_t q = 0; q < n; ++q) ready &= placed[q] || !before[q][p] || before[p][q] || q == p;
        if (!ready) continue;
        for (size_t q = p; q < n; ++q) {
          if (q != p && !(before[q][p] && before[p][q])) continue;
          pieces_[q].group = groups_;
          placed[q] = true;
        }
        ++groups_;
        break;
      }
    }
    return groups_ > 1;
  }

  bool divide() {
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(&loop_);
    std::vector<Op*> made;
    bool any = false;
    for (size_t group = 0; group < groups_; ++group) {
      Op* part = b.for_loop(loop_.operands[0], loop_.operands[1], loop_.operands[2], {}, *loop_.loop);
      induction(*part)->name = induction(loop_)->name;
      Copier copier(graph_);
      copier.map(induction(loop_), induction(*part));
      for (const Op* op = body_of(loop_).first; op != body_of(loop_).last; op = op->next) {
        const bool wanted = std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
          return piece.group == group && piece.ops.count(op) != 0;
        });
        if (wanted) body_of(*part).append(copier.copy(*op));
      }
      Builder inner(graph_);
      inner.set_block(&body_of(*part));
      inner.yield({});
      made.push_back(part);
      if (!independent(*part)) continue;
      part->loop->parallel = any = true;
    }
    if (!any) {
      for (Op* part : made) part->parent->remove(part);
      return false;
    }
    loop_.parent->remove(&loop_);
    remark(graph_, ir::Severity::note, kStage, loop_.loc,
           "the loop at " + line_of(graph_, loop_.loc) + " runs as " + std::to_string(groups_) + " loops");
    return true;
  }

  ir::Graph& graph_;
  Op& loop_;
  Ranges ranges_;
  std::set<const Value*> written_;
  std::vector<Piece> pieces_;
  size_t groups_ = 0;
};

bool run(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op *op = block.first, *next; op; op = next) {
    next = op->next;
    if (is_for(*op) && Fission(graph, *op).run()) {
      changed = true;
      continue;
    }
    for (Block* inner : op->blocks) changed |= run(graph, *inner);
  }
  return changed;
}

}  // namespace

bool fission(ir::Graph& graph) { return !graph.may_alias && run(graph, *graph.body); }

}  // namespace appy::passes
