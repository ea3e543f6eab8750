// asmjit's compiler, whose registers all have a name: it prints a number into one for each that has none, which takes a
// twentieth of the time of emission, for listings that show the registers of the machine.
#pragma once

#include <asmjit/x86.h>

namespace appy::cpu {

class Compiler : public asmjit::x86::Compiler {
 public:
  using asmjit::x86::Compiler::Compiler;

  asmjit::x86::Gp newGpd() { return named<asmjit::x86::Gp>(asmjit::TypeId::kUInt32); }
  asmjit::x86::Gp newGpq(const char* name = "r") { return named<asmjit::x86::Gp>(asmjit::TypeId::kUInt64, name); }
  asmjit::x86::Xmm newXmm() { return named<asmjit::x86::Xmm>(asmjit::TypeId::kInt32x4); }
  asmjit::x86::Xmm newXmmSd() { return named<asmjit::x86::Xmm>(asmjit::TypeId::kFloat64x1); }
  asmjit::x86::Xmm newXmmSs() { return named<asmjit::x86::Xmm>(asmjit::TypeId::kFloat32x1); }
  asmjit::x86::Ymm newYmm() { return named<asmjit::x86::Ymm>(asmjit::TypeId::kInt32x8); }
  asmjit::x86::Zmm newZmm() { return named<asmjit::x86::Zmm>(asmjit::TypeId::kInt32x16); }
  asmjit::x86::KReg newKq() { return named<asmjit::x86::KReg>(asmjit::TypeId::kMask64); }

 private:
  template <class Reg>
  Reg named(asmjit::TypeId type, const char* name = "r") {
    Reg reg(asmjit::Globals::NoInit);
    _newReg(&reg, type, name);
    return reg;
  }
};

}  // namespace appy::cpu
