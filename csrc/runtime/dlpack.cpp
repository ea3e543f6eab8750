#include "runtime/dlpack.h"

namespace appy::runtime {
namespace {

constexpr uint32_t known_major = 1;
constexpr const char* capsule_name = "dltensor";
constexpr const char* versioned_name = "dltensor_versioned";
constexpr uint64_t read_only_flag = 1;

struct Managed {
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

}  // namespace

const ExchangeApi* exchange_api(PyTypeObject* type) {
  const Ref name = Ref::steal(PyUnicode_InternFromString("__dlpack_c_exchange_api__"));
  // Of the type itself: a subclass may have another idea of its memory.
  PyObject* capsule = name ? _PyType_Lookup(type, name.get()) : nullptr;
  if (!capsule || !PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
    PyErr_Clear();
    return nullptr;
  }
  auto* header = static_cast<ExchangeApi::Header*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
  while (header && header->major != known_major) header = header->previous;
  return reinterpret_cast<const ExchangeApi*>(header);
}

Ref export_dlpack(PyObject* object, int stream) {
  const Ref method = Ref::steal(PyObject_GetAttrString(object, "__dlpack__"));
  const Ref none = Ref::steal(PyTuple_New(0));
  if (!method || !none) return {};
  const Ref versioned = Ref::steal(Py_BuildValue("{s:i,s:(ii)}", "stream", stream, "max_version", 1, 0));
  Ref capsule = Ref::steal(versioned ? PyObject_Call(method.get(), none.get(), versioned.get()) : nullptr);
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {  // a producer of before version 1
    PyErr_Clear();
    const Ref plain = Ref::steal(Py_BuildValue("{s:i}", "stream", stream));
    capsule = Ref::steal(plain ? PyObject_Call(method.get(), none.get(), plain.get()) : nullptr);
  }
  return capsule;
}

const DLTensor* tensor_of(PyObject* capsule, bool* read_only) {
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    const auto* managed = static_cast<ManagedVersioned*>(PyCapsule_GetPointer(capsule, versioned_name));
    if (managed->major != known_major) return nullptr;
    *read_only = (managed->flags & read_only_flag) != 0;
    return &managed->tensor;
  }
  if (!PyCapsule_IsValid(capsule, capsule_name)) return nullptr;
  *read_only = false;
  return &static_cast<Managed*>(PyCapsule_GetPointer(capsule, capsule_name))->tensor;
}

bool dtype_of_dlpack(DLDataType type, ir::DType* dtype, bool* complex) {
  using ir::DType;
  struct Row {
    uint8_t code, bits;
    DType dtype;
  };
  enum : uint8_t { integer = 0, unsigned_ = 1, real = 2, bfloat = 4, complex_ = 5, boolean = 6 };
  static constexpr Row rows[] = {
      {integer, 8, DType::i8_},     {integer, 16, DType::i16_},   {integer, 32, DType::i32_},
      {integer, 64, DType::i64_},   {unsigned_, 8, DType::u8_},   {unsigned_, 16, DType::u16_},
      {unsigned_, 32, DType::u32_}, {unsigned_, 64, DType::u64_}, {real, 16, DType::f16_},
      {real, 32, DType::f32_},      {real, 64, DType::f64_},      {boolean, 8, DType::bool_},
      {complex_, 64, DType::f32_},  {complex_, 128, DType::f64_}, {bfloat, 16, DType::bf16_}};
  if (type.lanes != 1) return false;
  for (const Row& row : rows) {
    if (row.code != type.code || row.bits != type.bits) continue;
    *dtype = row.dtype;
    *complex = row.code == complex_;
    return true;
  }
  return false;
}

}  // namespace appy::runtime
