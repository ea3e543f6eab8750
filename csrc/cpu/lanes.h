// Operations on vector registers, one register of so many lanes at a time, and masks. Neither loops nor the graph are
// known here: VectorLoop (vector_loop.h) says what is computed, and in how many registers.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cpu/function.h"

namespace appy::cpu {

using asmjit::InstId;
using Regs = std::vector<x86::Reg>;

class Lanes {
 public:
  size_t lanes() const { return static_cast<size_t>(lanes_); }

 protected:
  explicit Lanes(Function& f) : f_(f), cc_(f.cc()), avx512_(f.avx512()) {}
  /// Constants that were made for other code are not to be used any more.
  void forget_constants();

  // Registers and constants (lanes_values.cpp).
  x86::Vec vec(int bytes);
  x86::Reg fresh1(ir::DType);
  x86::Reg copy(x86::Reg, ir::DType);
  x86::Reg broadcast_reg(ir::DType, x86::Reg scalar);
  x86::Vec broadcast_bits(int element, uint64_t bits);
  x86::Vec constant_vec(const std::vector<uint64_t>& elements, int element);
  x86::Vec iota(int element);
  int bytes(ir::DType t) const { return lanes_ * ir::size_of(t); }
  /// Bytes on the stack; the slots' numbers are the uses.
  x86::Mem scratch(int slot);
  void spill(ir::DType, x86::Reg, x86::Mem to);
  /// The value of the lane whose number is in `lane`.
  x86::Reg extract(ir::DType, x86::Reg, x86::Gp lane);
  template <class F>
  void hoisted(F&& f) {
    f_.hoist(level_, f);
  }

  // Masks (lanes_mask.cpp). One register each; a mask has a bit (AVX-512) or a full element (AVX2) a lane.
  x86::Reg new_mask();
  x86::Reg mask_and(x86::Reg a, x86::Reg b);
  x86::Reg mask_or(x86::Reg a, x86::Reg b);
  x86::Reg mask_andn(x86::Reg a, x86::Reg b);  // a & ~b
  x86::Reg mask_xor(x86::Reg a, x86::Reg b);
  x86::Reg mask_not(x86::Reg a);
  x86::Reg mask_none();
  x86::Reg mask_all();
  void mask_logic(InstId k512, InstId v2, x86::Reg to, x86::Reg a, x86::Reg b);
  InstId k_inst(InstId b, InstId w, InstId d, InstId q) const;
  /// Jumps if no lane of any register is set.
  void jump_if_none(const Regs&, asmjit::Label);
  void jump_if_any(const Regs&, asmjit::Label);
  void test(const Regs&);
  void mask_bits(x86::Gp to, x86::Reg mask);
  /// Lanes below the count in `n`; `numbers` are the lanes' numbers as mask elements (AVX2 only). `small`: the count is
  /// below four groups of lanes, which a byte holds.
  x86::Reg mask_below(x86::Gp n, x86::Vec numbers, bool small = false);
  x86::Vec lane_numbers() { return avx512_ ? x86::Vec() : iota(element_); }
  x86::Reg mask_from_bool(x86::Gp);
  /// AVX2: the mask for elements of this size, in a register of lanes * size bytes; and back.
  x86::Vec narrow(x86::Reg mask, int element);
  x86::Reg widen(x86::Vec, int element);
  x86::Reg blend(ir::DType, x86::Reg mask, x86::Reg a, x86::Reg b);  // mask ? a : b
  void blend_into(ir::DType, x86::Reg to, x86::Reg mask, x86::Reg a);
  /// Moves under a mask for the type's own size; with AVX2 of 4 bytes and more.
  InstId masked_move(ir::DType) const;
  x86::Vec load_masked(ir::DType, x86::Mem, x86::Reg mask);
  void store_masked(ir::DType, x86::Mem, x86::Vec, x86::Reg mask);

