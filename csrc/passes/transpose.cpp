// A matrix that lanes read down its columns, and other loops again and again, is copied so that lanes run along its
// rows: `for i: for j in lanes: for k: s += a[i, k] * b[j, k]` reads b[j, k] of as many rows of b as there are lanes,
// for each i anew. The copy is made once, in front of all loops that read the same elements; accumulate.cpp, blocks.cpp
// and jam.cpp then find a plain product of matrices.
//
// Rules for editors:
// 1. Nothing writes to the array from where it is copied to where the copy is read for the last time.
// 2. Copied is the box of all subscripts, cut off at the ends of the array: what is loaded lies in both. The loops that
//    read it again load most of it each time, so that a copy costs less than a few of their iterations.

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/box.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/overlap.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "transpose";
/// Iterations that read the same elements: for fewer the copy costs as much as it saves, or, of elements that steps
/// inside of the lanes' loop read, for which rows run together in any case.
constexpr int64_t kFewest = 4, kFewestOfSteps = 16;
/// Of one copy.
constexpr int64_t kMostBytes = int64_t{1} << 31;
/// Rows that are copied at a time.
constexpr int64_t kRows = 32;

/// Loads of one array whose lanes step through dimension `dim`, and the outermost loop that they may be copied for.
struct Group {
  Value* view = nullptr;
  size_t dim = 0;
  Op *front = nullptr, *lanes = nullptr;
  std::vector<Op*> loads;
};

/// The dimension, not the last one, that the variable steps through one by one, and no other.
std::optional<size_t> steps_through(const Op& load, const Value& variable) {
  const ir::Type& view = load.view()->type;
  if (view.layout != ir::Layout::c && view.layout != ir::Layout::inner) return {};
  std::optional<size_t> found;
  for (size_t d = 0; d < load.access->offset.size(); ++d) {
    const Wide coef = row(load, d).coef(variable);
    if (coef == 0) continue;
    if (coef != 1 || found) return {};
    found = d;
  }
  return found && *found + 1 < load.access->offset.size() ? found : std::nullopt;
}

class Transposer {
 public:
  explicit Transposer(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    for (std::vector<Group> groups = find(); !groups.empty(); groups = find()) changed |= copy(groups);
    return changed;
  }

 private:
  /// What may be copied in front of one loop, which has no other such loop inside.
  std::vector<Group> find() const {
    std::vector<Group> found;
    Ranges ranges(graph_);
    ir::walk(*graph_.body, [&](Op& lanes) {
      if (!is_for(lanes) || !lanes.loop->simd || in_lanes(lanes) || constant(*lanes.operands[2]) != 1) return;
      ir::walk(body_of(lanes), [&](Op& op) {
        if (op.code != Opcode::load_ || seen_.count(&op) || ir::size_of(op.result()->type.dtype) < 4) return;
        const auto dim = steps_through(op, *induction(lanes));
        Op* const front = dim ? front_of(ranges, op, lanes) : nullptr;
        if (!front) return;
        if (!found.empty() && found[0].front != front) {
          if (is_inside(*found[0].front, body_of(*front))) return;
          if (!is_inside(*front, body_of(*found[0].front))) return;
          found.clear();
        }
        add(found, op, lanes, *dim, *front);
      });
    });
    return found;
  }

