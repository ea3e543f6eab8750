// The loops of loops.py in C with OpenMP. Arrays are C-contiguous float64 and int64 unless a name says otherwise.
#include <immintrin.h>
#include <math.h>
#include <omp.h>
#include <stdint.h>

void saxpy(double a, int64_t n, const double *restrict x, double *restrict y) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

double dot(int64_t n, const double *x, const double *y) {
  double s = 0;
#pragma omp parallel for simd reduction(+ : s)
  for (int64_t i = 0; i < n; i++) s += x[i] * y[i];
  return s;
}

double total(int64_t n, const double *x) {
  double s = 0;
#pragma omp parallel for simd reduction(+ : s)
  for (int64_t i = 0; i < n; i++) s += x[i];
  return s;
}

double product(int64_t n, const double *x) {
  double p = 1;
#pragma omp parallel for simd reduction(* : p)
  for (int64_t i = 0; i < n; i++) p *= x[i];
  return p;
}

double largest(int64_t n, const double *x) {
  double m = x[0];
#pragma omp parallel for simd reduction(max : m)
  for (int64_t i = 1; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

int64_t argmin(int64_t n, const double *x) {
  double best = x[0];
  int64_t at = 0;
#pragma omp parallel
  {
    double mine = x[0];
    int64_t where = 0;
#pragma omp for schedule(static) nowait
    for (int64_t i = 1; i < n; i++)
      if (x[i] < mine) mine = x[i], where = i;
#pragma omp critical
    if (mine < best || (mine == best && where < at)) best = mine, at = where;
  }
  return at;
}

void prefix_sum(int64_t n, const double *restrict x, double *restrict out) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) out[i] = s += x[i];
}

void spmv(int64_t rows, const int64_t *ptr, const int64_t *idx, const double *val, const double *x, double *restrict y) {
#pragma omp parallel for
  for (int64_t i = 0; i < rows; i++) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = ptr[i]; j < ptr[i + 1]; j++) s += val[j] * x[idx[j]];
    y[i] = s;
  }
}

void spmm(int64_t rows, int64_t m, const int64_t *ptr, const int64_t *idx, const double *val, const double *B,
          double *restrict C) {
#pragma omp parallel for
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t k = 0; k < m; k++) C[i * m + k] = 0;
    for (int64_t j = ptr[i]; j < ptr[i + 1]; j++) {
      const double v = val[j];
      const double *b = B + idx[j] * m;
#pragma omp simd
      for (int64_t k = 0; k < m; k++) C[i * m + k] += v * b[k];
    }
  }
}

void histogram(int64_t n, const int64_t *labels, int64_t *h) {
#pragma omp parallel for reduction(+ : h[:256])
  for (int64_t i = 0; i < n; i++) h[labels[i]] += 1;
}

void mandelbrot(int64_t h, int64_t w, int64_t limit, int64_t *out) {
#pragma omp parallel for
  for (int64_t i = 0; i < h; i++)
#pragma omp simd
    for (int64_t j = 0; j < w; j++) {
      double cr = -2.0 + 3.0 * j / w, ci = -1.25 + 2.5 * i / h, zr = 0, zi = 0;
      int64_t k = 0;
      while (k < limit && zr * zr + zi * zi < 4.0) {
        double t = zr * zr - zi * zi + cr;
        zi = 2.0 * zr * zi + ci;
        zr = t;
        k++;
      }
      out[i * w + j] = k;
    }
}

void collatz(int64_t n, int64_t *steps) {
#pragma omp parallel for simd
  for (int64_t i = 1; i < n; i++) {
    int64_t m = i, count = 0;
    while (m != 1) {
      m = m % 2 == 0 ? m / 2 : 3 * m + 1;
      count++;
    }
    steps[i] = count;
  }
}

static inline double normal_cdf(double x) { return 0.5 * (1.0 + erf(x * 0.7071067811865476)); }

