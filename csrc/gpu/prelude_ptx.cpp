#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view ptx_header = R"cuda(// What needs inline PTX, or memory that the launch provides.
#pragma once

static __device__ __forceinline__ unsigned char* appy_shared() {
  extern __shared__ __align__(16) unsigned char appy_shared_memory[];
  return appy_shared_memory;
}

static __device__ __forceinline__ unsigned appy_load_acquire(const unsigned* at) {
  unsigned value;
  asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

static __device__ __forceinline__ void appy_store_release(unsigned* at, unsigned value) {
  asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(at), "r"(value) : "memory");
}

static __device__ __forceinline__ unsigned appy_add_acq_rel(unsigned* at, unsigned value) {
  unsigned before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(at), "r"(value) : "memory");
  return before;
}

static __device__ __forceinline__ unsigned long long appy_load_acquire(const unsigned long long* at) {
  unsigned long long value;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}

static __device__ __forceinline__ unsigned long long appy_add_acq_rel(unsigned long long* at,
                                                                      unsigned long long value) {
  unsigned long long before;
  asm volatile("atom.add.acq_rel.gpu.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(value) : "memory");
  return before;
}

/// Cycles between two looks at a word of the host: some ten milliseconds.
#define APPY_LOOK (1u << 24)

/// Nanoseconds of a clock that all devices of the machine share.
static __device__ __forceinline__ unsigned long long appy_time() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

/// Cycles of the multiprocessor.
static __device__ __forceinline__ unsigned long long appy_clock() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %clock64;" : "=l"(now) : : "memory");
  return now;
}

static __device__ __forceinline__ void appy_wait(unsigned cycles) {
  const unsigned long long begun = appy_clock();
  while (appy_clock() - begun < cycles) {
  }
}

/// Copies from global to shared memory, which go on while the thread does; it awaits all that it began, or all but
/// those of the last groups of copies that it has committed.
#if __CUDA_ARCH__ >= 800
template <int bytes> static __device__ __forceinline__ void appy_copy_ahead(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
               : : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes) : "memory");
}
static __device__ __forceinline__ void appy_await_copies() { asm volatile("cp.async.wait_all;" : : : "memory"); }
static __device__ __forceinline__ void appy_commit_copies() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int groups> static __device__ __forceinline__ void appy_await_copies_but() {
  asm volatile("cp.async.wait_group %0;" : : "n"(groups) : "memory");
}
#else
template <int bytes> static __device__ __forceinline__ void appy_copy_ahead(void* to, const void* from) {
  if (bytes == 8) {
    *(unsigned long long*)to = *(const unsigned long long*)from;
  } else {
    *(unsigned*)to = *(const unsigned*)from;
  }
}
static __device__ __forceinline__ void appy_await_copies() {}
static __device__ __forceinline__ void appy_commit_copies() {}
template <int groups> static __device__ __forceinline__ void appy_await_copies_but() {}
#endif

/// Between two looks at a word that another block will write.
static __device__ __forceinline__ void appy_pause() {}

static __device__ __forceinline__ float appy_half_to_float(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

static __device__ __forceinline__ unsigned short appy_float_to_half(float value) {
  unsigned bits;  // 16 of them in a register of their own came out wrong where single bytes were stored
  asm("{ .reg .b16 half; cvt.rn.f16.f32 half, %1; cvt.u32.u16 %0, half; }" : "=r"(bits) : "f"(value));
  return (unsigned short)bits;
}

static __device__ __forceinline__ unsigned short appy_double_to_half(double value) {
  unsigned bits;
  asm("{ .reg .b16 half; cvt.rn.f16.f64 half, %1; cvt.u32.u16 %0, half; }" : "=r"(bits) : "d"(value));
  return (unsigned short)bits;
}

static __device__ __forceinline__ float appy_bfloat_to_float(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}

static __device__ __forceinline__ unsigned short appy_float_to_bfloat(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned bits;
  asm("{ .reg .b16 half; cvt.rn.bf16.f32 half, %1; cvt.u32.u16 %0, half; }" : "=r"(bits) : "f"(value));
  return (unsigned short)bits;
#else
  // Half of the last place that is kept, less one where that place is even; the sum may carry into the exponent.
  const unsigned bits = __float_as_uint(value), rounded = bits + 0x7fff + (bits >> 16 & 1);
  return (unsigned short)((value != value ? bits | 0x400000 : rounded) >> 16);
#endif
}

/// A warp adds the product of 16 rows of 8 and 8 columns of 8 to its sums. Of lane 4 g + t: a[i] is of row g + 8 (i % 2)
/// and step t + 4 (i / 2), b[i] of column g and step t + 4 i, sums[i] of row g + 8 (i / 2) and column 2 t + i % 2.
static __device__ __forceinline__ void appy_multiply_f64(double (&sums)[4], const double (&a)[4],
                                                         const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif __CUDA_ARCH__ >= 800
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sums[2 * (i % 2)]), "+d"(sums[2 * (i % 2) + 1])
        : "d"(a[i]), "d"(b[i / 2]));
  }
#else
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 0; step < 8; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const double x = __shfl_sync(0xffffffffu, a[i / 2 + 2 * (step / 4)], lane / 4 * 4 + step % 4);
      const double y = __shfl_sync(0xffffffffu, b[step / 4], (2 * (lane % 4) + i % 2) * 4 + step % 4);
      sums[i] = fma(x, y, sums[i]);
    }
  }
#endif
}
)cuda";

}  // namespace appy::gpu
