// What NVRTC has built in, for a kernel that g++ compiles to run on the emulated device. Included before its text.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "api.h"

extern "C" {
const appy_emulator::Api* appy_emulator_api = nullptr;  // set when the module is loaded
}

// No __shared__: static shared variables have no place here, kernels use appy_shared().
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __grid_constant__
#define __managed__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_assume(x) ((void)0)
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
#define APPY_VECTOR(type, name)                                               \
  struct alignas(2 * sizeof(type)) name##2 {                                  \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) name##4 {     \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
APPY_VECTOR(signed char, char)
APPY_VECTOR(unsigned char, uchar)
APPY_VECTOR(short, short)
APPY_VECTOR(unsigned short, ushort)
APPY_VECTOR(int, int)
APPY_VECTOR(long long, longlong)
APPY_VECTOR(unsigned long long, ulonglong)
APPY_VECTOR(float, float)
APPY_VECTOR(double, double)
#undef APPY_VECTOR
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

namespace appy_emulator {
inline const Thread& self() { return **appy_emulator_api->current; }
inline uint3 three(const unsigned* of) { return {of[0], of[1], of[2]}; }

template <class T>
uint64_t bits(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t out = 0;
  memcpy(&out, &value, sizeof value);
  return out;
}
template <class T>
T value_of(uint64_t from) {
  T out;
  memcpy(&out, &from, sizeof out);
  return out;
}
template <class... P, size_t... I>
void call(void (*kernel)(P...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_cvref_t<P>*>(arguments[I])...);
}
template <class... P>
void call(void (*kernel)(P...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<P...>());
}
template <class... P>
const size_t* sizes(void (*)(P...)) {
  static const size_t all[] = {sizeof(std::remove_cvref_t<P>)..., 0};
  return all;
}
}  // namespace appy_emulator

#define threadIdx (appy_emulator::three(appy_emulator::self().thread))
#define blockIdx (appy_emulator::three(appy_emulator::self().block))
#define blockDim (appy_emulator::three(appy_emulator::self().block_size))
#define gridDim (appy_emulator::three(appy_emulator::self().grid_size))
constexpr int warpSize = 32;

// Barriers. Each hides from the compiler what memory holds.
inline void appy_emulator_fence() { asm volatile("" ::: "memory"); }
inline void __threadfence() { appy_emulator_fence(); }
inline void __threadfence_block() { appy_emulator_fence(); }
inline void __threadfence_system() { appy_emulator_fence(); }
inline void __syncthreads() {
  appy_emulator_fence();
  appy_emulator_api->barrier(0);
  appy_emulator_fence();
}
inline int __syncthreads_or(int p) { return appy_emulator_api->barrier(p).any; }
inline int __syncthreads_and(int p) { return appy_emulator_api->barrier(p).all; }
inline int __syncthreads_count(int p) { return appy_emulator_api->barrier(p).count; }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  appy_emulator_fence();
  appy_emulator_api->exchange(mask, 0);
  appy_emulator_fence();
}
inline void __nanosleep(unsigned) { appy_emulator_api->pause(); }
inline void __trap() { appy_emulator_api->trap(); }

// Warps. A lane that does not take part has no value: what is read of it is as undefined as on a device.
namespace appy_emulator {
template <class T>
T shuffle(unsigned mask, T value, int source, bool inside) {
  const uint64_t* all = appy_emulator_api->exchange(mask, bits(value));
  if (!inside) return value;
  return mask >> source & 1 ? value_of<T>(all[source]) : value_of<T>(0x5a5a5a5a5a5a5a5a);
}
}  // namespace appy_emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = appy_emulator::self().lane, base = lane & ~(width - 1);
  return appy_emulator::shuffle(mask, value, base + (source & (width - 1)), true);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = appy_emulator::self().lane, base = lane & ~(width - 1), source = lane - static_cast<int>(delta);
  return appy_emulator::shuffle(mask, value, source, source >= base);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = appy_emulator::self().lane, base = lane & ~(width - 1), source = lane + static_cast<int>(delta);
  return appy_emulator::shuffle(mask, value, source, source < base + width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = appy_emulator::self().lane, base = lane & ~(width - 1), source = lane ^ lanes;
  return appy_emulator::shuffle(mask, value, source, source < base + width);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  const uint64_t* all = appy_emulator_api->exchange(mask, p != 0);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1 && all[lane]) out |= 1u << lane;
  }
  return out;
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
/// The lanes that come here before each of them has to wait.
inline unsigned __activemask() {
  appy_emulator_fence();
  const unsigned mask = appy_emulator_api->active();
  appy_emulator_fence();
  return mask;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  const uint64_t own = appy_emulator::bits(value);
  const uint64_t* all = appy_emulator_api->exchange(mask, own);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (mask >> lane & 1 && all[lane] == own) out |= 1u << lane;
  }
  return out;
}
namespace appy_emulator {
template <class T, class F>
T reduce(unsigned mask, T value, F combine) {
  const uint64_t* all = appy_emulator_api->exchange(mask, bits(value));
  bool first = true;
  T out{};
  for (int lane = 0; lane < 32; ++lane) {
    if (!(mask >> lane & 1)) continue;
    out = first ? value_of<T>(all[lane]) : combine(out, value_of<T>(all[lane]));
    first = false;
  }
  return out;
}
}  // namespace appy_emulator
#define APPY_REDUCE(name, type, expression)                                                       \
  inline type __reduce_##name##_sync(unsigned mask, type value) {                                 \
    return appy_emulator::reduce(mask, value, [](type a, type b) -> type { return expression; }); \
  }
