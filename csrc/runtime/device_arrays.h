// Arrays of other libraries than NumPy, on devices above all: CuPy's, torch's, and whatever speaks
// __cuda_array_interface__ or DLPack. They are read and written where they lie.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/ir.h"
#include "runtime/signature.h"
#include "support/ref.h"

namespace appy::runtime {

/// An array as it lies in memory. Strides are in bytes.
struct ForeignArray {
  static constexpr int max_rank = 32;

  char* data = nullptr;
  int device = host_memory;
  int rank = 0;
  ir::DType dtype = ir::DType::f64_;  // complex: of the parts
  bool complex = false;
  bool writeable = true;
  uintptr_t stream = 0;  // that the array names as its own, 0 where it names none
  std::array<int64_t, max_rank> shape, strides;
  Ref owner;  // what has to live while the pointer is used, beside the array itself; often null

  int64_t item_size() const { return ir::size_of(dtype) * (complex ? 2 : 1); }
  bool is_empty() const;
  /// In C order, or in Fortran's.
  bool is_contiguous(bool fortran) const;
  /// Does the last dimension, where it has more than one element, run along memory?
  bool is_inner() const;
  bool is_aligned() const;
};

/// The name for messages: "NumPy", "CuPy", ...
const char* name_of(Library);
/// "in the host's memory" or "on device 1".
std::string place_name(int device);

/// The library that the object is an array of, by its type: NumPy for numpy.ndarray itself.
std::optional<Library> library_of(PyObject*);

/// Reads an array of that library (not NumPy). Null, or why it cannot be used: "requires gradients". Runs the library's
/// code, which may be Python; leaves no exception set.
const char* read_array(Library, PyObject*, ForeignArray*);

/// The device of the first array of another library than NumPy among the variables of a function's frame;
/// `host_memory` where it is on none, or there is no such array. Quick where there is none.
int device_in(const Scope&);

/// The extents of an array of any library, NumPy's subclasses included: how many, -1 where it is no array.
int extents_of(PyObject*, int64_t extents[ForeignArray::max_rank]);

/// module.path as a new reference; null, with no exception set, where it is not there or the module is not loaded.
Ref module_attribute(const char* module, std::string_view path);

// device_libraries.cpp
/// The stream that the library works on now, on that device; nothing where the library does not say, with no exception
/// set.
std::optional<uintptr_t> current_stream(Library, int device);

/// A new array of the library's, in C order or, by `columns`, in Fortran's, or null with an exception set. complex: of
/// parts `dtype`.
PyObject* make_array(Library, int device, ir::DType dtype, bool complex, bool columns,
                     std::span<const int64_t> extents);
/// Does the library make arrays?
inline bool makes_arrays(Library library) { return library <= Library::torch; }

/// What the library has for an element that is read: a 0-d array of the type and with the value of the NumPy scalar
/// (of a bf16: Python's), or null with an exception set.
PyObject* make_zero_d(Library, int device, ir::DType dtype, bool complex, PyObject* number);

/// The dtype object of the library, or null with an exception set.
PyObject* dtype_object(Library, ir::DType, bool complex);
/// The dtype that an object of torch's names: torch.float32.
std::optional<ir::DType> torch_dtype_named(PyObject*);
/// The type of the parts of torch.complex64 or torch.complex128.
std::optional<ir::DType> torch_complex_part_named(PyObject*);
/// Is that what torch makes of Python's floats, as it does unless it is told otherwise?
bool torch_defaults_to_float32();

}  // namespace appy::runtime
