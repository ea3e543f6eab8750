// Panels (panels.h) for devices: larger tiles, as all workers wait for each other a few times a tile.
#include "passes/panels.h"

namespace appy::passes {

namespace {

constexpr int64_t kBlock = 64;
/// Of single sums more iterations wait for nobody else: what they need of each other fits in one block's fast memory.
constexpr int64_t kRunning = 128;
/// A tile adds to the sums of its group only, and the group to all behind it: of a large matrix little is read from
/// each of many rows otherwise, each in another page of memory.
constexpr int64_t kGroup = 1024;

}  // namespace

bool panels_device(ir::Graph& graph) {
  return make_panels(graph, {.block = kBlock, .running = kRunning, .group = kGroup, .device = true});
}

}  // namespace appy::passes
