// Nests that go over whole rows, which follow each other in memory:
//
//   for i in [0, n): for j in lanes [0, m): c[i, j] = a[i, j] + b[i, j]      c[n, m], a[., m], b[., m]
//
// become one loop in lanes, of n * m iterations, over c[0, k]: rows of three elements fill vectors then, and threads
// share few long rows evenly. The same holds of the last dimensions of an array whose first ones are the same
// throughout, and in Fortran's order of the first ones.
//
// Rules for editors:
// 1. Each iteration touches its own element of every array that the nest writes, so that any order will do.
// 2. Rows are as long as the loop because the graph says so, by the same value or by a check before the nest; or the
//    entry that the graph is given has them so, and the others decline.
// 3. From here on subscripts may go on into the rows behind: no pass behind this one takes an extent for their bound.

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Builder;
using ir::Layout;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "flatten";

using Nest = std::vector<Op*>;

/// What a number of elements or iterations is: an extent of a parameter, a constant, or some other value.
struct Length {
  const Value* value = nullptr;
  int64_t number = -1;
  auto operator<=>(const Length&) const = default;
};

Length length_of(const Value& v);

Length extent(const Value& view, int dim) {
  if (const Op* alloc = ir::alloc_of(view)) return length_of(*alloc->operands[static_cast<size_t>(dim)]);
  return {&view, dim};
}

Length length_of(const Value& v) {
  if (const std::optional<int64_t> n = constant(v)) return {nullptr, *n};
  if (v.op && v.op->code == Opcode::dim_) return extent(*v.op->operands[0], v.op->dim);
  return {&v, -1};
}

/// Lengths that are equal where `op` runs.
class Equal {
 public:
  explicit Equal(const Op& op) {
    for (const Op* at = &op; at; at = at->parent->owner) {
      for (const Op* before = at->prev; before; before = before->prev) {
        if (before->code != Opcode::check_) continue;
        const Op* test = before->operands[0]->op;
        if (test && test->code == Opcode::eq_ && ir::is_int(test->operands[0]->type.dtype))
          pairs_.emplace_back(length_of(*test->operands[0]), length_of(*test->operands[1]));
      }
    }
  }

  bool operator()(const Length& a, const Length& b) const {
    std::vector<Length> known = {a};
    for (size_t k = 0; k < known.size(); ++k) {
      if (known[k] == b) return true;
      for (const auto& [x, y] : pairs_) {
        if (x != known[k] && y != known[k]) continue;
        const Length& other = x == known[k] ? y : x;
        if (std::find(known.begin(), known.end(), other) == known.end()) known.push_back(other);
      }
    }
    return false;
  }

 private:
  std::vector<std::pair<Length, Length>> pairs_;
};

bool counts_from_zero(const Op& loop) {
  const ir::Loop& l = *loop.loop;
  return is_simple_for(loop) && loop.results.empty() && constant(*loop.operands[0]) == 0 && l.chunk == 0 && l.le == 0 &&
         l.schedule == ir::Schedule::automatic && !l.tiles;
}

/// The loop, and those that each is all of the one around, but for polls.
Nest nest_of(Op& outermost) {
  Nest nest;
  for (Op* loop = &outermost; loop && counts_from_zero(*loop);) {
    nest.push_back(loop);
    Op* inner = nullptr;
    for (Op* op = body_of(*loop).first; op != body_of(*loop).last; op = op->next) {
      if (op->code == Opcode::poll_) continue;
      if (inner || !is_for(*op)) return nest;
      inner = op;
    }
    loop = inner;
  }
  return nest;
}

bool is_variable(const Value& v, const Nest& nest) {
  return std::any_of(nest.begin(), nest.end(), [&](const Op* loop) { return induction(*loop) == &v; });
}

/// That rows of an array are as long as a loop.
struct Wanted {
  Value* view;
  int dim;
  const Op* loop;
};

/// The iteration's own element, row by row, or one that all of them load. What nobody knows to be equal is wanted.
bool lies_flat(const Op& access, const Nest& nest, const Equal& equal, std::vector<Wanted>& wanted) {
  const Value& view = *access.view();
  const Layout layout = view.type.layout;
  const auto rank = static_cast<size_t>(view.type.rank);
  const auto terms = access.terms();
  if (std::none_of(terms.begin(), terms.end(), [&](const Value* v) { return is_variable(*v, nest); }))
    return access.code == Opcode::load_ && !writes_to(body_of(*nest[0]), view);
  if ((layout != Layout::c && layout != Layout::f) || rank < nest.size()) return false;
  for (size_t k = 0; k < rank; ++k) {
    // From the dimension that varies slowest on.
    const size_t d = layout == Layout::c ? k : rank - 1 - k;
    Affine subscript = row(access, d);
    if (k + nest.size() < rank) {
      for (const auto& [term, coef] : subscript.terms) {
        if (!ir::defined_outside(*term, body_of(*nest[0]))) return false;
      }
      continue;
    }
    const Op& loop = *nest[k + nest.size() - rank];
    subscript.add(*induction(loop), -1);
    if (!subscript.is_constant() || subscript.constant != 0) return false;
    const auto dim = static_cast<int>(d);
    if (&loop == nest[0] || equal(extent(view, dim), length_of(*loop.operands[1]))) continue;
    const auto same = [&](const Wanted& w) { return w.view == &view && w.dim == dim && w.loop == &loop; };
    if (std::none_of(wanted.begin(), wanted.end(), same)) wanted.push_back({access.view(), dim, &loop});
  }
  return true;
}

