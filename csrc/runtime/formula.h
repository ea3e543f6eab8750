// An integer that follows from the arguments of a region alone, to be computed at its entry.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/ir.h"

namespace appy::runtime {

class Formula {
 public:
  /// Of a value outside of all loops; nothing where it takes more than parameters, extents and integers, or is long.
  static std::optional<Formula> of(const ir::Value*, const ir::Graph&);

  /// `args` as in runtime/kernel.h.
  int64_t operator()(const ir::Word* args) const;

  bool operator==(const Formula&) const = default;

 private:
  /// One step of a stack machine: pushes a number, or replaces its operands by what the op gives for them.
  struct Step {
    enum class Kind : uint8_t { constant, argument, op } kind = Kind::constant;
    ir::Word number = 0;  // constant; argument: which of the words
    ir::Opcode code = ir::Opcode::const_;
    ir::DType result = ir::DType::i64_, operand = ir::DType::i64_;
    size_t operands = 0;
    bool operator==(const Step&) const = default;
  };
  static constexpr size_t max_steps = 48;

  bool append(const ir::Value*, const ir::Graph&);
  void push(Step::Kind kind, ir::Word number);

  std::vector<Step> steps_;
};

}  // namespace appy::runtime
