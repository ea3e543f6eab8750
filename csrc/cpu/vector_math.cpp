// Elementary functions in vector code: SLEEF where it has the function, libm by lane where it has not.
#include "cpu/math_calls.h"
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;
namespace Id = x86::Inst;

namespace {

// X(op, name, strict, relaxed): SLEEF's name and the suffixes for both accuracies. SLEEF's sinh, cosh, asinh, acosh and
// log1p overflow long before the result does, so they are not used.
#define APPY_SLEEF(X)         \
  X(cbrt, cbrt, u10, u35)     \
  X(exp, exp, u10, u10)       \
  X(exp2, exp2, u10, u35)     \
  X(expm1, expm1, u10, u10)   \
  X(log, log, u10, u35)       \
  X(log2, log2, u10, u35)     \
  X(log10, log10, u10, u10)   \
  X(sin, sin, u10, u35)       \
  X(cos, cos, u10, u35)       \
  X(tan, tan, u10, u35)       \
  X(asin, asin, u10, u35)     \
  X(acos, acos, u10, u35)     \
  X(atan, atan, u10, u35)     \
  X(tanh, tanh, u10, u35)     \
  X(atanh, atanh, u10, u10)   \
  X(erf, erf, u10, u10)       \
  X(erfc, erfc, u15, u15)     \
  X(gamma, tgamma, u10, u10)  \
  X(lgamma, lgamma, u10, u10) \
  X(pow, pow, u10, u10)       \
  X(atan2, atan2, u10, u35)   \
  X(hypot, hypot, u05, u35)

const void* address(void (*f)()) { return reinterpret_cast<const void*>(f); }

}  // namespace

// Only the addresses matter; sleef.h declares the vector types under compiler flags that this file is not built with.
#define APPY_DECLARE(name, u)           \
  void Sleef_##name##d2_##u##avx2128(); \
  void Sleef_##name##f4_##u##avx2128(); \
  void Sleef_##name##d4_##u##avx2();    \
  void Sleef_##name##f8_##u##avx2();    \
  void Sleef_##name##d8_##u##avx512f(); \
  void Sleef_##name##f16_##u##avx512f();
extern "C" {
#define X(op, name, strict, loose) APPY_DECLARE(name, strict) APPY_DECLARE(name, loose)
APPY_SLEEF(X)
#undef X
}

