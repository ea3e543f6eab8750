#include <algorithm>
#include <array>
#include <string>

#include "ir/verify.h"
#include "passes/pass.h"
#include "support/check.h"

namespace appy::passes {

#define X(name, target) bool name(ir::Graph&);
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

const std::vector<Pass>& pipeline(Target target) {
  static const std::array<std::vector<Pass>, 2> pipelines = [] {
    constexpr int cpu = 1, device = 2, both = 3;
    std::array<std::vector<Pass>, 2> made;
    const auto add = [&](const char* name, auto* pass, int targets) {
      if (targets & cpu) made[0].push_back({name, pass});
      if (targets & device) made[1].push_back({name, pass});
    };
#define X(name, target) add(#name, &passes::name, target);
#include "passes/passes.def"
#undef X
    return made;
  }();
  return pipelines[static_cast<size_t>(target)];
}

const Pass* find(std::string_view name) {
  for (Target target : {Target::cpu, Target::device}) {
    for (const Pass& pass : pipeline(target)) {
      if (pass.name == name) return &pass;
    }
  }
  return nullptr;
}

void run(ir::Graph& graph, const Options& options) {
  const bool verify = options.verify || kAlwaysVerify;
  if (verify) verify_after("(input)", graph);
  for (const Pass& pass : pipeline(options.target)) {
    if (std::find(options.disabled.begin(), options.disabled.end(), pass.name) != options.disabled.end()) continue;
    const bool changed = pass.run(graph);
    if (verify) verify_after(pass.name, graph);
    if (changed && options.on_change) options.on_change(pass.name, graph);
    if (pass.name == options.last) break;
  }
}

}  // namespace appy::passes
