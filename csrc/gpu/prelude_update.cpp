#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view update_header =
    R"cuda(// Updates of elements that several threads change at once.
#pragma once
#include "appy_device.h"

/// An update that the hardware does not have, by compare and exchange of the word around the element.
template <class T, class Update> APPY_INLINE void update_by_exchange(T* at, Update update) {
  typedef unsigned word;
  if (sizeof(T) == 8) {
    u64* const p = (u64*)at;
    u64 seen = *(volatile u64*)p, assumed;
    do {
      assumed = seen;
      union { u64 bits; T value; } u;
      u.bits = assumed;
      u.value = update(u.value);
      seen = atomicCAS(p, assumed, u.bits);
    } while (seen != assumed);
    return;
  }
  word* const p = (word*)((u64)at & ~3ull);
  const unsigned shift = (unsigned)((u64)at & 3) * 8;
  const unsigned mask = (sizeof(T) == 4 ? 0xffffffffu : (1u << 8 * (sizeof(T) & 3)) - 1) << shift;
  word seen = *(volatile word*)p, assumed;
  do {
    assumed = seen;
    union { word bits; T value; } u;
    u.bits = (assumed & mask) >> shift;
    u.value = update(u.value);
    seen = atomicCAS(p, assumed, (assumed & ~mask) | ((u.bits << shift) & mask));
  } while (seen != assumed);
}

/// Sums may be taken in any order: where all lanes of a warp come together to one element, the first one adds what all of
/// them have.
template <class W> APPY_INLINE void add_together(W* at, W v) {
  if (__activemask() == 0xffffffffu && __all_sync(0xffffffffu, (u64)at == from_first<32>((u64)at))) {
    for (int distance = 16; distance > 0; distance /= 2) {
      v += shuffle(v, (int)(threadIdx.x % 32) ^ distance, 0xffffffffu, 32);
    }
    if (threadIdx.x % 32 == 0) atomicAdd(at, v);
  } else {
    atomicAdd(at, v);
  }
}
APPY_INLINE void atomic_sum(float* at, float v) { add_together(at, v); }
APPY_INLINE void atomic_sum(double* at, double v) { add_together(at, v); }
APPY_INLINE void atomic_sum(i32* at, i32 v) { add_together((u32*)at, (u32)v); }
APPY_INLINE void atomic_sum(u32* at, u32 v) { add_together(at, v); }
APPY_INLINE void atomic_sum(i64* at, i64 v) { add_together((u64*)at, (u64)v); }
APPY_INLINE void atomic_sum(u64* at, u64 v) { add_together(at, v); }
#define APPY_ATOMIC(name, native)                                                     \
  APPY_INLINE void atomic_##name(i32* at, i32 v) { native(at, v); }                   \
  APPY_INLINE void atomic_##name(u32* at, u32 v) { native(at, v); }                   \
  APPY_INLINE void atomic_##name(i64* at, i64 v) { native((long long*)at, (long long)v); } \
  APPY_INLINE void atomic_##name(u64* at, u64 v) { native(at, v); }
#define APPY_ATOMIC_BITS(name, native)                                                \
  APPY_INLINE void atomic_##name(i32* at, i32 v) { native(at, v); }                   \
  APPY_INLINE void atomic_##name(u32* at, u32 v) { native(at, v); }                   \
  APPY_INLINE void atomic_##name(i64* at, i64 v) { native((u64*)at, (u64)v); }        \
  APPY_INLINE void atomic_##name(u64* at, u64 v) { native(at, v); }
APPY_ATOMIC(pymin, atomicMin)
APPY_ATOMIC(pymax, atomicMax)
APPY_ATOMIC(minimum, atomicMin)
APPY_ATOMIC(maximum, atomicMax)
APPY_ATOMIC_BITS(and, atomicAnd)
APPY_ATOMIC_BITS(or, atomicOr)
APPY_ATOMIC_BITS(xor, atomicXor)
)cuda";

}  // namespace appy::gpu
