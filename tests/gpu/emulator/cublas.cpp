// The part of cuBLAS that appy uses, for the emulated device: one sum after the other. APPY_EMULATOR_BLAS is a status
// that every product fails with.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "queue.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) int

struct Handle {
  void* stream = nullptr;
  int math = -1;
  int pointers = 0;
};

EXPORT cublasGetProperty(int which, int* value) {
  *value = which == 0 ? 13 : 1;
  return 0;
}
EXPORT cublasCreate_v2(Handle** handle) {
  *handle = new Handle;
  return 0;
}
EXPORT cublasSetStream_v2(Handle* handle, void* stream) {
  handle->stream = stream;
  return 0;
}
EXPORT cublasSetMathMode(Handle* handle, int mode) {
  handle->math = mode;
  return 0;
}
EXPORT cublasSetPointerMode_v2(Handle* handle, int mode) {
  handle->pointers = mode;
  return 0;
}

namespace {

template <class T>
int product(Handle* handle, int ta, int tb, int m, int n, int k, const T* alpha, const T* a, int lda, const T* b,
            int ldb, const T* beta, T* c, int ldc) {
  const char* fails = std::getenv("APPY_EMULATOR_BLAS");
  if (fails && *fails) return std::atoi(fails);
  // What the library itself refuses: CUBLAS_STATUS_INVALID_VALUE. Elements are no smaller than they are.
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || handle->math != 0) return 7;
  return appy_emulator_enqueue([=, alpha = *alpha, beta = *beta] {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) {
        T sum = 0;
        for (int l = 0; l < k; ++l) {
          sum += a[ta ? l + static_cast<int64_t>(i) * lda : i + static_cast<int64_t>(l) * lda] *
                 b[tb ? j + static_cast<int64_t>(l) * ldb : l + static_cast<int64_t>(j) * ldb];
        }
        T& to = c[i + static_cast<int64_t>(j) * ldc];
        to = beta == 0 ? alpha * sum : alpha * sum + beta * to;
      }
    }
    return 0;
  });
}

/// Of a triangle: the lower one (0) or the upper one (1).
template <class T>
int triangle(Handle* handle, int upper, int trans, int n, int k, const T* alpha, const T* a, int lda, const T* beta,
             T* c, int ldc) {
  const char* fails = std::getenv("APPY_EMULATOR_BLAS");
  if (fails && *fails) return std::atoi(fails);
  if (lda < (trans ? k : n) || ldc < n || handle->math != 0) return 7;
  return appy_emulator_enqueue([=, alpha = *alpha, beta = *beta] {
    const auto at = [&](int i, int l) {
      return a[trans ? l + static_cast<int64_t>(i) * lda : i + static_cast<int64_t>(l) * lda];
    };
    for (int j = 0; j < n; ++j) {
      for (int i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) {
        T sum = 0;
        for (int l = 0; l < k; ++l) sum += at(i, l) * at(j, l);
        T& to = c[i + static_cast<int64_t>(j) * ldc];
        to = beta == 0 ? alpha * sum : alpha * sum + beta * to;
      }
    }
    return 0;
  });
}

template <class T>
int substitution(Handle* handle, int upper, int trans, int unit, int n, const T* a, int lda, T* x, int step) {
  const char* fails = std::getenv("APPY_EMULATOR_BLAS");
  if (fails && *fails) return std::atoi(fails);
  // In order from the first row: of a lower triangle as it is, of an upper one's transpose.
  if (upper != trans || lda < n || step != 1 || handle->math != 0) return 7;
  return appy_emulator_enqueue([=] {
    for (int i = 0; i < n; ++i) {
      T value = x[i];
      const auto at = [&](int j) {
        return a[trans ? j + static_cast<int64_t>(i) * lda : i + static_cast<int64_t>(j) * lda];
      };
      // As the reference has it, what is multiplied by zero is not read, nor what zero is divided by.
      for (int j = 0; j < i; ++j) {
        if (x[j] != 0) value -= at(j) * x[j];
      }
      x[i] = unit || value == 0 ? value : value / at(i);
    }
    return 0;
  });
}

/// The sum is on the device: of the part that appy uses nothing else waits.
template <class T>
int magnitudes(Handle* handle, int n, const T* x, int step, T* sum) {
  if (handle->pointers != 1 || step < 1) return 7;
  return appy_emulator_enqueue([=] {
    *sum = 0;
    for (int64_t i = 0; i < n; ++i) *sum += std::abs(x[i * step]);
    return 0;
  });
}

