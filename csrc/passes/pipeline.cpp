#include <algorithm>
#include <array>
#include <string>

#include "ir/verify.h"
#include "passes/pass.h"
#include "support/check.h"

namespace appy::passes {

#define X(name) bool name(ir::Graph&);
#include "passes/passes.def"
#undef X

namespace {

#ifdef APPY_VERIFY_PASSES
constexpr bool kAlwaysVerify = true;
#else
constexpr bool kAlwaysVerify = false;
#endif

void verify_after(std::string_view pass, const ir::Graph& graph) {
  const std::string faults = ir::verify(graph);
  APPY_CHECK(faults.empty(), "pass " + std::string(pass) + " broke the graph:\n" + faults);
}

}  // namespace

const std::vector<Pass>& pipeline() {
  static const std::vector<Pass> passes = {
#define X(name) Pass{#name, &passes::name},
#include "passes/passes.def"
#undef X
  };
  return passes;
}

const Pass* find(std::string_view name) {
  for (const Pass& pass : pipeline()) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

void run(ir::Graph& graph, const Options& options) {
  const bool verify = options.verify || kAlwaysVerify;
  if (verify) verify_after("(input)", graph);
  for (const Pass& pass : pipeline()) {
    if (std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end()) continue;
    const bool changed = pass.run(graph);
    if (verify) verify_after(pass.name, graph);
    if (changed && options.on_change) options.on_change(pass.name, graph);
  }
}

}  // namespace appy::passes
