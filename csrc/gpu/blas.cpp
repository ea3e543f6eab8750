#include "gpu/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "gpu/libraries.h"

namespace appy::gpu {

namespace {

using Status = int;
using Handle = struct cublasContext*;

constexpr LibraryName kName = {"libcublas", "libcublasLt", "cublas", "APPY_LIBCUBLAS"};
constexpr int kOldest = 12000;
/// CUBLAS_DEFAULT_MATH: the precision of the operands; nothing is rounded to TF32.
constexpr int kDefaultMath = 0;
constexpr int kPlain = 0, kTransposed = 1;  // CUBLAS_OP_N, CUBLAS_OP_T
constexpr int kLower = 0, kUpper = 1;       // CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER

template <class T>
using Gemm = Status (*)(Handle, int, int, int, int, int, const T* alpha, const T* a, int, const T* b, int,
                        const T* beta, T* c, int);
template <class T>
using Syrk = Status (*)(Handle, int, int, int, int, const T* alpha, const T* a, int, const T* beta, T* c, int);

struct Library {
  Blas found;
  Status (*property)(int which, int* value) = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, void*) = nullptr;
  Status (*set_math)(Handle, int) = nullptr;
  Gemm<double> dgemm = nullptr;
  Gemm<float> sgemm = nullptr;
  Syrk<double> dsyrk = nullptr;
  Syrk<float> ssyrk = nullptr;
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
  get(library->property, "cublasGetProperty");
  get(library->create, "cublasCreate_v2");
  get(library->set_stream, "cublasSetStream_v2");
  get(library->set_math, "cublasSetMathMode");
  get(library->dgemm, "cublasDgemm_v2");
  get(library->sgemm, "cublasSgemm_v2");
  get(library->dsyrk, "cublasDsyrk_v2");
  get(library->ssyrk, "cublasSsyrk_v2");
  int major = 0, minor = 0;
  complete = complete && library->property(0, &major) == 0 && library->property(1, &minor) == 0;
  library->found.version = major * 1000 + minor * 10;
  if (!complete || library->found.version < kOldest) {
    problem = path + " is not cuBLAS 12.0 or later";
    dlclose(handle);
    return nullptr;
  }
  Dl_info info;
  const bool known = dladdr(reinterpret_cast<void*>(library->dgemm), &info) && info.dli_fname;
  library->found.path = known ? info.dli_fname : path;
  return library.release();
}

/// With the lock.
const Library* library() {
  if (looked) return loaded;
  looked = true;
  const char *named = std::getenv(kName.variable), *driver = std::getenv("APPY_LIBCUDA");
  if (named && std::string_view(named) == "none") {
    why_not = "APPY_LIBCUBLAS is none";
    return nullptr;
  }
  if (driver && *driver && (!named || !*named)) {
    why_not = "APPY_LIBCUDA names a driver, and APPY_LIBCUBLAS no library for it";
    return nullptr;
  }
  for (const std::string& path : candidates(kName)) {
    std::string problem;
    loaded = open_library(path, problem);
    if (loaded) return loaded;
    if (why_not.empty()) why_not = problem;
  }
  return nullptr;
}

/// A matrix as the library's column after column, or its transpose.
struct Stored {
  int operation = kPlain;
  int64_t leading = 0;  // elements from one column to the next; 0: not to be had
};

Stored stored(const Matrix& m) {
  if (m.row == 1 && m.column >= std::max<int64_t>(m.rows, 1)) return {kPlain, m.column};
  if (m.column == 1 && m.row >= std::max<int64_t>(m.columns, 1)) return {kTransposed, m.row};
  return {};
}

template <class T>
Status call(Gemm<T> gemm, Handle handle, double by, double and_by, const Matrix& c, const Matrix& a, const Matrix& b) {
  const T alpha = static_cast<T>(by), beta = static_cast<T>(and_by);
  const Stored x = stored(a), y = stored(b);
  const auto pointer = [](uint64_t at) { return reinterpret_cast<T*>(at); };
  return gemm(handle, x.operation, y.operation, static_cast<int>(c.rows), static_cast<int>(c.columns),
              static_cast<int>(a.columns), &alpha, pointer(a.at), static_cast<int>(x.leading), pointer(b.at),
              static_cast<int>(y.leading), &beta, pointer(c.at), static_cast<int>(c.column));
}

template <class T>
Status call(Syrk<T> syrk, Handle handle, double by, double and_by, const Matrix& c, const Matrix& a) {
  const T alpha = static_cast<T>(by), beta = static_cast<T>(and_by);
  const Stored x = stored(a), z = stored(c);
  const auto pointer = [](uint64_t at) { return reinterpret_cast<T*>(at); };
  return syrk(handle, z.operation == kPlain ? kLower : kUpper, x.operation, static_cast<int>(c.rows),
              static_cast<int>(a.columns), &alpha, pointer(a.at), static_cast<int>(x.leading), &beta, pointer(c.at),
              static_cast<int>(z.leading));
}

/// Calls `work` with the library and its handle for the device, set to the stream.
template <class F>
bool with_handle(const Device& device, Stream stream, std::string& problem, F&& work) {
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
    if (status == 0) status = with->set_math(handle, kDefaultMath);
    if (status != 0) handle = nullptr;
  }
  if (status == 0) status = with->set_stream(handle, reinterpret_cast<void*>(stream));
  if (status == 0) status = work(*with, handle);
  if (status != 0) problem = "cuBLAS failed with status " + std::to_string(status);
  return status == 0;
}

}  // namespace

const Blas* blas(std::string& problem) {
  std::lock_guard lock(mutex);
  const Library* found = library();
  if (!found) problem = why_not;
  return found ? &found->found : nullptr;
}

std::string name_of(const Blas& library) {
  return "cuBLAS " + std::to_string(library.version / 1000) + "." + std::to_string(library.version % 1000 / 10);
}

bool takes(const Matrix& c, const Matrix& a, const Matrix& b) {
  const Matrix* const all[] = {&c, &a, &b};
  return std::all_of(std::begin(all), std::end(all), [](const Matrix* m) {
    const Stored s = stored(*m);
    return s.leading > 0 && s.leading <= INT_MAX && m->rows <= INT_MAX && m->columns <= INT_MAX;
  });
}

bool multiply(const Device& device, Stream stream, bool is_double, double alpha, double beta, const Matrix& c,
              const Matrix& a, const Matrix& b, std::string& problem) {
  // A result that runs along rows is the transposed product, which runs along columns.
  if (stored(c).operation == kTransposed)
    return multiply(device, stream, is_double, alpha, beta, c.transposed(), b.transposed(), a.transposed(), problem);
  return with_handle(device, stream, problem, [&](const Library& with, Handle handle) {
    return is_double ? call(with.dgemm, handle, alpha, beta, c, a, b) : call(with.sgemm, handle, alpha, beta, c, a, b);
  });
}

bool multiply_by_itself(const Device& device, Stream stream, bool is_double, double alpha, double beta, const Matrix& c,
                        const Matrix& a, std::string& problem) {
  return with_handle(device, stream, problem, [&](const Library& with, Handle handle) {
    return is_double ? call(with.dsyrk, handle, alpha, beta, c, a) : call(with.ssyrk, handle, alpha, beta, c, a);
  });
}

}  // namespace appy::gpu
