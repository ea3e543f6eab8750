// The emulated device's form of appy_ptx.h: what kernels do through inline PTX there.
#pragma once

inline unsigned char* appy_shared() { return appy_emulator::self().shared; }

inline unsigned appy_load_acquire(const unsigned* at) {
  appy_emulator_fence();
  const unsigned value = *const_cast<const volatile unsigned*>(at);
  appy_emulator_fence();
  return value;
}
inline void appy_store_release(unsigned* at, unsigned value) {
  appy_emulator_fence();
  *const_cast<volatile unsigned*>(at) = value;
  appy_emulator_fence();
}
inline unsigned appy_add_acq_rel(unsigned* at, unsigned value) { return atomicAdd(at, value); }
inline unsigned long long appy_time() { return __builtin_ia32_rdtsc(); }
inline void appy_pause() {
  appy_emulator_fence();
  appy_emulator_api->pause();
  appy_emulator_fence();
}

inline float appy_half_to_float(unsigned short bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
inline double appy_half_to_double(unsigned short bits) { return static_cast<double>(std::bit_cast<_Float16>(bits)); }
inline unsigned short appy_float_to_half(float x) { return std::bit_cast<unsigned short>(static_cast<_Float16>(x)); }
inline unsigned short appy_double_to_half(double x) { return std::bit_cast<unsigned short>(static_cast<_Float16>(x)); }
