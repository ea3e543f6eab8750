// C functions that generated code calls for what is not worth inlining.
#pragma once

#include <cstdint>

#include "cpu/cpu.h"
#include "ir/ir.h"

namespace appy::cpu {

int64_t power_signed(int64_t base, int64_t exponent);
uint64_t power_unsigned(uint64_t base, uint64_t exponent);

/// libm's function of one or two floats (double, or float for f32) that computes this op, or null.
const void* scalar_function(ir::Opcode, ir::DType);

/// Does its code for lanes call functions?
inline bool calls_function(ir::Opcode code, ir::DType t) {
  const bool inlined = code == ir::Opcode::scale_ || code == ir::Opcode::mantissa_ || code == ir::Opcode::exponent_;
  return !inlined && scalar_function(code, t);
}

/// vgetmant's operand for `mantissa`.
constexpr int kMantissaForm = 0b1111;

/// One within 1 ulp where libm's is not, or null. Not for `exact` graphs.
const void* accurate_function(ir::Opcode, ir::DType);

/// SLEEF's function on vectors of `bytes` (16, 32 or 64) for this op, or null. `relaxed` permits 3.5 ulp.
const void* vector_function(ir::Opcode, ir::DType, int bytes, Isa, bool relaxed);

}  // namespace appy::cpu
