#include "gpu/solver.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <mutex>

#include "gpu/libraries.h"

namespace appy::gpu {

namespace {

using Status = int;
using Handle = struct cusolverDnContext*;

constexpr LibraryName kName = {"libcusolver", "libcusolverMg", "cusolver", "APPY_LIBCUSOLVER", 1, false};
constexpr int kOldest = 11040;         // of CUDA 12.0
constexpr int kLower = 0, kUpper = 1;  // CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER

template <class T>
using Elements = Status (*)(Handle, int, int, T* a, int, int* elements);
template <class T>
using Potrf = Status (*)(Handle, int, int, T* a, int, T* memory, int elements, int* told);

struct Library {
  Solver found;
  Status (*property)(int which, int* value) = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, void*) = nullptr;
  Elements<double> dpotrf_elements = nullptr;
  Elements<float> spotrf_elements = nullptr;
  Potrf<double> dpotrf = nullptr;
  Potrf<float> spotrf = nullptr;
};

std::mutex mutex;  // of these, and of calls: a handle has one stream at a time
bool looked = false;
const Library* loaded = nullptr;  // for the life of the process
std::string why_not;
std::map<int, Handle> handles;  // by device; never destroyed, the library may be gone by then

const Library* open_library(const std::string& path, std::string& problem) {
  void* const handle = open(kName, path, problem);
  if (!handle) return nullptr;
  auto library = std::make_unique<Library>();
  bool complete = true;
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(handle, name));
    complete = complete && function != nullptr;
  };
  get(library->property, "cusolverGetProperty");
  get(library->create, "cusolverDnCreate");
  get(library->set_stream, "cusolverDnSetStream");
  get(library->dpotrf_elements, "cusolverDnDpotrf_bufferSize");
  get(library->spotrf_elements, "cusolverDnSpotrf_bufferSize");
  get(library->dpotrf, "cusolverDnDpotrf");
  get(library->spotrf, "cusolverDnSpotrf");
  int major = 0, minor = 0;
  complete = complete && library->property(0, &major) == 0 && library->property(1, &minor) == 0;
  library->found.version = major * 1000 + minor * 10;
  if (!complete || library->found.version < kOldest) {
    problem = path + " is not cuSOLVER 11.4 or later";
    dlclose(handle);
    return nullptr;
  }
  Dl_info info;
  const bool known = dladdr(reinterpret_cast<void*>(library->dpotrf), &info) && info.dli_fname;
  library->found.path = known ? info.dli_fname : path;
  return library.release();
}

/// With the lock.
const Library* library() {
  if (looked) return loaded;
  looked = true;
  why_not = not_wanted(kName);
  if (!why_not.empty()) return nullptr;
  for (const std::string& path : candidates(kName)) {
    std::string problem;
    loaded = open_library(path, problem);
    if (loaded) return loaded;
    if (why_not.empty()) why_not = problem;
  }
  return nullptr;
}

template <class T>
Status call(Elements<T> elements_of, Potrf<T> potrf, Handle handle, Device& device, Stream stream, const Matrix& a,
            uint64_t told) {
  const Stored l = stored(a);
  // Rows below each other are the library's upper triangle.
  const int triangle = l.transposed ? kUpper : kLower;
  const int n = static_cast<int>(a.rows), leading = static_cast<int>(l.leading);
  T* const at = reinterpret_cast<T*>(a.at);
  int elements = 0;
  if (const Status status = elements_of(handle, triangle, n, at, leading, &elements)) return status;
  const DeviceMemory own = device.allocate(static_cast<size_t>(elements) * sizeof(T), stream);
  const uint64_t address = own.address();
  return potrf(handle, triangle, n, at, leading, reinterpret_cast<T*>(address), elements, reinterpret_cast<int*>(told));
}

}  // namespace

const Solver* solver(std::string& problem) {
  std::lock_guard lock(mutex);
  const Library* found = library();
  if (!found) problem = why_not;
  return found ? &found->found : nullptr;
}

std::string name_of(const Solver& library) {
  return "cuSOLVER " + std::to_string(library.version / 1000) + "." + std::to_string(library.version % 1000 / 10);
}

bool factor(Device& device, Stream stream, bool is_double, const Matrix& a, uint64_t told, std::string& problem) {
  std::lock_guard lock(mutex);
  const Library* with = library();
  if (!with) {
    problem = why_not;
    return false;
  }
  Handle& handle = handles[device.properties().ordinal];
  Status status = 0;
  if (!handle) {
    status = with->create(&handle);
    if (status != 0) handle = nullptr;
  }
  if (status == 0) status = with->set_stream(handle, reinterpret_cast<void*>(stream));
  if (status == 0) {
    status = is_double ? call(with->dpotrf_elements, with->dpotrf, handle, device, stream, a, told)
                       : call(with->spotrf_elements, with->spotrf, handle, device, stream, a, told);
  }
  if (status != 0) problem = "cuSOLVER failed with status " + std::to_string(status);
  return status == 0;
}

}  // namespace appy::gpu
