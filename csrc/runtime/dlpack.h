// DLPack's structures and its table of C functions, as its specification has them (dlpack.h 1.3).
#pragma once

#include <Python.h>

#include <cstdint>

#include "ir/ir.h"
#include "support/ref.h"

namespace appy::runtime {

enum : int32_t { dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_cuda_managed = 13 };

struct DLDevice {
  int32_t type, id;
};

struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null: C order
  uint64_t byte_offset;
};

/// The table that a type has as `__dlpack_c_exchange_api__`, as far as it is used here.
struct ExchangeApi {
  struct Header {
    uint32_t major, minor;
    Header* previous;
  };
  Header header;
  void *allocator, *from_object, *to_object;
  /// Fills a tensor that borrows everything from the object; non-zero with an exception set where it cannot.
  int (*view)(void* object, DLTensor* out);
  int (*current_work_stream)(int32_t device_type, int32_t device, void** stream);
};

/// The type's own table of a version that is known, or null. The table lives as long as the process.
const ExchangeApi* exchange_api(PyTypeObject*);

/// object.__dlpack__(stream=stream): a capsule, or null with an exception set.
Ref export_dlpack(PyObject* object, int stream);
/// The tensor in a capsule that nobody has consumed, or null. It lives as long as the capsule.
const DLTensor* tensor_of(PyObject* capsule, bool* read_only);

/// False where it has no counterpart.
bool dtype_of_dlpack(DLDataType, ir::DType* dtype, bool* complex);

}  // namespace appy::runtime
