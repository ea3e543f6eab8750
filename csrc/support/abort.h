// The first tier of errors: a stage gives up on a region. The interpreter runs it instead, with the same result.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace appy {

enum class AbortId : uint16_t {
#define X(id, message, remedy) id##_,
#include "support/aborts.def"
#undef X
};

std::string_view abort_name(AbortId);
std::string_view abort_remedy(AbortId);

/// Thrown by trace, passes and backends; caught by the driver. `line` is 0 where it is not known.
struct Abort : std::exception {
  AbortId id;
  std::string detail;
  std::string file;
  int line;

  explicit Abort(AbortId id, std::string detail = {}, int line = 0, std::string file = {});
  /// The row's message with the detail filled in.
  std::string message() const;
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

}  // namespace appy
