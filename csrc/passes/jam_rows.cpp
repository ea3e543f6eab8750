// Unroll and jam of loops that compute element by element (stencils): two rows run together, in one loop along them,
// so that what both of them load, or compute of the same elements, is loaded and computed once. The differences of
// neighbouring Laplacians of three rows are five Laplacians, not nine. No element is computed in another way, and sums
// over rows are jam.cpp's.
//
// The rows are those of one loop of a perfect nest. Whether they run together follows from what the copies would have
// in common, counted by numbering their values, and from the registers that these need.

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "passes/jam_order.h"
#include "passes/jammer.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/range.h"
#include "passes/row_nest.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "jam_rows";
/// Operations of all copies: more would only be a lot of code.
constexpr int64_t kMostOps = 160;
/// Rows at a time. More save less and less, and were slower in all that was measured: rows are left over, and a group
/// of lanes by itself takes the registers of two.
constexpr int64_t kCopies = 2;
/// What a load costs, in operations: most vectors of a stencil lie in two cache lines.
constexpr double kLoad = 2;
/// What a row costs among others, compared with one by itself, and what it has to save: for less it is only more code.
constexpr double kWorthIt = 0.95, kSaved = kLoad;
/// Rows for each worker, so that groups of them can be dealt out evenly, and workers where nobody said how many.
constexpr int64_t kRowsEach = 8, kWorkers = 4;

/// Does each iteration of the loop have elements of its own?
bool stores_elsewhere(const Op& row, const Op& loop) {
  bool any = false;
  for (const Op* op = body_of(row).first; op; op = op->next) {
    any |= op->code == Opcode::store_ && moves_access(*op, loop);
  }
  return any;
}

/// What rows that run together load and compute, each value once. It decides what pays, never what is allowed: that
/// is `order_to_jam`'s.
class Tally {
 public:
  Tally(const Op& row, const Op& loop, int64_t copies)
      : row_(row), loop_(loop), has_masks_(row.graph->registers >= kRegistersBesideMasks) {
    ir::walk(body_of(row), [&](const Op& op) {
      if (op.code == Opcode::store_) written_.insert(op.view());
    });
    for (int64_t u = 0; u < copies; ++u) {
      copy_ = u;
      numbers_.clear();
      for (const Op* op = body_of(row).first; op != body_of(row).last; op = op->next) note(*op);
    }
  }

  int64_t loads = 0, ops = 0, stores = 0;
  int64_t size() const { return loads + ops + stores; }

  /// The most registers at a time, where each value stays in one from where it is made to where it is needed last.
  int64_t registers() const {
    std::vector<size_t> last(made_.size());
    std::vector<int64_t> users(made_.size()), ends(made_.size());
    for (size_t n = 0; n < made_.size(); ++n) {
      for (const size_t needed : made_[n].needs) last[needed] = n, ++users[needed];
    }
    // A load for one user is done by that one.
    const auto stays = [&](size_t n) { return made_[n].in_register && users[n] > (made_[n].load ? 1 : 0); };
    for (size_t n = 0; n < made_.size(); ++n) ends[last[n]] += stays(n);
    int64_t live = 0, most = 0;
    for (size_t n = 0; n < made_.size(); ++n) {
      live += stays(n) - ends[n];
      most = std::max(most, live);
    }
    return most + static_cast<int64_t>(outside_.size());
  }

 private:
  using Key = std::vector<Wide>;
  struct Made {
    std::vector<size_t> needs;
    bool load = false, in_register = true;
  };

