#include "gpu/nvrtc.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "gpu/driver.h"
#include "gpu/libraries.h"

namespace appy::gpu {

namespace {

using nvrtcResult = int;
using nvrtcProgram = struct nvrtcProgram_st*;

/// The oldest one that we compile with, and that knows the options in use.
constexpr int kOldest = 12000;
/// The oldest one that leaves out what kernels never call: textures, the runtime's functions and types. Their
/// declarations are half of what its front end reads.
constexpr int kOldestMinimal = 12040;

struct Library {
  Compiler compiler;
#define X(member, symbol, result, parameters) result(*member) parameters = nullptr;
#include "gpu/nvrtc.def"
#undef X
};

constexpr LibraryName kName = {"libnvrtc", "libnvrtc-builtins", "cuda_nvrtc", "APPY_LIBNVRTC"};

std::mutex mutex;                 // of these two
const Library* loaded = nullptr;  // for the life of the process
std::string identity;             // what compiler_identity() found

/// Null, and why in `problem`, where it cannot be used.
const Library* open_library(const std::string& path, std::string& problem) {
  void* const handle = open(kName, path, problem);
  if (!handle) return nullptr;
  auto library = std::make_unique<Library>();
  bool complete = true;
#define X(member, symbol, result, parameters)                                       \
  library->member = reinterpret_cast<result(*) parameters>(dlsym(handle, #symbol)); \
  complete = complete && library->member;
#include "gpu/nvrtc.def"
#undef X
  int major = 0, minor = 0, count = 0;
  Compiler& compiler = library->compiler;
  if (complete && library->version(&major, &minor) == 0 && library->architecture_count(&count) == 0 && count > 0) {
    compiler.version = major * 1000 + minor * 10;
    compiler.architectures.resize(count);
    if (library->architectures(compiler.architectures.data()) != 0) complete = false;
    std::sort(compiler.architectures.begin(), compiler.architectures.end());
  } else {
    complete = false;
  }
  if (!complete || compiler.version < kOldest) {
    problem = path + (major ? " is version " + version_text(major * 1000 + minor * 10) : " is not NVRTC") + "; " +
              version_text(kOldest) + " or later is needed";
    dlclose(handle);
    return nullptr;
  }
  Dl_info info;
  compiler.path = dladdr(reinterpret_cast<void*>(library->version), &info) && info.dli_fname ? info.dli_fname : path;
  return library.release();
}

const Library& library() {
  std::lock_guard lock(mutex);
  if (loaded) return *loaded;
  std::string first_problem;
  for (const std::string& path : candidates(kName)) {
    std::string problem;
    loaded = open_library(path, problem);
    if (loaded) return *loaded;
    if (first_problem.empty()) first_problem = problem;
  }
  const int driver_version = driver_state().version;
  const std::string wheel =
      driver_version > 0 && driver_version < 13000 ? "nvidia-cuda-nvrtc-cu12" : "nvidia-cuda-nvrtc";
  throw Error(ErrorKind::no_compiler, "NVRTC, NVIDIA's compiler for kernels, was not found: " + first_problem,
              "pip install " + wheel + ", or set CUDA_PATH to a CUDA toolkit, or APPY_LIBNVRTC to the library");
}

/// A compilation; freed with the scope.
class Program {
 public:
  Program(const Library& library, const Source& source) : library_(library) {
    std::vector<const char*> texts, names;
    for (const Header& header : source.headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    check(library.create(&program_, source.text.c_str(), source.name.c_str(), static_cast<int>(texts.size()),
                         texts.data(), names.data()),
          "nvrtcCreateProgram");
  }
  ~Program() {
    if (program_) library_.destroy(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  nvrtcResult compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    for (const std::string& option : options) texts.push_back(option.c_str());
    return library_.compile(program_, static_cast<int>(texts.size()), texts.data());
  }
  /// Text or code, by a pair of NVRTC's functions.
  std::string get(nvrtcResult (*size)(nvrtcProgram, size_t*), nvrtcResult (*read)(nvrtcProgram, char*),
                  const char* name) {
    size_t bytes = 0;
    check(size(program_, &bytes), name);
    std::string out(bytes, '\0');
    if (bytes) check(read(program_, out.data()), name);
    return out;
  }
  void check(nvrtcResult result, const char* call) const {
    if (result == 0) return;
    throw Error(ErrorKind::compilation,
                "NVRTC " + version_text(library_.compiler.version) + ": " + call + " failed with " +
                    library_.error_string(result),
                "");
  }

 private:
  const Library& library_;
  nvrtcProgram program_ = nullptr;
};

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\0' || text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

void set_wheel_folders(std::vector<std::string> folders) {
  std::lock_guard lock(mutex);
  look_for_wheels_in(std::move(folders));
  identity.clear();
}

const Compiler& compiler() { return library().compiler; }

bool compiles_for(int compute_capability) {
  try {
    const Compiler& nvrtc = compiler();
    const std::vector<int>& known = nvrtc.architectures;
    return std::binary_search(known.begin(), known.end(), compute_capability) &&
           nvrtc.version / 1000 <= driver_state().version / 1000;
  } catch (const Error&) {
    return false;
  }
}

std::string compiler_identity() {
  std::lock_guard lock(mutex);
  if (!identity.empty()) return identity;
  for (const std::string& path : loaded ? std::vector{loaded->compiler.path} : candidates(kName)) {
    // What the loader would find for a bare name changes with its cache.
    const bool bare = path.find('/') == std::string::npos;
    struct stat info;
    if (stat(bare ? "/etc/ld.so.cache" : path.c_str(), &info) != 0) continue;
    identity = path + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
               std::to_string(info.st_mtim.tv_nsec);
    break;
  }
  return identity;
}

Image compile(const Source& source, int compute_capability) {
  const Library& nvrtc = library();
  const std::vector<int>& known = nvrtc.compiler.architectures;
  // Code for an architecture runs on later ones as PTX only: machine code is for exactly this one.
  const auto after = std::upper_bound(known.begin(), known.end(), compute_capability);
  if (after == known.begin()) {
    throw Error(ErrorKind::architecture,
                "NVRTC " + version_text(nvrtc.compiler.version) + " (" + nvrtc.compiler.path +
                    ") does not compile for compute capability " + capability_text(compute_capability) +
                    "; its oldest one is " + capability_text(known.front()),
                nvrtc.compiler.version >= 13000 ? "pip install nvidia-cuda-nvrtc-cu12, and set APPY_LIBNVRTC to it"
                                                : "The device is too old");
  }
  Image image;
  image.architecture = *(after - 1);
  image.ptx = image.architecture != compute_capability;
  image.version = nvrtc.compiler.version;

  std::vector<std::string> options = source.options;
  options.push_back((image.ptx ? "--gpu-architecture=compute_" : "--gpu-architecture=sm_") +
                    std::to_string(image.architecture));
  if (image.version >= kOldestMinimal) options.push_back("--minimal");
  Program program(nvrtc, source);
  const nvrtcResult result = program.compile(options);
  image.log = trimmed(program.get(nvrtc.log_size, nvrtc.log, "nvrtcGetProgramLog"));
  if (result != 0) {
    throw Error(ErrorKind::compilation,
                "NVRTC " + version_text(image.version) + " does not compile " + source.name + " (" +
                    nvrtc.error_string(result) + ")" + (image.log.empty() ? "" : ":\n" + image.log),
                "");
  }
  image.code = image.ptx ? program.get(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX")
                         : program.get(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN");
  return image;
}

}  // namespace appy::gpu
