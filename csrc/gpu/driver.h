// The CUDA driver: libcuda.so.1, loaded when a device is first asked for, and what its errors mean.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gpu/error.h"

namespace appy::gpu {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

/// The oldest driver that runs what we compile: CUDA 12.0 (release 525).
inline constexpr int kOldestDriver = 12000;

struct Driver {
#define X(member, symbol, parameters) CUresult(*member) parameters = nullptr;
#include "gpu/driver.def"
#undef X
  int version = 0;   // of CUDA that it can run: 12040 is 12.4
  std::string path;  // of the library
};

/// Loads and initialises the driver at the first call (APPY_LIBCUDA names another library). Throws an Error, the same
/// at each call, where there is none or it is too old; and `forked` in a child of a process that had initialised it.
const Driver& driver();

/// What was found, for reports: path and version are there where the library is, whether it can be used or not.
struct DriverState {
  std::string path;
  int version = 0;
  std::optional<Error> error;  // what driver() throws
};
DriverState driver_state();

/// Is this the child of a process that had initialised CUDA? Destructors then leave everything alone.
bool is_forked();

/// Throws an Error for any result but 0. `call` is the driver's name of what failed, `detail` what it was to do.
void check(CUresult, const char* call, const std::string& detail = {});

/// Did this result end the context, with every later call failing as well?
bool is_sticky(CUresult);

/// "12.4" for 12040.
std::string version_text(int version);
/// "9.0" for 90.
std::string capability_text(int capability);

}  // namespace appy::gpu
