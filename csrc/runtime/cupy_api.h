// CuPy's own table of C functions, which CuPy has from 14.3 on: what an array is, and the current stream, without
// Python's attributes. Our own declarations of what its header `cupy_public_c_api.h` says; the table only grows at its
// end.
#pragma once

#include <Python.h>

#include <cstddef>

namespace appy::runtime {

struct CupyArray {
  void* data;
  int rank;
  int device;
  size_t size;
  Py_ssize_t item_size;
  const Py_ssize_t* shape;
  const Py_ssize_t* strides;  // in bytes
  PyObject* dtype;            // NumPy's; borrowed
};

/// Functions are called with the GIL held and give 0, or -1 with a Python exception set.
struct CupyApi {
  int major, minor;  // of CuPy
  PyTypeObject* array_type;
  int (*address)(PyObject* array, void** out);
  int (*read)(PyObject* array, CupyArray* out);
  int (*current_stream)(int device, void** out);
};

/// Null where CuPy is older. CuPy has been imported.
const CupyApi* cupy_api();

}  // namespace appy::runtime
