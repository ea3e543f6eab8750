// What goes wrong with a device, its driver or its compiler: one class, so that a caller raises or declines once.
#pragma once

#include <exception>
#include <string>

namespace appy::gpu {

enum class ErrorKind {
  no_driver,       // libcuda.so.1 is not there, or cannot be loaded
  driver_too_old,  // for us, or for the NVRTC that compiled
  no_device,       // a driver, but no device, or not the one that was asked for
  no_compiler,     // no NVRTC
  compilation,     // NVRTC refuses our source: an error of ours
  architecture,    // the device is too old or too new for what was compiled
  out_of_memory,   // of the device, or of pinned host memory; arrays and context stay usable
  launch,          // a launch was refused, with nothing run; arrays and context stay usable
  lost_device,     // a fault ended the context: nothing works on this device until the process ends
  forked,          // CUDA was initialised before fork()
  other,
};

class Error : public std::exception {
 public:
  /// `what` says what failed, `remedy` (may be empty) what helps: full sentences both, without the period of the first.
  Error(ErrorKind kind, std::string what, std::string remedy);

  ErrorKind kind() const { return kind_; }
  const std::string& summary() const { return summary_; }
  const std::string& remedy() const { return remedy_; }
  /// "SUMMARY. REMEDY"
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  ErrorKind kind_;
  std::string summary_, remedy_, message_;
};

}  // namespace appy::gpu
