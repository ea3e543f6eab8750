#include "gpu/libraries.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <utility>

#include "gpu/driver.h"

namespace appy::gpu {

namespace {

namespace fs = std::filesystem;

std::mutex mutex;  // of this
std::vector<std::string> wheel_folders;

/// What stands after ".so." in the name of a library, or -1.
int major_of(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const size_t at = name.find(".so.");
  if (at != std::string::npos) return std::atoi(name.c_str() + at + 4);
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  return error || target == path ? -1 : major_of(target.string());
}

bool is_of(const LibraryName& of, const std::string& name) {
  return name.starts_with(of.stem) && !name.starts_with(of.part) && name.find(".so") != std::string::npos;
}

/// Paths of those that another library has loaded; wheels put a hash into the name.
std::vector<std::string> loaded_paths(const LibraryName& of) {
  std::pair<const LibraryName*, std::vector<std::string>> found{&of, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        auto& [name, paths] = *static_cast<decltype(found)*>(into);
        if (info->dlpi_name && is_of(*name, fs::path(info->dlpi_name).filename().string()))
          paths.push_back(info->dlpi_name);
        return 0;
      },
      &found);
  return std::move(found.second);
}

std::vector<std::string> names_of(const LibraryName& of) {
  const std::string stem = of.stem;
  return {stem + ".so." + std::to_string(13 - of.behind), stem + ".so." + std::to_string(12 - of.behind), stem + ".so"};
}

void add_libraries(const LibraryName& of, const fs::path& folder, std::vector<std::string>& out) {
  std::error_code error;
  for (const std::string& name : names_of(of)) {
    if (fs::exists(folder / name, error)) out.push_back((folder / name).string());
  }
}

}  // namespace

void look_for_wheels_in(std::vector<std::string> folders) {
  std::lock_guard lock(mutex);
  wheel_folders = std::move(folders);
}

std::vector<fs::path> versions_in(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) out.push_back(at->path());
  }
  const auto version = [&](const fs::path& path) {
    return std::atof(path.filename().c_str() + prefix.size());  // "13.0" of cuda-13.0, "13" of cu13
  };
  std::sort(out.begin(), out.end(), [&](const fs::path& a, const fs::path& b) { return version(a) > version(b); });
  return out;
}

std::vector<std::string> candidates(const LibraryName& of) {
  const char* named = std::getenv(of.variable);
  if (named && *named) return {named};
  std::vector<std::string> folders;
  {
    std::lock_guard lock(mutex);
    folders = wheel_folders;
  }
  std::vector<std::string> out = loaded_paths(of);
  std::error_code error;
  for (const fs::path folder : folders) {
    if (!fs::is_directory(folder / "nvidia", error)) continue;
    for (const fs::path& of_version : versions_in(folder / "nvidia", "cu1")) add_libraries(of, of_version / "lib", out);
    add_libraries(of, folder / "nvidia" / of.wheel / "lib", out);
  }
  for (const char* variable : {"CUDA_PATH", "CUDA_HOME"}) {
    const char* root = std::getenv(variable);
    if (!root || !*root) continue;
    for (const char* lib : {"lib64", "lib", "targets/x86_64-linux/lib"}) add_libraries(of, fs::path(root) / lib, out);
  }
  add_libraries(of, "/usr/local/cuda/lib64", out);
  for (const fs::path& toolkit : versions_in("/usr/local", "cuda-")) add_libraries(of, toolkit / "lib64", out);
  for (const std::string& name : names_of(of)) out.push_back(name);
  const int driver_version = driver_state().version;
  if (driver_version > 0) {
    std::stable_partition(out.begin(), out.end(),
                          [&](const std::string& path) { return major_of(path) + of.behind <= driver_version / 1000; });
  }
  return out;
}

std::string not_wanted(const LibraryName& of) {
  const std::string variable = of.variable;
  const char *named = std::getenv(of.variable), *driver = std::getenv("APPY_LIBCUDA");
  if (named && std::string(named) == "none") return variable + " is none";
  if (driver && *driver && (!named || !*named))
    return "APPY_LIBCUDA names a driver, and " + variable + " no library for it";
  return {};
}

void* open(const LibraryName& of, const std::string& path, std::string& problem) {
  if (of.opens_part && path.find('/') != std::string::npos) {
    for (const fs::path& part : versions_in(fs::path(path).parent_path(), std::string(of.part) + ".so."))
      dlopen(part.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) problem = dlerror();
  return handle;
}

}  // namespace appy::gpu
