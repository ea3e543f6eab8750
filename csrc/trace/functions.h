// The table of callables: functions.def names them, functions_*.cpp holds the handlers.
#pragma once

#include "trace/promote.h"

namespace appy::trace {

struct Function {
  const char* module;
  const char* name;  // as the callable's own __name__ has it: np.abs is "absolute"
  int min_args;
  int max_args;  // -1: any number
  Traced (*handler)(Context&, const Function&, std::span<const Traced>);
  Opcode code;
};

using Args = std::span<const Traced>;

/// The callable of a row (borrowed), or null where its module is not loaded or lacks it.
PyObject* callable_of(const Function&);
/// The row of a callable, or null.
const Function* find_function(PyObject* callable);
std::span<const Function> all_functions();

/// Of which of the libraries "numpy", "cupy", "torch" and "appy" the callable is, by its module; null for others.
const char* home_of(PyObject* callable);

/// Refuses what is computed approximately where the region must be exact.
void require_inexact(const Context&, const Function&);

/// What the function says when it is called with this number.
std::string error_text_of(const Function&, double argument);
std::string error_text_of(const Function&, double a, double b);

/// The dtype that an object names: np.float32, "f4", float, a dtype. Empty for others.
std::optional<DType> dtype_named(PyObject*);
/// NumPy's number of the dtype that the object names, in this machine's byte order; nothing for others.
std::optional<int> type_number_named(PyObject*);

/// A call of `self.name(args)`.
Traced call_method(Context&, const Traced& self, const std::string& name, Args);
bool has_method(const Traced& self, std::string_view name);

/// A number as the ufuncs take it: Python's become int64, float64 or bool.
Traced as_numpy(Context&, const Traced&);
/// float(x): the value as f64.
ir::Value* as_double(Context&, const Traced&);
/// An int as __index__ gives it, i64; refuses others.
ir::Value* as_index(Context&, const Traced&);

}  // namespace appy::trace
