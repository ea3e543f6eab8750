// Python and NumPy scalars <-> words of the graph.
#pragma once

#include <Python.h>

#include <optional>
#include <string>

#include "ir/ir.h"
#include "runtime/signature.h"

namespace appy::runtime {

/// The type in the graph of a Python scalar: i64, f64, bool or the NumPy scalar's own.
ir::DType graph_type(const PyScalarType&);

/// The class of the scalar (borrowed).
PyTypeObject* class_of(const PyScalarType&);

/// What exact scalar type the object has, if any.
std::optional<PyScalarType> scalar_type_of(PyObject*);

/// Reads an object whose exact class is class_of(type). False where an int does not fit 64 bits; no exception is set.
bool read_word(PyObject*, const PyScalarType& type, ir::Word*);

/// A new scalar of this type, a Python float for a bf16, which NumPy has not; null with an exception set.
PyObject* make_scalar(const PyScalarType&, ir::Word);

/// A complex number, Python's or NumPy's: `type` is that of the parts.
struct ComplexValue {
  PyScalarType type;
  double re = 0, im = 0;
};
/// False where the object's exact class is none of a complex number.
bool read_complex(PyObject*, ComplexValue*);
/// The class of complex numbers with such parts (borrowed).
PyTypeObject* complex_class_of(const PyScalarType& part);
/// A new complex number whose parts are of this type; null with an exception set.
PyObject* make_complex(const PyScalarType& part, ir::Word re, ir::Word im);

/// The word's value in another type, as C converts it.
ir::Word convert_word(ir::DType from, ir::DType to, ir::Word);

/// "int", "float", "bool" or "np.float32".
std::string name_of(const PyScalarType&);

}  // namespace appy::runtime
