#include "passes/ragged.h"

#include <algorithm>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// The element one row further.
bool is_next(const Op& begin, const Op& end, const Value& row) {
  if (begin.view() != end.view()) return false;
  bool further = false;
  for (size_t d = 0; d < begin.access->offset.size(); ++d) {
    Affine distance = passes::row(end, d);
    distance.add(passes::row(begin, d), -1);
    if (!distance.terms.empty()) return false;
    const int64_t coef = passes::row(begin, d).coef(row);
    if (distance.constant != coef || coef < 0) return false;
    further |= coef > 0;
  }
  return further;
}

bool is_plain_loop(const Op& op) { return is_simple_for(op) && op.loop->le == 0; }

bool is(const Value* v, Opcode code) { return v->op && v->op->code == code; }

bool is_own(const Value& v, const Op& loop) {
  return v.op ? v.op->parent == &body_of(loop) : v.block == &body_of(loop);
}

Bound bound_of(Value* v, Ragged& nest) {
  const auto fixed = [&](const Value* of) { return visible_before(*of, *nest.rows); };
  for (;;) {
    if (is(v, Opcode::wrap_) && fixed(v->op->operands[1])) {
      nest.wraps = true;
    } else if (is(v, Opcode::pymax_) && constant(*v->op->operands[1]) == 0) {
      nest.wraps = true;
    } else if (is(v, Opcode::pymin_) && fixed(v->op->operands[1])) {
      nest.caps.push_back(v->op->operands[1]);
    } else {
      break;
    }
    v = v->op->operands[0];
  }
  Bound bound;
  if (is(v, Opcode::cast_)) {
    bound.cast = v->op;
    v = v->op->operands[0];
  }
  const ir::DType t = v->type.dtype;
  // What an i64 does not hold would not be in order there.
  if (is(v, Opcode::load_) && ir::is_int(t) && t != ir::DType::u64_) bound.load = v->op;
  return bound;
}

/// From the row's begin to its end, or from 0 to the distance.
bool find_bounds(Ragged& nest) {
  const Op& sums = *nest.sums;
  Value* high = sums.operands[1];
  nest.low = sums.operands[0];
  nest.counts = constant(*nest.low) == 0;
  nest.wraps = false;
  nest.caps.clear();
  if (nest.counts) {
    if (is(high, Opcode::pymax_) && constant(*high->op->operands[1]) == 0) high = high->op->operands[0];
    if (!is(high, Opcode::sub_)) return false;
    nest.low = high->op->operands[1];
    high = high->op->operands[0];
  }
  nest.begin = bound_of(nest.low, nest);
  nest.end = bound_of(high, nest);
  return nest.begin.load && nest.end.load && is_next(*nest.begin.load, *nest.end.load, *induction(*nest.rows));
}

bool find_terms(Ragged& nest) {
  const Op& sums = *nest.sums;
  const Block& body = body_of(sums);
  nest.terms.clear();
  for (size_t k = 0; k < sums.results.size(); ++k) {
    const Value *arg = body.args[1 + k], *next = body.last->operands[k];
    const ir::DType t = arg->type.dtype;
    if (sums.loop->carried[k] != ir::Carried{.combiner = ir::Combiner::sum_} || ir::is_half(t) || t == ir::DType::bool_)
      return false;
    if (!next->op || next->op->code != Opcode::add_ || count_uses(body, *arg) != 1) return false;
    const size_t which = next->op->operands[0] == arg ? 1 : 0;
    if (next->op->operands[1 - which] != arg || count_uses(body, *next) != 1) return false;
    nest.terms.push_back(next->op->operands[which]);
  }
  return true;
}