void black_scholes(int64_t n, const double *spot, const double *strike, const double *years, double *restrict call,
                   double *restrict put) {
  const double rate = 0.02, vol = 0.30;
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) {
    double root = vol * sqrt(years[i]);
    double d1 = (log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / root;
    double d2 = d1 - root;
    double discount = exp(-rate * years[i]) * strike[i];
    call[i] = spot[i] * normal_cdf(d1) - discount * normal_cdf(d2);
    put[i] = discount * normal_cdf(-d2) - spot[i] * normal_cdf(-d1);
  }
}

double pi(int64_t n) {
  double s = 0, step = 1.0 / n;
#pragma omp parallel for simd reduction(+ : s)
  for (int64_t i = 0; i < n; i++) {
    double x = (i + 0.5) * step;
    s += 4.0 / (1.0 + x * x);
  }
  return s * step;
}

void floyd_warshall(int64_t n, double *path) {
  for (int64_t k = 0; k < n; k++) {
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
#pragma omp simd
      for (int64_t j = 0; j < n; j++) {
        double through = path[i * n + k] + path[k * n + j];
        path[i * n + j] = through < path[i * n + j] ? through : path[i * n + j];
      }
  }
}

void jacobi_1d(int64_t n, const double *restrict A, double *restrict B) {
#pragma omp parallel for simd
  for (int64_t i = 1; i < n - 1; i++) B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]);
}

void jacobi_2d(int64_t h, int64_t w, const double *restrict A, double *restrict B) {
#pragma omp parallel for
  for (int64_t i = 1; i < h - 1; i++)
#pragma omp simd
    for (int64_t j = 1; j < w - 1; j++)
      B[i * w + j] =
          0.2 * (A[i * w + j] + A[i * w + j - 1] + A[i * w + j + 1] + A[(i + 1) * w + j] + A[(i - 1) * w + j]);
}

void jacobi_3d(int64_t n0, int64_t n1, int64_t n2, const double *restrict A, double *restrict B) {
#pragma omp parallel for
  for (int64_t i = 1; i < n0 - 1; i++)
    for (int64_t j = 1; j < n1 - 1; j++)
#pragma omp simd
      for (int64_t k = 1; k < n2 - 1; k++) {
        const double *c = A + (i * n1 + j) * n2 + k;
        B[(i * n1 + j) * n2 + k] = 0.125 * (c[n1 * n2] - 2.0 * c[0] + c[-n1 * n2]) +
                                   0.125 * (c[n2] - 2.0 * c[0] + c[-n2]) + 0.125 * (c[1] - 2.0 * c[0] + c[-1]) + c[0];
      }
}

void periodic(int64_t n, const double *restrict u, double *restrict out) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) {
    int64_t before = i - 1 < 0 ? i - 1 + n : i - 1;
    out[i] = u[before] - 2.0 * u[i] + u[(i + 1) % n];
  }
}

void guarded(int64_t n, const double *restrict x, double *restrict out) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) out[i] = i + 1 < n ? x[i + 1] - x[i] : x[i];
}

// STREAM's triad, the yardstick for bandwidth.
void triad(int64_t n, double *restrict a, const double *restrict b, const double *restrict c) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

// The sum of n numbers: the yardstick of what is only read. Each thread reads six stretches side by side, which is faster
// than one after the other.
double read_only(int64_t n, const double *restrict a) {
  double sum = 0.0;
#pragma omp parallel reduction(+ : sum)
  {
    int64_t threads = omp_get_num_threads(), part = n / (6 * threads);
    const double *restrict x = a + 6 * part * omp_get_thread_num();
    double s = 0.0, t = 0.0, u = 0.0, v = 0.0, w = 0.0, y = 0.0;
#pragma omp simd reduction(+ : s, t, u, v, w, y)
    for (int64_t i = 0; i < part; i++) {
      s += x[i], t += x[part + i], u += x[2 * part + i];
      v += x[3 * part + i], w += x[4 * part + i], y += x[5 * part + i];
    }
    sum += s + t + u + v + w + y;
  }
  return sum;
}

