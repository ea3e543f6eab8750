// What a backend hands to the runtime: something that runs one compiled region.
//
// Arguments are flat words, in the order of the graph's parameters: a scalar is one word; a view of rank r is 1 + 2r
// words: data pointer, r extents, r strides in bytes. Results are one word a region result.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ir/ir.h"

namespace appy::runtime {

enum class Status : int32_t {
  done = 0,
  declined = 1,     // nothing was written; the interpreter runs the statement
  failed = 2,       // a check failed after stores; `failure` says which
  interrupted = 3,  // a signal handler raised, and the Python exception is set; or there was no memory
};

struct Failure {
  int32_t check = -1;      // ordinal of the check op in the graph, in walk order (ir::walk)
  bool has_state = false;  // results hold the scalars at the failing point; else they are unwritten
  int64_t iteration = -1;  // of the outermost parallel or simd loop, for the message; -1 where it is not known
  std::array<int64_t, ir::kMaxInfo> info{};
};

/// Is this a failure after which the interpreter can do the whole statement again, as long as the region reads nothing
/// that it writes?
inline bool can_run_again(ir::CheckKind kind) {
  return kind == ir::CheckKind::overflow_ || kind == ir::CheckKind::decline_ || kind == ir::CheckKind::broadcast_;
}

/// A check that failed on a device after run() had returned.
struct LateFailure {
  Failure failure;
  uint64_t time = 0;  // when it failed, in nanoseconds of a clock that all devices share
  int device = 0;
  uintptr_t stream = 0;
};

/// Makes the arrays that escape from a region, and keeps them by slot.
class Arrays {
 public:
  virtual ~Arrays() = default;
  /// A new array for the slot, which drops the one that it had. Returns its data, or null where there is no memory.
  /// Called with or without the GIL.
  virtual void* make(int slot, ir::Type, const ir::Word* extents) = 0;
};

struct Invocation {
  const ir::Word* args = nullptr;
  ir::Word* results = nullptr;
  int threads = 1;
  Failure failure;
  Arrays* arrays = nullptr;    // only regions with allocs that escape use it
  bool no_memory = false;      // interrupted, and no Python exception is set: there was no memory for an array
  std::string error;           // interrupted, and no Python exception is set: what went wrong with a device
  bool device_memory = false;  // `error` is that the device has no memory left
  /// The stream of the device that the arrays' library works on at the moment, as a driver handle (0, 1 and 2 are the
  /// driver's own default streams). The kernel's work goes there.
  uintptr_t stream = 0;
  /// Other streams that arrays come from: their work so far comes before the kernel, what they do next after it.
  std::span<const uintptr_t> other_streams;
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Called without the GIL, but see where(). Never throws.
  virtual Status run(Invocation&) const = 0;

  enum class Where : uint8_t {
    host,     // run() computes
    waits,    // run() waits for a device: it is called without the GIL, always
    returns,  // run() gives a device its work and returns: it is called with the GIL, always
    pauses,   // as `returns`, but it may wait for the device in between: it is called without the GIL, always
    fails,    // as `returns`, and checks may fail later
  };
  virtual Where where() const { return Where::host; }
  /// Makes what run() needs for such arguments, so that it is missed before anything has run. Throws Abort.
  virtual void prepare(const ir::Word* args) const { static_cast<void>(args); }
  /// After a run() that returned: waits until the stream has done it. Called without the GIL.
  virtual Status wait(Invocation&) const { return Status::done; }
  /// The first failure that run() has not told and that was not forgotten. Of a stream that something has waited for it
  /// is the first one for good.
  virtual std::optional<LateFailure> late_failure() const { return {}; }
  virtual void forget_failures(int device, uintptr_t stream) const {
    static_cast<void>(device), static_cast<void>(stream);
  }
  /// Waits for all that was launched.
  virtual void drain() const {}

  /// Machine code as text for `APPY_DUMP=asm`, empty where it was not kept.
  virtual std::string listing() const { return {}; }
  /// For explain: "8 lanes x 4, AVX-512, 2 threads" for each loop, a line each, with its source line.
  virtual std::string summary() const { return {}; }
};

}  // namespace appy::runtime
