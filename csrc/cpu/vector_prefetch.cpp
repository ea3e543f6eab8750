// Loops with several sums compute long enough for memory to bring what they, or the code behind them, load next.
#include <algorithm>

#include "cpu/vector_loop.h"

namespace appy::cpu {

using ir::Opcode;

namespace {

constexpr int kCacheLine = 64;
constexpr size_t kSumsToPrefetch = 4;  // so many take longer than memory
constexpr int kRowsAhead = 16;         // of four sums on four vectors: as long as the last-level cache takes

/// Does the value exist in front of the loop, for what comes behind it in its block?
bool made_before(const ir::Value& v, const ir::Op& loop) {
  const ir::Op* made = v.op;
  while (made && made->parent != loop.parent) made = made->parent->owner;
  for (const ir::Op* op = &loop; made && op; op = op->next) {
    if (op == made) return false;
  }
  return true;
}

bool takes_long(const ir::Op& loop) { return loop.code == Opcode::for_ && loop.results.size() >= kSumsToPrefetch; }

}  // namespace

void VectorLoop::prefetch_rows(const ir::Op& op, const Place& p) {
  const ir::Op* loop = op.parent->owner;
  if (!exec_.all || loop == &loop_ || !takes_long(*loop)) return;
  const Form form = address_form(op);
  for (const auto& [term, stride] : form.terms) {
    if (term != loop->blocks[0]->args[0] || stride.constant()) continue;
    const x86::Gp row = f_.stride_reg(form.view, stride);
    x86::Gp ahead = cc_.newGpq(), at = cc_.newGpq();
    f_.hoist(f_.home(form.view), [&] { cc_.imul(ahead, row, kRowsAhead); });
    x86::Mem first = p.base;
    first.setSize(0);
    cc_.lea(at, first);
    for (int line = 0; line < unroll_ * bytes(op.result()->type.dtype); line += kCacheLine) {
      cc_.prefetcht0(x86::ptr(at, ahead, 0, line));
    }
  }
}

void VectorLoop::prefetch_behind(const ir::Op& loop) {
  if (!exec_.all || !takes_long(loop)) return;
  std::vector<Form> known;
  for (const ir::Op* op = loop.next; op; op = op->next) prefetch_for(*op, loop, known);
}

void VectorLoop::prefetch_for(const ir::Op& op, const ir::Op& loop, std::vector<Form>& known) {
  if (op.code == Opcode::if_) return prefetch_for_arms(op, loop, known);
  if (op.code != Opcode::load_ && op.code != Opcode::store_) return;
  const Form form = address_form(op);
  const ir::DType type = op.code == Opcode::load_ ? op.result()->type.dtype : op.operands[0]->type.dtype;
  const auto same = [&](const Form& f) { return same_form(f, form) && f.offset == form.offset; };
  if (std::ranges::any_of(known, same)) return;
  bool along = false;
  const auto whole_vectors = [&](const auto& term) {
    const bool linear = term.first == d_.linear() && term.second.constant() && term.second.known == ir::size_of(type);
    along |= linear;
    return (linear || !varying(term.first)) && made_before(*term.first, loop);
  };
  if (!made_before(*form.view, loop) || !std::ranges::all_of(form.terms, whole_vectors) || !along) return;
  Place p = place(op);
  if (p.kind != Place::Kind::contiguous) return;
  known.push_back(form);
  p.base.setSize(0);
  // A line more than the vectors have where they begin in the middle of one.
  const int size = unroll_ * bytes(type);
  for (int line = 0; line < size; line += kCacheLine) cc_.prefetcht0(p.base.cloneAdjusted(line));
  cc_.prefetcht0(p.base.cloneAdjusted(size - 1));
}

void VectorLoop::prefetch_for_arms(const ir::Op& op, const ir::Op& loop, const std::vector<Form>& known) {
  const ir::Value* condition = op.operands[0];
  if (varying(condition) || !made_before(*condition, loop)) return;
  asmjit::Label otherwise = cc_.newLabel(), done = cc_.newLabel();
  for (const bool holds : {true, false}) {
    if (holds) {
      f_.jump_if(condition, false, otherwise);
    } else {
      cc_.bind(otherwise);
    }
    std::vector<Form> of_arm = known;
    for (const ir::Op* at = op.blocks[holds ? 0 : 1]->first; at; at = at->next) prefetch_for(*at, loop, of_arm);
    if (holds) cc_.jmp(done);
  }
  cc_.bind(done);
}

}  // namespace appy::cpu
