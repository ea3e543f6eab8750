// As many multiply-adds a cycle as the processor can do: what a thread takes for them tells whether it has a core for
// itself.
#include <stdint.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Seconds for n rounds of multiply-adds that need not wait for each other.
double busy(int64_t n, double *restrict sink) {
  double x[40];
  for (int k = 0; k < 40; k++) x[k] = k;
  double begin = now();
  for (int64_t i = 0; i < n; i++) {
    for (int k = 0; k < 40; k++) x[k] = x[k] * 0.5 + 1.0;
  }
  double seconds = now() - begin;
  for (int k = 0; k < 40; k++) *sink += x[k];
  return seconds;
}
