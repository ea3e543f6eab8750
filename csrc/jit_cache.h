// Optimised graphs on disk. Passes take longer than all else that a process does which finds its kernels there.
#pragma once

#include <memory>

#include "ir/ir.h"
#include "passes/pass.h"

namespace appy {

/// passes::run, or what it gave for an equal graph and equal options, in this process or another one of this build of
/// appy; `options.on_change` then hears the same names, each with the graph as it is in the end. The graph is the
/// text's either way, so that what is made of it is the same, too. Was it there?
bool run_passes_once(std::unique_ptr<ir::Graph>&, const passes::Options&);

}  // namespace appy