  void note(const Op& op) {
    if (op.code == Opcode::poll_) return;
    Made made;
    constexpr size_t usual = 24;
    Key key;
    key.reserve(usual);
    key.assign({static_cast<Wide>(op.code), static_cast<Wide>(op.imm), op.dim});
    if (op.access) {
      key.push_back(op.view()->id);
      for (size_t d = 0; d < op.access->offset.size(); ++d) append(key, row(op, d));
    }
    const bool own = op.code == Opcode::store_ || (op.code == Opcode::load_ && written_.contains(op.view()));
    if (own) key.push_back(copy_);
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Value* v = op.operands[k];
      if (op.access && (op.code != Opcode::store_ || k > 0)) break;
      if (const auto found = numbers_.find(v); found != numbers_.end()) {
        key.push_back(static_cast<Wide>(found->second));
        made.needs.push_back(found->second);
      } else {
        key.push_back(-1 - static_cast<Wide>(v->id));
        key.push_back(from_copy(*v));
        if (!op.access && ir::is_real(v->type.dtype)) outside_.insert({v, from_copy(*v)});
      }
    }
    if (op.result()) key.push_back(static_cast<Wide>(op.result()->type.dtype));
    const auto [at, fresh] = known_.try_emplace(std::move(key), made_.size());
    if (op.result()) numbers_[op.result()] = at->second;
    if (!fresh) return;
    made.load = op.code == Opcode::load_;
    made.in_register = op.result() && (op.result()->type.dtype != ir::DType::bool_ || !has_masks_);
    made_.push_back(std::move(made));
    loads += op.code == Opcode::load_;
    stores += op.code == Opcode::store_;
    ops += ir::is_pure(op.code) && op.code != Opcode::neg_ && op.code != Opcode::const_;
  }

  /// Which copy's value it is; 0 where copies have the same.
  int64_t from_copy(const Value& v) const { return moves(v, loop_) ? copy_ : 0; }

  void append(Key& key, const Affine& at) const {
    key.push_back(at.constant + at.coef(*induction(loop_)) * copy_);
    key.push_back(static_cast<Wide>(at.terms.size()));
    for (const auto& [atom, coef] : at.terms) {
      key.push_back(atom->id);
      key.push_back(coef);
      key.push_back(atom == induction(loop_) || atom == induction(row_) ? 0 : from_copy(*atom));
    }
  }

  const Op &row_, &loop_;
  const bool has_masks_;
  int64_t copy_ = 0;
  std::map<Key, size_t> known_;
  std::map<const Value*, size_t> numbers_;
  std::vector<Made> made_;
  std::set<std::pair<const Value*, int64_t>> outside_;
  std::set<const Value*> written_;
};

class Rows {
 public:
  explicit Rows(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    for (Op* loop : for_loops(graph_)) {
      if (is_row_in_lanes(*loop)) changed |= nest(*loop);
    }
    return changed;
  }

 private:
  /// Jams one loop of the perfect nest around the row: the innermost that pays where a loop around goes over the same
  /// elements again, the outermost that pays where none does.
  bool nest(Op& row) {
    std::vector<Op*> around;
    Op* inner = &row;
    Op* loop = ir::enclosing_loop(*row.parent);
    for (; loop && is_for(*loop) && is_perfect(*loop, *inner) && stores_elsewhere(row, *loop);
         loop = ir::enclosing_loop(*loop->parent)) {
      around.push_back(loop);
      inner = loop;
    }
    if (around.empty()) return false;
    // Rows of the outermost loop lie far apart: what comes from memory is best read in long stretches, and of planes
    // that no first-level cache holds two share most of what they need.
    const bool again = is_swept_again(row, loop);
    if (loop && !again) return false;
    bool changed = false;
    for (auto target = around.rbegin(); target != around.rend(); ++target) {
      if (!pays(row, **target) || !jam(row, **target)) continue;
      changed = true;
      // The loop as written does what is left: all where there are too few rows for the workers, else one at most.
      if (!again || !(*target)->loop->parallel) break;
    }
    return changed;
  }

  /// Does a loop, from this one outwards, go over the same elements again?
  static bool is_swept_again(const Op& row, const Op* loop) {
    for (; loop; loop = ir::enclosing_loop(*loop->parent)) {
      if (!stores_elsewhere(row, *loop)) return true;
    }
    return false;
  }

  bool pays(const Op& row, const Op& target) const {
    const Tally alone(row, target, 1);
    if (alone.size() > kMostOps) return false;
    const Tally together(row, target, kCopies);
    if (together.registers() > graph_.registers || together.size() > kMostOps) return false;
    return cost(together) <= kCopies * std::min(cost(alone) - kSaved, kWorthIt * cost(alone)) + 1e-9;
  }

  static double cost(const Tally& tally) {
    return kLoad * static_cast<double>(tally.loads) + static_cast<double>(tally.ops + tally.stores);
  }

  bool jam(Op& row, Op& loop) {
    Ranges ranges(graph_);
    const auto order = order_to_jam(graph_, ranges, loop, {&row}, kCopies);
    if (!order || !order->jammed.contains(&row)) return false;
    remark(graph_, ir::Severity::note, kStage, loop.loc,
           std::to_string(kCopies) + " iterations of the loop at " + line_of(graph_, loop.loc) + " run together");
    const int64_t workers = graph_.workers > 0 ? graph_.workers : kWorkers;
    const bool dealt_out = loop.loop->parallel && workers > 1;
    jam_loop(graph_, ranges, loop, *order, kCopies, dealt_out ? kRowsEach * workers : 0);
    return true;
  }

  ir::Graph& graph_;
};

}  // namespace

bool jam_rows(ir::Graph& graph) { return !graph.may_alias && Rows(graph).run(); }

}  // namespace appy::passes
