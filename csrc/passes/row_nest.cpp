#include "passes/row_nest.h"

#include <algorithm>

#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;

bool is_row_in_lanes(const Op& op) {
  if (!is_for(op) || !op.loop->simd || constant(*op.operands[2]) != 1 || !left_by_yield_only(op)) return false;
  bool plain = true, stores = false;
  for (const Op* at = body_of(op).first; at; at = at->next) {
    stores |= at->code == Opcode::store_;
    plain &= ir::is_pure(at->code) || at->code == Opcode::load_ || at->code == Opcode::store_ ||
             at->code == Opcode::poll_ || at->code == Opcode::yield_;
  }
  const auto& carried = op.loop->carried;
  return plain && stores &&
         std::ranges::all_of(carried, [](const ir::Carried& c) { return c.combiner == ir::Combiner::last_; });
}

bool is_perfect(const Op& loop, const Op& inner) {
  for (const Op* op = body_of(loop).first; op; op = op->next) {
    if (op == &inner || op->code == Opcode::load_ || op->code == Opcode::poll_ || op->code == Opcode::yield_) continue;
    if (!ir::is_pure(op->code)) return false;
  }
  return true;
}

}  // namespace appy::passes