// The same of four stretches, each asked for further ahead than processors look themselves.
double read_ahead(int64_t n, const double *restrict a) {
  double sum = 0.0;
#pragma omp parallel reduction(+ : sum)
  {
    int64_t threads = omp_get_num_threads(), part = n / (4 * threads) / 8 * 8;
    const double *restrict x = a + 4 * part * omp_get_thread_num();
    double s[4][8] = {{0.0}};
    for (int64_t i = 0; i < part; i += 8) {
      for (int k = 0; k < 4; k++) {
        const double *line = x + k * part + i;
        __builtin_prefetch(line + 288);
        for (int j = 0; j < 8; j++) s[k][j] += line[j];
      }
    }
    for (int k = 0; k < 4; k++)
      for (int j = 0; j < 8; j++) sum += s[k][j];
  }
  return sum;
}

// Multiplies and adds in registers, the yardstick for arithmetic: twelve sums in vectors as long as there are. Returns how
// many of both it did.
#ifdef __AVX512F__
#define VECTOR_BYTES 64
#else
#define VECTOR_BYTES 32
#endif
#define FOR_EACH_SUM(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11)
#define START_SUM(k) vector sum##k = half;
// gcc would compute a step for all iterations at once if it knew what the last one left.
#define ADD_TO_SUM(k) \
  sum##k = sum##k * half + one; \
  __asm__("" : "+v"(sum##k));
#define USE_SUM(k) __asm__ volatile("" : : "v"(sum##k));
#define MULTIPLY_ADDS(name, type)                                          \
  int64_t name(int64_t n) {                                                \
    typedef type vector __attribute__((vector_size(VECTOR_BYTES)));        \
    int64_t threads = 1;                                                   \
    _Pragma("omp parallel") {                                              \
      const vector half = (vector){0} + (type)0.5, one = (vector){0} + 1;  \
      _Pragma("omp single") threads = omp_get_num_threads();               \
      FOR_EACH_SUM(START_SUM)                                              \
      for (int64_t i = 0; i < n; i++) { FOR_EACH_SUM(ADD_TO_SUM) }         \
      FOR_EACH_SUM(USE_SUM)                                                \
    }                                                                      \
    return threads * n * 12 * 2 * (int64_t)(VECTOR_BYTES / sizeof(type));  \
  }
MULTIPLY_ADDS(multiply_adds_float64, double)
MULTIPLY_ADDS(multiply_adds_float32, float)

// `out[i] = scalar` with stores around the caches, which gcc does not use by itself; `vector` is four of them.
#define STREAMED(out, scalar, vector)                         \
  {                                                           \
    int64_t first = (int64_t)(-(uintptr_t)out / 8 % 4);       \
    int64_t groups = n > first ? (n - first) / 4 : 0;         \
    for (int64_t i = 0; i < first && i < n; i++) out[i] = scalar; \
    _Pragma("omp parallel") {                                 \
      _Pragma("omp for") for (int64_t g = 0; g < groups; g++) { \
        int64_t i = first + 4 * g;                            \
        _mm256_stream_pd(out + i, vector);                    \
      }                                                       \
      _mm_sfence();                                           \
    }                                                         \
    for (int64_t i = first + 4 * groups; i < n; i++) out[i] = scalar; \
  }
#define AT(x) _mm256_loadu_pd(x + i)

void triad_streaming(int64_t n, double *restrict a, const double *restrict b, const double *restrict c) {
  STREAMED(a, b[i] + 3.0 * c[i], _mm256_fmadd_pd(_mm256_set1_pd(3.0), AT(c), AT(b)))
}

// The element-wise cases of arrays.py.
void vector_add(int64_t n, const double *restrict a, const double *restrict b, double *restrict c) {
  STREAMED(c, a[i] + b[i], _mm256_add_pd(AT(a), AT(b)))
}

void chain(int64_t n, const double *restrict a, const double *restrict b, const double *restrict c,
           double *restrict out) {
  STREAMED(out, a[i] * b[i] + c[i] - a[i] / 3 + b[i] * 2,
           _mm256_fmadd_pd(AT(b), _mm256_set1_pd(2),
                           _mm256_sub_pd(_mm256_fmadd_pd(AT(a), AT(b), AT(c)),
                                         _mm256_div_pd(AT(a), _mm256_set1_pd(3)))))
}
