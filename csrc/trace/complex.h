// Complex numbers are pairs of real values: the graph has no type for them. A traced complex number (Kind::complex) has
// the real and the imaginary part as items, scalars or tensors; the parts of Python's are Python floats, those of
// NumPy's are np.float32 or np.float64. A complex array in memory is a real one with a last dimension of two elements.
#pragma once

#include <optional>
#include <utility>

#include "trace/tensor.h"

namespace appy::trace {

inline bool is_complex(const Traced& t) { return t.kind == Kind::complex; }
bool any_complex(std::span<const Traced>);
Traced complex_of(Traced re, Traced im);
/// The array that holds these pairs as a value.
Traced complex_array(const Traced& pairs);
/// The parts of a complex value; those of a real one are it and zero.
std::pair<Traced, Traced> parts_of(Context&, const Traced&);
/// An array, a part of one, or an expression of arrays.
bool is_complex_tensor(const Traced&);
/// Such an expression that is no part of one complex array.
bool is_lazy_complex(const Traced&);
/// The type of the parts of a complex dtype, or empty.
std::optional<DType> complex_part(PyObject* dtype);
/// np.complex64 or np.complex128, by the type of the parts (borrowed).
PyTypeObject* complex_class(DType part);

// complex.cpp: numbers and elements.
Traced complex_binary(Context&, BinaryOp, const Traced&, const Traced&);
Traced complex_compare(Context&, CompareOp, const Traced&, const Traced&);
Traced complex_unary(Context&, UnaryOp, const Traced&);
ir::Value* complex_truth(Context&, const Traced&);
/// The function of that name (`ufunc`: NumPy's) on elements, or empty.
std::optional<Traced> complex_function(Context&, std::string_view name, bool ufunc, std::span<const Traced>);
/// Both parts in the type, which is NumPy's.
Traced complex_cast(Context&, const Traced&, DType part);

// complex_arrays.cpp
Traced complex_getitem(Context&, const Traced& container, const Traced& index);
void complex_setitem(Context&, const Traced& container, const Traced& index, const Traced& value);
void complex_atomic(Context&, BinaryOp, const Traced& container, const Traced& index, const Traced& value);
/// target op= value in place.
void complex_update(Context&, BinaryOp, const Traced& target, const Traced& value);
Traced complex_materialised(Context&, const Traced&);
/// A fresh array for the shape, contents unspecified.
Traced complex_allocate(Context&, DType part, std::span<ir::Value* const> shape);
/// target[...] = value
void complex_assign(Context&, const Traced& target, const Traced& value);
Traced complex_copy(Context&, const Traced&);
Traced complex_where(Context&, std::span<const Traced> condition_and_choices);
Traced complex_sum(Context&, const Traced&, const Axes&);
Traced complex_mean(Context&, const Traced&, const Axes&);
/// The product of all elements.
Traced complex_prod(Context&, const Traced&);
Traced complex_attribute(Context&, const Traced&, std::string_view name);
Traced complex_matmul(Context&, const Traced& a, const Traced& b);
/// Calls that take complex numbers or arrays, or give some; empty for others.
std::optional<Traced> call_complex(Context&, const Traced& callable, std::span<const Traced> args,
                                   std::span<const std::pair<std::string, Traced>> kwargs);

}  // namespace appy::trace
