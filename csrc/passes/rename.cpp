// Array renaming: a loop runs in order only because its iterations read what later ones overwrite.
//
//   for i: for j: b[i, j] += sum of a[k, i] * b[k, j] over k > i
//
// Where the old values are read from a copy, taken before the loop, its iterations have nothing to do with each other
// (Padua and Wolfe, "Advanced compiler optimizations for supercomputers", 1986). The nest then is a matrix product of a
// triangle, which others know how to run.
//
// Rules for editors:
// 1. A load reads the copy only where no iteration before its own, and nothing before it in its own, stores to the
//    element. No element is stored to by two iterations.
// 2. The copy goes no further than the array and what the loads reach. It pays where they read its elements often.

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
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

constexpr std::string_view kStage = "rename";
/// Iterations of the loops around a load, at least: else an element of the copy is not read often enough.
constexpr int64_t kFew = 8;

/// A loop, as far as its loads may be given old values.
class Renaming {
 public:
  Renaming(ir::Graph& graph, Op& loop) : graph_(graph), loop_(loop), outermost_(&loop), ranges_(graph) {}

  bool run() {
    if (!is_plain() || !find_loads() || !find_place() || !find_boxes() || !pays()) return false;
    for (Copied& each : arrays_) copy(each);
    loop_.loop->parallel = true;
    return true;
  }

 private:
  /// A part of an array, and the loads that read it.
  struct Copied {
    Value* view;
    std::vector<Op*> loads;
    std::vector<std::pair<Affine, Affine>> box;  // the least and the greatest subscript, by dimension
  };

  bool is_plain() {
    ir::walk(body_of(loop_), [&](Op& op) {
      if (op.code == Opcode::store_) stores_.push_back(&op);
      if (op.code == Opcode::load_) loads_.push_back(&op);
    });
    return !has_permission(loop_) && loop_.results.empty() && left_by_yield_only(loop_) &&
           constant(*loop_.operands[2]).value_or(0) != 0 && loop_.loop->threads != 1 && !stores_.empty() &&
           ordered_by_accesses_only(loop_);
  }

  bool find_loads() {
    for (const Op* a : stores_) {
      for (const Op* b : stores_) {
        if (a->view() == b->view() && !meet_in_one_iteration(*a, *b, loop_)) return false;
      }
    }
    for (Op* load : loads_) {
      bool apart = true, old = true;
      for (Op* store : stores_) {
        if (store->view() != load->view() || distance(*store, *load, loop_).kind == Distance::Kind::none) continue;
        const bool together = meet_in_one_iteration(*store, *load, loop_);
        const bool before = comes_before(*load, *store, loop_);
        apart &= together;
        old &= together ? before : is_earlier(ranges_, *load, *store, loop_, before);
      }
      if (apart) continue;
      if (!old) return false;
      const auto known =
          std::find_if(arrays_.begin(), arrays_.end(), [&](const Copied& each) { return each.view == load->view(); });
      Copied& of = known == arrays_.end() ? arrays_.emplace_back(Copied{load->view(), {}, {}}) : *known;
      of.loads.push_back(load);
    }
    return !arrays_.empty();
  }

  /// Workers have no copies of their own: it is taken before the loops that they share.
  bool find_place() {
    for (Op* around; (around = ir::enclosing_loop(*outermost_->parent)) && has_permission(*around);) {
      if (outermost_->parent != &body_of(*around) || !left_by_yield_only(*around)) return false;
      bool own = true;
      ir::walk(body_of(*around), [&](const Op& op) {
        own &= op.code != Opcode::alloc_;
        if (op.code != Opcode::store_ && op.code != Opcode::atomic_) return;
        for (const Copied& each : arrays_) {
          if (op.view() != each.view) continue;
          own &= is_inside(op, body_of(loop_));
          for (const Op* load : each.loads) own &= pinned(op, *load, *around);
        }
      });
      if (!own) return false;
      outermost_ = around;
    }
    for (const Op* at = ir::enclosing_loop(*outermost_->parent); at; at = ir::enclosing_loop(*at->parent)) {
      if (has_permission(*at)) return false;
    }
    return true;
  }

  bool find_boxes() {
    for (Copied& each : arrays_) {
      if (!visible_before(*each.view, *outermost_)) return false;
      // One load, or several of the same elements: others would have boxes of their own.
      const Op& load = *each.loads[0];
      for (const Op* other : each.loads) {
        if (!same_element(load, *other)) return false;
      }
      for (size_t d = 0; d < load.access->offset.size(); ++d) {
        const auto low = bound(row_at(ranges_, load, d, load), true),
                   high = bound(row_at(ranges_, load, d, load), false);
        if (!low || !high) return false;
        each.box.emplace_back(*low, *high);
      }
    }
    return true;
  }

  /// A bound of the sum while the outermost loop runs, from what is known before it.
  std::optional<Affine> bound(const Affine& sum, bool least) {
    const Value& variable = *induction(*outermost_);
    const int64_t step = constant(*outermost_->operands[2]).value_or(0);
    for (Affine found : bounds_of(ranges_, sum, least, *outermost_)) {
      const Wide coef = found.coef(variable);
      if (coef != 0 && step == 0) continue;
      if (coef != 0) {
        const bool at_first = ((coef > 0) == least) == (step > 0);
        Affine end = ranges_.affine(*outermost_->operands[at_first ? 0 : 1], *outermost_);
        if (!at_first) end.constant += step > 0 ? -1 : 1;
        found.add(variable, -coef);
        found.add(end, coef);
      }
      const bool known = std::all_of(found.terms.begin(), found.terms.end(),
                                     [&](const auto& term) { return visible_before(*term.first, *outermost_); });
      if (known) return found;
    }
    return {};
  }