/// Where indices are tested, a load that names its element by anything else of the iteration might not be in the array
/// where a test fails.
bool load_at_tested(const Ragged& nest) {
  if (nest.tested.empty()) return true;
  bool tested = true;
  ir::walk(body_of(*nest.sums), [&](const Op& op) {
    if (op.code != Opcode::load_) return;
    for (const Value* term : op.terms()) {
      const auto is_term = [&](const Ragged::Tested& at) { return at.index == term; };
      if (!is_own(*term, *nest.sums) || term == induction(*nest.sums)) continue;
      tested &= std::any_of(nest.tested.begin(), nest.tested.end(), is_term) && op.terms().size() == 1 &&
                op.access->offset.size() == 1 && op.access->offset[0] == 0;
    }
  });
  return tested;
}

size_t count_checks(const Op& loop) {
  size_t count = 0;
  ir::walk(body_of(loop), [&](const Op& op) { count += op.code == Opcode::check_; });
  return count;
}

/// `0 <= index` and `index < extent`, or the latter alone where the former is known.
std::optional<Ragged::Tested> tested_by(Op& check, const Ragged& nest) {
  if (check.check->kind != ir::CheckKind::bounds_ || check.check->declines) return {};
  const Value* condition = check.operands[0];
  const auto test = ir::index_test(*condition);
  if (!test && !is(condition, Opcode::lt_)) return {};
  Value* index = test ? test->index : condition->op->operands[0];
  Value* extent = test ? test->extent : condition->op->operands[1];
  if (!index->op || !is_own(*index, *nest.sums) || !visible_before(*extent, *nest.rows)) return {};
  return Ragged::Tested{&check, index, extent};
}

/// The rows' bounds follow each other, and what they sum up does not change while they do, whichever runs first.
bool fits(Ragged& nest) {
  const Op &rows = *nest.rows, &sums = *nest.sums;
  if (!is_plain_loop(sums) || !sums.loop->simd || sums.results.empty() || has_inner_loop(sums)) return false;
  if (!find_bounds(nest)) return false;
  for (const Value* term : nest.begin.load->terms()) {
    if (term != induction(rows) && !visible_before(*term, rows)) return false;
  }
  if (writes_to(body_of(rows), *nest.begin.load->view())) return false;
  bool gathers = false, same = true;
  nest.tested.clear();
  for (Op* op = body_of(sums).first; op; op = op->next) {
    if (op->code == Opcode::poll_ || op->code == Opcode::yield_) continue;
    if (op->code == Opcode::check_) {
      const auto tested = tested_by(*op, nest);
      if (!tested) return false;
      nest.tested.push_back(*tested);
      continue;
    }
    if (!ir::is_pure(op->code) && op->code != Opcode::load_) return false;
    for (const Value* v : op->operands) {
      same &= visible_before(*v, rows) || is_own(*v, sums) || (nest.counts && v == nest.low);
      if (op->code != Opcode::load_) same &= !nest.counts || (v != nest.low && v != induction(sums));
    }
    if (op->code != Opcode::load_) continue;
    for (size_t d = 0; nest.counts && d < op->access->offset.size(); ++d) {
      const Affine at = passes::row(*op, d);
      same &= at.coef(*nest.low) == at.coef(*induction(sums));
    }
    same &= !writes_to(body_of(rows), *op->view());
    for (const Value* term : op->terms()) gathers |= term->op && is_own(*term, sums);
  }
  return gathers && same && nest.tested.size() == count_checks(rows) && load_at_tested(nest) && find_terms(nest);
}

}  // namespace

std::optional<Ragged> find_ragged(Op& rows) {
  if (!is_plain_loop(rows) || !rows.results.empty() || !rows.loop->parallel || rows.loop->simd ||
      rows.loop->chunk != 0 || !has_plain_body(rows, /*may_check=*/true))
    return {};
  Ragged nest;
  nest.rows = &rows;
  for (Op* op = body_of(rows).first; op; op = op->next) {
    if (!is_for(*op)) continue;
    nest.sums = op;
    if (fits(nest)) return nest;
  }
  return {};
}

}  // namespace appy::passes
