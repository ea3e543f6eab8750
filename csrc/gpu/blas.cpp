#include "gpu/blas.h"

#include <algorithm>
#include <climits>

namespace appy::gpu {

namespace {

using Status = LibraryStatus;
using Handle = struct cublasContext*;

constexpr LibraryName kName = {"libcublas", "libcublasLt", "cublas", "APPY_LIBCUBLAS"};
constexpr int kOldest = 12000;
/// CUBLAS_DEFAULT_MATH: the precision of the operands; nothing is rounded to TF32.
constexpr int kDefaultMath = 0;
constexpr int kPlain = 0, kTransposed = 1;  // CUBLAS_OP_N, CUBLAS_OP_T
constexpr int kNotUnit = 0, kUnit = 1;      // CUBLAS_DIAG_NON_UNIT, CUBLAS_DIAG_UNIT
constexpr int kLower = 0, kUpper = 1;       // CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_UPPER
constexpr int kOnHost = 0, kOnDevice = 1;   // CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE

template <class T>
using Gemm = Status (*)(Handle, int, int, int, int, int, const T* alpha, const T* a, int, const T* b, int,
                        const T* beta, T* c, int);
template <class T>
using Syrk = Status (*)(Handle, int, int, int, int, const T* alpha, const T* a, int, const T* beta, T* c, int);
template <class T>
using Trsv = Status (*)(Handle, int, int, int, int, const T* a, int, T* x, int);
template <class T>
using Asum = Status (*)(Handle, int, const T* x, int, T* sum);
template <class T>
using Geam = Status (*)(Handle, int, int, int, int, const T* alpha, const T* a, int, const T* beta, const T* b, int,
                        T* c, int);
template <class T>
using Trttp = Status (*)(Handle, int, int, const T* a, int, T* packed);
template <class T>
using Tpttr = Status (*)(Handle, int, int, const T* packed, T* a, int);

struct Functions {
  using Handle = gpu::Handle;
  Status (*property)(int which, int* value) = nullptr;
  Status (*create)(Handle*) = nullptr;
  Status (*set_stream)(Handle, void*) = nullptr;
  Status (*set_math)(Handle, int) = nullptr;
  Status (*set_pointers)(Handle, int) = nullptr;
  Gemm<double> dgemm = nullptr;
  Gemm<float> sgemm = nullptr;
  Syrk<double> dsyrk = nullptr;
  Syrk<float> ssyrk = nullptr;
  Trsv<double> dtrsv = nullptr;
  Trsv<float> strsv = nullptr;
  Asum<double> dasum = nullptr;
  Asum<float> sasum = nullptr;
  Geam<double> dgeam = nullptr;
  Geam<float> sgeam = nullptr;
  Trttp<double> dtrttp = nullptr;
  Trttp<float> strttp = nullptr;
  Tpttr<double> dtpttr = nullptr;
  Tpttr<float> stpttr = nullptr;

