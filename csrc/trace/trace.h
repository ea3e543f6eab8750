// Bytecode and live values -> graph. Entry point of the tracer.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/ir.h"
#include "pragma/pragma.h"
#include "runtime/signature.h"
#include "trace/samples.h"

namespace appy::trace {

/// The statement to compile: the byte offsets [begin, end) of its instructions in the original code object. For a `for`
/// loop `begin` is the first instruction that evaluates its iterable; `end` the first one after the loop (and after its
/// `else`). Pragmas inside the range are found by position.
struct Region {
  PyCodeObject* code = nullptr;
  int begin = 0;
  int end = 0;
  int last_line = 0;  // of the statement; 0: that of its last instruction
  std::span<const pragma::Placed> pragmas;
  bool exact = false;
  bool may_alias = false;   // trace the sequential version for arrays that overlap
  bool any_int = false;     // Python ints may lie anywhere in 64 bits: no class of ranges is promised
  bool any_count = false;   // slices may have any number of elements: none is broadcast for having one at entry
  bool auto_simd = true;    // array statements have lanes without being told
  bool for_device = false;  // the code is for a device, wherever the arrays are
  bool drops_dead = false;  // variables that nothing reads afterwards are left as they were
  int workers = 1;          // threads that the code is for; sizes may depend on it
  int registers = 16;       // vector registers of the processor
  bool settles = false;     // of what sizes decide there is code for the sizes at entry alone, others decline
};

struct Result {
  std::unique_ptr<ir::Graph> graph;
  runtime::Signature signature;
  Samples samples;
  ArrayCounts interpreted;  // arrays that the interpreter makes by the region's operators and calls
};

/// Looks up the functions of NumPy, CuPy and others that traces know, of those that are imported: a trace would have to
/// do it first. The GIL is held.
void find_functions();

/// Throws Abort where the region cannot be compiled. Leaves no Python exception set. The GIL is held.
Result trace(const Region&, const runtime::Scope&);

}  // namespace appy::trace
