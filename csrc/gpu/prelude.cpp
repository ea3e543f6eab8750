#include "gpu/prelude.h"

namespace appy::gpu {

const std::string_view device_header =
    R"cuda(// Python's arithmetic, reductions, barriers and faults for generated kernels.
#pragma once
#include "appy_ptx.h"

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short f16, bf16;  // their bits: kernels load, store, choose and convert them

#define APPY_INLINE static __device__ __forceinline__

// --- Integers: they wrap, and nothing traps.

template <class T> struct Unsigned { typedef T type; };
template <> struct Unsigned<i8> { typedef u8 type; };
template <> struct Unsigned<i16> { typedef u16 type; };
template <> struct Unsigned<i32> { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };

template <class T> APPY_INLINE T wrap_add(T a, T b) { return (T)((u64)a + (u64)b); }
template <class T> APPY_INLINE T wrap_sub(T a, T b) { return (T)((u64)a - (u64)b); }
template <class T> APPY_INLINE T wrap_mul(T a, T b) { return (T)((u64)a * (u64)b); }
template <class T> APPY_INLINE T wrap_neg(T a) { return (T)(0 - (u64)a); }
template <class T> APPY_INLINE T wrap_abs(T a) { return a < 0 ? wrap_neg(a) : a; }

template <class T> APPY_INLINE T int_rem(T a, T b) { return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b); }
template <class T> APPY_INLINE T int_mod(T a, T b) {
  const T m = int_rem(a, b);
  return m != 0 && (m < 0) != (b < 0) ? T(m + b) : m;
}
template <class T> APPY_INLINE T int_floordiv(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return wrap_neg(a);
  const T m = a % b;
  return (T)(a / b - (m != 0 && (m < 0) != (b < 0) ? 1 : 0));
}
template <class T> APPY_INLINE T int_pow(T base, T exponent) {
  if (exponent < 0) return 0;
  u64 result = 1, b = (u64)base;
  for (u64 e = (u64)exponent; e; e >>= 1, b *= b) {
    if (e & 1) result *= b;
  }
  return (T)result;
}
template <class T> APPY_INLINE T int_shl(T a, T b) {
  return (u64)b >= 8 * sizeof(T) ? T(0) : (T)((u64)a << (u64)b);
}
template <class T> APPY_INLINE T int_shr(T a, T b) {
  if ((u64)b >= 8 * sizeof(T)) return a < 0 ? T(-1) : T(0);
  return (T)(a >> b);
}
template <class T> APPY_INLINE T int_popcount(T a) {
  return (T)__popcll((u64)(typename Unsigned<T>::type)(a < 0 ? wrap_neg(a) : a));
}
template <class T> APPY_INLINE bool ovf_add(T a, T b) {
  const T sum = wrap_add(a, b);
  return T(-1) < T(0) ? ((a ^ sum) & (b ^ sum)) < 0 : sum < a;
}
template <class T> APPY_INLINE bool ovf_sub(T a, T b) {
  const T difference = wrap_sub(a, b);
  return T(-1) < T(0) ? ((a ^ b) & (a ^ difference)) < 0 : a < b;
}
template <class T> APPY_INLINE bool ovf_mul(T a, T b) {
  const i64 product = (i64)a * (i64)b;  // of types below 64 bits: exact
  return (i64)(T)product != product;
}
template <> __device__ __forceinline__ bool ovf_mul<i64>(i64 a, i64 b) {
  return __mul64hi(a, b) != (i64)((u64)a * (u64)b) >> 63;
}
template <> __device__ __forceinline__ bool ovf_mul<u64>(u64 a, u64 b) { return __umul64hi(a, b) != 0; }
template <> __device__ __forceinline__ bool ovf_mul<u32>(u32 a, u32 b) { return (u64)a * b >> 32 != 0; }

// --- Floats. What there is for f32 is not computed in f64.

APPY_INLINE float bits_float(u32 bits) { return __uint_as_float(bits); }
APPY_INLINE double bits_double(u64 bits) { return __longlong_as_double((i64)bits); }
APPY_INLINE u64 word_of(float v) { return __float_as_uint(v); }
APPY_INLINE u64 word_of(double v) { return (u64)__double_as_longlong(v); }
template <class T> APPY_INLINE u64 word_of(T v) { return (u64)(i64)v; }
APPY_INLINE u64 word_of(u64 v) { return v; }
APPY_INLINE u64 word_of(bool v) { return v; }

#define APPY_MATH1(name, of_float, of_double)                    \
  APPY_INLINE float name(float x) { return of_float(x); }        \
  APPY_INLINE double name(double x) { return of_double(x); }