/// Of b, which is c, nothing is taken.
template <class T>
int copies(Handle* handle, int across, int b_across, int m, int n, const T* alpha, const T* a, int lda, const T* beta,
           const T* b, int ldb, T* c, int ldc) {
  if (handle->pointers != 0 || *alpha != 1 || *beta != 0 || b != c || b_across || ldb != ldc || ldc < m ||
      lda < (across ? n : m))
    return 7;
  return appy_emulator_enqueue([=] {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) c[i + j * ldc] = across ? a[j + i * lda] : a[i + j * lda];
    }
    return 0;
  });
}

template <class T>
int packs(int upper, int n, const T* a, int lda, T* packed) {
  if (lda < n) return 7;
  return appy_emulator_enqueue([=, to = packed]() mutable {
    for (int j = 0; j < n; ++j) {
      for (int i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) *to++ = a[i + static_cast<int64_t>(j) * lda];
    }
    return 0;
  });
}

template <class T>
int unpacks(int upper, int n, const T* packed, T* a, int lda) {
  if (lda < n) return 7;
  return appy_emulator_enqueue([=, from = packed]() mutable {
    for (int j = 0; j < n; ++j) {
      for (int i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) a[i + static_cast<int64_t>(j) * lda] = *from++;
    }
    return 0;
  });
}

}  // namespace

EXPORT cublasDtrttp(Handle*, int upper, int n, const double* a, int lda, double* packed) {
  return packs(upper, n, a, lda, packed);
}
EXPORT cublasStrttp(Handle*, int upper, int n, const float* a, int lda, float* packed) {
  return packs(upper, n, a, lda, packed);
}
EXPORT cublasDtpttr(Handle*, int upper, int n, const double* packed, double* a, int lda) {
  return unpacks(upper, n, packed, a, lda);
}
EXPORT cublasStpttr(Handle*, int upper, int n, const float* packed, float* a, int lda) {
  return unpacks(upper, n, packed, a, lda);
}

EXPORT cublasDtrsv_v2(Handle* handle, int upper, int trans, int unit, int n, const double* a, int lda, double* x,
                      int step) {
  return substitution(handle, upper, trans, unit, n, a, lda, x, step);
}
EXPORT cublasStrsv_v2(Handle* handle, int upper, int trans, int unit, int n, const float* a, int lda, float* x,
                      int step) {
  return substitution(handle, upper, trans, unit, n, a, lda, x, step);
}
EXPORT cublasDasum_v2(Handle* handle, int n, const double* x, int step, double* sum) {
  return magnitudes(handle, n, x, step, sum);
}
EXPORT cublasSasum_v2(Handle* handle, int n, const float* x, int step, float* sum) {
  return magnitudes(handle, n, x, step, sum);
}
EXPORT cublasDgeam(Handle* handle, int ta, int tb, int m, int n, const double* alpha, const double* a, int lda,
                   const double* beta, const double* b, int ldb, double* c, int ldc) {
  return copies(handle, ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}
EXPORT cublasSgeam(Handle* handle, int ta, int tb, int m, int n, const float* alpha, const float* a, int lda,
                   const float* beta, const float* b, int ldb, float* c, int ldc) {
  return copies(handle, ta, tb, m, n, alpha, a, lda, beta, b, ldb, c, ldc);
}

EXPORT cublasDsyrk_v2(Handle* handle, int upper, int trans, int n, int k, const double* alpha, const double* a, int lda,
                      const double* beta, double* c, int ldc) {
  return triangle(handle, upper, trans, n, k, alpha, a, lda, beta, c, ldc);
}
EXPORT cublasSsyrk_v2(Handle* handle, int upper, int trans, int n, int k, const float* alpha, const float* a, int lda,
                      const float* beta, float* c, int ldc) {
  return triangle(handle, upper, trans, n, k, alpha, a, lda, beta, c, ldc);
}
EXPORT cublasDgemm_v2(Handle* handle, int ta, int tb, int m, int n, int k, const double* alpha, const double* a,
                      int lda, const double* b, int ldb, const double* beta, double* c, int ldc) {
  return product(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
EXPORT cublasSgemm_v2(Handle* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a, int lda,
                      const float* b, int ldb, const float* beta, float* c, int ldc) {
  return product(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
