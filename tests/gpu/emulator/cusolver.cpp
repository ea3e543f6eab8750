// The part of cuSOLVER that appy uses, for the emulated device, column after column. APPY_EMULATOR_SOLVER is a status
// that every factorization fails with. What is on the other side of the diagonal it destroys.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "queue.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) int

namespace {

struct Solver {
  void* stream = nullptr;
};

enum Status { kSuccess = 0, kInvalidValue = 3 };

bool is_valid(const Solver* handle, int uplo, int n, const void* a, int lda) {
  return handle && (uplo == 0 || uplo == 1) && n >= 0 && a && lda >= (n > 1 ? n : 1);
}

template <class T>
int elements(const Solver* handle, int uplo, int n, const T* a, int lda, int* count) {
  if (!is_valid(handle, uplo, n, a, lda)) return kInvalidValue;
  *count = n + 1;
  return kSuccess;
}

template <class T>
int cholesky(Solver* handle, int uplo, int n, T* a, int lda, T* memory, int count, int* minor) {
  const char* fails = std::getenv("APPY_EMULATOR_SOLVER");
  if (fails && *fails) return std::atoi(fails);
  if (!is_valid(handle, uplo, n, a, lda) || !memory || count < n + 1 || !minor) return kInvalidValue;
  return appy_emulator_enqueue([=] {
    // Of an upper triangle the transpose, A = U^T U.
    const auto at = [&](int i, int j) -> T& {
      return uplo == 1 ? a[j + static_cast<int64_t>(i) * lda] : a[i + static_cast<int64_t>(j) * lda];
    };
    *minor = 0;
    for (int i = 0; i <= n; ++i) memory[i] = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = i + 1; j < n; ++j) at(i, j) = std::numeric_limits<T>::quiet_NaN();
    }
    for (int j = 0; j < n; ++j) {
      T left = at(j, j);
      for (int k = 0; k < j; ++k) left -= at(j, k) * at(j, k);
      if (left <= 0) {  // no number is none that the library tells of here
        *minor = j + 1;
        return 0;
      }
      at(j, j) = std::sqrt(left);
      for (int i = j + 1; i < n; ++i) {
        T sum = at(i, j);
        for (int k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
        at(i, j) = sum / at(j, j);
      }
    }
    return 0;
  });
}

}  // namespace

EXPORT cusolverGetProperty(int which, int* value) {
  *value = which == 0 ? 12 : 1;
  return kSuccess;
}
EXPORT cusolverDnCreate(Solver** handle) {
  *handle = new Solver;
  return kSuccess;
}
EXPORT cusolverDnSetStream(Solver* handle, void* stream) {
  handle->stream = stream;
  return kSuccess;
}
EXPORT cusolverDnDpotrf_bufferSize(Solver* handle, int uplo, int n, double* a, int lda, int* count) {
  return elements(handle, uplo, n, a, lda, count);
}
EXPORT cusolverDnSpotrf_bufferSize(Solver* handle, int uplo, int n, float* a, int lda, int* count) {
  return elements(handle, uplo, n, a, lda, count);
}
EXPORT cusolverDnDpotrf(Solver* handle, int uplo, int n, double* a, int lda, double* memory, int count, int* minor) {
  return cholesky(handle, uplo, n, a, lda, memory, count, minor);
}
EXPORT cusolverDnSpotrf(Solver* handle, int uplo, int n, float* a, int lda, float* memory, int count, int* minor) {
  return cholesky(handle, uplo, n, a, lda, memory, count, minor);
}
