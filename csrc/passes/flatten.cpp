// Nests that go over whole rows, which follow each other in memory:
//
//   for i in [0, n): for j in lanes [0, m): c[i, j] = a[i, j] + b[i, j]      c[n, m], a[., m], b[., m]
//
// become one loop in lanes, of n * m iterations, over c[0, k]: rows of three elements fill vectors then, and threads
// share few long rows evenly. The same holds of the last dimensions of an array whose first ones are the same
// throughout, and in Fortran's order of the first ones, whichever of the loops is the inner one. Sums over whole rows
// are those of the one loop. Dimensions of one element do not count: c[i, 0] of an array with one column becomes c[0,
// i]. The first row need not be the array's: a[i + 1, j] becomes a[0, k + m], with m as a value in front of the loop.
//
// Rules for editors:
// 1. Each iteration touches its own element of every array that the nest writes, so that any order will do.
// 2. Rows are as long as the loop because the graph says so, by the same value or by a check before the nest; or the
//    entry that the graph is given has them so, and the others decline. Where it has more than one column there, which
//    is usual, nothing is asked of others.
// 3. From here on subscripts may go on into the rows behind: no pass behind this one takes an extent for their bound.

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/formula.h"
#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/collapse.h"
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

bool is_plain(const Op& loop) {
  const ir::Loop& l = *loop.loop;
  return is_simple_for(loop) && l.chunk == 0 && l.le == 0 && l.schedule == ir::Schedule::automatic && !l.tiles;
}

/// Does the inner loop go on with what the outer one carries, in as free an order, and leave it what it yields?
bool carries_on(const Op& outer, const Op& inner) {
  if (outer.loop->carried != inner.loop->carried) return false;
  if (carried_count(outer) > 0 && outer.loop->annotated != inner.loop->annotated) return false;
  for (size_t k = 0; k < carried_count(outer); ++k) {
    if (inner.operands[first_init(inner) + k] != body_of(outer).args[first_carried(outer) + k] ||
        body_of(outer).last->operands[k] != inner.results[k])
      return false;
  }
  return true;
}

/// The loop, and those that each is all of the one around, but for polls and what is computed from its variable.
Nest nest_of(Op& outermost) {
  Nest nest;
  for (Op* loop = &outermost; loop && is_plain(*loop); loop = only_loop_in(*loop)) {
    if (!nest.empty() && (constant(*loop->operands[0]) != 0 || !carries_on(*nest.back(), *loop))) break;
    nest.push_back(loop);
  }
  return nest;
}

bool is_variable(const Value& v, const Nest& nest) {
  return std::any_of(nest.begin(), nest.end(), [&](const Op* loop) { return induction(*loop) == &v; });
}

/// Is it the number of the iteration, (i * n + j) * m + k, of the loops up to this one?
bool is_number(const Value& v, const Nest& nest, size_t loop, const Equal& equal) {
  if (loop == 0) return &v == induction(*nest[0]);
  if (!v.op || v.op->code != Opcode::add_) return false;
  const Value &a = *v.op->operands[0], &b = *v.op->operands[1];
  const Value* variable = induction(*nest[loop]);
  const Value& rows = &a == variable ? b : a;
  if ((&a != variable && &b != variable) || !rows.op || rows.op->code != Opcode::mul_) return false;
  const Length length = length_of(*nest[loop]->operands[1]);
  const Value &x = *rows.op->operands[0], &y = *rows.op->operands[1];
  return (equal(length_of(y), length) && is_number(x, nest, loop - 1, equal)) ||
         (equal(length_of(x), length) && is_number(y, nest, loop - 1, equal));
}

/// That a dimension of an array is as long as a loop, or of one element where there is no loop.
struct Wanted {
  Value* view;
  int dim;
  const Op* loop;
  bool operator==(const Wanted&) const = default;
};

/// How many rows from that of the iteration an access is, in the dimension of the outermost loop.
struct Shift {
  Op* access;
  size_t dim;
  Affine rows;
};

/// What the accesses of a nest say of it.
struct Flat {
  explicit Flat(Nest slowest_first) : order(std::move(slowest_first)) {}
  Nest order;                  // the loops, first that whose dimension varies slowest in memory
  std::vector<Wanted> wanted;  // what nobody knows to be so
  bool columns = false;        // an array has dimensions of one element behind those that the loops are in
  std::vector<Op*> numbers;    // each is the number of the iteration
  std::vector<Shift> shifts;   // of all accesses by the nest's variables
};