const void* vector_function(Opcode code, DType t, int bytes, Isa isa, bool relaxed) {
  const bool wide = t == DType::f64_;
  const bool evex = isa == Isa::avx512 && bytes == 64;
  switch (code) {
#define X(op, name, strict, loose)                                                                                     \
  case Opcode::op##_:                                                                                                  \
    if (evex) {                                                                                                        \
      if (wide)                                                                                                        \
        return relaxed ? address(&Sleef_##name##d8_##loose##avx512f) : address(&Sleef_##name##d8_##strict##avx512f);   \
      return relaxed ? address(&Sleef_##name##f16_##loose##avx512f) : address(&Sleef_##name##f16_##strict##avx512f);   \
    }                                                                                                                  \
    if (bytes == 32) {                                                                                                 \
      if (wide) return relaxed ? address(&Sleef_##name##d4_##loose##avx2) : address(&Sleef_##name##d4_##strict##avx2); \
      return relaxed ? address(&Sleef_##name##f8_##loose##avx2) : address(&Sleef_##name##f8_##strict##avx2);           \
    }                                                                                                                  \
    if (wide)                                                                                                          \
      return relaxed ? address(&Sleef_##name##d2_##loose##avx2128) : address(&Sleef_##name##d2_##strict##avx2128);     \
    return relaxed ? address(&Sleef_##name##f4_##loose##avx2128) : address(&Sleef_##name##f4_##strict##avx2128);
    APPY_SLEEF(X)
#undef X
    default:
      return nullptr;
  }
}

VectorLoop::Lifted VectorLoop::lift(DType t, x86::Reg a) {
  const bool wide = t == DType::f64_;
  const auto constant = [&](uint64_t d, uint32_t f) {
    return sized(broadcast_bits(ir::size_of(t), wide ? d : f), bytes(t));
  };
  Lifted out{vec(bytes(t)), vec(bytes(t)), vec(bytes(t))};
  const InstId compare = wide ? Id::kIdVcmppd : Id::kIdVcmpps;
  x86::Vec zero = vec(bytes(t)), large = vec(bytes(t));
  cc_.vxorps(zero, zero, zero);
  cc_.emit(compare, out.small, a, constant(0x0010000000000000, 0x00800000), asmjit::Imm(0x11));  // less
  cc_.emit(compare, out.outside, a, zero, asmjit::Imm(0x19));                                    // not at least
  cc_.emit(wide ? Id::kIdVmulpd : Id::kIdVmulps, large, a, constant(0x4350000000000000, 0x4c000000));
  cc_.emit(wide ? Id::kIdVblendvpd : Id::kIdVblendvps, large, a, large, out.small);
  cc_.emit(wide ? Id::kIdVpaddq : Id::kIdVpaddd, out.moved, large,
           constant(0x0008000000000000, 0x00400000));  // 1 - 3/4 as integers
  return out;
}

void VectorLoop::split_real(const ir::Op& op) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  const bool wide = t == DType::f64_, exponent = op.code == Opcode::exponent_;
  const auto pick = [&](InstId d, InstId f) { return wide ? d : f; };
  const auto constant = [&](uint64_t d, uint32_t f) {
    return sized(broadcast_bits(ir::size_of(t), wide ? d : f), bytes(t));
  };
  const ir::Op* before = op.prev;
  const bool paired = exponent && before && before->code == Opcode::mantissa_ && before->operands[0] == op.operands[0];
  Regs a = get(op.operands[0]), known = paired ? get(before->result()) : a, r;
  if (!paired) lifted_.clear();
  for (size_t u = 0; u < a.size(); ++u) {
    x86::Reg to = fresh1(t);
    r.push_back(to);
    if (avx512_) {
      x86::Reg mantissa = exponent ? fresh1(t) : to;
      if (!paired) {
        cc_.emit(pick(Id::kIdVgetmantpd, Id::kIdVgetmantps), mantissa, a[u], asmjit::Imm(kMantissaForm));
      }
      if (!exponent) continue;
      cc_.emit(pick(Id::kIdVgetexppd, Id::kIdVgetexpps), mantissa, paired ? known[u] : mantissa);
      cc_.emit(pick(Id::kIdVgetexppd, Id::kIdVgetexpps), to, a[u]);
      cc_.emit(pick(Id::kIdVsubpd, Id::kIdVsubps), to, to, mantissa);
      continue;
    }
    if (!paired) lifted_.push_back(lift(t, a[u]));
    const Lifted& l = lifted_[u];
    if (!exponent) {
      cc_.emit(Id::kIdVpand, to, l.moved, constant(0x000fffffffffffff, 0x007fffff));
      cc_.emit(pick(Id::kIdVpaddq, Id::kIdVpaddd), to, to, constant(0x3fe8000000000000, 0x3f400000));
    } else {
      // A number from 0 to 2**mantissa_bits - 1 is in the low bits of that number plus 2**mantissa_bits.
      x86::Vec offset = vec(bytes(t)), special = vec(bytes(t));
      const InstId blend_id = pick(Id::kIdVblendvpd, Id::kIdVblendvps), compare = pick(Id::kIdVcmppd, Id::kIdVcmpps);
      cc_.emit(pick(Id::kIdVpsrlq, Id::kIdVpsrld), to, l.moved, asmjit::Imm(wide ? 52 : 23));
      cc_.emit(Id::kIdVpor, to, to, constant(0x4330000000000000, 0x4b000000));
      cc_.emit(blend_id, offset, constant(0x43300000000003ff, 0x4b00007f), constant(0x4330000000000435, 0x4b000098),
               l.small);
      cc_.emit(pick(Id::kIdVsubpd, Id::kIdVsubps), to, to, offset);
      cc_.vxorps(special, special, special);
      cc_.emit(compare, special, a[u], special, asmjit::Imm(0));
      cc_.emit(blend_id, to, to, constant(0xfff0000000000000, 0xff800000), special);
      cc_.emit(compare, special, a[u], constant(0x7ff0000000000000, 0x7f800000), asmjit::Imm(0));
      cc_.emit(blend_id, to, to, a[u], special);
    }
    cc_.emit(Id::kIdVpor, to, to, l.outside);
  }
  finish(v, std::move(r));
}

bool VectorLoop::call_vector(const ir::Op& op) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  if (f_.module().graph.exact) return false;
  const void* function = vector_function(op.code, t, bytes(t), f_.module().isa, relaxed_math_);
  if (!function || bytes(t) < 16) return false;
  std::vector<Regs> operands;
  for (const ir::Value* o : op.operands) operands.push_back(get(o));
  auto target = targets_.find(v->id);
  Regs to = target != targets_.end() ? target->second : fresh(t);
  for (size_t u = 0; u < to.size(); ++u) {
    std::vector<x86::Reg> arguments;
    for (const Regs& r : operands) arguments.push_back(r[u]);
    f_.call(function, to[u], arguments);
  }
  set(v, to);
  return true;
}

}  // namespace appy::cpu
