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

/// A dtype of torch's. A complex one is told by the type of its parts.
struct TorchType {
  DType dtype = DType::bool_;
  bool complex = false;
  friend bool operator==(const TorchType&, const TorchType&) = default;
};

/// torch.result_type of the operands: tensors with dimensions count before 0-d ones, those before Python's numbers, of
/// which only the category counts. Refuses what torch does not promote.
TorchType torch_result_type(Context&, Args);
/// The same of real operands.
DType torch_type(Context&, Args);

/// The operand in the type.
Traced torch_cast(Context&, const Traced&, DType);

/// The operands of `a op b` in torch's common type; nothing where they have it, or are none of torch's.
std::optional<std::pair<Traced, Traced>> torch_operands(Context&, BinaryOp, const Traced& a, const Traced& b);
/// A sum, product or quotient of a number of 16 bits and Python's: that one is not rounded to 16 bits before; nothing
/// for other operands.
std::optional<Traced> torch_half(Context&, BinaryOp, const Traced& a, const Traced& b);
/// number / tensor, which is the number times the reciprocal; nothing for other operands.
std::optional<Traced> torch_quotient(Context&, const Traced& a, const Traced& b);
/// May an in-place operator store a result of type `from`?
bool torch_casts(DType from, DType to);
std::optional<std::pair<Traced, Traced>> torch_comparands(Context&, const Traced& a, const Traced& b);

// torch_complex.cpp
/// A call of torch's function or method of that name, `self` the first argument, where complex numbers have a part in
/// it; nothing elsewhere.
std::optional<Traced> call_torch_complex(Context&, std::string_view name, Args, Named);

// torch_functions.cpp
/// Is it a function of torch's that is known here?
bool is_torch_function(PyObject* callable);
/// A call of a function of torch's; nothing where it is none.
std::optional<Traced> call_torch(Context&, PyObject* callable, Args, Named);
bool has_torch_method(std::string_view name);
Traced call_torch_method(Context&, const Traced& self, const std::string& name, Args, Named);

/// functions.cpp: NumPy's function of that name on the elements.
Traced call_elementwise(Context&, const char* numpy_name, Args);

}  // namespace appy::trace
