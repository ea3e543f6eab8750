// Panels (panels.h) for devices: larger tiles, as all workers wait for each other a few times a tile.
#include "passes/panels.h"

namespace appy::passes {

namespace {

constexpr int64_t kBlock = 64;

}  // namespace

bool panels_device(ir::Graph& graph) { return make_panels(graph, {.block = kBlock, .device = true}); }

}  // namespace appy::passes
