// Arrays that the region makes: a call that fills their argument words, from which address.cpp takes them.
#include <algorithm>
#include <bit>

#include "cpu/function.h"
#include "cpu/memory.h"
#include "ir/footprint.h"

namespace appy::cpu {

void Function::emit_alloc(const ir::Op& op) {
  const ir::Value* view = op.result();
  const int rank = view->type.rank;
  for (int d = 0; d < rank; ++d) cc_.mov(view_word(view, 1 + d), gp(op.operands[static_cast<size_t>(d)]));
  const ir::DType dtype = view->type.dtype;
  const ArrayKind kind{static_cast<uint32_t>(op.slot),
                       view->type.rank,
                       dtype,
                       static_cast<uint8_t>(op.lead * ir::size_of(dtype)),
                       op.escapes,
                       ir::nothing_written_before(op),
                       view->type.layout == ir::Layout::f};
  x86::Gp words = cc_.newGpq(), bits = cc_.newGpq(), status = cc_.newGpq();
  cc_.lea(words, view_word(view, 0));
  load_imm(bits, std::bit_cast<int64_t>(kind));
  const x86::Reg arguments[] = {context_, words, bits};
  call(reinterpret_cast<const void*>(&make_array), status, arguments);
  cc_.test(status, status);
  cc_.jnz(cold([this, status] { leave(status); }));
  // Addresses in the array are computed behind this place, not in front of the function or of a loop around it.
  const bool top = depth() == 0 && (!op.parent->owner || op.parent->owner == root_);
  if (!top && levels_.back().block != op.parent) {
    levels_.push_back({});
    levels_.back().block = op.parent;
  }
  cc_.comment("array");
  levels_.back().preheader = cc_.cursor();
  homes_[view->id] = static_cast<int>(depth());
}

void Function::emit_allocs_of_chunk(const ir::Op& loop) {
  const ir::Block& body = *loop.blocks[0];
  int words = 0;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    if (op.code != ir::Opcode::alloc_) return;
    own_words_[op.result()->id] = words;
    words += static_cast<int>(ir::words_of(op.result()->type));
  });
  if (words == 0) return;
  own_ = cc_.newStack(static_cast<uint32_t>(8 * words), 8);
  for (const ir::Op* op = body.first; op; op = op->next) {
    if (op->code != ir::Opcode::alloc_) continue;
    const bool varies = std::any_of(op->operands.begin(), op->operands.end(),
                                    [&](const ir::Value* v) { return !ir::defined_outside(*v, body) && !is_const(v); });
    if (varies) continue;
    emit_alloc(*op);
    made_.insert(op);
  }
}

}  // namespace appy::cpu