#define APPY_MATH2(name, of_float, of_double)                                \
  APPY_INLINE float name(float x, float y) { return of_float(x, y); }        \
  APPY_INLINE double name(double x, double y) { return of_double(x, y); }
APPY_MATH1(f_abs, fabsf, fabs)
APPY_MATH1(f_sqrt, sqrtf, sqrt)
APPY_MATH1(f_cbrt, cbrtf, cbrt)
APPY_MATH1(f_exp2, exp2f, exp2)
APPY_MATH1(f_expm1, expm1f, expm1)
APPY_MATH1(f_log, logf, log)
APPY_MATH1(f_log2, log2f, log2)
APPY_MATH1(f_log10, log10f, log10)
APPY_MATH1(f_log1p, log1pf, log1p)
APPY_MATH1(f_sin, sinf, sin)
APPY_MATH1(f_cos, cosf, cos)
APPY_MATH1(f_tan, tanf, tan)
APPY_MATH1(f_asin, asinf, asin)
APPY_MATH1(f_acos, acosf, acos)
APPY_MATH1(f_atan, atanf, atan)
APPY_MATH1(f_sinh, sinhf, sinh)
APPY_MATH1(f_cosh, coshf, cosh)
APPY_MATH1(f_tanh, tanhf, tanh)
APPY_MATH1(f_asinh, asinhf, asinh)
APPY_MATH1(f_acosh, acoshf, acosh)
APPY_MATH1(f_atanh, atanhf, atanh)
APPY_MATH1(f_erf, erff, erf)
APPY_MATH1(f_erfc, erfcf, erfc)
APPY_MATH1(f_gamma, tgammaf, tgamma)
APPY_MATH1(f_lgamma, lgammaf, lgamma)
APPY_MATH1(f_floor, floorf, floor)
APPY_MATH1(f_ceil, ceilf, ceil)
APPY_MATH1(f_trunc, truncf, trunc)
APPY_MATH1(f_rint, rintf, rint)
APPY_MATH2(f_rem, fmodf, fmod)
APPY_MATH2(f_pow, powf, pow)
APPY_MATH2(f_atan2, atan2f, atan2)
APPY_MATH2(f_hypot, hypotf, hypot)
APPY_MATH2(f_copysign, copysignf, copysign)
APPY_MATH2(f_nextafter, nextafterf, nextafter)
APPY_INLINE float f_fma(float a, float b, float c) { return fmaf(a, b, c); }
APPY_INLINE double f_fma(double a, double b, double c) { return fma(a, b, c); }
APPY_INLINE float f_scale(float a, float b) {
  return b != b ? b : ldexpf(a, (int)fminf(fmaxf(b, -5000.0f), 5000.0f));
}
APPY_INLINE double f_scale(double a, double b) { return b != b ? b : ldexp(a, (int)fmin(fmax(b, -5000.0), 5000.0)); }
template <class T> APPY_INLINE bool f_isnan(T x) { return x != x; }
template <class T> APPY_INLINE bool f_isfinite(T x) { return x - x == 0; }
template <class T> APPY_INLINE bool f_isinf(T x) { return x == x && !(x - x == 0); }
APPY_INLINE bool f_signbit(float x) { return __float_as_uint(x) >> 31; }
APPY_INLINE bool f_signbit(double x) { return __double_as_longlong(x) < 0; }

APPY_INLINE float f_exp(float x) { return expf(x); }

/// Cody and Waite's, as csrc/passes/expand_math_exp.cpp has it, within 0.92 ulp. The compiler's own loads constants by two
/// instructions each, again for each element; operands in constant memory take none.
__constant__ double exp_constants[] = {
    0x1.71547652b82fep+0,  -0x1.62e42fefa39efp-1, -0x1.abc9e3b39803fp-56, 0x1.ad7f54b6778d6p-26, 0x1.28ad74c9d26b3p-22,
    0x1.71df25c4114bfp-19, 0x1.a0199a0b97729p-16, 0x1.a01a0129ec873p-13,  0x1.6c16c184297d5p-10, 0x1.1111111127dfdp-7,
    0x1.5555555550887p-5,  0x1.55555555554f9p-3,  0x1.000000000000ap-1,
};
APPY_INLINE double f_exp(double x) {
  const double magic = 0x1.8p52, shifted = f_fma(x, exp_constants[0], magic), n = shifted - magic;
  const double r = f_fma(n, exp_constants[2], f_fma(n, exp_constants[1], x));
  double q = exp_constants[3];
#pragma unroll
  for (int k = 4; k < 13; ++k) q = f_fma(q, r, exp_constants[k]);
  q = f_fma(f_fma(q, r, 1.0), r, 1.0);
  const i64 power = (i32)(u32)word_of(shifted);
  if (f_abs(x) < 708.0) return bits_double(word_of(q) + ((u64)power << 52));
  if (x != x) return x;
  if (x > 710.0) return bits_double(0x7ff0000000000000ull);
  if (x < -746.0) return 0.0;
  const i64 half = power / 2;
  return q * bits_double((u64)(1023 + half) << 52) * bits_double((u64)(1023 + power - half) << 52);
}

