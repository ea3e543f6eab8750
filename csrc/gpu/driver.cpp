#include "gpu/driver.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <initializer_list>
#include <utility>

namespace appy::gpu {

namespace {

enum : CUresult {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kNeedsNewerDriver = 36,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinary = 209,
  kUncorrectableEcc = 214,
  kInvalidPtx = 218,
  kUncorrectableNvlink = 220,
  kNoJitCompiler = 221,
  kUnsupportedPtx = 222,
  kContained = 226,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kTimeout = 702,
  kContextDestroyed = 709,
  kAssert = 710,
  kStackError = 714,
  kIllegalInstruction = 715,
  kMisaligned = 716,
  kInvalidSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kCooperativeTooLarge = 720,
  kTensorMemoryLeak = 721,
  kSystemNotReady = 802,
  kDriverMismatch = 803,
  kCompatNotSupported = 804,
  kUnknown = 999,
};

struct State {
  Driver driver;
  std::optional<Error> error;
};

std::atomic<bool> forked{false};

Error forked_error() {
  return Error(
      ErrorKind::forked, "CUDA was used before this process was forked, and cannot be used in the child",
      "Start workers with the multiprocessing method \"spawn\" or \"forkserver\", or use the device only after "
      "the fork");
}

void* open_library(std::string& path, std::string& problem) {
  const char* named = std::getenv("APPY_LIBCUDA");
  void* library = nullptr;
  if (named && *named) {
    library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    if (!library) problem = dlerror();
  } else {
    // The second one is where the Windows Subsystem for Linux keeps it.
    for (const char* name : {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}) {
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library) break;
      if (problem.empty()) problem = dlerror();
    }
  }
  if (!library) return nullptr;
  Dl_info info;
  void* symbol = dlsym(library, "cuInit");
  path = symbol && dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : named ? named : "libcuda.so.1";
  return library;
}

void start(State& state) {
  std::string problem;
  Driver& driver = state.driver;
  void* library = open_library(driver.path, problem);
  if (!library) {
    state.error.emplace(ErrorKind::no_driver, "NVIDIA's driver was not found: " + problem,
                        "Install the NVIDIA driver, or start the container with GPUs (--gpus all); APPY_LIBCUDA names "
                        "the library where it is in an unusual place");
    return;
  }
  std::string missing;
#define X(member, symbol, parameters)                                                \
  driver.member = reinterpret_cast<CUresult(*) parameters>(dlsym(library, #symbol)); \
  if (!driver.member && missing.empty()) missing = #symbol;
#include "gpu/driver.def"
#undef X
  if (driver.driver_version && driver.driver_version(&driver.version) != 0) driver.version = 0;
  if (!missing.empty() || driver.version < kOldestDriver) {
    std::string what = "NVIDIA's driver " + driver.path + " ";
    what += driver.version > 0 ? "is for CUDA " + version_text(driver.version) : "has no version";
    if (driver.version >= kOldestDriver) what += " and has no " + missing;
    state.error.emplace(
        driver.version > 0 && driver.version < kOldestDriver ? ErrorKind::driver_too_old : ErrorKind::no_driver,
        what + "; CUDA " + version_text(kOldestDriver) + " is needed", "Update the driver to release 525 or later");
    return;
  }
  const CUresult result = driver.init(0);
  if (result == 0) {
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    return;
  }
  const char* text = nullptr;
  driver.error_name(result, &text);
  const std::string name = text ? text : "error " + std::to_string(result);
  switch (result) {
    case kNoDevice:
    case kInvalidDevice:
      state.error.emplace(ErrorKind::no_device, "NVIDIA's driver shows no device (" + name + ")",
                          "Is CUDA_VISIBLE_DEVICES empty or wrong? nvidia-smi lists the devices of the machine");
      return;
    case kNotInitialized:  // what cuInit answers in a child when its parent had used CUDA through another library
      state.error = forked_error();
      return;
    case kDriverMismatch:
      state.error.emplace(ErrorKind::no_driver, "the driver's library and its kernel module differ (" + name + ")",
                          "Restart the machine after the driver's update, or reload its kernel module");
      return;
    case kStubLibrary:
      state.error.emplace(ErrorKind::no_driver, driver.path + " is the toolkit's stub, not the driver (" + name + ")",
                          "Take the folder of stubs out of LD_LIBRARY_PATH");
      return;
    default:
      state.error.emplace(ErrorKind::no_driver, "NVIDIA's driver does not start (cuInit: " + name + ")",
                          "Does nvidia-smi work? In a container the devices must be passed on (--gpus all)");
  }
}

const State& state() {
  // Never destroyed: objects that are freed at exit ask for it.
  static const State* const only = [] {
    State* made = new State;
    start(*made);
    return made;
  }();
  return *only;
}

struct Meaning {
  ErrorKind kind;
  const char* remedy;
};

Meaning meaning(CUresult result) {
  if (is_sticky(result)) {
    return {ErrorKind::lost_device,
            "Every later use of the device in this process fails, of other libraries as well: start it again. "
            "compute-sanitizer names the access that is wrong"};
  }
  switch (result) {
    case kOutOfMemory:
      return {ErrorKind::out_of_memory,
              "Free arrays, or what other libraries keep in their pools (CuPy: get_default_memory_pool()"
              ".free_all_blocks(), torch: cuda.empty_cache())"};
    case kNoBinary:
    case kInvalidImage:
      return {ErrorKind::architecture, "The device needs a newer NVRTC: pip install -U nvidia-cuda-nvrtc"};
    case kUnsupportedPtx:
    case kNeedsNewerDriver:
      return {ErrorKind::driver_too_old,
              "Update the driver, or install an NVRTC that is no newer than it; `python -m appy doctor` shows both"};
    case kInvalidPtx:
    case kNoJitCompiler:
      return {ErrorKind::architecture, "The driver cannot compile for this device; a newer NVRTC makes machine code"};
    case kOutOfResources:
    case kCooperativeTooLarge:
    case kInvalidValue:
      return {ErrorKind::launch, ""};
    case kNoDevice:
    case kInvalidDevice:
      return {ErrorKind::no_device, "nvidia-smi lists the devices of the machine, CUDA_VISIBLE_DEVICES hides some"};
    case kDeviceUnavailable:
      return {ErrorKind::no_device, "Another process has the device for itself, or it was taken away"};
    default:
      return {ErrorKind::other, ""};
  }
}

}  // namespace

const Driver& driver() {
  const State& found = state();
  if (forked) throw forked_error();
  if (found.error) throw *found.error;
  return found.driver;
}

DriverState driver_state() {
  const State& found = state();
  DriverState out{found.driver.path, found.driver.version, found.error};
  if (forked) out.error = forked_error();
  return out;
}

bool is_forked() { return forked; }

bool is_sticky(CUresult result) {
  switch (result) {
    case kUncorrectableEcc:
    case kUncorrectableNvlink:
    case kContained:
    case kIllegalAddress:
    case kTimeout:
    case kContextDestroyed:
    case kAssert:
    case kStackError:
    case kIllegalInstruction:
    case kMisaligned:
    case kInvalidSpace:
    case kInvalidPc:
    case kLaunchFailed:
    case kTensorMemoryLeak:
    case kUnknown:
      return true;
    default:
      return false;
  }
}

void check(CUresult result, const char* call, const std::string& detail) {
  if (result == 0) return;
  const Driver& known = state().driver;
  const char* name = nullptr;
  const char* text = nullptr;
  if (known.error_name) known.error_name(result, &name);
  if (known.error_string) known.error_string(result, &text);
  const Meaning means = meaning(result);
  std::string what = means.kind == ErrorKind::out_of_memory ? "the device is out of memory"
                     : means.kind == ErrorKind::lost_device ? "the device is lost to this process"
                                                            : std::string();
  if (!detail.empty()) what += (what.empty() ? "" : ", ") + detail;
  if (!what.empty()) what += ": ";
  what += call;
  what += " failed with ";
  what += name ? name : "error " + std::to_string(result);
  if (text) what += std::string(" (") + text + ")";
  throw Error(means.kind, std::move(what), means.remedy);
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string capability_text(int capability) {
  return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
}

}  // namespace appy::gpu
