#include "passes/copier.h"

#include <memory>

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Value;

Op* Copier::copy(const Op& from) {
  Op* made = graph_.new_op(from.code, from.loc);
  made->operands.reserve(from.operands.size());
  for (Value* v : from.operands) made->operands.push_back(of(v));
  made->imm = from.imm;
  made->dim = from.dim;
  made->lead = from.lead;
  if (from.code == ir::Opcode::alloc_) graph_.number(*made);
  made->combiner = from.combiner;
  if (from.access) made->access = std::make_unique<ir::Access>(*from.access);
  if (from.check) made->check = std::make_unique<ir::Check>(*from.check);
  if (from.loop) made->loop = std::make_unique<ir::Loop>(*from.loop);
  for (const Block* block : from.blocks) {
    Block* inner = graph_.new_block(made);
    made->blocks.push_back(inner);
    for (const Value* arg : block->args) map(arg, ir::add_arg(*inner, arg->type, arg->name));
    for (const Op* op = block->first; op; op = op->next) inner->append(copy(*op));
  }
  for (const Value* result : from.results) {
    Value* v = ir::add_result(*made, result->type);
    v->name = result->name;
    v->range = result->range;
    map(result, v);
  }
  return made;
}

Value* Copier::of(Value* v) const {
  const auto found = map_.find(v);
  return found == map_.end() ? v : found->second;
}

}  // namespace appy::passes
