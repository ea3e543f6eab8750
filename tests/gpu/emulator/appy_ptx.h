// The emulated device's form of appy_ptx.h: what kernels do through inline PTX there.
#pragma once

inline unsigned char* appy_shared() { return appy_emulator::self().shared; }

template <class T>
T appy_load_acquire(const T* at) {
  appy_emulator_fence();
  const T value = *const_cast<const volatile T*>(at);
  appy_emulator_fence();
  return value;
}
inline void appy_store_release(unsigned* at, unsigned value) {
  appy_emulator_fence();
  *const_cast<volatile unsigned*>(at) = value;
  appy_emulator_fence();
}
inline unsigned appy_add_acq_rel(unsigned* at, unsigned value) { return atomicAdd(at, value); }
inline unsigned long long appy_add_acq_rel(unsigned long long* at, unsigned long long value) {
  return atomicAdd(at, value);
}
#define APPY_LOOK (8u << 10)  // every eighth time that somebody asks
inline unsigned long long appy_time() { return __builtin_ia32_rdtsc(); }
inline void appy_pause() {
  appy_emulator_fence();
  appy_emulator_api->pause();
  appy_emulator_fence();
}

/// Calls of it, so that each run of a process is like the one before.
inline unsigned long long appy_clock() {
  static unsigned long long calls = 0;
  return 1024 * ++calls;
}
inline void appy_wait(unsigned cycles) {
  for (; cycles >= 1024; cycles -= 1024) appy_pause();
}

/// Copies happen when the thread that began them awaits them, and not before. The newest come first; one without bytes
/// ends a group.
struct AppyCopy {
  const void* thread;
  unsigned char* to;
  const unsigned char* from;
  int bytes;
  AppyCopy* next;
};
inline AppyCopy* appy_copies[1024];
inline AppyCopy*& appy_copies_of_thread() {
  return appy_copies[reinterpret_cast<uintptr_t>(&appy_emulator::self()) / sizeof(appy_emulator::Thread) % 1024];
}
template <int bytes>
void appy_copy_ahead(void* to, const void* from) {
  AppyCopy*& copies = appy_copies_of_thread();
  copies = new AppyCopy{&appy_emulator::self(), static_cast<unsigned char*>(to),
                        static_cast<const unsigned char*>(from), bytes, copies};
}
inline void appy_commit_copies() { appy_copy_ahead<0>(nullptr, nullptr); }
template <int groups>
void appy_await_copies_but() {
  int ended = 0;
  for (AppyCopy** at = &appy_copies_of_thread(); *at;) {
    AppyCopy* const copy = *at;
    const bool mine = copy->thread == &appy_emulator::self();
    if (mine && copy->bytes == 0) ++ended;
    if (!mine || ended <= groups) {
      at = &copy->next;
      continue;
    }
    if (copy->bytes) __builtin_memcpy(copy->to, copy->from, static_cast<unsigned>(copy->bytes));
    *at = copy->next;
    delete copy;
  }
}
inline void appy_await_copies() {
  appy_commit_copies();
  appy_await_copies_but<0>();
}

inline float appy_half_to_float(unsigned short bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
inline double appy_half_to_double(unsigned short bits) { return static_cast<double>(std::bit_cast<_Float16>(bits)); }
inline unsigned short appy_float_to_half(float x) { return std::bit_cast<unsigned short>(static_cast<_Float16>(x)); }
inline unsigned short appy_double_to_half(double x) { return std::bit_cast<unsigned short>(static_cast<_Float16>(x)); }
inline float appy_bfloat_to_float(unsigned short bits) {
  return std::bit_cast<float>(static_cast<unsigned>(bits) << 16);
}
inline unsigned short appy_float_to_bfloat(float x) {
  const auto bits = std::bit_cast<unsigned>(x);
  return static_cast<unsigned short>((x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The lanes exchange what they have, then each computes its sums, step by step.
inline void appy_multiply_f64(double (&sums)[4], const double (&a)[4], const double (&b)[2]) {
  double rows[4][32], columns[2][32];
  for (int i = 0; i < 4; ++i) memcpy(rows[i], appy_emulator_api->exchange(~0u, appy_emulator::bits(a[i])), 256);
  for (int i = 0; i < 2; ++i) memcpy(columns[i], appy_emulator_api->exchange(~0u, appy_emulator::bits(b[i])), 256);
  const int lane = appy_emulator::self().lane, group = lane / 4, member = lane % 4;
  for (int i = 0; i < 4; ++i) {
    for (int step = 0; step < 8; ++step) {
      sums[i] = std::fma(rows[i / 2 + 2 * (step / 4)][4 * group + step % 4],
                         columns[step / 4][4 * (2 * member + i % 2) + step % 4], sums[i]);
    }
  }
}
