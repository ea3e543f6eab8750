#define APPY_IMPORTS_NUMPY
#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

struct Row {
  ir::DType dtype;
  int number;
  PyTypeObject* (*scalar_class)();
  const char* name;
};

// In the order of ir/types.def. The classes lie in NumPy's table, which exists only after the import.
constexpr Row rows[] = {
    {ir::DType::bool_, NPY_BOOL, [] { return &PyBoolArrType_Type; }, "bool"},
    {ir::DType::i8_, NPY_BYTE, [] { return &PyByteArrType_Type; }, "int8"},
    {ir::DType::i16_, NPY_SHORT, [] { return &PyShortArrType_Type; }, "int16"},
    {ir::DType::i32_, NPY_INT, [] { return &PyIntArrType_Type; }, "int32"},
    {ir::DType::i64_, NPY_LONG, [] { return &PyLongArrType_Type; }, "int64"},
    {ir::DType::u8_, NPY_UBYTE, [] { return &PyUByteArrType_Type; }, "uint8"},
    {ir::DType::u16_, NPY_USHORT, [] { return &PyUShortArrType_Type; }, "uint16"},
    {ir::DType::u32_, NPY_UINT, [] { return &PyUIntArrType_Type; }, "uint32"},
    {ir::DType::u64_, NPY_ULONG, [] { return &PyULongArrType_Type; }, "uint64"},
    {ir::DType::f16_, NPY_HALF, [] { return &PyHalfArrType_Type; }, "float16"},
    {ir::DType::bf16_, NPY_NOTYPE, []() -> PyTypeObject* { return nullptr; }, "bfloat16"},
    {ir::DType::f32_, NPY_FLOAT, [] { return &PyFloatArrType_Type; }, "float32"},
    {ir::DType::f64_, NPY_DOUBLE, [] { return &PyDoubleArrType_Type; }, "float64"},
};

constexpr const Row& row(ir::DType t) { return rows[static_cast<size_t>(t)]; }
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(rows); i++)
    if (rows[i].dtype != static_cast<ir::DType>(i)) return false;
  return true;
}
static_assert(in_order(), "rows follow ir/types.def");

}  // namespace

bool import_numpy() {
  if (appy_numpy_api) return true;
  return _import_array() == 0;
}

int type_number(ir::DType t) { return row(t).number; }

std::optional<ir::DType> dtype_of(int number) {
  for (const Row& r : rows)
    if (r.number == number) return r.dtype;
  return {};
}

std::optional<ir::DType> complex_part_of(int number) {
  if (number == NPY_CFLOAT) return ir::DType::f32_;
  if (number == NPY_CDOUBLE) return ir::DType::f64_;
  return {};
}

int complex_type_number(ir::DType part) { return part == ir::DType::f32_ ? NPY_CFLOAT : NPY_CDOUBLE; }
PyTypeObject* complex_scalar_class(ir::DType part) {
  return part == ir::DType::f32_ ? &PyCFloatArrType_Type : &PyCDoubleArrType_Type;
}
const char* complex_name(ir::DType part) { return part == ir::DType::f32_ ? "complex64" : "complex128"; }

PyTypeObject* scalar_class(ir::DType t) { return row(t).scalar_class(); }
const char* numpy_name(ir::DType t) { return row(t).name; }

}  // namespace appy::runtime
