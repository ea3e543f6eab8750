// NEP 50: result types of NumPy's operations, and operands converted to them.
#pragma once

#include <span>

#include "trace/emit.h"

namespace appy::trace {

/// NumPy's common type of two dtypes.
DType promote(DType, DType);

/// The common type of scalars as ufuncs see them: Python ints and floats are weak, bools count as np.bool. Python
/// scalars alone give int64, float64 or bool.
DType common_type(std::span<const Traced* const>);
DType common_type(const Traced& a, const Traced& b);

/// The operand in that type, as NumPy converts operands: a Python int that does not fit an integer type is an
/// OverflowError, conversions to floating point round.
ir::Value* to_dtype(Context&, const Traced&, DType);

/// The float type in which NumPy computes an elementary function of a `t`: the first that holds all its values.
DType float_type(DType t);
/// The same for two arguments.
DType float_type(const Traced& a, const Traced& b);

/// A Python int beyond 64 bits, or null.
PyObject* big_int(const Traced&);
/// The operand as a scalar: a big int and a 0-d array become one where `other` allows it; refuses what is no number.
/// `for_compare` keeps out-of-range ints from being refused.
Traced number(Context&, const Traced&, const Traced* other = nullptr);

}  // namespace appy::trace