/// A divisor of several dividends. Their quotients are correctly rounded, as those of `/` are: with two words of the
/// reciprocal the first quotient is one of the two numbers next to the true one, and then what is left of the dividend
/// decides (Markstein; Brisebarre, Muller and Raina, "Accelerating correctly rounded floating-point division when the
/// divisor is known in advance", 2004). Where exponents come near their ends, `/` divides.
template <class T> struct Exponents;
template <> struct Exponents<double> {
  static constexpr u32 kLeast = (1023 - 700) << 20, kMany = 1400u << 20;  // of dividends; of divisors 250 each way
  static constexpr u32 kLeastDivisor = (1023 - 250) << 20, kManyDivisors = 500u << 20;
  static __device__ u32 of(double x) { return (u32)(word_of(x) >> 32) & 0x7fffffffu; }
};
template <> struct Exponents<float> {
  static constexpr u32 kLeast = (127 - 60) << 23, kMany = 120u << 23;
  static constexpr u32 kLeastDivisor = (127 - 20) << 23, kManyDivisors = 40u << 23;
  static __device__ u32 of(float x) { return (u32)word_of(x) & 0x7fffffffu; }
};
template <class T> struct Divisor {
  T value, high, low;
  u32 many;  // exponents of dividends, or none where the divisor is out of range
};
template <class T> APPY_INLINE Divisor<T> divisor_of(T d) {
  const T high = T(1) / d;
  const bool in_range = Exponents<T>::of(d) - Exponents<T>::kLeastDivisor < Exponents<T>::kManyDivisors;
  return {d, high, f_fma(-d, high, T(1)) * high, in_range ? Exponents<T>::kMany : 0u};
}
template <class T> APPY_INLINE bool out_of_range(T a, const Divisor<T>& by) {
  return Exponents<T>::of(a) - Exponents<T>::kLeast >= by.many;
}
template <class T> APPY_INLINE T quotient_in_range(T a, const Divisor<T>& by) {
  const T near = f_fma(a, by.high, a * by.low);
  return f_fma(f_fma(-by.value, near, a), by.high, near);
}
template <class T> APPY_INLINE T divided(T a, const Divisor<T>& by) {
  // The question comes behind: a chain of quotients does not wait for it.
  const T quotient = quotient_in_range(a, by);
  return out_of_range(a, by) ? a / by.value : quotient;
}

/// Where `quick` is set quotients that `/` would have to find are told instead: no branch stands between the others.
struct Quotients {
  bool quick, missed;
};
template <class T> APPY_INLINE T divided(T a, const Divisor<T>& by, Quotients& quotients) {
  if (!quotients.quick) return divided(a, by);
  quotients.missed |= out_of_range(a, by);
  return quotient_in_range(a, by);
}

/// The remainder with the divisor's sign.
template <class T> APPY_INLINE T f_mod(T a, T b) {
  const T m = f_rem(a, b);
  if (b == 0) return m;
  if (m == 0) return f_copysign(T(0), b);
  return (b < 0) != (m < 0) ? m + b : m;
}
template <class T> APPY_INLINE T f_floordiv(T a, T b) {
  if (b == 0) return a / b;
  const T m = f_rem(a, b);
  T quotient = (a - m) / b;
  if (m != 0 && (b < 0) != (m < 0)) quotient -= 1;
  if (quotient == 0) return f_copysign(T(0), a / b);
  const T floored = f_floor(quotient);
  return quotient - floored > T(0.5) ? floored + 1 : floored;
}
template <class T> APPY_INLINE T pymin(T a, T b) { return b < a ? b : a; }
template <class T> APPY_INLINE T pymax(T a, T b) { return b > a ? b : a; }
template <class T> APPY_INLINE T minimum(T a, T b) { return a < b || a != a ? a : b; }
template <class T> APPY_INLINE T maximum(T a, T b) { return a > b || a != a ? a : b; }

/// Truncation; what does not fit gives the word that x86's conversions give.
APPY_INLINE u64 word_of_real(double x) {
  if (x >= -9223372036854775808.0 && x < 9223372036854775808.0) return (u64)(i64)x;
  if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return (u64)x;
  return 1ull << 63;
}

// --- Elements that may lie at any address.

