#include "passes/overlapped_rounds.h"

#include <algorithm>

namespace appy::passes {

using ir::Block;
using ir::Op;
using ir::Opcode;
using ir::Value;

bool OverlappedRounds::is_known(const Value& v) const {
  if (!v.op) return v.block == graph_.body;
  if (v.op->parent != graph_.body) return false;
  if (v.op->code != Opcode::alloc_ && !ir::is_pure(v.op->code)) return false;
  return std::all_of(v.op->operands.begin(), v.op->operands.end(), [&](const Value* x) { return is_known(*x); });
}

std::string OverlappedRounds::common_obstacle() const {
  bool known = loop_.parent == graph_.body;
  const auto need = [&](const Value& v) { known &= is_known(v); };
  for (size_t k = 0; k < 3; ++k) need(*loop_.operands[k]);
  for (const Phase& phase : stencil_.phases) {
    for (const auto& [term, coef] : phase.row.terms) need(*term);
    // A tile computes its own points in the last step, and writes back those elements.
    for (const Phase::Touch& touch : phase.touches) {
      need(*touch.access->view());
      if (touch.access->code == Opcode::store_ && touch.offset != 0) return "a point of it stores to several rows";
    }
    if (!phase.loop) continue;
    for (size_t k = 0; k < 2; ++k) need(*phase.loop->operands[k]);
    if (phase.loop->loop->threads == 1) return "one thread is to run it";
  }
  if (!known) return "how far it runs is not known before";
  bool watched = false, open = false;
  ir::walk(body_of(loop_), [&](const Op& op) {
    watched |= op.code == Opcode::poll_;
    if (!is_for(op)) return;
    for (size_t k = 0; k < 2; ++k) open |= !ir::defined_outside(*op.operands[k], body_of(loop_));
  });
  if (open) return "how long its loops run changes";
  if (watched) return "it is watched while it runs";
  bool found = true;
  for (size_t k = 0; k < carried_count(loop_); ++k) found &= values_.last_counts(k);
  for (const Value* v : handed_to_phases(stencil_)) found &= values_.may_emit(*v);
  return found ? "" : "a scalar is computed in it";
}

ir::Loop OverlappedRounds::control() const {
  ir::Loop made;
  made.annotated = loop_.loop->annotated;
  return made;
}

ir::Loop OverlappedRounds::any_order() const {
  ir::Loop made = control();
  made.parallel = true;
  return made;
}

Op* OverlappedRounds::loop(Value* from, Value* to, ir::Loop kind, const char* name) {
  Op* made = b_.for_loop(from, to, i64(1), {}, std::move(kind));
  induction(*made)->name = name;
  b_.set_block(&body_of(*made));
  return made;
}

void OverlappedRounds::close(Op& loop, Block& around) {
  b_.set_block(&body_of(loop));
  b_.yield({});
  b_.set_block(&around);
}

std::vector<Value*> OverlappedRounds::results() {
  const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
  values_.at(iteration(add(trips_, -1)), inits);
  Value* runs = b_.op(Opcode::gt_, {trips_, i64(0)});
  std::vector<Value*> found;
  for (size_t k = 0; k < inits.size(); ++k) {
    found.push_back(b_.select(runs, values_.emit(b_, body_of(loop_).last->operands[k]), inits[k]));
  }
  return found;
}

void OverlappedRounds::begin_round(Value* n, Copier& copier) {
  const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
  values_.at(iteration(n), inits);
  for (Value* v : handed_to_phases(stencil_)) copier.map(v, values_.emit(b_, v));
}

}  // namespace appy::passes
