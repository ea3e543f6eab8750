#include "runtime/scalar.h"

#include <bit>
#include <cstring>

#include "ir/half.h"
#include "runtime/numpy.h"

namespace appy::runtime {
namespace {

using ir::DType;
using ir::Word;

template <class T>
constexpr bool is_half = std::is_same_v<T, ir::Half> || std::is_same_v<T, ir::BFloat>;

template <class T>
Word to_word(T v) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<Word>(v);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<uint32_t>(v);
  } else if constexpr (is_half<T>) {
    return v.bits;
  } else {
    return static_cast<Word>(v);
  }
}

template <class T>
T from_word(Word w) {
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(w);
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(w));
  } else if constexpr (is_half<T>) {
    return T::of_bits(w);
  } else {
    return static_cast<T>(w);
  }
}

/// Calls f with a value of the C type that stands for `t`.
template <class F>
auto with_type(DType t, F&& f) {
  switch (t) {
    case DType::bool_:
      return f(bool{});
    case DType::i8_:
      return f(int8_t{});
    case DType::i16_:
      return f(int16_t{});
    case DType::i32_:
      return f(int32_t{});
    case DType::i64_:
      return f(int64_t{});
    case DType::u8_:
      return f(uint8_t{});
    case DType::u16_:
      return f(uint16_t{});
    case DType::u32_:
      return f(uint32_t{});
    case DType::u64_:
      return f(uint64_t{});
    case DType::f16_:
      return f(ir::Half{});
    case DType::bf16_:
      return f(ir::BFloat{});
    case DType::f32_:
      return f(float{});
    case DType::f64_:
      break;
  }
  return f(double{});
}

// NumPy's scalar objects differ only in the type of `obval`.
template <class T>
struct ScalarObject {
  PyObject_HEAD;
  T value;
};
static_assert(offsetof(ScalarObject<double>, value) == offsetof(PyDoubleScalarObject, obval));
static_assert(offsetof(ScalarObject<double>, value) == offsetof(PyCDoubleScalarObject, obval));
static_assert(offsetof(ScalarObject<float>, value) == offsetof(PyCFloatScalarObject, obval));
static_assert(offsetof(ScalarObject<int8_t>, value) == offsetof(PyByteScalarObject, obval));

}  // namespace

DType graph_type(const PyScalarType& type) {
  switch (type.kind) {
    case ScalarKind::py_int:
      return DType::i64_;
    case ScalarKind::py_float:
      return DType::f64_;
    case ScalarKind::py_bool:
      return DType::bool_;
    case ScalarKind::np_scalar:
      break;
  }
  return type.dtype;
}

PyTypeObject* class_of(const PyScalarType& type) {
  switch (type.kind) {
    case ScalarKind::py_int:
      return &PyLong_Type;
    case ScalarKind::py_float:
      return &PyFloat_Type;
    case ScalarKind::py_bool:
      return &PyBool_Type;
    case ScalarKind::np_scalar:
      break;
  }
  return scalar_class(type.dtype);
}

std::optional<PyScalarType> scalar_type_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyLong_Type) return PyScalarType{ScalarKind::py_int, DType::i64_};
  if (type == &PyFloat_Type) return PyScalarType{ScalarKind::py_float, DType::f64_};
  if (type == &PyBool_Type) return PyScalarType{ScalarKind::py_bool, DType::bool_};
  for (int i = 0; i <= static_cast<int>(DType::f64_); i++)
    if (type == scalar_class(static_cast<DType>(i))) return PyScalarType{ScalarKind::np_scalar, static_cast<DType>(i)};
  return {};
}

bool read_word(PyObject* object, const PyScalarType& type, Word* word) {
  switch (type.kind) {
    case ScalarKind::py_int: {
      int overflow = 0;
      *word = static_cast<Word>(PyLong_AsLongLongAndOverflow(object, &overflow));
      return overflow == 0;
    }
    case ScalarKind::py_float:
      *word = to_word(PyFloat_AS_DOUBLE(object));
      return true;
    case ScalarKind::py_bool:
      *word = object == Py_True;
      return true;
    case ScalarKind::np_scalar:
      break;
  }
  *word = with_type(type.dtype,
                    [object]<class T>(T) { return to_word(reinterpret_cast<ScalarObject<T>*>(object)->value); });
  return true;
}

