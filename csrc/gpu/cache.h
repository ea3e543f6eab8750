// Compiled images on disk: a process that finds its kernels here never loads NVRTC.
//
// A file is named by a 128-bit hash of everything that the image depends on (source, headers, options, architecture,
// compiler); it holds these texts as well, and they are compared when it is read. Files are created 0600 under another
// name and renamed, in a folder that belongs to the user and that nobody else can write to; where it cannot be made so,
// nothing is read or written. Every failure means "not cached" and is no error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gpu/nvrtc.h"

namespace appy::gpu {

/// The image from the cache (`hit` then says so), or compiled and put there. Throws what compile() throws.
Image cached_compile(const Source&, int compute_capability, bool* hit = nullptr);

/// The parts, for tests. `compiler` is compiler_identity().
std::optional<Image> load_image(const Source&, int compute_capability, const std::string& compiler);
bool store_image(const Source&, int compute_capability, const std::string& compiler, const Image&);

/// 128 bits of a text as 32 digits.
std::string fingerprint(std::string_view text);

struct CacheState {
  std::string folder;
  std::string problem;  // why it is not used; empty where it is, or will be when the first file is written
  int files = 0;
  int64_t bytes = 0;
};

/// APPY_CACHE_DIR or the user's cache folder, as it is now.
CacheState cache_state();

}  // namespace appy::gpu
