#include "passes/producer.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

bool counts_by_one(const Op& loop) { return constant(*loop.operands[2]) == 1 && carried_count(loop) == 0; }

bool counts_all(const Op& loop) { return counts_by_one(loop) && constant(*loop.operands[0]) == 0; }

bool is_row(const Op& access, size_t d, const Value& term, int64_t scale, int64_t offset) {
  const Affine a = row(access, d);
  return a.terms.size() == 1 && a.coef(term) == scale && a.constant == offset;
}

bool equal(Ranges& ranges, const Value& a, const Value& b, const Op& where) {
  if (&a == &b) return true;
  Affine below = ranges.affine(a, where);
  below.add(ranges.affine(b, where), -1);
  if (below.is_constant()) return below.constant == 0;
  Affine above;
  above.add(below, -1);
  return ranges.proves_nonpositive(below, where) && ranges.proves_nonpositive(above, where);
}

namespace {

/// A value of the row that is loaded where the inner loop runs (hoist), and not used elsewhere.
bool is_loaded_where_runs(const Op& op, const Op& inner) {
  if (op.code != Opcode::if_) return false;
  const Op* condition = op.operands[0]->op;
  if (!condition || condition->code != Opcode::lt_) return false;
  if (condition->operands[0] != inner.operands[0] || condition->operands[1] != inner.operands[1]) return false;
  return std::all_of(op.blocks.begin(), op.blocks.end(), [](const Block* arm) {
    for (const Op* at = arm->first; at != arm->last; at = at->next) {
      if (!ir::is_pure(at->code) && at->code != Opcode::load_) return false;
    }
    return arm->last->code == Opcode::yield_;
  });
}

}  // namespace

bool read_producer(Op& loop, Producer& p) {
  if (!is_for(loop) || !has_permission(loop) || !counts_all(loop) || loop.loop->collapse != 1) return false;
  p.loop = &loop;
  std::vector<const Op*> conditional;
  for (Op* op = body_of(loop).first; op; op = op->next) {
    if (op->code == Opcode::yield_ || op->code == Opcode::poll_) continue;
    if (is_for(*op)) {
      if (p.inner || !has_permission(*op) || !counts_all(*op)) return false;
      p.inner = op;
    } else if (op->code == Opcode::if_ && !p.inner) {
      conditional.push_back(op);
    } else if (!ir::is_pure(op->code) && (op->code != Opcode::load_ || p.inner)) {
      return false;
    }
  }
  if (!p.inner || p.inner->loop->annotated != loop.loop->annotated) return false;
  if (!ir::defined_outside(*p.inner->operands[1], body_of(loop))) return false;
  for (const Op* op : conditional) {
    if (!is_loaded_where_runs(*op, *p.inner)) return false;
  }
  for (Op* op = body_of(*p.inner).first; op; op = op->next) {
    if (op->code == Opcode::yield_ || op->code == Opcode::poll_) continue;
    if (op->code == Opcode::store_ && !p.store) {
      p.store = op;
    } else if (!ir::is_pure(op->code) && (op->code != Opcode::load_ || p.store)) {
      return false;
    }
  }
  if (!p.store || p.view()->type.rank != 2) return false;
  const Value &i = *induction(loop), &j = *induction(*p.inner);
  if (!is_row(*p.store, 0, i, 1, 0) || !is_row(*p.store, 1, j, 1, 0)) return false;
  // Of what it writes it reads that very element only.
  bool own = true;
  ir::walk(body_of(loop), [&](const Op& op) {
    if (op.code != Opcode::load_) return;
    p.reads.insert(op.view());
    if (op.view() == p.view()) own &= same_element(op, *p.store);
    if (!is_inside(op, body_of(*p.inner))) p.row_bytes += ir::size_of(op.result()->type.dtype);
  });
  p.reads.erase(p.view());
  return own;
}

Op* loop_behind(const Producer& p) {
  for (Op* op = p.loop->next; op; op = op->next) {
    if (is_for(*op)) return op;
    const Effect effect = ir::info(op->code).effect;
    const bool passed =
        effect == Effect::pure || effect == Effect::alloc || (effect == Effect::load && op->view() != p.view());
    if (!passed) return nullptr;
  }
  return nullptr;
}

Value* copy_element(ir::Graph& graph, const Producer& p, Value& i, Op& at_row, Value& j, Op& at) {
  Copier copier(graph);
  copier.map(induction(*p.loop), &i);
  copier.map(induction(*p.inner), &j);
  const std::function<void(const Block&, Op&)> copy_all = [&](const Block& from, Op& before) {
    for (const Op* op = from.first; op; op = op->next) {
      if (op == p.inner || op->code == Opcode::yield_ || op->code == Opcode::poll_) continue;
      if (op->code == Opcode::if_ && &at_row == &at) {
        const Block& taken = *op->blocks[0];
        copy_all(taken, before);
        for (size_t k = 0; k < op->results.size(); ++k) copier.map(op->results[k], copier.of(taken.last->operands[k]));
      } else {
        before.parent->insert_before(&before, copier.copy(*op));
      }
    }
  };
  copy_all(body_of(*p.loop), at_row);
  copy_all(body_of(*p.inner), at);
  return copier.of(p.store->operands[0]);
}

}  // namespace appy::passes