template <class T> APPY_INLINE T read_bytes(const T* at) {
  union {
    T value;
    u8 bytes[sizeof(T)];
  } u;
  for (unsigned k = 0; k < sizeof(T); ++k) u.bytes[k] = ((const u8*)at)[k];
  return u.value;
}
template <class T> APPY_INLINE void write_bytes(T* at, T value) {
  union {
    T value;
    u8 bytes[sizeof(T)];
  } u;
  u.value = value;
  for (unsigned k = 0; k < sizeof(T); ++k) ((u8*)at)[k] = u.bytes[k];
}

// --- Neighbours, of which the first is at an even place: together where their array is aligned to both.

template <class T> struct Two;
template <> struct Two<float> { typedef float2 type; };
template <> struct Two<double> { typedef double2 type; };
template <class T> APPY_INLINE void load_two(bool aligned, const T* at, T& low, T& high) {
  if (aligned) {
    const typename Two<T>::type both = *(const typename Two<T>::type*)at;
    low = both.x;
    high = both.y;
  } else {
    low = at[0];
    high = at[1];
  }
}
template <class T> APPY_INLINE void store_two(bool aligned, T* at, T low, T high) {
  if (aligned) {
    typename Two<T>::type both;
    both.x = low;
    both.y = high;
    *(typename Two<T>::type*)at = both;
  } else {
    at[0] = low;
    at[1] = high;
  }
}

// --- Neighbours in aligned pieces of memory: one access a piece, of 16 bytes at most.

template <int bytes, int element> struct AccessOf { typedef uint4 type; };
template <> struct AccessOf<16, 8> { typedef ulonglong2 type; };
template <int element> struct AccessOf<8, element> { typedef uint2 type; };
template <int element> struct AccessOf<4, element> { typedef u32 type; };
template <int element> struct AccessOf<2, element> { typedef u16 type; };
template <class T, int count> union Neighbours {
  static constexpr int bytes = count * (int)sizeof(T) < 16 ? count * (int)sizeof(T) : 16, all = count * (int)sizeof(T) / bytes;
  typedef typename AccessOf<bytes, (int)sizeof(T)>::type One;
  One pieces[all];
  T values[count];
};
template <class T, class... Values> APPY_INLINE void load_pieces(const T* at, Values&... to) {
  typedef Neighbours<T, (int)sizeof...(Values)> All;
  All u;
#pragma unroll
  for (int k = 0; k < All::all; ++k) u.pieces[k] = ((const typename All::One*)at)[k];
  int k = 0;
  ((to = u.values[k++]), ...);
}
template <class T, class... Values> APPY_INLINE void store_pieces(T* at, Values... from) {
  typedef Neighbours<T, (int)sizeof...(Values)> All;
  All u;
  int k = 0;
  ((u.values[k++] = (T)from), ...);
#pragma unroll
  for (int i = 0; i < All::all; ++i) ((typename All::One*)at)[i] = u.pieces[i];
}

/// An element to shared memory, there when the thread has awaited it.
template <class T> APPY_INLINE void copy_ahead(T* to, const T* from) { appy_copy_ahead<(int)sizeof(T)>(to, from); }

// --- Who runs the code. A worker has kLanes lanes; kBlock threads are one block.

struct Control {
  u64* results;       // words of the region's results
  i64* fault;         // mapped: [0] set, [1] check, [2] iteration, [3] time, [4] the flag of all kernels, [5] whether to leave, [6...] info
  u64* barrier;       // [0] the grid's barrier, [1] the first phase that failed, plus one; 0 is none
  unsigned char* partials;  // two rows of a partial result a block
  i64 room;                 // for a partial result, of whichever type
};

struct Team {
  i64 thread, threads;  // of all blocks
  i64 worker, workers;
  int lane;
  unsigned phase;  // barriers of all blocks that were passed
  int turn;        // which row of partials is next
  u32 looked;      // when the host was asked last whether to leave
  bool leaves;     // at the barrier that was passed last: the same for all
  bool apart;      // since that barrier a repeated loop was too long to be repeated: the next one of its kind is for all
};

template <int kBlock, int kLanes> APPY_INLINE Team team_of() {
  Team t;
  t.thread = (i64)blockIdx.x * kBlock + threadIdx.x;
  t.threads = (i64)gridDim.x * kBlock;
  // Where a worker is a block the compiler sees that all of its threads have one number.
  t.worker = kLanes == kBlock ? (i64)blockIdx.x : t.thread / kLanes;
  t.workers = kLanes == kBlock ? (i64)gridDim.x : t.threads / kLanes;
  t.lane = (int)(kLanes == kBlock ? threadIdx.x : threadIdx.x % kLanes);
  t.phase = 0;
  t.turn = 0;
  t.looked = 0;
  t.leaves = false;
  t.apart = false;
  return t;
}

