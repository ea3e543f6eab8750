#include "bytecode/bytecode.h"

#include <algorithm>
#include <unordered_map>

namespace appy::bytecode {

bool is_jump(Op op) { return op == Op::jump_ || is_conditional_jump(op); }

bool is_conditional_jump(Op op) {
  switch (op) {
    case Op::for_iter_:
    case Op::pop_jump_if_true_:
    case Op::pop_jump_if_false_:
    case Op::pop_jump_if_none_:
    case Op::pop_jump_if_not_none_:
    case Op::jump_if_true_or_pop_:
    case Op::jump_if_false_or_pop_:
      return true;
    default:
      return false;
  }
}

bool is_terminal(const Instruction& i) {
  return i.op == Op::return_value_ || i.op == Op::raise_varargs_ || (i.op == Op::unsupported_ && i.arg2);
}

std::vector<Instruction> instructions(PyCodeObject* code) {
  const std::vector<pycompat::Decoded> decoded = pycompat::decode(code);
  const std::vector<Position> where = positions(code);
  std::unordered_map<int, int> index_at;
  for (size_t i = 0; i < decoded.size(); ++i) index_at.try_emplace(decoded[i].offset, static_cast<int>(i));

  std::vector<Instruction> out(decoded.size());
  for (size_t i = 0; i < decoded.size(); ++i) {
    const pycompat::Decoded& from = decoded[i];
    Instruction& to = out[i];
    to = {from.op, from.arg, from.arg2, from.offset, {}};
    // A prefix of EXTENDED_ARG has the position of its instruction, but not in every version's table.
    const size_t unit = static_cast<size_t>(from.offset) / 2;
    if (unit < where.size()) to.position = where[unit];
    if (is_jump(from.op)) {
      auto found = index_at.find(from.arg);
      to.arg = found == index_at.end() ? static_cast<int32_t>(decoded.size()) : found->second;
    }
  }
  return out;
}

}  // namespace appy::bytecode
