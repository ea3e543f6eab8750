// The part of cuBLAS that appy uses, for the emulated device: one sum after the other. APPY_EMULATOR_BLAS is a status
// that every product fails with.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "queue.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) int

struct Handle {
  void* stream = nullptr;
  int math = -1;
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

}  // namespace

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