  template <class F>
  void each(F&& get) {
    get(property, "cublasGetProperty");
    get(create, "cublasCreate_v2");
    get(set_stream, "cublasSetStream_v2");
    get(set_math, "cublasSetMathMode");
    get(set_pointers, "cublasSetPointerMode_v2");
    get(dgemm, "cublasDgemm_v2");
    get(sgemm, "cublasSgemm_v2");
    get(dsyrk, "cublasDsyrk_v2");
    get(ssyrk, "cublasSsyrk_v2");
    get(dtrsv, "cublasDtrsv_v2");
    get(strsv, "cublasStrsv_v2");
    get(dasum, "cublasDasum_v2");
    get(sasum, "cublasSasum_v2");
    get(dgeam, "cublasDgeam");
    get(sgeam, "cublasSgeam");
    get(dtrttp, "cublasDtrttp");
    get(strttp, "cublasStrttp");
    get(dtpttr, "cublasDtpttr");
    get(stpttr, "cublasStpttr");
  }
  Status prepare(Handle handle) const { return set_math(handle, kDefaultMath); }
};

FunctionLibrary<Functions>& library() {
  static auto& only = *new FunctionLibrary<Functions>(kName, "cuBLAS", kOldest);
  return only;
}

int operation_of(const Stored& s) { return s.transposed ? kTransposed : kPlain; }

/// Rows below each other are the library's upper triangle.
int triangle_of(const Stored& s) { return s.transposed ? kUpper : kLower; }

template <class T>
Status call(Gemm<T> gemm, Handle handle, double by, double and_by, const Matrix& c, const Matrix& a, const Matrix& b) {
  const T alpha = static_cast<T>(by), beta = static_cast<T>(and_by);
  const Stored x = stored(a), y = stored(b);
  const auto pointer = [](uint64_t at) { return reinterpret_cast<T*>(at); };
  return gemm(handle, operation_of(x), operation_of(y), static_cast<int>(c.rows), static_cast<int>(c.columns),
              static_cast<int>(a.columns), &alpha, pointer(a.at), static_cast<int>(x.leading), pointer(b.at),
              static_cast<int>(y.leading), &beta, pointer(c.at), static_cast<int>(c.column));
}

template <class T>
Status call(Syrk<T> syrk, Handle handle, double by, double and_by, const Matrix& c, const Matrix& a) {
  const T alpha = static_cast<T>(by), beta = static_cast<T>(and_by);
  const Stored x = stored(a), z = stored(c);
  const auto pointer = [](uint64_t at) { return reinterpret_cast<T*>(at); };
  return syrk(handle, triangle_of(z), operation_of(x), static_cast<int>(c.rows), static_cast<int>(a.columns), &alpha,
              pointer(a.at), static_cast<int>(x.leading), &beta, pointer(c.at), static_cast<int>(z.leading));
}

template <class T>
Status call(Trsv<T> trsv, Handle handle, bool unit, const Matrix& a, uint64_t x) {
  const Stored l = stored(a);
  return trsv(handle, triangle_of(l), operation_of(l), unit ? kUnit : kNotUnit, static_cast<int>(a.rows),
              reinterpret_cast<const T*>(a.at), static_cast<int>(l.leading), reinterpret_cast<T*>(x), 1);
}

template <class T>
Status call(Geam<T> geam, Handle handle, const Matrix& to, const Matrix& from) {
  const T one = 1, zero = 0;
  const Stored x = stored(from);
  T* const c = reinterpret_cast<T*>(to.at);
  const int leading = static_cast<int>(to.column);
  return geam(handle, operation_of(x), kPlain, static_cast<int>(to.rows), static_cast<int>(to.columns), &one,
              reinterpret_cast<const T*>(from.at), static_cast<int>(x.leading), &zero, c, leading, c, leading);
}

template <class T>
Status call(Asum<T> asum, Handle handle, const Elements& of, uint64_t sum) {
  return asum(handle, static_cast<int>(of.count), reinterpret_cast<const T*>(of.at), static_cast<int>(of.step),
              reinterpret_cast<T*>(sum));
}

template <class T>
Status call(Trttp<T> trttp, Handle handle, const Matrix& a, uint64_t packed) {
  const Stored l = stored(a);
  return trttp(handle, triangle_of(l), static_cast<int>(a.rows), reinterpret_cast<const T*>(a.at),
               static_cast<int>(l.leading), reinterpret_cast<T*>(packed));
}

template <class T>
Status call(Tpttr<T> tpttr, Handle handle, uint64_t packed, const Matrix& a) {
  const Stored l = stored(a);
  return tpttr(handle, triangle_of(l), static_cast<int>(a.rows), reinterpret_cast<const T*>(packed),
               reinterpret_cast<T*>(a.at), static_cast<int>(l.leading));
}

}  // namespace

const FoundLibrary* blas(std::string& problem) { return library().find(problem); }

Stored stored(const Matrix& m) {
  if (m.row == 1 && m.column >= std::max<int64_t>(m.rows, 1)) return {false, m.column};
  if (m.column == 1 && m.row >= std::max<int64_t>(m.columns, 1)) return {true, m.row};
  return {};
}

bool takes(const Matrix& m) {
  const Stored s = stored(m);
  return s.leading > 0 && s.leading <= INT_MAX && m.rows <= INT_MAX && m.columns <= INT_MAX;
}

bool takes(const Matrix& c, const Matrix& a, const Matrix& b) { return takes(c) && takes(a) && takes(b); }

bool multiply(const Device& device, Stream stream, bool is_double, double alpha, double beta, const Matrix& c,
              const Matrix& a, const Matrix& b, std::string& problem) {
  // A result that runs along rows is the transposed product, which runs along columns.
  if (stored(c).transposed)
    return multiply(device, stream, is_double, alpha, beta, c.transposed(), b.transposed(), a.transposed(), problem);
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dgemm, handle, alpha, beta, c, a, b) : call(with.sgemm, handle, alpha, beta, c, a, b);
  });
}

bool multiply_by_itself(const Device& device, Stream stream, bool is_double, double alpha, double beta, const Matrix& c,
                        const Matrix& a, std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dsyrk, handle, alpha, beta, c, a) : call(with.ssyrk, handle, alpha, beta, c, a);
  });
}

bool solve(const Device& device, Stream stream, bool is_double, bool unit, const Matrix& a, uint64_t x,
           std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dtrsv, handle, unit, a, x) : call(with.strsv, handle, unit, a, x);
  });
}

bool copy(const Device& device, Stream stream, bool is_double, const Matrix& to, const Matrix& from,
          std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dgeam, handle, to, from) : call(with.sgeam, handle, to, from);
  });
}

bool add_magnitudes(const Device& device, Stream stream, bool is_double, const Elements& of, uint64_t sum,
                    std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    Status status = with.set_pointers(handle, kOnDevice);
    if (status == 0) status = is_double ? call(with.dasum, handle, of, sum) : call(with.sasum, handle, of, sum);
    const Status back = with.set_pointers(handle, kOnHost);
    return status ? status : back;
  });
}

bool pack(const Device& device, Stream stream, bool is_double, const Matrix& a, uint64_t packed, std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dtrttp, handle, a, packed) : call(with.strttp, handle, a, packed);
  });
}

bool unpack(const Device& device, Stream stream, bool is_double, uint64_t packed, const Matrix& a,
            std::string& problem) {
  return library().call(device, stream, problem, [&](const Functions& with, Handle handle) {
    return is_double ? call(with.dtpttr, handle, packed, a) : call(with.stpttr, handle, packed, a);
  });
}

}  // namespace appy::gpu
