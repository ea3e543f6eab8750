// NVIDIA's libraries of functions that compute for regions (cuBLAS, cuSOLVER): found once, a handle for each device, a
// call at a time.
#pragma once

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>

#include "gpu/device.h"
#include "gpu/libraries.h"

namespace appy::gpu {

/// Zero where all is well, in both libraries.
using LibraryStatus = int;

struct FoundLibrary {
  const char* title = "";
  std::string path;
  int version = 0;  // 13000 is 13.0
};

/// "cuBLAS 13.1"
inline std::string name_of(const FoundLibrary& library) {
  return std::string(library.title) + " " + std::to_string(library.version / 1000) + "." +
         std::to_string(library.version % 1000 / 10);
}

/// `Functions` has a type Handle; the members `property`, `create` and `set_stream`; each(get), which calls get(member,
/// its symbol) for all of them; and prepare(handle), which is called once for each new handle.
template <class Functions>
class FunctionLibrary {
 public:
  using Handle = typename Functions::Handle;

  FunctionLibrary(const LibraryName& name, const char* title, int oldest)
      : name_(name), title_(title), oldest_(oldest) {}

  /// What the variable names ("none": not to be used), or the first one that candidates() names. Where APPY_LIBCUDA
  /// names another driver, only the former: the libraries here would not know it. Null, and why in `problem`, where
  /// there is none. Loaded at the first call.
  const FoundLibrary* find(std::string& problem) {
    std::lock_guard lock(mutex_);
    const Loaded* const found = library();
    if (!found) problem = why_not_;
    return found ? &found->found : nullptr;
  }

  /// Calls `work` with the functions and the handle for the device, set to the stream; true, or false and why in
  /// `problem`. The device's context is current.
  template <class F>
  bool call(const Device& device, Stream stream, std::string& problem, F&& work) {
    std::lock_guard lock(mutex_);
    const Loaded* const with = library();
    if (!with) {
      problem = why_not_;
      return false;
    }
    Handle& handle = handles_[device.properties().ordinal];
    LibraryStatus status = 0;
    if (!handle) {
      status = with->functions.create(&handle);
      if (status == 0) status = with->functions.prepare(handle);
      if (status != 0) handle = nullptr;
    }
    if (status == 0) status = with->functions.set_stream(handle, reinterpret_cast<void*>(stream));
    if (status == 0) status = work(with->functions, handle);
    if (status != 0) problem = std::string(title_) + " failed with status " + std::to_string(status);
    return status == 0;
  }

 private:
  struct Loaded {
    FoundLibrary found;
    Functions functions;
  };

  const Loaded* load(const std::string& path, std::string& problem) const {
    void* const handle = open(name_, path, problem);
    if (!handle) return nullptr;
    auto made = std::make_unique<Loaded>();
    bool complete = true;
    void* any = nullptr;
    made->functions.each([&](auto& function, const char* symbol) {
      any = dlsym(handle, symbol);
      function = reinterpret_cast<std::decay_t<decltype(function)>>(any);
      complete = complete && any;
    });
    int major = 0, minor = 0;
    complete = complete && made->functions.property(0, &major) == 0 && made->functions.property(1, &minor) == 0;
    made->found.version = major * 1000 + minor * 10;
    if (!complete || made->found.version < oldest_) {
      problem = path + " is not " + title_ + " " + std::to_string(oldest_ / 1000) + "." +
                std::to_string(oldest_ % 1000 / 10) + " or later";
      dlclose(handle);
      return nullptr;
    }
    Dl_info info;
    made->found.title = title_;
    made->found.path = dladdr(any, &info) && info.dli_fname ? info.dli_fname : path;
    return made.release();
  }

  /// With the lock.
  const Loaded* library() {
    if (looked_) return loaded_;
    looked_ = true;
    why_not_ = not_wanted(name_);
    if (!why_not_.empty()) return nullptr;
    for (const std::string& path : candidates(name_)) {
      std::string problem;
      loaded_ = load(path, problem);
      if (loaded_) return loaded_;
      if (why_not_.empty()) why_not_ = problem;
    }
    return nullptr;
  }

  const LibraryName name_;
  const char* const title_;
  const int oldest_;
  std::mutex mutex_;  // of these, and of calls: a handle has one stream at a time
  bool looked_ = false;
  const Loaded* loaded_ = nullptr;  // for the life of the process
  std::string why_not_;
  std::map<int, Handle> handles_;  // by device; never destroyed, the library may be gone by then
};

}  // namespace appy::gpu