/// The same threads, where a worker is a block.
template <int kBlock> APPY_INLINE Team team_of_blocks(const Team& all) {
  Team t = all;
  t.worker = blockIdx.x;
  t.workers = gridDim.x;
  t.lane = (int)threadIdx.x;
  return t;
}

template <int kLanes> APPY_INLINE unsigned lanes_mask() {
  return kLanes >= 32 ? 0xffffffffu : ((1u << (kLanes & 31)) - 1) << (threadIdx.x % 32 / kLanes * kLanes);
}

/// In kernels that look for missing barriers: whole blocks, and single threads, come late to where they meet.
APPY_INLINE void delay() {
#ifdef APPY_DELAYS
  const u64 now = appy_clock(), id = (u64)blockIdx.x << 32 | threadIdx.x;
  const auto mix = [](u64 x) {
    x = (x ^ x >> 31) * 0x9e3779b97f4a7c15ull;
    return (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull >> 16;
  };
  // Threads of a block agree, as long as the clock has not gone on much.
  const u64 of_block = mix(APPY_DELAYS + mix(blockIdx.x + 1) + (now >> 14)), of_thread = mix(APPY_DELAYS + mix(id) + now);
  if (of_block % 4 == 0) appy_wait((unsigned)(of_block >> 2) % 16384);
  if (of_thread % 8 == 0) appy_wait((unsigned)(of_thread >> 3) % 4096);
#endif
}

/// The threads of a block wait for each other and see what they wrote.
APPY_INLINE void barrier_block() {
  delay();
  __syncthreads();
}

/// The lanes of a worker wait for each other and see what they wrote.
template <int kLanes> APPY_INLINE void barrier_lanes() {
  if (kLanes > 32) {
    barrier_block();
  } else if (kLanes > 1) {
    delay();
    __syncwarp(lanes_mask<kLanes>());
  }
}

/// Does the host want the kernel to end? It is asked now and then: its memory is far away.
APPY_INLINE bool is_to_leave(Team& team, const Control& control) {
  const u32 now = (u32)appy_clock();
  if (now - team.looked < APPY_LOOK) return false;
  team.looked = now;
  return *(volatile i64*)(control.fault + 5) != 0;
}

/// All threads wait for each other. The upper half of the word counts arrivals: its low 31 bits return to what they were,
/// the top one turns over, and what is carried out of it is gone: it serves any number of barriers and launches without
/// being reset. With `kLeaves` the first block says with its arrival whether all leave here, in one of the low bits: not
/// in the one of the barrier before, which others may still look at.
template <bool kLeaves = false> APPY_INLINE void barrier_workers(Team& team, const Control& control) {
  bool leaves = kLeaves && team.thread == 0 && is_to_leave(team, control);
  if (gridDim.x > 1) {
    barrier_block();
    if (threadIdx.x == 0) {
      const u64 flag = 1ull << team.phase % 2;
      const u64 mine = (u64)(blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u) << 32 | (leaves ? flag : 0);
      const u64 before = appy_add_acq_rel(control.barrier, mine);
      u64 now;
      while ((((now = appy_load_acquire(control.barrier)) ^ before) >> 63) == 0) appy_pause();
      leaves = kLeaves && (now & flag) != 0;
    }
  } else {
    delay();
  }
  if (kLeaves) {
    team.leaves = __syncthreads_or(leaves) != 0;
  } else {
    __syncthreads();
  }
  team.apart = false;
  ++team.phase;
}

/// Behind loops that each block has run for itself, or all threads together.
template <bool kLeaves = false> APPY_INLINE void barrier_repeated(Team& team, const Control& control) {
  if (team.apart) {
    barrier_workers<kLeaves>(team, control);
  } else {
    barrier_block();
  }
}

/// A check failed in this thread. The first one that did is told, with what variables hold there: it goes to a place of
/// its own, as others may come to the region's end and write its results.
APPY_INLINE void fault(const Team& team, const Control& control, int check, i64 iteration, int count, const i64* info,
                       int variables = 0, const u64* state = nullptr, u64* to = nullptr) {
  const u64 mine = team.phase + 1;
  if (atomicCAS(control.barrier + 1, 0ull, mine) != 0) {
    atomicMin(control.barrier + 1, mine);
    return;
  }
  control.fault[1] = check;
  control.fault[2] = iteration;
  control.fault[3] = (i64)appy_time();
  for (int k = 0; k < count; ++k) control.fault[6 + k] = info[k];
  for (int k = 0; k < variables; ++k) to[k] = state[k];
  __threadfence_system();
  *(volatile i64*)control.fault = 1;
  __threadfence_system();
  *(volatile i64*)control.fault[4] = 1;
}

/// Has a check failed before the barrier that was passed last? The same for all.
APPY_INLINE bool failed(const Team& team, const Control& control) {
  const u64 phase = appy_load_acquire(control.barrier + 1);
  return phase != 0 && phase <= team.phase;
}

// --- Partial results, structs with `combine`.

template <class R> APPY_INLINE R shuffle(R value, int from, unsigned mask, int width) {
  union {
    R value;
    unsigned words[(sizeof(R) + 3) / 4];
  } u;
  u.value = value;
  for (unsigned k = 0; k < sizeof(u.words) / 4; ++k) u.words[k] = __shfl_sync(mask, u.words[k], from, width);
  return u.value;
}

/// Lane 0's value for all lanes of a group within a warp.
template <int kLanes, class R> APPY_INLINE R from_first(R value) {
  return shuffle(value, 0, lanes_mask<kLanes>(), kLanes);
}

template <int kLanes, class R> APPY_INLINE R reduce_group(R value) {
  const int lane = threadIdx.x % kLanes;
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = R::combine(value, shuffle(value, lane ^ distance, lanes_mask<kLanes>(), kLanes));
  }
  return from_first<kLanes>(value);
}

