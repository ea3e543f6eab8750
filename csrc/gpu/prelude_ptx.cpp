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

/// Nanoseconds of a clock that all devices of the machine share.
static __device__ __forceinline__ unsigned long long appy_time() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

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
)cuda";

}  // namespace appy::gpu
