// Where NVIDIA's libraries are looked for: what the process has loaded, NVIDIA's wheels, toolkits, the system.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace appy::gpu {

struct LibraryName {
  const char* stem;      // "libnvrtc"
  const char* part;      // "libnvrtc-builtins": what begins like it and is opened by it
  const char* wheel;     // its folder in wheels for CUDA 12
  const char* variable;  // of the environment, which names it
  int behind = 0;        // by how much its major version is less than CUDA's
  bool opens_part = true;
};

/// Folders to look for wheels in.
void look_for_wheels_in(std::vector<std::string> folders);

/// Paths, or names for the system's loader, in the order in which they are tried: what `variable` says and nothing
/// else, or those that the process has loaded, of wheels, of toolkits, and the loader's. Later major versions than the
/// driver's come last.
std::vector<std::string> candidates(const LibraryName&);

/// Why a library that appy can do without is not to be looked for: the variable says "none", or APPY_LIBCUDA names
/// another driver, which the libraries here would not know, and the variable says nothing. Empty where it is.
std::string not_wanted(const LibraryName&);

/// dlopen()s it, and before it the parts beside it that it opens by name: not every copy says where it looks. Null, and
/// why in `problem`, where it cannot be.
void* open(const LibraryName&, const std::string& path, std::string& problem);

/// Entries of a folder whose names start with `prefix`, the last version first.
std::vector<std::filesystem::path> versions_in(const std::filesystem::path& folder, const std::string& prefix);

}  // namespace appy::gpu