/// The partial results of the lanes of a worker, for each of them. Deterministic: the order is one tree's.
template <int kLanes, class R> APPY_INLINE R reduce_lanes(R value) {
  if (kLanes == 1) return value;
  if (kLanes <= 32) {
    value = reduce_group<(kLanes < 32 ? kLanes : 32)>(value);
    barrier_lanes<kLanes>();
    return value;
  }
  R* const row = (R*)appy_shared();
  value = reduce_group<32>(value);
  barrier_block();
  if (threadIdx.x % 32 == 0) row[threadIdx.x / 32] = value;
  barrier_block();
  // Of many warps each would take longer to read what all of them have than a tree does.
  constexpr int kWarps = kLanes > 32 ? kLanes / 32 : 1;
  if (kWarps > 8 && (kWarps & (kWarps - 1)) == 0) return reduce_group<kWarps>(row[threadIdx.x % kWarps]);
  R total = row[0];
  for (int warp = 1; warp < kLanes / 32; ++warp) total = R::combine(total, row[warp]);
  return total;
}

/// The partial results of the threads of a column, kColumns apart in a block, for each of them: those of a warp first.
template <int kBlock, int kColumns, class R> APPY_INLINE R reduce_columns(R value) {
  constexpr int kWidth = kBlock < 32 ? kBlock : 32;
  const int lane = (int)(threadIdx.x % kWidth);
  for (int distance = kWidth / 2; distance >= kColumns; distance /= 2) {
    value = R::combine(value, shuffle(value, lane ^ distance, lanes_mask<kWidth>(), kWidth));
  }
  R* const rows = (R*)appy_shared();
  barrier_block();
  if (lane < kColumns) rows[threadIdx.x / kWidth * kColumns + lane] = value;
  barrier_block();
  // Of many warps each would take longer to read what all of them have than one more meeting does.
  constexpr int kRows = kBlock / kWidth, kParts = kRows < 8 ? kRows : 8, kApart = kParts * kColumns;
  if (kRows > kParts) {
    if (threadIdx.x < kApart) {
      R part = rows[threadIdx.x];
      for (int at = (int)threadIdx.x + kApart; at < kRows * kColumns; at += kApart) part = R::combine(part, rows[at]);
      rows[threadIdx.x] = part;
    }
    barrier_block();
  }
  R total = rows[threadIdx.x % kColumns];
  for (int row = 1; row < kParts; ++row) total = R::combine(total, rows[row * kColumns + threadIdx.x % kColumns]);
  return total;
}

/// Where the blocks leave partial results. The row before is still being read: whatever its type, it is another one.
template <class R> APPY_INLINE R* row_of_partials(Team& team, const Control& control) {
  R* const row = (R*)(control.partials + team.turn * gridDim.x * control.room);
  team.turn ^= 1;
  return row;
}

/// The partial results of all threads, for each of them.
template <int kBlock, bool kLeaves = false, class R>
APPY_INLINE R reduce_all(R value, R neutral, Team& team, const Control& control) {
  value = reduce_lanes<kBlock>(value);
  if (gridDim.x == 1) return barrier_workers<kLeaves>(team, control), value;
  R* const row = row_of_partials<R>(team, control);
  if (threadIdx.x == 0) row[blockIdx.x] = value;
  barrier_workers<kLeaves>(team, control);
  R total = neutral;
  for (unsigned k = threadIdx.x; k < gridDim.x; k += kBlock) total = R::combine(total, row[k]);
  return reduce_lanes<kBlock>(total);
}