bool is_flat(const Nest& nest, std::vector<Wanted>& wanted) {
  if (nest.size() < 2) return false;
  const Op& last = *nest.back();
  if (!last.loop->simd || has_inner_loop(last) || !has_plain_body(last)) return false;
  const Equal equal(*nest[0]);
  bool fits = std::all_of(nest.begin(), nest.end(),
                          [&](const Op* loop) { return visible_before(*loop->operands[1], *nest[0]); });
  ir::walk(body_of(last), [&](const Op& op) {
    if (!fits) return;
    const std::span values = std::span(op.operands).first(op.access ? op.first_term() : op.operands.size());
    fits = std::none_of(values.begin(), values.end(), [&](const Value* v) { return is_variable(*v, nest); });
    if (op.access) fits = fits && lies_flat(op, nest, equal, wanted);
  });
  return fits;
}

/// Does the entry that the graph is given have rows of these lengths? Others, for which that is otherwise, decline.
bool is_given(ir::Graph& graph, const Nest& nest, const std::vector<Wanted>& wanted) {
  if (wanted.empty()) return true;
  Builder b(graph);
  b.set_loc(nest[0]->loc);
  b.set_before(nest[0]);
  Value* all = nullptr;
  for (const auto& [view, dim, loop] : wanted) {
    Value* alike = b.op(Opcode::eq_, {b.dim(view, dim), loop->operands[1]});
    all = all ? b.op(Opcode::and_, {all, alike}) : alike;
  }
  return settle(graph, *all) == true;
}

/// The number of iterations of all loops; each but the first has no fewer than none, as an extent.
Value* all_iterations(Builder& b, const Nest& nest) {
  Value* all = nest[0]->operands[1];
  for (size_t k = 1; k < nest.size(); ++k) all = b.op(Opcode::mul_, {all, nest[k]->operands[1]});
  return all;
}

/// The innermost poll, or null.
Op* poll_of(const Nest& nest) {
  for (auto loop = nest.rbegin(); loop != nest.rend(); ++loop) {
    for (Op* op = body_of(**loop).first; op; op = op->next) {
      if (op->code == Opcode::poll_) return op;
    }
  }
  return nullptr;
}

/// Does what it tells stay the same throughout the nest?
bool tells_one_state(const Op* poll, const Nest& nest) {
  return !poll || std::all_of(poll->operands.begin(), poll->operands.end(),
                              [&](const Value* v) { return ir::defined_outside(*v, body_of(*nest[0])); });
}

void flatten(ir::Graph& graph, const Nest& nest) {
  Op &first = *nest[0], &last = *nest.back();
  Value* variable = induction(last);
  ir::walk(body_of(last), [&](Op& op) {
    if (!op.access) return;
    // Other terms are those of the dimensions in front.
    const auto terms = op.terms();
    for (size_t t = 0; t < terms.size(); ++t) {
      if (!is_variable(*terms[t], nest) || terms[t] == variable) continue;
      for (ir::Access::Row& coefs : op.access->coef) coefs[t] = 0;
    }
  });
  if (Op* poll = poll_of(nest); poll && poll->parent != &body_of(last)) {
    poll->parent->remove(poll);
    body_of(last).insert_before(body_of(last).last, poll);
  }
  Builder b(graph);
  b.set_loc(first.loc);
  b.set_before(&first);
  last.operands[1] = all_iterations(b, nest);
  last.operands[0] = first.operands[0];
  last.operands[2] = first.operands[2];
  for (const Op* loop : nest) {
    last.loop->parallel |= loop->loop->parallel;
    last.loop->annotated |= loop->loop->annotated;
  }
  last.loop->threads = first.loop->threads;
  const ir::LocId loc = last.loc;
  last.parent->remove(&last);
  first.parent->insert_before(&first, &last);
  first.parent->remove(&first);
  for (const Op* loop : nest) {
    if (loop != &last) ir::replace_uses(graph, induction(*loop), last.operands[0]);
  }
  remark(graph, ir::Severity::note, kStage, loc, "rows follow each other in memory: all are one");
}

bool run(ir::Graph& graph, ir::Block& block) {
  bool changed = false;
  for (Op *op = block.first, *next; op; op = next) {
    next = op->next;
    if (is_for(*op)) {
      const Nest nest = nest_of(*op);
      std::vector<Wanted> wanted;
      if (is_flat(nest, wanted) && tells_one_state(poll_of(nest), nest)) {
        changed |= !wanted.empty();
        if (is_given(graph, nest, wanted)) {
          flatten(graph, nest);
          changed = true;
          continue;
        }
      }
    }
    for (ir::Block* inner : op->blocks) changed |= run(graph, *inner);
  }
  return changed;
}

}  // namespace

bool flatten(ir::Graph& graph) { return !graph.may_alias && run(graph, *graph.body); }

}  // namespace appy::passes
