// Parts of the binary operators that functions use too. Operands are untagged scalars.
#pragma once

#include "trace/promote.h"

namespace appy::trace {

/// Division as divmod(a, b) and the operators have it: `both` picks divmod's error text.
struct Quotient {
  ir::Value* floor = nullptr;
  ir::Value* remainder = nullptr;
};

/// a op b of Python ints, floats and bools.
Traced python_binary(Context&, BinaryOp, const Traced& a, const Traced& b);
/// The ufunc's meaning: at least one NumPy scalar, or a call of the ufunc with Python scalars.
Traced numpy_binary(Context&, BinaryOp, const Traced& a, const Traced& b);
/// The comparison ufuncs: exact between integers, in the common type where a float takes part.
ir::Value* numpy_compare(Context&, CompareOp, const Traced& a, const Traced& b);
/// divmod(a, b): a tuple.
Traced divide(Context&, const Traced& a, const Traced& b);

/// x to a constant integral power by multiplications where the region need not be exact, else pow; floats.
ir::Value* float_power(Context&, ir::Value* x, ir::Value* y);

/// The result of a Python int operation: leaves the region where it overflowed.
ir::Value* checked(Context&, Opcode overflow, Opcode code, ir::Value* a, ir::Value* b);

/// Calls Python itself where both operands are Python constants; empty where they are not, or Python raises.
std::optional<Traced> fold(Context&, PyObject* (*call)(PyObject*, PyObject*), const Traced& a, const Traced& b);
std::optional<Traced> fold(Context&, PyObject* (*call)(PyObject*), const Traced& a);
/// The object of a constant that folding may use, or null.
PyObject* python_constant(const Traced&);

}  // namespace appy::trace
