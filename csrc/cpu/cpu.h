// The CPU backend: graph -> x86-64 machine code.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::cpu {

/// Computed on in vector registers. What f16 and bf16 there is in a graph by then is loaded, stored, chosen and
/// converted: it is an unsigned integer of 16 bits to the backend.
inline bool is_float(ir::DType t) { return t == ir::DType::f32_ || t == ir::DType::f64_; }

enum class Isa : uint8_t { none, avx2, avx512 };

/// The best instruction set of this machine: none below AVX2+FMA+BMI2; AVX-512 means F, DQ, BW, VL and CD.
Isa detect();
/// What some processors gain by and others lose.
struct Traits {
  /// Are gathers faster than the branches that they save? Sapphire Rapids and later Intel processors do eight in some
  /// ten cycles; Zen 4 takes twice that, Ice Lake with the mitigation of CVE-2022-40982 several times.
  bool fast_gathers = false;
  /// Do rows that are read side by side come sooner where the code asks for what comes? What a Zen 4 fetches ahead by
  /// itself suffices: 4000 x 4000 elements of two matrices, two rows of each at a time, come with 52 GB/s then, with 43
  /// where code asks for what is 2304 bytes ahead; in minutes in which memory gives less, with 35 and 33.
  bool asks_for_streams = false;
};
/// Those of this machine.
Traits traits();
/// Asks the CPU now what the first compilation would ask it: in a virtual machine that takes a while.
void read_machine();
std::string_view name_of(Isa);
/// Bytes of a core's second-level cache; 0 where Linux does not say.
int64_t second_level_cache();
inline int vector_registers(Isa isa) { return isa == Isa::avx512 ? 32 : 16; }

struct Options {
  Isa isa = Isa::none;  // none: detect()
  bool keep_listing = false;
  std::string_view name;      // for the perf map
  int64_t stream_bytes = -1;  // stores of loops that move more go around the caches; -1: the last-level cache's size
  std::optional<Traits> traits = {};  // traits()
};

/// Throws Abort for what this backend cannot do.
std::unique_ptr<runtime::Kernel> compile(const ir::Graph&, const Options&);

}  // namespace appy::cpu
