// State of one compilation, shared by the functions that it emits.
#pragma once

#include <asmjit/x86.h>

#include <string>
#include <vector>

#include "cpu/compiler.h"
#include "cpu/cpu.h"
#include "ir/ir.h"

namespace appy::cpu {

namespace x86 = asmjit::x86;

/// A loop body that becomes a function of its own, emitted after the function that runs the loop.
struct Outlined {
  const ir::Op* loop = nullptr;
  asmjit::FuncNode* node = nullptr;
  bool alone = false;                      // no other thread updates what its atomics update
  std::vector<const ir::Value*> captured;  // closure words, after args, lower, step and the partials' address
};

/// How many words the parameters take, and those with the arrays that the region makes.
struct ArgumentWords {
  size_t params = 0;
  size_t all = 0;
};

struct Module {
  Module(const ir::Graph& graph, Isa isa, int64_t stream_bytes, const Traits& traits, Compiler& cc);

  const ir::Graph& graph;
  const Isa isa;
  const int64_t stream_bytes;  // as in Options
  const Traits traits;         // as there
  Compiler& cc;
  std::vector<uint32_t> uses;       // number of operand slots, by value id
  std::vector<const ir::Op*> user;  // one user, by value id
  std::vector<bool> chooses;        // comparisons for two selects of their block, once more for the second, by value id
  std::vector<bool> told;           // results of pure ops that only what checks and polls tell needs, by value id
  const std::vector<const ir::Op*> accesses;
  std::vector<int> param_word;  // first argument word of a parameter or alloc, by value id; -1 for others
  ArgumentWords words;
  std::vector<Outlined> outlined;  // still to be emitted
  std::vector<std::string> summary;

  bool avx512() const { return isa == Isa::avx512; }
  /// Bytes of the widest vector register.
  int vector_bytes() const { return avx512() ? 64 : 32; }
  /// Position of a check in walk order.
  int ordinal(const ir::Op& check) const;
  /// "line 12" or "loop", for summaries.
  std::string where(const ir::Op&) const;

 private:
  void find_choices();
  void find_told();

  std::vector<std::pair<const ir::Op*, int>> checks_;
};

}  // namespace appy::cpu
