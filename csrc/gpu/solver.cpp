#include "gpu/solver.h"

namespace appy::gpu {

namespace {

using Status = LibraryStatus;
using Handle = struct cusolverDnContext*;

constexpr LibraryName kName = {"libcusolver", "libcusolverMg", "cusolver", "APPY_LIBCUSOLVER", 1, false};
constexpr int kOldest = 11040;         // of CUDA 12.0
constexpr int kLower = 0, kUpper = 1;  // CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER

template <class T>
using Elements = Status (*)(Handle, int, int, T* a, int, int* elements);
template <class T>
using Potrf = Status (*)(Handle, int, int, T* a, int, T* memory, int elements, int* told);

struct Functions {
  using Handle = gpu::Handle;
  Status (*property)(int which, int* value) = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, void*) = nullptr;
  Elements<double> dpotrf_elements = nullptr;
  Elements<float> spotrf_elements = nullptr;
  Potrf<double> dpotrf = nullptr;
  Potrf<float> spotrf = nullptr;

  template <class F>
  void each(F&& get) {
    get(property, "cusolverGetProperty");
    get(create, "cusolverDnCreate");
    get(set_stream, "cusolverDnSetStream");
    get(dpotrf_elements, "cusolverDnDpotrf_bufferSize");
    get(spotrf_elements, "cusolverDnSpotrf_bufferSize");
    get(dpotrf, "cusolverDnDpotrf");
    get(spotrf, "cusolverDnSpotrf");
  }
  Status prepare(Handle) const { return 0; }
};

FunctionLibrary<Functions>& library() {
  static auto& only = *new FunctionLibrary<Functions>(kName, "cuSOLVER", kOldest);
  return only;
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

const FoundLibrary* solver(std::string& problem) { return library().find(problem); }

bool factor(Device& device, Stream stream, bool is_double, const Matrix& a, uint64_t told, std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dpotrf_elements, with.dpotrf, handle, device, stream, a, told)
                     : call(with.spotrf_elements, with.spotrf, handle, device, stream, a, told);
  });
}

}  // namespace appy::gpu