/// An array that the nest writes is accessed in the same row everywhere.
bool keeps_to_its_rows(const Shift& s, const Nest& nest, const Flat& flat) {
  return std::all_of(flat.shifts.begin(), flat.shifts.end(), [&](const Shift& other) {
    return other.access->view() != s.access->view() || (other.dim == s.dim && other.rows == s.rows) ||
           !writes_to(body_of(*nest[0]), *s.access->view());
  });
}

/// The iteration's own element, row by row, or one some rows away, or one that all of them load.
bool lies_flat(Op& access, const Nest& nest, const Equal& equal, Flat& flat) {
  const Value& view = *access.view();
  const auto rank = static_cast<size_t>(view.type.rank);
  const auto terms = access.terms();
  if (std::none_of(terms.begin(), terms.end(), [&](const Value* v) { return is_variable(*v, nest); }))
    return access.code == Opcode::load_ && !writes_to(body_of(*nest[0]), view);
  if (view.type.layout != Layout::c && view.type.layout != Layout::f) return false;
  size_t loops = flat.order.size();  // whose dimensions were not met yet
  for (size_t k = 0; k < rank; ++k) {
    const size_t d = ir::by_speed(view.type, k);
    const auto dim = static_cast<int>(d);
    const auto want = [&](const Op* loop) {
      const Length length = loop ? length_of(*loop->operands[1]) : Length{nullptr, 1};
      const Wanted wanted = {access.view(), dim, loop};
      if (!equal(extent(view, dim), length) &&
          std::find(flat.wanted.begin(), flat.wanted.end(), wanted) == flat.wanted.end())
        flat.wanted.push_back(wanted);
    };
    Affine rest = row(access, d);
    if (loops > 0) {
      if (rest == Affine{}) {
        want(nullptr);
        flat.columns = true;
        continue;
      }
      const Op* loop = flat.order[--loops];
      rest.add(*induction(*loop), -1);
      if (loops > 0) {
        if (rest != Affine{}) return false;
        want(loop);
        continue;
      }
      flat.shifts.push_back({&access, d, rest});
    }
    for (const auto& [term, coef] : rest.terms) {
      if (!ir::defined_outside(*term, body_of(*nest[0]))) return false;
    }
  }
  return loops == 0 && keeps_to_its_rows(flat.shifts.back(), nest, flat);
}

/// May inner loops be the outer ones? Accesses permit that where they lie flat.
bool has_any_order(const Nest& nest) {
  if (nest.size() < 2 || constant(*nest[0]->operands[0]) != 0) return false;
  const std::vector<ir::Carried>& carried = nest[0]->loop->carried;
  return std::all_of(carried.begin(), carried.end(), accumulates);
}

bool is_flat(const Nest& nest, Flat& flat) {
  if (nest.empty()) return false;
  const Op& last = *nest.back();
  if (!last.loop->simd || has_inner_loop(last) || !has_plain_body(last)) return false;
  const Equal equal(*nest[0]);
  bool fits = std::all_of(nest.begin(), nest.end(),
                          [&](const Op* loop) { return visible_before(*loop->operands[1], *nest[0]); });
  // Of what is computed for a row only the number of its first element is of use.
  const auto is_of_rows = [&](const Value* v) {
    return (nest.size() > 1 && is_variable(*v, nest)) ||
           (ir::defined_outside(*v, body_of(last)) && !ir::defined_outside(*v, body_of(*nest[0])));
  };
  ir::walk(body_of(last), [&](Op& op) {
    if (!fits) return;
    if (op.result() && flat.order == nest && is_number(*op.result(), nest, nest.size() - 1, equal)) {
      flat.numbers.push_back(&op);
      return;
    }
    const std::span values = std::span(op.operands).first(op.access ? op.first_term() : op.operands.size());
    fits = std::none_of(values.begin(), values.end(), is_of_rows);
    if (op.access) fits = fits && lies_flat(op, nest, equal, flat);
  });
  return fits && (nest.size() > 1 || flat.columns);
}

/// Does the entry that the graph is given have rows of these lengths? Others, for which that is otherwise, decline.
bool is_given(ir::Graph& graph, const Nest& nest, const Flat& flat) {
  if (flat.wanted.empty()) return true;
  Builder b(graph);
  b.set_loc(nest[0]->loc);
  b.set_before(nest[0]);
  Value* all = nullptr;
  for (const auto& [view, dim, loop] : flat.wanted) {
    Value* alike = b.op(Opcode::eq_, {b.dim(view, dim), loop ? loop->operands[1] : b.i64(1)});
    all = all ? b.op(Opcode::and_, {all, alike}) : alike;
  }
  if (flat.columns) {
    const std::optional<ir::Formula> formula = ir::Formula::of(all, graph);
    if (!formula || graph.given.empty() || (*formula)(graph.given.data()) == 0) return false;
  }
  return settle(graph, *all) == true;
}

