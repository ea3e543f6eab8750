#include "passes/math_builder.h"

#include <bit>
#include <limits>
#include <vector>

namespace appy::passes {

using ir::DType;
using ir::Value;

uint64_t MathBuilder::word(double v) const {
  return wide() ? std::bit_cast<uint64_t>(v) : std::bit_cast<uint32_t>(static_cast<float>(v));
}

Value* MathBuilder::number(double v) { return b_.constant(type_, word(v)); }

Value* MathBuilder::integer(uint64_t v) { return b_.constant(wide() ? DType::u64_ : DType::u32_, v); }

Value* MathBuilder::quiet_nan() { return number(std::numeric_limits<double>::quiet_NaN()); }

Value* MathBuilder::infinity() { return number(std::numeric_limits<double>::infinity()); }

Value* MathBuilder::bits(Value* real) { return b_.bitcast(real, wide() ? DType::u64_ : DType::u32_); }

Value* MathBuilder::real(Value* bits) { return b_.bitcast(bits, type_); }

Value* MathBuilder::polynomial(Value* x, std::span<const double> c) {
  if (c.size() < 6) {
    Value* sum = number(c.back());
    for (size_t i = c.size() - 1; i-- > 0;) sum = fma(sum, x, number(c[i]));
    return sum;
  }
  std::vector<double> even, odd;
  for (size_t i = 0; i < c.size(); ++i) (i % 2 ? odd : even).push_back(c[i]);
  Value* square = mul(x, x);
  Value* low = polynomial(square, even);
  return fma(polynomial(square, odd), x, low);
}

MathBuilder::Whole MathBuilder::nearest(Value* x, double factor, double offset) {
  // Adding 1.5 * 2**mantissa leaves the rounded number in the low bits.
  Value* magic = number(wide() ? 0x1.8p52 : 0x1.8p23);
  Value* shifted = offset == 0 ? fma(x, number(factor), magic) : add(fma(x, number(factor), number(offset)), magic);
  return {shifted, sub(shifted, magic)};
}

Value* MathBuilder::power_of_two(Value* shifted, double factor) {
  return real(b_.op(ir::Opcode::add_, {shl(bits(shifted), mantissa_bits()), integer(word(factor))}));
}

}  // namespace appy::passes