APPY_REDUCE(add, unsigned, a + b)
APPY_REDUCE(add, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
APPY_REDUCE(min, unsigned, a < b ? a : b)
APPY_REDUCE(min, int, a < b ? a : b)
APPY_REDUCE(max, unsigned, a > b ? a : b)
APPY_REDUCE(max, int, a > b ? a : b)
APPY_REDUCE(and, unsigned, a& b)
APPY_REDUCE(or, unsigned, a | b)
APPY_REDUCE(xor, unsigned, a ^ b)
#undef APPY_REDUCE

// Atomics, for the types that CUDA has and no others. One emulated thread runs at a time.
namespace appy_emulator {
template <class T, class F>
T update(T* at, F change) {
  appy_emulator_fence();
  const T old = *at;
  *at = change(old);
  appy_emulator_fence();
  return old;
}
}  // namespace appy_emulator
#define APPY_ATOMIC(name, type, expression)                                                    \
  inline type atomic##name(type* at, type v) {                                                 \
    return appy_emulator::update(at, [&](type old) { return static_cast<type>(expression); }); \
  }                                                                                            \
  inline type atomic##name##_block(type* at, type v) { return atomic##name(at, v); }           \
  inline type atomic##name##_system(type* at, type v) { return atomic##name(at, v); }
#define APPY_ATOMIC_BITS(type)   \
  APPY_ATOMIC(And, type, old& v) \
  APPY_ATOMIC(Or, type, old | v) \
  APPY_ATOMIC(Xor, type, old ^ v)
#define APPY_ATOMIC_ORDER(type)             \
  APPY_ATOMIC(Min, type, v < old ? v : old) \
  APPY_ATOMIC(Max, type, v > old ? v : old)
#define APPY_ATOMIC_CAS(type)                                                                         \
  inline type atomicCAS(type* at, type expected, type v) {                                            \
    return appy_emulator::update(at, [&](type old) { return old == expected ? v : old; });            \
  }                                                                                                   \
  inline type atomicCAS_block(type* at, type expected, type v) { return atomicCAS(at, expected, v); } \
  inline type atomicCAS_system(type* at, type expected, type v) { return atomicCAS(at, expected, v); }
APPY_ATOMIC(Add, int, static_cast<unsigned>(old) + static_cast<unsigned>(v))
APPY_ATOMIC(Add, unsigned, old + v)
APPY_ATOMIC(Add, unsigned long long, old + v)
APPY_ATOMIC(Add, float, old + v)
APPY_ATOMIC(Add, double, old + v)
APPY_ATOMIC(Sub, int, static_cast<unsigned>(old) - static_cast<unsigned>(v))
APPY_ATOMIC(Sub, unsigned, old - v)
APPY_ATOMIC(Exch, int, v)
APPY_ATOMIC(Exch, unsigned, v)
APPY_ATOMIC(Exch, unsigned long long, v)
APPY_ATOMIC(Exch, float, v)
APPY_ATOMIC(Inc, unsigned, old >= v ? 0 : old + 1)
APPY_ATOMIC(Dec, unsigned, old == 0 || old > v ? v : old - 1)
APPY_ATOMIC_ORDER(int)
APPY_ATOMIC_ORDER(unsigned)
APPY_ATOMIC_ORDER(long long)
APPY_ATOMIC_ORDER(unsigned long long)
APPY_ATOMIC_BITS(int)
APPY_ATOMIC_BITS(unsigned)
APPY_ATOMIC_BITS(unsigned long long)
APPY_ATOMIC_CAS(int)
APPY_ATOMIC_CAS(unsigned)
APPY_ATOMIC_CAS(unsigned long long)
APPY_ATOMIC_CAS(unsigned short)
#undef APPY_ATOMIC
#undef APPY_ATOMIC_BITS
#undef APPY_ATOMIC_ORDER
#undef APPY_ATOMIC_CAS

