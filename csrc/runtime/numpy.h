// NumPy's C API for this extension. Include this instead of NumPy's headers: the table of functions is imported once,
// by numpy.cpp.
#pragma once

#include <Python.h>

#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL appy_numpy_api
#ifndef APPY_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include <optional>

#include "ir/ir.h"

namespace appy::runtime {

/// Imports NumPy's C API; to be called before anything else of this folder. False with a Python exception set.
bool import_numpy();

/// The type number of the arrays that hold this type: NPY_LONG for i64, so an array of `long long` is another type, as
/// its scalars are to Python.
int type_number(ir::DType);
std::optional<ir::DType> dtype_of(int type_number);
/// The class of the NumPy scalars of this type (borrowed): np.float64 for f64, null for bf16, which NumPy has not.
PyTypeObject* scalar_class(ir::DType);
/// NumPy's name: "float64"; torch's for bf16.
const char* numpy_name(ir::DType);

/// The same for complex numbers, by the type of their parts: f32 is that of complex64.
std::optional<ir::DType> complex_part_of(int type_number);
int complex_type_number(ir::DType part);
PyTypeObject* complex_scalar_class(ir::DType part);
const char* complex_name(ir::DType part);

}  // namespace appy::runtime