  // Arithmetic (lanes_real.cpp, lanes_int.cpp). The result goes to `to` where that is valid.
  x86::Reg elementwise(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b, x86::Reg to);
  x86::Reg real_op(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b, x86::Reg to);
  x86::Reg int_op(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b, x86::Reg to);
  x86::Reg mul64(x86::Vec a, x86::Vec b, x86::Reg to);
  x86::Reg mul64_high(x86::Vec a, uint64_t b);
  x86::Reg mul8(x86::Vec a, x86::Vec b, x86::Reg to, int bytes);
  x86::Reg shift(ir::Opcode, ir::DType, x86::Reg a, x86::Reg count, x86::Reg to);
  x86::Reg shift_imm(ir::Opcode, ir::DType, x86::Reg a, int count, x86::Reg to);
  x86::Reg convert_result(ir::DType, x86::Reg f64);
  x86::Reg int_divide(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b);
  /// i64 with AVX-512.
  x86::Reg wide_divide(ir::Opcode, x86::Reg a, x86::Reg b);
  /// i64 and u64.
  x86::Reg divide_by_constant(ir::Opcode, ir::DType, x86::Reg a, int64_t divisor);
  /// With AVX-512 `under` may be a mask, which becomes false where the comparison is.
  x86::Reg compare(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b, x86::Reg under = {});
  x86::Reg compare_int(ir::Opcode, ir::DType, x86::Vec a, x86::Vec b, x86::Reg under = {});
  x86::Reg compare_real(int predicate, ir::DType, x86::Reg a, x86::Reg b, x86::Reg under = {});
  x86::Reg overflow(ir::Opcode, ir::DType, x86::Reg a, x86::Reg b);
  x86::Reg negative(ir::DType, x86::Vec);  // mask of the sign bits
  x86::Vec sign_mask(ir::DType, bool inverted);

  // Conversions (lanes_cast.cpp).
  Regs cast(ir::DType to, ir::DType from, const Regs&);
  x86::Reg cast1(ir::DType to, ir::DType from, x86::Reg);
  bool cast_by_lane(ir::DType to, ir::DType from) const;
  x86::Reg real_to_int(ir::DType to, ir::DType from, x86::Vec);
  x86::Reg int_to_real(ir::DType to, ir::DType from, x86::Vec);
  x86::Vec convert_int(x86::Vec, int from, bool sign, int to);
  x86::Vec truncate_int(x86::Vec, int from, int to);
  x86::Vec bfloat_to_f32(x86::Vec);
  x86::Vec f32_to_bfloat(x86::Vec);
  x86::Vec i64_to_f64(x86::Vec, bool sign);
  x86::Vec f64_to_i64(x86::Vec);

  // Lanes in another order (lanes_shuffle.cpp).
  enum Order : uint32_t { kOneOfTwo, kPairsLow, kPairsHigh, kEven, kOdd, kReversed, kTransposed };
  /// The lane that each lane is taken from, made once for each key.
  x86::Vec order_vec(uint32_t key, int size, const std::function<int(int)>& element);
  x86::Vec permute_two(int size, x86::Vec a, x86::Vec order, x86::Vec b);
  x86::Vec reverse(ir::DType, x86::Vec);
  /// a[0], b[0], a[1], ... in two vectors; and back.
  std::array<x86::Vec, 2> interleave(int size, x86::Vec a, x86::Vec b);
  std::array<x86::Vec, 2> deinterleave(int size, x86::Vec low, x86::Vec high);
  /// rows[k][l] becomes rows[l][k].
  void transpose(int size, std::vector<x86::Vec>& rows);
  x86::Reg across_lanes(ir::Opcode, ir::DType, x86::Reg);
  /// The same of several registers at once, by transposing: that of the k-th is element k of the result.
  x86::Vec across_lanes_of(ir::Opcode, ir::DType, std::span<const x86::Reg>);
  void element_of(ir::DType, x86::Vec, size_t k, x86::Reg to);

  Function& f_;
  Compiler& cc_;
  const bool avx512_;
  int lanes_ = 1;
  int element_ = 8;   // bytes of an AVX2 mask element
  size_t level_ = 0;  // of the loop in Function's levels in front of which constants are made

 private:
  std::map<std::pair<int, int64_t>, x86::Vec> pool_;  // broadcast constants
  std::map<int, x86::Vec> iotas_;
  std::map<std::pair<uint32_t, int>, x86::Vec> orders_;
  std::map<int, x86::Mem> scratch_;
};

}  // namespace appy::cpu