// Integers
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (x >> i & 1u) << (31 - i);
  return out;
}
inline unsigned long long __brevll(unsigned long long x) {
  return static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32 |
         __brev(static_cast<unsigned>(x >> 32));
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<long long>(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
  return out;
}

// Reinterpretation
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 |
                               static_cast<unsigned>(low));
}
inline int __double2hiint(double x) { return static_cast<int>(std::bit_cast<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<unsigned long long>(x)); }

// Conversions that saturate, with nan as 0: so do CUDA's casts, which g++ leaves undefined.
namespace appy_emulator {
template <class To, class From>
To saturate(From x) {
  if (x != x) return 0;
  constexpr bool is_signed = std::is_signed_v<To>;
  constexpr int width = 8 * sizeof(To) - is_signed;
  const From limit = std::ldexp(From(1), width);
  if (x >= limit) return is_signed ? static_cast<To>(~(std::make_unsigned_t<To>(1) << width)) : static_cast<To>(-1);
  if (is_signed ? x < -limit : x <= From(-1))
    return is_signed ? static_cast<To>(std::make_unsigned_t<To>(1) << width) : 0;
  return static_cast<To>(x);
}
}  // namespace appy_emulator
#define APPY_CONVERT(from, type, to, result)                                                       \
  inline result __##from##2##to##_rz(type x) { return appy_emulator::saturate<result>(trunc(x)); } \
  inline result __##from##2##to##_rn(type x) { return appy_emulator::saturate<result>(rint(x)); }  \
  inline result __##from##2##to##_rd(type x) { return appy_emulator::saturate<result>(floor(x)); } \
  inline result __##from##2##to##_ru(type x) { return appy_emulator::saturate<result>(ceil(x)); }
APPY_CONVERT(float, float, int, int)
APPY_CONVERT(float, float, uint, unsigned)
APPY_CONVERT(float, float, ll, long long)
APPY_CONVERT(float, float, ull, unsigned long long)
APPY_CONVERT(double, double, int, int)
APPY_CONVERT(double, double, uint, unsigned)
APPY_CONVERT(double, double, ll, long long)
APPY_CONVERT(double, double, ull, unsigned long long)
#undef APPY_CONVERT
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __ll2float_rn(long long x) { return static_cast<float>(x); }
inline float __ull2float_rn(unsigned long long x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline double __ll2double_rn(long long x) { return static_cast<double>(x); }
inline double __ull2double_rn(unsigned long long x) { return static_cast<double>(x); }

// Arithmetic that is never contracted: the results are not visible to the optimiser.
namespace appy_emulator {
template <class T>
T opaque(T x) {
  asm volatile("" : "+x"(x));
  return x;
}
}  // namespace appy_emulator
inline double __dadd_rn(double a, double b) { return appy_emulator::opaque(a + b); }
inline double __dsub_rn(double a, double b) { return appy_emulator::opaque(a - b); }
inline double __dmul_rn(double a, double b) { return appy_emulator::opaque(a * b); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double a) { return 1.0 / a; }
inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return appy_emulator::opaque(a + b); }
inline float __fsub_rn(float a, float b) { return appy_emulator::opaque(a - b); }
inline float __fmul_rn(float a, float b) { return appy_emulator::opaque(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Functions that C has not. Those that it has are overloaded for float by <math.h>, as CUDA's are.
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rcbrtf(float x) { return static_cast<float>(1.0 / cbrt(static_cast<double>(x))); }
#ifndef __USE_GNU
inline double exp10(double x) { return pow(10.0, x); }
inline float exp10f(float x) { return static_cast<float>(pow(10.0, static_cast<double>(x))); }
#endif
inline double sinpi(double x) { return sin(M_PI * x); }
inline double cospi(double x) { return cos(M_PI * x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float fdividef(float x, float y) { return x / y; }

// CUDA's min and max: of integers with the usual conversions, of floats fmin and fmax.
#define APPY_MIN_MAX(type)                                  \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
APPY_MIN_MAX(int)
APPY_MIN_MAX(unsigned)
APPY_MIN_MAX(long)
APPY_MIN_MAX(unsigned long)
APPY_MIN_MAX(long long)
APPY_MIN_MAX(unsigned long long)
#undef APPY_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Memory
template <class T>
T __ldg(const T* at) {
  return *at;
}
template <class T>
T __ldcg(const T* at) {
  return *at;
}
template <class T>
T __ldcs(const T* at) {
  return *at;
}
template <class T>
void __stcg(T* at, T value) {
  *at = value;
}
template <class T>
void __stcs(T* at, T value) {
  *at = value;
}
inline long long clock64() { return static_cast<long long>(__builtin_ia32_rdtsc()); }