  static void add(std::vector<Group>& groups, Op& load, Op& lanes, size_t dim, Op& front) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.view == load.view() && g.dim == dim && g.lanes == &lanes;
    });
    if (same != groups.end()) return same->loads.push_back(&load);
    groups.push_back({load.view(), dim, &front, &lanes, {&load}});
  }

  /// The outermost loop around the load, with loops alone between, that reads what it reads again or is inside of one
  /// that does, and in which nothing writes to the array.
  static Op* front_of(Ranges& ranges, const Op& load, Op& lanes) {
    bool again = false;
    Op* front = nullptr;
    for (Op* at = ir::enclosing_loop(*load.parent); at; at = ir::enclosing_loop(*at->parent)) {
      const bool inside = is_inside(*at, body_of(lanes));
      if (!is_for(*at) || writes_to(body_of(*at), *load.view()) || !ir::defined_outside(*load.view(), body_of(*at)))
        break;
      if (!moves_access(load, *at)) {
        again |= ranges.most_trips(*at) >= kFewest;
      } else if (front && !inside && at != &lanes) {
        break;
      }
      if (again && !inside) front = at;
      // What a condition keeps from running is not copied, and nothing comes between loops that are collapsed.
      const Op* owner = at->parent->owner;
      if (!inside && owner && (!is_for(*owner) || owner->loop->collapse != 1)) break;
    }
    return front;
  }

  /// The loops that the load moves with run through a box of elements, most of it in each iteration of the others.
  static bool fills_a_box(Ranges& ranges, const Op& load, const Op& front) {
    const Op* const outside = ir::enclosing_loop(*front.parent);
    for (const Op* loop = ir::enclosing_loop(*load.parent); loop != outside; loop = ir::enclosing_loop(*loop->parent)) {
      if (!is_for(*loop)) return false;
      if (!moves_access(load, *loop)) continue;
      if (constant(*loop->operands[2]) != 1) return false;
      for (const Op* around = ir::enclosing_loop(*loop->parent); around != outside;
           around = ir::enclosing_loop(*around->parent)) {
        if (!have_most_in_common(ranges, *loop, *around)) return false;
      }
      if (!is_bounded(*loop->operands[0], front) || !is_bounded(*loop->operands[1], front)) return false;
    }
    for (size_t d = 0; d < load.access->offset.size(); ++d) {
      for (const auto& [term, coef] : row_at(ranges, load, d, load).terms) {
        const Op* owner = term->op ? nullptr : term->block->owner;
        const bool steps = owner && is_for(*owner) && term->index == 0 && (coef == 1 || coef == -1);
        if (!steps && !visible_before(*term, front)) return false;
      }
    }
    return true;
  }

  /// Its bounds are computed in front of the loop, without reading arrays.
  static bool is_bounded(const Value& v, const Op& front) {
    if (visible_before(v, front)) return true;
    if (!v.op) return v.index == 0 && is_for(*v.block->owner);
    return ir::is_pure(v.op->code) && std::all_of(v.op->operands.begin(), v.op->operands.end(),
                                                  [&](const Value* x) { return is_bounded(*x, front); });
  }

  struct Box {
    Group group;
    std::vector<Span> spans;
  };

  /// The box of all that the group loads; empty, with nothing emitted, where it is none.
  std::optional<std::vector<Span>> box_of(Ranges& ranges, const Group& group) const {
    const bool boxes = std::all_of(group.loads.begin(), group.loads.end(),
                                   [&](const Op* load) { return fills_a_box(ranges, *load, *group.front); });
    // As many neighbours as a line has are read as transposed squares where they lie.
    const int64_t line = ir::kCacheLine / ir::size_of(group.view->type.dtype);
    if (!boxes || static_cast<int64_t>(group.loads.size()) >= line) return {};
    const Op* const mark = group.front->prev;
    Extremes extremes(graph_, ranges, *group.front, {});
    extremes.builder().set_loc(group.lanes->loc);
    const std::vector<const Op*> loads(group.loads.begin(), group.loads.end());
    std::vector<Span> box;
    for (size_t d = 0; d < group.loads[0]->access->offset.size(); ++d) {
      const auto span = span_of(ranges, extremes, loads, d);
      if (!span) {
        while (group.front->prev != mark) group.front->parent->remove(group.front->prev);
        return {};
      }
      box.push_back(*span);
    }
    return box;
  }

  /// A condition: enough iterations read the same elements; null where that is known.
  static Value* pays(Ranges& ranges, Builder& b, const Group& group) {
    const Op& load = *group.loads[0];
    const Op* const outside = ir::enclosing_loop(*group.front->parent);
    const int64_t least = load.parent == &body_of(*group.lanes) ? kFewest : kFewestOfSteps;
    int64_t known = 1;
    Value* total = nullptr;
    for (const Op* loop = ir::enclosing_loop(*load.parent); loop != outside; loop = ir::enclosing_loop(*loop->parent)) {
      if (moves_access(load, *loop)) continue;
      known *= std::clamp<int64_t>(ranges.trips(*loop).lo, 1, least);
      const bool before =
          visible_before(*loop->operands[0], *group.front) && visible_before(*loop->operands[1], *group.front);
      if (!before || constant(*loop->operands[2]) != 1) continue;
      Value* trips = b.op(Opcode::pymin_, {emit_distance(b, loop->operands[0], loop->operands[1]), b.i64(least)});
      total = total ? b.op(Opcode::mul_, {total, trips}) : trips;
    }
    return total && known < least ? b.op(Opcode::ge_, {total, b.i64(least)}) : nullptr;
  }

  /// A condition: the copy takes no more memory than arrays that a program makes in passing.
  static Value* fits(Builder& b, const Box& box) {
    const int64_t most = kMostBytes / ir::size_of(box.group.view->type.dtype);
    Value *limit = b.i64(most + 1), *total = nullptr;
    for (const Span& span : box.spans) {
      Value* extent = b.op(Opcode::pymin_, {span.extent, limit});
      total = total ? b.op(Opcode::pymin_, {b.op(Opcode::mul_, {total, extent}), limit}) : extent;
    }
    return b.op(Opcode::le_, {total, b.i64(most)});
  }

  /// In a version of the loop for enough iterations that read the same, and memory for it.
  bool copy(const std::vector<Group>& groups) {
    for (const Group& group : groups) seen_.insert(group.loads.begin(), group.loads.end());
    Op& front = *groups[0].front;
    Ranges ranges(graph_);
    std::vector<Box> boxes;
    for (const Group& group : groups) {
      if (auto spans = box_of(ranges, group)) boxes.push_back({group, std::move(*spans)});
    }
    if (boxes.empty()) return false;
    Builder b(graph_);
    b.set_loc(front.loc);
    b.set_before(&front);
    Value* enough = nullptr;
    const auto also = [&](Value* condition) { enough = enough ? b.op(Opcode::and_, {enough, condition}) : condition; };
    for (const Box& box : boxes) {
      also(fits(b, box));
      if (Value* worth = pays(ranges, b, box.group)) also(worth);
    }
    with_versions(b, front, enough, [&](Op& choice) {
      Copier copier(graph_);
      Op* const loop = copier.copy(front);
      choice.blocks[0]->append(loop);
      b.set_block(choice.blocks[0]);
      b.yield(loop->results);
      b.set_before(loop);
      for (const Box& box : boxes) {
        b.set_loc(box.group.lanes->loc);
        Value* near = alloc(b, box);
        fill(b, box, *near);
        for (Op* load : box.group.loads) redirect(*copier.of(load->result())->op, box, *near);
        tell(box.group);
      }
    });
    return true;
  }

  /// The order of the copy's dimensions: the lanes' one comes last.
  template <class T>
  static std::vector<T> turned(const std::vector<T>& of, size_t dim) {
    std::vector<T> out = of;
    std::rotate(out.begin() + static_cast<ptrdiff_t>(dim), out.begin() + static_cast<ptrdiff_t>(dim) + 1, out.end());
    return out;
  }

  static Value* alloc(Builder& b, const Box& box) {
    const Group& group = box.group;
    ir::Type type = group.view->type;
    type.layout = ir::Layout::c;
    std::vector<Value*> extents;
    for (const Span& span : turned(box.spans, group.dim)) extents.push_back(span.extent);
    // Rows are a whole number of lines, and an odd one, so that the elements of a column are not all in the same few
    // places of the cache.
    const int64_t line = ir::kCacheLine / ir::size_of(type.dtype);
    Value* lines = emit_ceiling(b, extents.back(), b.i64(line));
    extents.back() = b.op(Opcode::mul_, {b.op(Opcode::or_, {lines, b.i64(1)}), b.i64(line)});
    Value* near = b.alloc(type, extents);
    near->name = group.view->name;
    return near;
  }

  /// A few rows of what is copied at a time, along them: each of them is read line by line. As many neighbours as a
  /// line has make loads and stores of transposed squares (csrc/cpu/vector_strided.cpp).
  static void fill(Builder& b, const Box& of, Value& near) {
    const Group& group = of.group;
    const std::vector<Span>& box = of.spans;
    const int64_t line = ir::kCacheLine / ir::size_of(near.type.dtype);
    const size_t along = box.size() - 1;
    Value *zero = b.i64(0), *count = box[along].extent, *width = b.i64(line), *rows = b.i64(kRows);
    Value* lines = b.op(Opcode::floordiv_, {count, width});
    Value* rest = b.op(Opcode::mul_, {lines, width});
    std::vector<Value*> at(box.size());
    const auto columns = [&](Value* first, int64_t together, Value* low, Value* high) {
      for_each(b, low, high, true, [&](Value* lane) {
        at[group.dim] = lane;
        at[along] = first;
        std::vector<Value*> from = at, loaded;
        for (size_t d = 0; d < box.size(); ++d) {
          if (box[d].begin) from[d] = b.op(Opcode::add_, {box[d].begin, at[d]});
        }
        for (int64_t u = 0; u < together; ++u) {
          loaded.push_back(b.load(group.view, from));
          loaded.back()->op->access->offset[along] = u;
        }
        const std::vector<Value*> to = turned(at, group.dim);
        for (int64_t u = 0; u < together; ++u) {
          b.store(loaded[static_cast<size_t>(u)], &near, to)->access->offset[along - 1] = u;
        }
      });
    };
    Op* tiles = for_each(b, zero, emit_ceiling(b, box[group.dim].extent, rows), false, [&](Value* tile) {
      Value* low = b.op(Opcode::mul_, {tile, rows});
      Value* high = b.op(Opcode::pymin_, {b.op(Opcode::add_, {low, rows}), box[group.dim].extent});
      for_others(b, group.dim, box, 0, at, [&] {
        for_each(b, zero, lines, false, [&](Value* n) { columns(b.op(Opcode::mul_, {n, width}), line, low, high); });
        for_each(b, rest, count, false, [&](Value* n) { columns(n, 1, low, high); });
      });
    });
    tiles->loop->parallel = true;
  }

  template <class F>
  static Op* for_each(Builder& b, Value* low, Value* high, bool lanes, F&& body) {
    ir::Loop kind;
    kind.parallel = kind.simd = lanes;
    return emit_loop(b, low, high, std::move(kind), body);
  }

  /// Loops over all dimensions but the lanes' and the last one.
  template <class F>
  static void for_others(Builder& b, size_t lanes, const std::vector<Span>& box, size_t d, std::vector<Value*>& at,
                         F&& body) {
    if (d + 1 >= box.size()) return body();
    if (d == lanes) return for_others(b, lanes, box, d + 1, at, body);
    for_each(b, b.i64(0), box[d].extent, false, [&](Value* n) {
      at[d] = n;
      for_others(b, lanes, box, d + 1, at, body);
    });
  }

  /// The load reads the copy, whose first element is the box's.
  static void redirect(Op& load, const Box& of, Value& near) {
    const std::vector<Span>& box = of.spans;
    const size_t dim = of.group.dim;
    load.operands[0] = &near;
    ir::Access& access = *load.access;
    for (size_t d = 0; d < box.size(); ++d) {
      if (!box[d].begin) continue;
      load.operands.push_back(box[d].begin);
      ++access.terms;
      for (size_t n = 0; n < box.size(); ++n) access.coef[n].push_back(n == d ? -1 : 0);
    }
    access.offset = turned(access.offset, dim);
    access.coef = turned(access.coef, dim);
  }

  void tell(const Group& group) {
    const ir::LocId loc = group.lanes->loc;
    remark(graph_, ir::Severity::note, kStage, loc,
           "lanes of the loop at " + line_of(graph_, loc) + " read " +
               (group.view->name.empty() ? "a matrix" : group.view->name) +
               " across its rows, again and again: they read a transposed copy");
  }

  ir::Graph& graph_;
  std::set<const Op*> seen_;  // loads
};

}  // namespace

bool transpose(ir::Graph& graph) { return !graph.may_alias && Transposer(graph).run(); }

}  // namespace appy::passes
