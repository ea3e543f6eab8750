// NVRTC, the compiler of CUDA C++ in a library: finding it, and source text to machine code.
#pragma once

#include <string>
#include <vector>

#include "gpu/error.h"

namespace appy::gpu {

struct Header {
  std::string name;  // as in #include "NAME"
  std::string text;
};

struct Source {
  std::string name;  // what messages and profilers call it
  std::string text;
  std::vector<Header> headers;
  std::vector<std::string> options;  // without the architecture: "--std=c++17", "--fmad=false"
};

struct Image {
  std::string code;      // cubin, or PTX where `ptx`
  bool ptx = false;      // the architecture was newer than NVRTC: the driver makes machine code of it
  int architecture = 0;  // that it is for: 90 is sm_90, or compute_90 for PTX
  int version = 0;       // of NVRTC: 12040 is 12.4
  std::string log;       // warnings
};

/// Folders to look for NVIDIA's wheels in: sys.path. From Python, before the first use.
void set_wheel_folders(std::vector<std::string> folders);

struct Compiler {
  std::string path;
  int version = 0;
  std::vector<int> architectures;  // that it makes machine code for, in order
};

/// APPY_LIBNVRTC, or the first one of what the process has loaded, NVIDIA's wheels, CUDA_PATH and CUDA_HOME,
/// /usr/local/cuda*, and where the system's loader looks; those of a later major version than the driver's come last.
/// Loaded at the first call. Throws Error (no_compiler).
const Compiler& compiler();

/// Does compile() make machine code for a compute capability, and for the driver that is there? Loads NVRTC, and
/// compiles nothing.
bool compiles_for(int compute_capability);

/// Names the library that compiler() would take, without loading it: path, size, and time of its last change.
std::string compiler_identity();

/// Machine code for a compute capability (90), or PTX of the newest architecture that NVRTC knows where it does not
/// know this one. Throws Error (no_compiler, architecture; compilation, with the log). Thread-safe; call it without
/// the GIL.
Image compile(const Source&, int compute_capability);

}  // namespace appy::gpu
