// The GPU backend: graph -> a kernel for a device, and what happens at each entry: transfers, launch, faults.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/tuning.h"
#include "ir/ir.h"
#include "runtime/kernel.h"

namespace appy::gpu {

struct Options {
  int device = 0;
  /// Which parameters' data is the device's already, by parameter. Host arrays are moved at each entry: in what is
  /// read, back what is written.
  std::vector<bool> on_device;
  /// Which parameters' elements may lie at any address, by parameter.
  std::vector<bool> unaligned;
  /// New arrays that outlive the region are made in the device's memory.
  bool makes_on_device = false;
  /// Makes what runs the host's part of the region.
  std::function<std::unique_ptr<runtime::Kernel>(const ir::Graph&)> compile_host;
  bool keep_listing = false;
  /// Measure shapes, and keep what was found.
  std::optional<TuningStore> tuning;
  /// The text of a source line, for comments.
  std::function<std::string(const std::string& file, int line)> source_line;
};

/// Multiprocessors of a device; 0 where it is not to be had, which compile() will say.
int multiprocessors(int device);

/// Are loops over time to be tiled in boxes (Graph::boxes)? APPY_CUDA_SHAPE may say that they are not.
bool wants_boxes();

/// Throws Abort for what this backend cannot do, and where there is no device, driver or compiler.
std::unique_ptr<runtime::Kernel> compile(const ir::Graph&, Options);

}  // namespace appy::gpu
