// Views of vector registers by width.
#pragma once

#include <asmjit/x86.h>

namespace appy::cpu {

/// The part of the register that holds this many bytes (at least 16).
inline asmjit::x86::Vec sized(const asmjit::x86::Vec& r, int bytes) {
  if (bytes <= 16) return r.xmm();
  if (bytes == 32) return r.ymm();
  return r.zmm();
}
inline asmjit::x86::Vec as_vec(const asmjit::x86::Reg& r) { return r.as<asmjit::x86::Vec>(); }

}  // namespace appy::cpu
