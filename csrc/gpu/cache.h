// Compiled images on disk: a process that finds its kernels here never loads NVRTC.
#pragma once

#include <optional>
#include <string>

#include "gpu/nvrtc.h"

namespace appy::gpu {

/// The image from the cache (`hit` then says so), or compiled and put there. Throws what compile() throws.
Image cached_compile(const Source&, int compute_capability, bool* hit = nullptr);

/// The parts, for tests. `compiler` is compiler_identity().
std::optional<Image> load_image(const Source&, int compute_capability, const std::string& compiler);
bool store_image(const Source&, int compute_capability, const std::string& compiler, const Image&);

}  // namespace appy::gpu
