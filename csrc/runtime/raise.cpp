#include "runtime/raise.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

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

using Shapes = std::vector<std::vector<int64_t>>;

/// What stands before the ranks in a check's text: "into", "dot", "matmul" or nothing.
std::string_view word_of(const ir::Check& check) {
  return std::string_view(check.text).substr(0, check.text.find_first_of("0123456789"));
}

/// The shapes among the info words, by the ranks in the text.
Shapes shapes_of(const ir::Check& check, const Failure& failure) {
  Shapes shapes;
  auto word = failure.info.begin();
  for (size_t at = word_of(check).size(); at < check.text.size(); at = check.text.find_first_of(',', at) + 1) {
    shapes.emplace_back(word, word + (check.text[at] - '0'));
    word += check.text[at] - '0';
    if (check.text.find(',', at) == std::string::npos) break;
  }
  return shapes;
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t d = 0; d < shape.size(); d++) text += (d ? "," : "") + std::to_string(shape[d]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

/// Do the shapes broadcast, because something that changes from run to run is 1?
bool broadcast(const ir::Check& check, const Failure& failure) {
  const Shapes shapes = shapes_of(check, failure);
  std::vector<int64_t> common;  // from the last dimension on
  const bool into = word_of(check) == "into";
  if (into) common.assign(shapes[1].rbegin(), shapes[1].rend());
  for (const std::vector<int64_t>& shape : shapes) {
    for (size_t d = 0; d < shape.size(); d++) {
      const int64_t extent = shape[shape.size() - 1 - d];
      if (d == common.size()) common.push_back(1);
      if (extent == 1 || extent == common[d]) continue;
      // What is assigned to keeps its extents.
      if (common[d] != 1 || into) return false;
      common[d] = extent;
    }
  }
  return true;
}

std::string shape_message(const ir::Check& check, const Failure& failure) {
  const Shapes shapes = shapes_of(check, failure);
  const std::string_view word = word_of(check);
  if (word == "into") {
    return "could not broadcast input array from shape " + text_of(shapes[0]) + " into shape " + text_of(shapes[1]);
  }
  const auto extent = [&](size_t k, size_t d) { return std::to_string(shapes[k][d]); };
  if (word == "dot") {
    const size_t last = shapes[0].size() - 1, first = shapes[1].size() > 1 ? shapes[1].size() - 2 : 0;
    return "shapes " + text_of(shapes[0]) + " and " + text_of(shapes[1]) + " not aligned: " + extent(0, last) +
           " (dim " + std::to_string(last) + ") != " + extent(1, first) + " (dim " + std::to_string(first) + ")";
  }
  if (word == "matmul") {
    return "matmul: Input operand 1 has a mismatch in its core dimension 0, with gufunc signature "
           "(n?,k),(k,m?)->(n?,m?) (size " +
           extent(1, 0) + " is different from " + extent(0, shapes[0].size() - 1) + ")";
  }
  std::string text = "operands could not be broadcast together with shapes ";
  for (const auto& shape : shapes) text += text_of(shape) + " ";
  return text;
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
    case CheckKind::mask_:
      return "boolean index did not match indexed array along axis " + number(0) + "; size of axis is " + number(1) +
             " but size of corresponding boolean axis is " + number(2);
    case CheckKind::broadcast_:
    case CheckKind::aligned_:
      return shape_message(check, failure);
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

namespace {

LateError error_of(const ir::Op& op, const Failure& failure, PyObject* named) {
  ir::Check check = *op.check;
  if (check.kind == CheckKind::broadcast_ && broadcast(check, failure)) {
    check.kind = CheckKind::decline_;  // no error: an extent that happens to be 1
    check.text = "";
  }
  std::string where = op.graph ? describe_location(*op.graph, op.loc) : "";
  if (failure.iteration >= 0) where += ", iteration " + std::to_string(failure.iteration);
  std::string note = where.empty() ? "" : "at " + where;
  PyObject* type = exception_of(check.kind);
  if (check.kind == CheckKind::decline_) type = PyExc_RuntimeError;
  std::string message = message_of(check, failure, where);
  if (check.kind == CheckKind::raise_) {
    size_t colon = check.text.find(": ");
    type = named ? named : PyExc_RuntimeError;
    message = colon == std::string::npos ? "" : check.text.substr(colon + 2);
  }
  return {Ref::borrow(type), std::move(message), std::move(note)};
}

Ref& device_error_class(bool memory) {
  static auto& classes = *new std::array<Ref, 2>;  // outlive the interpreter
  return classes[memory];
}

}  // namespace

void raise(const LateError& error) { set_exception(error.type.get(), error.message, error.note); }

LateError late_error(const ir::Op& check, const Failure& failure, PyObject* named, const std::string& region,
                     int device) {
  LateError error = error_of(check, failure, named);
  error.note += (error.note.empty() ? "in " : ", in ") + region + ", which device " + std::to_string(device) +
                " ran after the call had returned";
  return error;
}

PyObject* class_raised_by(const ir::Op& check, const Scope& scope) {
  if (check.check->kind != CheckKind::raise_) return nullptr;
  return named_exception(check.check->text.substr(0, check.check->text.find(": ")), scope);
}

void set_device_errors(PyObject* error, PyObject* memory) {
  device_error_class(false) = Ref::borrow(error);
  device_error_class(true) = Ref::borrow(memory);
}

void raise_device_error(bool out_of_memory, const std::string& message) {
  PyObject* type = device_error_class(out_of_memory).get();
  PyErr_SetString(type ? type : PyExc_RuntimeError, message.c_str());
}

void raise_failure(const ir::Op& op, const Failure& failure, const Scope& scope) {
  raise(error_of(op, failure, class_raised_by(op, scope)));
  if (const ir::Loc* loc = op.graph ? location_in_frame(*op.graph, op.loc) : nullptr)
    appy_frame_fail_at(loc->line, loc->column);
}

}  // namespace appy::runtime