/// So many times the iterations of all loops but the first, which as extents are no fewer than none.
Value* elements_of_rows(Builder& b, const Nest& order, Value* rows) {
  if (constant(*rows) == 0) return rows;
  for (size_t k = 1; k < order.size(); ++k) rows = b.op(Opcode::mul_, {rows, order[k]->operands[1]});
  return rows;
}

/// The subscript goes along memory by what the loop counts, from the element where the nest's first rows are.
void follow(Builder& b, const Nest& nest, const Nest& order, const Shift& shift) {
  Op& op = *shift.access;
  ir::Access& access = *op.access;
  const size_t fastest = ir::by_speed(op.view()->type, 0);
  const auto terms = op.terms();
  for (size_t t = 0; t < terms.size(); ++t) {
    if (!is_variable(*terms[t], nest)) continue;
    for (ir::Access::Row& coefs : access.coef) coefs[t] = 0;
    if (terms[t] == induction(*nest.back())) access.coef[fastest][t] = 1;
  }
  if (shift.dim == fastest || (shift.rows.is_constant() && shift.rows.constant == 0)) return;
  access.offset[shift.dim] = 0;
  for (int64_t& coef : access.coef[shift.dim]) coef = 0;
  op.operands.push_back(elements_of_rows(b, order, emit(b, shift.rows)));
  ++access.terms;
  for (ir::Access::Row& coefs : access.coef) coefs.push_back(0);
  access.coef[fastest].back() = 1;
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

void flatten(ir::Graph& graph, const Nest& nest, const Flat& flat) {
  Op &first = *nest[0], &last = *nest.back();
  Value* variable = induction(last);
  for (Op* number : flat.numbers) {
    ir::replace_uses(graph, number->result(), variable);
    number->parent->remove(number);
  }
  if (Op* poll = poll_of(nest); poll && poll->parent != &body_of(last)) {
    poll->parent->remove(poll);
    body_of(last).insert_before(body_of(last).last, poll);
  }
  Builder b(graph);
  b.set_loc(first.loc);
  b.set_before(&first);
  for (const Shift& shift : flat.shifts) follow(b, nest, flat.order, shift);
  Value *from = elements_of_rows(b, flat.order, flat.order[0]->operands[0]),
        *to = elements_of_rows(b, flat.order, flat.order[0]->operands[1]);
  last.operands[0] = from;
  last.operands[1] = to;
  last.operands[2] = first.operands[2];
  for (size_t k = 0; k < carried_count(last); ++k)
    last.operands[first_init(last) + k] = first.operands[first_init(first) + k];
  for (const Op* loop : nest) {
    last.loop->parallel |= loop->loop->parallel;
    last.loop->annotated |= loop->loop->annotated;
  }
  last.loop->threads = first.loop->threads;
  if (&first != &last) {
    last.parent->remove(&last);
    first.parent->insert_before(&first, &last);
    first.parent->remove(&first);
    for (size_t k = 0; k < carried_count(first); ++k) ir::replace_uses(graph, first.results[k], last.results[k]);
    for (const Op* loop : nest) {
      if (loop != &last) ir::replace_uses(graph, induction(*loop), last.operands[0]);
    }
  }
  remark(graph, ir::Severity::note, kStage, last.loc,
         nest.size() > 1 ? "rows follow each other in memory: all are one" : "arrays of one column are rows");
}

std::optional<Flat> flat_of(const Nest& nest) {
  if (!tells_one_state(poll_of(nest), nest)) return {};
  Flat flat(nest);
  if (is_flat(nest, flat)) return flat;
  if (!has_any_order(nest)) return {};
  flat = Flat(Nest(nest.rbegin(), nest.rend()));
  return is_flat(nest, flat) ? std::optional(flat) : std::nullopt;
}

bool run(ir::Graph& graph, ir::Block& block) {
  bool changed = false;
  for (Op *op = block.first, *next; op; op = next) {
    next = op->next;
    if (is_for(*op)) {
      const Nest nest = nest_of(*op);
      if (const std::optional<Flat> flat = flat_of(nest)) {
        changed |= !flat->wanted.empty();
        if (is_given(graph, nest, *flat)) {
          flatten(graph, nest, *flat);
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
