#include "runtime/raise.h"

#include "pycompat/frame.h"
#include "support/ref.h"

namespace appy::runtime {
namespace {

using ir::CheckKind;

PyObject* exception_of(CheckKind kind) {
  switch (kind) {
#define X(name, exception, ninfo) \
  case CheckKind::name##_:        \
    return PyExc_##exception;
#include "ir/checks.def"
#undef X
  }
  return PyExc_RuntimeError;
}

std::string detail(const ir::Check& check) { return check.text.empty() ? ", " : " (" + check.text + "), "; }

std::string message_of(const ir::Check& check, const Failure& failure, const std::string& where) {
  const auto& info = failure.info;
  auto number = [&](size_t i) { return std::to_string(info[i]); };
  switch (check.kind) {
    case CheckKind::bounds_:
      return "index " + number(0) + " is out of bounds for axis " + number(1) + " with size " + number(2);
    case CheckKind::fits_:
      return "Python integer " + number(0) + " out of bounds for " + check.text;
    case CheckKind::unbound_:
      return "cannot access local variable '" + check.text + "' where it is not associated with a value";
    case CheckKind::unbound_free_:
      return "cannot access free variable '" + check.text +
             "' where it is not associated with a value in enclosing scope";
    case CheckKind::unbound_global_:
      return "name '" + check.text + "' is not defined";
    case CheckKind::overflow_:
      return "a Python int left 64 bits at " + where + detail(check) +
             "after compiled code had stored results; use floats or NumPy integers, or move the statement out of the "
             "compiled region";
    case CheckKind::decline_:
      return "compiled code cannot continue at " + where + detail(check) +
             "after it had stored results; move the statement out of the compiled region";
    default:
      return check.text;
  }
}

/// The place in the frame's own function: that of the outermost call, if the op was inlined.
const ir::Loc* location_in_frame(const ir::Graph& graph, ir::LocId id) {
  const ir::Loc* found = nullptr;
  for (; id && id < graph.locs.size(); id = found->inlined_at) found = &graph.locs[id];
  return found;
}

/// `raise E("message")`: the class by the name that the source gives it, as the frame sees it.
PyObject* named_exception(const std::string& name, const Scope& scope) {
  Ref key = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
  PyObject* found = nullptr;
  for (PyObject* names : {scope.globals, scope.builtins})
    if (!found && key && names && PyDict_Check(names)) found = PyDict_GetItemWithError(names, key.get());
  PyErr_Clear();
  bool exception = found && PyExceptionClass_Check(found);
  return exception ? found : PyExc_RuntimeError;
}

void set_exception(PyObject* type, const std::string& message, const std::string& note) {
  Ref text = Ref::steal(PyUnicode_FromStringAndSize(message.data(), static_cast<Py_ssize_t>(message.size())));
  if (!text) return;
  Ref exception = Ref::steal(message.empty() ? PyObject_CallNoArgs(type) : PyObject_CallOneArg(type, text.get()));
  if (!exception) return;
  if (!note.empty()) {
    Ref added = Ref::steal(PyObject_CallMethod(exception.get(), "add_note", "s", note.c_str()));
    if (!added) PyErr_Clear();
  }
  PyErr_SetObject(type, exception.get());
}

}  // namespace

std::string describe_location(const ir::Graph& graph, ir::LocId id) {
  std::string text;
  while (id && id < graph.locs.size()) {
    const ir::Loc& loc = graph.locs[id];
    if (!text.empty()) text += ", called from ";
    text += loc.file + ", line " + std::to_string(loc.line);
    id = loc.inlined_at;
  }
  return text;
}

int64_t iteration_of(const ir::Op& check, const ir::Word* state) {
  int64_t found = -1;
  const auto& operands = check.operands;
  size_t first = 1 + static_cast<size_t>(check.check->ninfo);
  for (const ir::Op* loop = ir::enclosing_loop(*check.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (loop->code != ir::Opcode::for_) continue;
    for (size_t i = first; i < operands.size(); i++)
      if (operands[i] == loop->blocks[0]->args[0]) found = static_cast<int64_t>(state[i - first]);
  }
  return found;
}

bool can_run_again(const ir::Op& check) {
  CheckKind kind = check.check->kind;
  return kind == CheckKind::overflow_ || kind == CheckKind::decline_;
}

void raise_failure(const ir::Op& op, const Failure& failure, const Scope& scope) {
  const ir::Check& check = *op.check;
  std::string where = op.graph ? describe_location(*op.graph, op.loc) : "";
  if (failure.iteration >= 0) where += ", iteration " + std::to_string(failure.iteration);
  std::string note = where.empty() ? "" : "at " + where;
  PyObject* type = exception_of(check.kind);
  if (check.kind == CheckKind::decline_) type = PyExc_RuntimeError;
  std::string message = message_of(check, failure, where);
  if (check.kind == CheckKind::raise_) {
    size_t colon = check.text.find(": ");
    type = named_exception(check.text.substr(0, colon), scope);
    message = colon == std::string::npos ? "" : check.text.substr(colon + 2);
  }
  set_exception(type, message, note);
  if (const ir::Loc* loc = op.graph ? location_in_frame(*op.graph, op.loc) : nullptr)
    appy_frame_fail_at(loc->line, loc->column);
}

}  // namespace appy::runtime
