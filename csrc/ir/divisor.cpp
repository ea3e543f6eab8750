#include "ir/divisor.h"

#include <algorithm>

namespace appy::ir {

namespace {

constexpr int64_t kMost = 4096;
/// Ops on the way to what divides, at most.
constexpr int kDepth = 8;

int64_t lowest_bit(Word n) {
  const Word bit = n & (0 - n);
  return bit == 0 || bit > kMost ? kMost : static_cast<int64_t>(bit);
}

int64_t divisor_of(const Value& v, int depth) {
  if (v.type.dtype != DType::i64_ || depth == 0) return 1;
  const auto of = [depth](const Value* operand) { return divisor_of(*operand, depth - 1); };
  if (!v.op) {
    const Op* loop = v.block ? v.block->owner : nullptr;
    const bool counts = loop && loop->code == Opcode::for_ && v.block->args[0] == &v;
    return counts ? std::min(of(loop->operands[0]), of(loop->operands[2])) : 1;
  }
  const auto& operands = v.op->operands;
  switch (v.op->code) {
    case Opcode::const_:
      return lowest_bit(v.op->imm);
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::pymin_:
    case Opcode::pymax_:
      return std::min(of(operands[0]), of(operands[1]));
    case Opcode::select_:
      return std::min(of(operands[1]), of(operands[2]));
    case Opcode::mul_:
      return std::min(kMost, of(operands[0]) * of(operands[1]));
    default:
      return 1;
  }
}

}  // namespace

int64_t divisor_of(const Value& v) { return divisor_of(v, kDepth); }

int64_t divisor_of_trips(const Op& loop) {
  const auto& step = *loop.operands[2];
  if (!step.op || step.op->code != Opcode::const_) return 1;
  const auto each = static_cast<int64_t>(step.op->imm);
  const int64_t distance = std::min(divisor_of(*loop.operands[0]), divisor_of(*loop.operands[1]));
  // A distance that a power of two divides is as many steps exactly.
  if (each <= 0 || (each & (each - 1)) != 0) return 1;
  return std::max<int64_t>(1, distance / each);
}

}  // namespace appy::ir
