// The emulated device for tests of csrc/gpu: what a test program sets before the driver is loaded, and its own
// questions.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gpu/device.h"

namespace appy::gpu::test {

/// A variable of the environment for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

inline std::string temporary_folder() {
  char name[] = "/tmp/appy-test-XXXXXX";
  EXPECT_NE(mkdtemp(name), nullptr);
  return name;
}

/// Before the first test: the emulator is the driver and the compiler, with four devices.
inline bool use_emulator() {
  setenv("APPY_LIBCUDA", APPY_EMULATOR, 1);
  setenv("APPY_LIBNVRTC", APPY_EMULATOR, 1);
  setenv("APPY_EMULATOR_DEVICES", "4", 1);
  return true;
}

template <class F>
F* emulator_function(const char* name) {
  void* library = dlopen(APPY_EMULATOR, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(library, name));
}

inline long calls(const char* name) { return emulator_function<long(const char*)>("appy_emulator_calls")(name); }
inline long used_bytes() { return emulator_function<long()>("appy_emulator_used_bytes")(); }
inline void reset_emulator() { emulator_function<void()>("appy_emulator_reset")(); }

template <class F>
void expect_error(ErrorKind kind, const std::string& part, F&& what) {
  try {
    what();
    FAIL() << "no error, expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

}  // namespace appy::gpu::test
