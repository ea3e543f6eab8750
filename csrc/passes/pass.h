// A pass is one file and one function. passes.def lists them in order; the list also yields the dump labels, the
// switches (APPY_DISABLE_PASS=name,...) and the test registry.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// Whose code comes of it: a CPU's, or that of a device with workers that consist of lanes (ir.h, Mapping).
enum class Target : uint8_t { cpu, device };

struct Options {
  Target target = Target::cpu;
  bool verify = false;                     // run the verifier after every pass (always in debug builds)
  std::vector<std::string_view> disabled;  // names of passes to leave out
  std::string_view last;                   // the pass, the first of this name, that none comes after
  /// Called after each pass that changed something, with the pass's name.
  std::function<void(std::string_view, const ir::Graph&)> on_change;
};

struct Pass {
  std::string_view name;
  bool (*run)(ir::Graph&);  // true if it changed the graph
};

/// All passes for a target in pipeline order; a pass may stand in it more than once.
const std::vector<Pass>& pipeline(Target);
/// The pass of that name, or null.
const Pass* find(std::string_view name);

/// Is the region worth asking the pass `factors`? Without variables that nothing reads afterwards it may be a Cholesky
/// factorization.
bool resembles_factorization(const ir::Graph&);

/// Runs the pipeline. A graph that a pass broke is a fatal error that names the pass.
void run(ir::Graph&, const Options&);

}  // namespace appy::passes
