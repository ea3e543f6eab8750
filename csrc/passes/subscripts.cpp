#include "passes/subscripts.h"

#include <algorithm>
#include <memory>

#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Value;

bool is_access(const Op& op) { return op.access != nullptr; }

bool writes_to(ir::Block& block, const Value& view) {
  bool found = false;
  ir::walk(block, [&](const Op& op) { found |= is_access(op) && op.code != ir::Opcode::load_ && op.view() == &view; });
  return found;
}

bool runs_along(const Op& access, const Value& variable) {
  const ir::Type& view = access.view()->type;
  if (view.rank == 0 || (view.layout != ir::Layout::c && view.layout != ir::Layout::inner)) return false;
  const size_t rank = access.access->offset.size();
  for (size_t d = 0; d < rank; ++d) {
    if (row(access, d).coef(variable) != (d + 1 == rank ? 1 : 0)) return false;
  }
  return true;
}

Affine row(const Op& op, size_t d) {
  Affine sum;
  sum.constant = op.access->offset[d];
  for (size_t t = 0; t < static_cast<size_t>(op.access->terms); ++t) {
    sum.add(*op.operands[op.first_term() + t], op.access->coef[d][t]);
  }
  return sum;
}

Affine row_at(Ranges& ranges, const Op& op, size_t d, const Op& where) {
  Affine sum;
  sum.constant = op.access->offset[d];
  for (size_t t = 0; t < static_cast<size_t>(op.access->terms); ++t) {
    const auto coef = op.access->coef[d][t];
    if (coef != 0) sum.add(ranges.affine(*op.operands[op.first_term() + t], where), coef);
  }
  return sum;
}

bool same_element(const Op& a, const Op& b) {
  if (a.view() != b.view()) return false;
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    Affine difference = row(a, d);
    difference.add(row(b, d), -1);
    if (!difference.is_constant() || difference.constant != 0) return false;
  }
  return true;
}

bool same_element_in(const Op& x, const Op& loop_x, const Op& y, const Op& loop_y) {
  if (x.view() != y.view()) return false;
  for (size_t d = 0; d < x.access->offset.size(); ++d) {
    Affine a = row(x, d), b = row(y, d);
    const Wide step = a.coef(*induction(loop_x));
    if (step != b.coef(*induction(loop_y))) return false;
    a.add(*induction(loop_x), -step);
    b.add(*induction(loop_y), -step);
    const bool outside = std::all_of(a.terms.begin(), a.terms.end(), [&](const auto& term) {
      return ir::defined_outside(*term.first, body_of(loop_x));
    });
    a.add(b, -1);
    if (!outside || !a.is_constant() || a.constant != 0) return false;
  }
  return true;
}

bool differ_in(Ranges& ranges, const Op& a, const Op& b, size_t dimension, const Op& where) {
  Affine difference = row_at(ranges, a, dimension, where);
  difference.add(row_at(ranges, b, dimension, where), -1);
  return never_zero(ranges, difference, where);
}

bool different_elements(Ranges& ranges, const Op& a, const Op& b, const Op& where) {
  if (a.view() != b.view()) return false;
  for (size_t d = 0; d < a.access->offset.size(); ++d) {
    if (differ_in(ranges, a, b, d, where)) return true;
  }
  return false;
}

bool never_zero(Ranges& ranges, const Affine& sum, const Op& where) {
  if (sum.is_constant()) return sum.constant != 0;
  Affine below = sum, above;
  above.add(sum, -1);
  below.constant += 1;  // sum + 1 <= 0
  above.constant += 1;
  return ranges.proves_nonpositive(below, where) || ranges.proves_nonpositive(above, where);
}

Op* relative_access(ir::Graph& graph, ir::LocId loc, ir::Opcode code, Value* view, Value* at, Value* from) {
  Op* made = graph.new_op(code, loc);
  made->operands = {view, at, from};
  made->access = std::make_unique<ir::Access>();
  made->access->terms = 2;
  made->access->offset = {0};
  made->access->coef = {{1, -1}};
  return made;
}

Op* load_of(ir::Graph& graph, const Op& store) {
  Op* made = graph.new_op(ir::Opcode::load_, store.loc);
  made->access = std::make_unique<ir::Access>(*store.access);
  made->operands.assign(store.operands.begin() + 1, store.operands.end());
  return made;
}

Value* load_where(ir::Builder& b, Value* condition, Op* load, Op* before) {
  const ir::Type type = ir::scalar(load->view()->type.dtype);
  b.set_before(before);
  Op* guard = b.if_op(condition, std::span(&type, 1));
  guard->blocks[0]->append(load);
  b.set_block(guard->blocks[0]);
  Value* loaded[] = {ir::add_result(*load, type)};
  b.yield(loaded);
  b.set_block(guard->blocks[1]);
  Value* nothing[] = {b.constant(type.dtype, 0)};
  b.yield(nothing);
  b.set_before(before);
  return guard->result();
}

bool is_invariant(const Op& access, const ir::Block& block) {
  return ir::defined_outside(*access.view(), block) &&
         std::all_of(access.terms().begin(), access.terms().end(),
                     [&](const Value* term) { return ir::defined_outside(*term, block); });
}

}  // namespace appy::passes