/// The turns of `substitute`. False: a quotient has to be found by `/`, and what the rows are now is nothing.
template <int kLanes, int kRows, bool kQuick, class Row, class Near, class Head, class Ahead, class Step>
APPY_INLINE bool take_turns(i64 from, int all, Row (&rows)[kRows], const Head& head, const Ahead& ahead,
                            const Step& step) {
  constexpr int kTurns = kLanes > 32 ? 1 : 4;
  const int lane = (int)threadIdx.x % 32;
  bool missed = false;
#pragma unroll
  for (int m = 0; m < kRows; ++m) {
    const int end = all < 32 * (m + 1) ? all : 32 * (m + 1);
    for (int begin = 32 * m; begin < end; begin += kTurns) {
      Near near[kTurns][kRows] = {};
#pragma unroll
      for (int t = 0; t < kTurns; ++t) {
        const int turn = begin + t;
#pragma unroll
        for (int n = m; n < kRows; ++n) {
          if (lane + 32 * n > turn && lane + 32 * n < all) near[t][n] = ahead(from + (lane + 32 * n), from + turn);
        }
      }
#pragma unroll
      for (int t = 0; t < kTurns; ++t) {
        const int turn = begin + t;
        if (turn >= end) break;
        Quotients quotients = {kQuick, false};
        const auto mine = head(from + (lane + 32 * m), rows[m], quotients);
        missed |= quotients.missed && lane == turn % 32;
        const auto told = shuffle(mine, turn % 32, 0xffffffffu, 32);
#pragma unroll
        for (int n = m; n < kRows; ++n) {
          if (lane + 32 * n > turn && lane + 32 * n < all) {
            step(from + (lane + 32 * n), from + turn, told, near[t][n], rows[n]);
          }
        }
      }
    }
  }
  return !kQuick || !__any_sync(0xffffffffu, missed);
}

/// The same where quotients have to be found by `/`. It is rare: rows in memory let loops be loops, which are a fraction
/// of the code.
template <int kRows, class Row, class Head, class Ahead, class Step>
APPY_INLINE void take_turns_by_division(i64 from, int all, Row (&rows)[kRows], const Head& head, const Ahead& ahead,
                                        const Step& step) {
  const int lane = (int)threadIdx.x % 32;
#pragma unroll 1
  for (int turn = 0; turn < all; ++turn) {
    const int m = turn / 32;
    Quotients quotients = {false, false};
    const auto mine = head(from + (lane + 32 * m), rows[m], quotients);
    const auto told = shuffle(mine, turn % 32, 0xffffffffu, 32);
#pragma unroll 1
    for (int n = m; n < kRows; ++n) {
      const int row = lane + 32 * n;
      if (row > turn && row < all) step(from + row, from + turn, told, ahead(from + row, from + turn), rows[n]);
    }
  }
}

/// Iterations [from, until), 32 * kRows at most, by a worker's first warp. A lane has row i in turn `i - from`, 32
/// turns apart: whose turn it is tells the others what `head` makes of its row, and each changes its rows behind that by
/// `step`. What `ahead` loads for that does not wait for it; a worker that is a warp has no copy near to it and loads for
/// several turns at once. `kDivides`: the head has quotients.
template <int kLanes, int kRows, bool kDivides, class Row, class Near, class First, class Head, class Ahead, class Step,
          class Last>
APPY_INLINE void substitute(i64 from, i64 until, const First& first, const Head& head, const Ahead& ahead,
                            const Step& step, const Last& last) {
  barrier_lanes<kLanes>();
  if (kLanes == 32 || threadIdx.x < 32) {
    const int lane = (int)threadIdx.x % 32, all = (int)(until - from);
    Row rows[kRows] = {};
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      if (lane + 32 * m < all) rows[m] = first(from + (lane + 32 * m));
    }
    if (!take_turns<kLanes, kRows, kDivides, Row, Near>(from, all, rows, head, ahead, step)) {
      Row again[kRows] = {};
#pragma unroll 1
      for (int m = 0; m < kRows; ++m) {
        if (lane + 32 * m < all) again[m] = first(from + (lane + 32 * m));
      }
      take_turns_by_division<kRows>(from, all, again, head, ahead, step);
#pragma unroll
      for (int m = 0; m < kRows; ++m) rows[m] = again[m];
    }
#pragma unroll
    for (int m = 0; m < kRows; ++m) {
      if (lane + 32 * m < all) last(from + (lane + 32 * m), rows[m]);
    }
  }
  barrier_lanes<kLanes>();
}

