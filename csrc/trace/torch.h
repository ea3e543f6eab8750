// What torch's operators and functions mean where they differ from NumPy's: types above all. The operands are brought
// to torch's common type first; on operands of one type NumPy's operations are torch's.
#pragma once

#include <optional>
#include <string_view>
#include <utility>

#include "trace/tensor_call.h"

namespace appy::trace {

/// A tensor, or an element of one.
bool is_torch(const Context&, const Traced&);

/// torch.result_type of the operands: tensors with dimensions count before 0-d ones, those before Python's numbers, of
/// which only the category counts. Refuses what torch does not promote.
DType torch_type(Context&, Args);

/// The operand in the type.
Traced torch_cast(Context&, const Traced&, DType);

/// The operands of `a op b` in torch's common type; nothing where they have it, or are none of torch's.
std::optional<std::pair<Traced, Traced>> torch_operands(Context&, BinaryOp, const Traced& a, const Traced& b);
/// number / tensor, which is the number times the reciprocal; nothing for other operands.
std::optional<Traced> torch_quotient(Context&, const Traced& a, const Traced& b);
/// May an in-place operator store a result of type `from`?
bool torch_casts(DType from, DType to);
std::optional<std::pair<Traced, Traced>> torch_comparands(Context&, const Traced& a, const Traced& b);

// torch_functions.cpp
/// A call of a function of torch's; nothing where it is none.
std::optional<Traced> call_torch(Context&, PyObject* callable, Args, Named);
bool has_torch_method(std::string_view name);
Traced call_torch_method(Context&, const Traced& self, const std::string& name, Args, Named);

/// functions.cpp: NumPy's function of that name on the elements.
Traced call_elementwise(Context&, const char* numpy_name, Args);

}  // namespace appy::trace
