// Differential testing of the semantics: an operation is traced for operand types, its graph evaluated for many values,
// and value, type or exception compared with what the running Python does for the same operands.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/functions.h"
#include "trace/semantics.h"

namespace appy::trace::testing {

using Operation = std::function<Traced(Context&, std::span<const Traced>)>;

/// An operand of a traced operation: a parameter of a scalar type, a constant, or a parameter that is one of two types.
struct Operand {
  runtime::PyScalarType type;
  Ref constant;                              // set: the operand is this very object
  std::vector<runtime::PyScalarType> types;  // set: tagged
};

/// The result of one side: a value, or the type and text of an exception.
struct Answer {
  Ref value;
  std::string error;     // "ValueError: math domain error"
  bool gave_up = false;  // compiled code only: a check of kind overflow or decline failed
  bool text_matters = true;
};

/// A traced operation. `aborted` says why there is no graph.
class Program {
 public:
  Program(const Operation&, std::span<const Operand>, bool exact);
  ~Program();
  Program(Program&&) noexcept;
  Answer run(std::span<PyObject* const> arguments) const;
  bool aborted() const { return !abort_.empty(); }
  const std::string& abort() const { return abort_; }
  AbortId abort_id() const { return abort_id_; }
  const ir::Graph& graph() const { return *graph_; }

 private:
  struct Result {
    Kind kind;
    runtime::PyScalarType type;
    std::vector<runtime::PyScalarType> types;
    int word = -1, tag = -1;
    Ref object;
    std::vector<Result> items;
  };
  Result flatten(Context&, const Traced&, std::vector<ir::Value*>&);
  Ref rebuild(const Result&, std::span<const ir::Word>) const;

  std::unique_ptr<ir::Graph> graph_;
  std::vector<Operand> operands_;
  Result result_;
  std::string abort_;
  AbortId abort_id_{};
};

/// What Python says: `function` is called with the arguments, warnings ignored.
Answer ask_python(PyObject* function, std::span<PyObject* const> arguments);

/// Empty where the answers agree: same type, same value (floats to `ulps`), or the same exception. Compiled code may
/// give up where Python's int leaves 64 bits or its result is complex, and where `may_decline` says so.
std::string difference(const Answer& python, const Answer& compiled, int ulps, bool may_decline);

/// All scalar types: int, float, bool and NumPy's eleven.
std::vector<runtime::PyScalarType> all_types();
/// Interesting values of a type.
const std::vector<Ref>& values_of(const runtime::PyScalarType&);
/// A new namespace with np, math and scipy.special; evaluates an expression there.
Ref evaluate_python(const std::string& expression);
std::string repr(PyObject*);

/// How a row of a test table is compared.
struct Expectation {
  int ulps = 0;
  bool exact = false;
  std::function<bool(std::span<PyObject* const>)> may_decline;  // empty: never
  /// What a refusal needs to be right: Python raises TypeError or gives a type that does not exist here, or the row
  /// says that it is not supported.
  std::function<bool(std::span<const Operand>)> may_refuse;
};

/// The types that NumPy has.
std::vector<ir::DType> numpy_dtypes();

/// Compares the operation with the Python function for every combination of types and values, with each operand in turn
/// also as a constant. Returns how many answers were compared; differences are test failures.
int compare_all(const std::string& name, const Operation&, PyObject* function, int arity, const Expectation&);

}  // namespace appy::trace::testing