  /// Loads run through more loops than the copy has dimensions.
  bool pays() {
    return std::all_of(arrays_.begin(), arrays_.end(), [&](const Copied& each) {
      size_t dimensions = 0;
      for (const auto& [low, high] : each.box) {
        Affine extent = high;
        extent.add(low, -1);
        dimensions += !extent.is_constant();
      }
      return std::any_of(each.loads.begin(), each.loads.end(), [&](const Op* load) {
        size_t loops = 0;
        for (const Op* at = load; at != outermost_;) {
          at = ir::enclosing_loop(*at->parent);
          if (!is_for(*at) || ranges_.most_trips(*at) < kFew) return false;
          ++loops;
        }
        return loops > dimensions;
      });
    });
  }

  void copy(Copied& each) {
    Builder b(graph_);
    b.set_loc(loop_.loc);
    b.set_before(outermost_);
    Value *zero = b.i64(0), *one = b.i64(1);
    std::vector<Value*> lows, extents;
    const auto rank = static_cast<int>(each.box.size());
    for (int d = 0; d < rank; ++d) {
      auto& [low, high] = each.box[static_cast<size_t>(d)];
      high.constant += 1;
      // Loops that do not run say nothing of the array's size.
      const bool natural = low.is_constant() && low.constant >= 0;
      Value* first = natural ? emit(b, low) : b.op(Opcode::pymax_, {emit(b, low), zero});
      Value* end = b.op(Opcode::pymin_, {emit(b, high), b.dim(each.view, d)});
      lows.push_back(first);
      extents.push_back(b.op(Opcode::pymax_, {b.op(Opcode::sub_, {end, first}), zero}));
    }
    Value* old = b.alloc({each.view->type.dtype, static_cast<int8_t>(rank), ir::Layout::c}, extents);
    old->name = each.view->name.empty() ? "old" : each.view->name + "_old";
    std::vector<Value*> variables;
    std::vector<Block*> bodies;
    Builder inner = b;
    for (int d = 0; d < rank; ++d) {
      ir::Loop loop;
      loop.parallel = true;
      loop.simd = d + 1 == rank;
      Op* made = inner.for_loop(zero, extents[static_cast<size_t>(d)], one, {}, std::move(loop));
      bodies.push_back(&body_of(*made));
      inner.set_block(bodies.back());
      variables.push_back(induction(*made));
    }
    Op* load = graph_.new_op(Opcode::load_, loop_.loc);
    load->operands = {each.view};
    load->access = std::make_unique<ir::Access>();
    subscribe(*load, variables, lows, 1);
    ir::add_result(*load, {each.view->type.dtype});
    inner.block()->append(load);
    inner.store(load->result(), old, variables);
    for (Block* body : bodies) {
      inner.set_block(body);
      inner.yield({});
    }
    for (Op* at : each.loads) {
      at->operands[0] = old;
      shift(*at, lows);
    }
    remark(graph_, ir::Severity::note, kStage, loop_.loc,
           "the loop at " + line_of(graph_, loop_.loc) + " runs in any order: it reads what '" + each.view->name +
               "' was from a copy");
  }

  /// Subscripts x + sign * low, by dimension.
  static void subscribe(Op& access, const std::vector<Value*>& x, const std::vector<Value*>& lows, int64_t sign) {
    const size_t rank = x.size();
    access.access->terms = static_cast<int>(2 * rank);
    access.access->offset.assign(rank, 0);
    access.access->coef.assign(rank, ir::Access::Row(2 * rank, 0));
    for (size_t d = 0; d < rank; ++d) {
      access.operands.push_back(x[d]);
      access.operands.push_back(lows[d]);
      access.access->coef[d][2 * d] = 1;
      access.access->coef[d][2 * d + 1] = sign;
    }
  }

  static void shift(Op& access, const std::vector<Value*>& lows) {
    const size_t rank = lows.size();
    for (size_t d = 0; d < rank; ++d) {
      if (const auto low = constant(*lows[d])) {
        access.access->offset[d] -= *low;
        continue;
      }
      access.operands.push_back(lows[d]);
      ++access.access->terms;
      for (size_t e = 0; e < rank; ++e) access.access->coef[e].push_back(e == d ? -1 : 0);
    }
  }

  ir::Graph& graph_;
  Op& loop_;
  Op* outermost_;
  Ranges ranges_;
  std::vector<Op*> stores_, loads_;
  std::vector<Copied> arrays_;
};

bool run(ir::Graph& graph, Block& block) {
  bool changed = false;
  for (Op* op = block.first; op; op = op->next) {
    if (is_for(*op) && Renaming(graph, *op).run()) changed = true;
    for (Block* inner : op->blocks) changed |= run(graph, *inner);
  }
  return changed;
}

}  // namespace

bool rename(ir::Graph& graph) { return !graph.may_alias && run(graph, *graph.body); }

}  // namespace appy::passes