/// What one lane of a worker found, for all of them.
template <int kLanes, class R> APPY_INLINE R tell_lanes(R value) {
  if (kLanes == 1) return value;
  if (kLanes <= 32) {
    value = from_first<(kLanes < 32 ? kLanes : 32)>(value);
    barrier_lanes<kLanes>();
    return value;
  }
  R* const row = (R*)appy_shared();
  barrier_block();
  if (threadIdx.x == 0) row[0] = value;
  barrier_block();
  return row[0];
}

/// What the first thread of all found, for all of them.
template <class R> APPY_INLINE R tell_all(R value, Team& team, const Control& control) {
  R* const row = row_of_partials<R>(team, control);
  if (team.thread == 0) row[0] = value;
  barrier_workers(team, control);
  return row[0];
}

// --- Loops.

APPY_INLINE i64 trips(i64 lower, i64 upper, i64 step) {
  if (step > 0) return lower < upper ? (i64)(((u64)upper - (u64)lower - 1) / (u64)step) + 1 : 0;
  return upper < lower ? (i64)(((u64)lower - (u64)upper - 1) / (0 - (u64)step)) + 1 : 0;
}

APPY_INLINE i64 quotient(i64 a, i64 b) { return (a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b); }

/// Two dimensions of iterations for all threads: neighbouring threads along x, as many as it has use for.
struct Plane {
  i64 x, x_step, y, y_step;
};
/// How many times `part`, a block's threads halved some times, begins in n: by a shift, as a division of 64 bits is as
/// much for the compiler as a small kernel.
template <int kBlock> APPY_INLINE i64 parts_of(i64 n, int part) {
  return (kBlock & (kBlock - 1)) == 0 ? (n + part - 1) >> (31 - __clz(part)) : (n + part - 1) / part;
}
template <int kBlock> APPY_INLINE int times_in_block(int n, int part) {
  return (kBlock & (kBlock - 1)) == 0 ? n >> (31 - __clz(part)) : n / part;
}
/// As many threads across as leave the fewest of them idle, and a part of the block's.
template <int kBlock> APPY_INLINE int threads_across(i64 nx) {
  int across = kBlock;
#pragma unroll 1
  while (across % 2 == 0 && across / 2 >= nx) across /= 2;
#pragma unroll 1
  for (int fewer = across / 2; fewer >= 32 && kBlock % fewer == 0; fewer /= 2) {
    if (parts_of<kBlock>(nx, fewer) * fewer < parts_of<kBlock>(nx, across) * across) across = fewer;
  }
  return across;
}
template <int kBlock> APPY_INLINE Plane plane_of(const Team& team, i64 nx) {
  const int across = threads_across<kBlock>(nx), down = times_in_block<kBlock>(kBlock, across);
  const u32 blocks = gridDim.x;
  const i64 wanted = parts_of<kBlock>(nx, across);
  const u32 columns = wanted > blocks / 2 ? blocks : wanted < 1 ? 1 : (u32)wanted;
  const u32 rows = blocks / columns, row = blockIdx.x / columns;
  const int thread_row = times_in_block<kBlock>(threadIdx.x, across);
  Plane p;
  p.x = (i64)(blockIdx.x - row * columns) * across + (int)threadIdx.x - thread_row * across;
  p.x_step = (i64)columns * across;
  p.y = (i64)row * down + thread_row;
  p.y_step = (i64)rows * down;
  if (row >= rows) p.x = 1ll << 56;  // left over
  return p;
}

/// Columns of a box, one behind the other, as steps of which each block has as many: this one from `at` to `end`.
struct March { i64 at, end, columns; int across; };
template <int kBlock> APPY_INLINE March march_of(i64 nx, i64 ny, i64 steps) {
  const int across = threads_across<kBlock>(nx), down = kBlock / across;
  const i64 columns = (nx + across - 1) / across, all = columns * ((ny + down - 1) / down) * steps;
  const i64 each = all / gridDim.x, more = all % gridDim.x, b = blockIdx.x, at = each * b + (b < more ? b : more);
  return March{at, at + each + (b < more), columns, across};
}
/// The steps `from` to `to` of the next column, at the thread's place in the box's front.
template <int kBlock> APPY_INLINE void next_column(March& m, i64 steps, i64& from, i64& to, i64& x, i64& y) {
  const i64 column = quotient(m.at, steps), strip = quotient(column, m.columns);
  from = m.at - column * steps;
  to = m.end - m.at < steps - from ? from + m.end - m.at : steps;
  m.at += to - from;
  x = (column - strip * m.columns) * m.across + threadIdx.x % m.across;
  y = strip * (kBlock / m.across) + threadIdx.x / m.across;
}
)cuda";

}  // namespace appy::gpu
