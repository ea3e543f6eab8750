// Random numbers for programs of tests: the same ones for a seed everywhere.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <vector>

namespace appy::passes {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint64_t below(uint64_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return (state_ >> 11) % n;
  }
  const char* pick(const std::vector<const char*>& of) { return of[below(of.size())]; }

 private:
  uint64_t state_;
};

/// A number that an environment variable names.
inline int env(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : fallback;
}

}  // namespace appy::passes
