#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view update_header =
    R"cuda(// Updates of elements that several threads change at once.
#pragma once
#include "appy_device.h"

/// An update that the hardware does not have, by compare and exchange; of a byte, and of two where the hardware exchanges
/// no fewer than four, in the word around it, which arrays of a region's own are large enough for.
template <class Word, class T, class Update> APPY_INLINE void update_by_exchange_of(T* at, Update update) {
  Word* const p = (Word*)((u64)at & ~(u64)(sizeof(Word) - 1));
  const unsigned shift = (unsigned)((u64)at & (sizeof(Word) - 1)) * 8;
  const Word ones = (Word)~(Word)0, mask = (Word)((Word)(ones >> 8 * (sizeof(Word) - sizeof(T))) << shift);
  Word seen = *(volatile Word*)p, assumed;
  do {
    assumed = seen;
    union { Word bits; T value; } u;
    u.bits = (Word)((assumed & mask) >> shift);
    u.value = update(u.value);
    seen = atomicCAS(p, assumed, (Word)((assumed & (Word)~mask) | ((Word)(u.bits << shift) & mask)));
  } while (seen != assumed);
}
template <class T, class Update> APPY_INLINE void update_by_exchange(T* at, Update update) {
  if constexpr (sizeof(T) == 8) {
    update_by_exchange_of<u64>(at, update);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700
  } else if constexpr (sizeof(T) == 2) {
    update_by_exchange_of<unsigned short>(at, update);
#endif
  } else {
    update_by_exchange_of<unsigned>(at, update);
  }
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
