#include "passes/idioms.h"

#include <algorithm>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Beside what an iteration does for people, who may interrupt it.
bool has_no_effect(const Op& op) {
  return op.code == Opcode::yield_ || op.code == Opcode::poll_ || ir::is_pure(op.code);
}

}  // namespace

bool counts_up(const Op& loop) {
  return is_for(loop) && loop.mapping == ir::Mapping::none && left_by_yield_only(loop) &&
         constant(*loop.operands[2]) == 1;
}

bool counts_from_zero(const Op& loop) { return counts_up(loop) && constant(*loop.operands[0]) == 0; }

OnlyLoop only_loop(const ir::Graph& graph) {
  const Op* loop = nullptr;
  for (const Op* op = graph.body->first; op; op = op->next) {
    if (has_no_effect(*op)) continue;
    if (op->code == Opcode::check_ && op->check->declines && !loop) continue;
    if (op->code != Opcode::for_ || loop) return {};
    loop = op;
  }
  if (!loop || !counts_from_zero(*loop) || !loop->results.empty() || has_permission(*loop)) return {};
  const Value& end = *loop->operands[1];
  if (!end.op) return end.type == ir::scalar(ir::DType::i64_) ? OnlyLoop{loop, {end.index, -1}} : OnlyLoop{};
  if (end.op->code != Opcode::dim_ || end.op->operands[0]->op) return {};
  return {loop, {end.op->operands[0]->index, end.op->dim}};
}

bool has_only(const ir::Block& block, const std::vector<const Op*>& all) {
  size_t seen = 0;
  for (const Op* op = block.first; op; op = op->next) {
    if (has_no_effect(*op)) continue;
    if (std::find(all.begin(), all.end(), op) == all.end()) return false;
    ++seen;
  }
  return seen == all.size();
}

const Op* defined_by(const Value& v, Opcode code) { return v.op && v.op->code == code ? v.op : nullptr; }

bool is_element(const Op& access, std::initializer_list<const Value*> of) {
  if (access.view()->op || access.access->offset.size() != of.size()) return false;
  size_t d = 0;
  for (const Value* v : of) {
    const Affine at = row(access, d++);
    if (at.constant != 0 || at.terms.size() != 1 || at.terms[0].first != v || at.terms[0].second != 1) return false;
  }
  return true;
}

SumOfProducts sum_of_products(const Op& loop, ir::DType type) {
  if (!counts_from_zero(loop) || loop.results.size() != 1 || !has_permission(loop)) return {};
  const Op* from = defined_by(*loop.operands[3], Opcode::const_);
  const ir::Block& body = body_of(loop);
  const Value* sum = body.args[1];
  if (!from || from->imm != 0 || sum->type.dtype != type || body.last->code != Opcode::yield_) return {};
  const Op* added = defined_by(*body.last->operands[0], Opcode::add_);
  for (size_t side = 0; added && side < 2; ++side) {
    const Op* product = defined_by(*added->operands[side], Opcode::mul_);
    if (!product || added->operands[1 - side] != sum) continue;
    const Op *a = defined_by(*product->operands[0], Opcode::load_),
             *b = defined_by(*product->operands[1], Opcode::load_);
    if (!a || !b || a->view()->type.dtype != type || b->view()->type.dtype != type) continue;
    const bool once = a == b ? has_only(body, {a}) : has_only(body, {a, b});
    if (once) return {a, b, induction(loop)};
  }
  return {};
}

bool ends_at(const Op& loop, const Value& end, const Value& matrix) {
  const Value& until = *loop.operands[1];
  if (&until == &end) return true;
  const Op* least = defined_by(until, Opcode::pymin_);
  for (size_t side = 0; least && side < 2; ++side) {
    const Op* extent = defined_by(*least->operands[side], Opcode::dim_);
    if (extent && extent->operands[0] == &matrix && least->operands[1 - side] == &end) return true;
  }
  return false;
}

}  // namespace appy::passes
