// Loops of few iterations: whether scalar code or one vector is faster, and what decides at run time.
#include <algorithm>

#include "cpu/packs.h"
#include "cpu/vector_loop.h"
#include "ir/divisor.h"

namespace appy::cpu {

using ir::Combiner;
using ir::Opcode;

int VectorLoop::scalar_below() const {
  if (d_.has_inner_loop || (d_.has_check && !d_.has_gather) || d_.check_after_store || d_.ops > 16 || f_.depth() == 0)
    return 0;
  if (ir::divisor_of_trips(loop_) % lanes_ == 0) return 0;
  return d_.has_gather ? 16 : lanes_;
}

bool VectorLoop::may_leave_rest() const {
  return !avx512_ && d_.has_gather && !d_.has_varying_if && !masked_only_ && !loop_.results.empty() &&
         scalar_below() > 0;
}

namespace {

/// An element of an integer array, or what a cast or a distance makes of some.
bool is_looked_up(const ir::Value& v) {
  if (!v.op) return false;
  if (v.op->code == Opcode::load_) return true;
  if (v.op->code != Opcode::cast_ && v.op->code != Opcode::sub_) return false;
  return std::ranges::any_of(v.op->operands, [](const ir::Value* operand) { return is_looked_up(*operand); });
}

}  // namespace

int VectorLoop::one_vector_up_to() const {
  if (!avx512_ || masked_only_ || scalar_below() == 0) return 0;
  const bool looked_up = is_looked_up(*loop_.operands[0]) || is_looked_up(*loop_.operands[1]);
  if (d_.has_gather ? !f_.module().traits.fast_gathers : !looked_up) return 0;
  // The end of a scalar loop of few iterations is mispredicted where each row has its own number of them. Rows that
  // wait for each other's sums would wait for those across lanes, too.
  const ir::Op* rows = ir::enclosing_loop(*loop_.parent);
  if (!rows || rows->code != Opcode::for_ || !rows->loop->parallel || loop_.results.empty()) return 0;
  if (ir::defined_outside(*loop_.operands[0], *rows->blocks[0]) &&
      ir::defined_outside(*loop_.operands[1], *rows->blocks[0]))
    return 0;
  for (size_t k = 0; k < loop_.results.size(); ++k) {
    const ir::Value* init = loop_.operands[3 + k];
    const bool from_none = loop_.loop->carried[k].combiner == Combiner::sum_ && f_.is_const(init) &&
                           init->op->imm == ir::neutral(Combiner::sum_, init->type.dtype);
    if (!starts_at_zero(k) && !from_none) return 0;
  }
  return lanes_;
}

VectorLoop& Function::vector_loop(const ir::Op& op) {
  // Cold blocks refer to the loop after it was emitted.
  vector_loops_.push_back(std::make_shared<VectorLoop>(*this, op));
  return *vector_loops_.back();
}

void Function::simd_loop(VectorLoop& vector, const ir::Op& op, Bounds bounds, std::span<const x86::Reg> carried,
                         PackedSums* packed) {
  const int few = vector.scalar_below();
  if (packed) vector.add_to(packed->registers());
  if (few == 0 || bounds.known_trips >= 0) {
    vector.emit(bounds, carried);
    return;
  }
  // Short rows fall through: where they end no jump is foreseen that did not have to be, and the ends of many rows are
  // learned by heart. Zen 4, 32768 rows of two elements on average, one thread: 55 us, 157 with one more jump each.
  asmjit::Label longer = cc_.newLabel(), done = cc_.newLabel();
  // The loop for short rows also does what whole groups leave of longer ones.
  const bool rest = vector.may_leave_rest();
  asmjit::Label turn = cc_.newLabel();
  x86::Gp from = bounds.lower;
  if (rest) {
    from = cc_.newGpq("from");
    cc_.mov(from, bounds.lower);
  }
  const int in_one = vector.one_vector_up_to();
  const bool in_turn = in_one < few - 1;
  const auto one_by_one = [&] {
    // Short rows inside another loop: setting up vectors costs more than it gains.
    Bounds short_row = bounds;
    short_row.lower = from;
    short_row.whole = false;
    short_row.most = few - 1;
    sequential_loop(op, short_row, carried);
    if (packed) packed->take(carried);
  };
  cc_.cmp(bounds.trips, in_one > 0 ? in_one + 1 : few);
  cc_.jae(longer);
  const auto leave_if_none = [&] {
    if (bounds.clamped) return;
    cc_.cmp(bounds.end, bounds.lower);
    cc_.jle(done);
  };
  leave_if_none();
  cc_.bind(turn);
  if (!bounds.clamped) bounds.least = 1;
  if (in_one > 0) {
    Bounds few_lanes = bounds;
    few_lanes.most = in_one;
    VectorLoop& one = vector_loop(op);
    if (packed) one.add_to(packed->registers());
    one.emit(few_lanes, carried);
  } else {
    one_by_one();
  }
  aside([&] {
    cc_.bind(longer);
    leave_if_none();  // a negative number is many
    if (in_one > 0 && in_turn) {
      asmjit::Label many = cc_.newLabel();
      cc_.cmp(bounds.trips, few);
      cc_.jae(many);
      one_by_one();
      cc_.jmp(done);
      cc_.bind(many);
    }
    Bounds enough = bounds;
    enough.least = few;
    if (rest) {
      cc_.mov(from, vector.emit_groups(enough, carried));
      cc_.cmp(from, bounds.end);
      cc_.jne(turn);
    } else {
      vector.emit(enough, carried);
    }
    cc_.jmp(done);
  });
  cc_.bind(done);
}

}  // namespace appy::cpu
