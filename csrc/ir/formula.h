// An integer that follows from the arguments of a region alone, to be computed before it is entered.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace appy::ir {

class Formula {
 public:
  /// Of a value outside of all loops; nothing where it takes more than parameters, extents and integers, or is long.
  static std::optional<Formula> of(const Value*, const Graph&);

  /// `args` as in runtime/kernel.h.
  int64_t operator()(const Word* args) const;

  bool operator==(const Formula&) const = default;

 private:
  static constexpr size_t most_steps = 256, most_operands = 3;

  /// Makes one value: a number, an argument, or what the op gives for the values of earlier steps.
  struct Step {
    enum class Kind : uint8_t { constant, argument, op } kind = Kind::constant;
    uint8_t operands = 0;
    Opcode code = Opcode::const_;
    DType result = DType::i64_, operand = DType::i64_;
    Word number = 0;  // constant; argument: which of the words
    std::array<uint16_t, most_operands> from = {};
    bool operator==(const Step&) const = default;
  };
  using Known = std::unordered_map<const Value*, uint16_t>;

  /// Appends what the value takes, each value once; false where it cannot be had.
  bool append(const Value*, const Graph&, Known&);
  std::optional<Step> leaf(const Value*, const Graph&) const;

  std::vector<Step> steps_;  // the last one is the value
};

}  // namespace appy::ir