PyObject* make_scalar(const PyScalarType& type, Word word) {
  switch (type.kind) {
    case ScalarKind::py_int:
      return PyLong_FromLongLong(static_cast<int64_t>(word));
    case ScalarKind::py_float:
      return PyFloat_FromDouble(from_word<double>(word));
    case ScalarKind::py_bool:
      return Py_NewRef(word ? Py_True : Py_False);
    case ScalarKind::np_scalar:
      break;
  }
  if (type.dtype == DType::bool_) return Py_NewRef(word ? PyArrayScalar_True : PyArrayScalar_False);
  if (type.dtype == DType::bf16_) return PyFloat_FromDouble(ir::half_value(type.dtype, word));
  PyTypeObject* cls = scalar_class(type.dtype);
  PyObject* object = cls->tp_alloc(cls, 0);
  if (!object) return nullptr;
  with_type(type.dtype, [=]<class T>(T) { reinterpret_cast<ScalarObject<T>*>(object)->value = from_word<T>(word); });
  return object;
}

bool read_complex(PyObject* object, ComplexValue* out) {
  if (PyComplex_CheckExact(object)) {
    const Py_complex value = PyComplex_AsCComplex(object);
    *out = {{ScalarKind::py_float, DType::f64_}, value.real, value.imag};
    return true;
  }
  const auto read = [&]<class T>(T) {
    T parts[2];
    std::memcpy(parts, &reinterpret_cast<ScalarObject<T>*>(object)->value, sizeof parts);
    *out = {{ScalarKind::np_scalar, sizeof(T) == 4 ? DType::f32_ : DType::f64_}, parts[0], parts[1]};
    return true;
  };
  if (Py_TYPE(object) == complex_scalar_class(DType::f32_)) return read(float{});
  if (Py_TYPE(object) == complex_scalar_class(DType::f64_)) return read(double{});
  return false;
}

PyTypeObject* complex_class_of(const PyScalarType& part) {
  return part.kind == ScalarKind::py_float ? &PyComplex_Type : complex_scalar_class(part.dtype);
}

PyObject* make_complex(const PyScalarType& part, Word re, Word im) {
  if (part.kind == ScalarKind::py_float) return PyComplex_FromDoubles(from_word<double>(re), from_word<double>(im));
  PyTypeObject* cls = complex_scalar_class(part.dtype);
  PyObject* object = cls->tp_alloc(cls, 0);
  if (!object) return nullptr;
  const auto write = [&]<class T>(T) {
    const T parts[] = {from_word<T>(re), from_word<T>(im)};
    std::memcpy(&reinterpret_cast<ScalarObject<T>*>(object)->value, parts, sizeof parts);
  };
  part.dtype == DType::f32_ ? write(float{}) : write(double{});
  return object;
}

Word convert_word(DType from, DType to, Word word) {
  if (from == to) return word;
  return with_type(from, [=]<class From>(From) {
    using Number = std::conditional_t<is_half<From>, double, From>;
    const auto value = static_cast<Number>(from_word<From>(word));
    return with_type(to, [=]<class To>(To) {
      // Sign extension first: a word holds an integer in all of its 64 bits.
      if constexpr (std::is_same_v<To, bool>) return static_cast<Word>(value != Number{});
      if constexpr (std::is_integral_v<To> && std::is_signed_v<To>)
        return to_word(static_cast<int64_t>(static_cast<To>(value)));
      if constexpr (is_half<To>) return ir::half_word(to, static_cast<double>(value));
      return to_word(static_cast<To>(value));
    });
  });
}

std::string name_of(const PyScalarType& type) {
  switch (type.kind) {
    case ScalarKind::py_int:
      return "int";
    case ScalarKind::py_float:
      return "float";
    case ScalarKind::py_bool:
      return "bool";
    case ScalarKind::np_scalar:
      break;
  }
  return std::string("np.") + numpy_name(type.dtype);
}

}  // namespace appy::runtime
