// Elementary functions in vector code: SLEEF where it has the function, libm by lane where it has not.
#include "cpu/math_calls.h"
#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;

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
