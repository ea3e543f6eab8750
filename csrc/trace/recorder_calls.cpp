// Calls: builtins and library functions by the semantics, plain Python functions by tracing through them.
#include <algorithm>

#include "support/abort.h"
#include "trace/complex.h"
#include "trace/recorder.h"
#include "trace/recorder_loop.h"
#include "trace/tensor.h"

namespace appy::trace {

namespace {

constexpr int max_depth = 16;

// Builtin exceptions are made at once: `raise ValueError("text")`.
bool is_builtin_exception(const Traced& t) {
  if (t.kind != Kind::object || !PyExceptionClass_Check(t.object.get())) return false;
  return !(reinterpret_cast<PyTypeObject*>(t.object.get())->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

Recorder::Flow Recorder::call(int count, PyObject* names) {
  std::vector<Traced> args(static_cast<size_t>(count));
  for (size_t i = args.size(); i-- > 0;) args[i] = pop();
  Traced second = pop(), first = pop();
  Traced callable = std::move(first);
  if (callable.kind == Kind::null) {
    callable = std::move(second);
  } else if (second.kind != Kind::null) {
    args.insert(args.begin(), std::move(second));
  }
  std::vector<std::pair<std::string, Traced>> named;
  if (names) {
    const size_t n = static_cast<size_t>(PyTuple_GET_SIZE(names));
    for (size_t i = 0; i < n; ++i) {
      named.emplace_back(text_of(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i))),
                         std::move(args[args.size() - n + i]));
    }
    args.resize(args.size() - n);
  }

  if (is_builtin_exception(callable) && named.empty()) {
    Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i].object) abort(AbortId::raise_, "an exception with a message that is not constant");
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i].object.get()));
    }
    Ref made = Ref::steal(PyObject_Call(callable.object.get(), tuple.get(), nullptr));
    if (!made) {
      PyErr_Clear();
      abort(AbortId::raise_, "the exception");
    }
    push(object(made.get()));
    return Flow::next;
  }
  if (callable.kind == Kind::object && PyFunction_Check(callable.object.get())) {
    if (std::optional<Traced> known = trace::call(*this, callable, args, named)) {
      push(std::move(*known));
      return Flow::next;
    }
    return inline_call(callable, std::move(args), std::move(named));
  }
  std::optional<Traced> result = trace::call(*this, callable, args, named);
  if (!result) abort(AbortId::call_, "an object that is no plain Python function");
  const bool of_arrays = std::any_of(args.begin(), args.end(), [](const Traced& t) {
    return t.kind == Kind::array || t.kind == Kind::tensor || t.kind == Kind::method || t.is_np() ||
           (is_complex(t) && (t.value || !t.items[0].is_py_float()));
  });
  const bool method = callable.kind == Kind::method;
  const bool numpy = is_complex(*result) && !result->value ? result->items[0].is_np() : result->is_np();
  if (numpy && !of_arrays && !method) numpy_scalars_ = true;  // np.float64(1), np.sqrt(2.0)
  // min() and max() give one of their arguments back.
  if (result->is_scalar() && callable.kind == Kind::object && PyCFunction_Check(callable.object.get())) {
    for (const Traced& t : args) {
      if (t.element_of) result->element_of = &any_array;
    }
    if (!is_zero_d_array(*result)) result->element_of = nullptr;
  }
  push(std::move(*result));
  return Flow::next;
}

const Code& Recorder::code_of(PyCodeObject* code) {
  std::unique_ptr<Code>& known = codes_[code];
  if (!known) {
    known = std::make_unique<Code>();
    known->instructions = bytecode::instructions(code);
    known->cfg =
        std::make_unique<bytecode::Cfg>(known->instructions, 0, static_cast<int>(known->instructions.size()), true);
  }
  return *known;
}

/// The locals of the call as Python binds them.
std::vector<Slot> Recorder::bind(const Traced& function, std::vector<Traced>& args,
                                 std::vector<std::pair<std::string, Traced>>& named) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.object.get());
  auto* code = reinterpret_cast<PyCodeObject*>(f->func_code);
  const std::string name = text_of(f->func_name);
  const size_t positional = static_cast<size_t>(code->co_argcount);
  const size_t all = positional + static_cast<size_t>(code->co_kwonlyargcount);
  std::vector<Slot> locals(static_cast<size_t>(code->co_nlocalsplus), Slot::of({}));
  if (args.size() > positional) abort(AbortId::arguments_, name);
  const auto given = [&](size_t i) { return locals[i].traced.kind != Kind::unbound; };
  for (size_t i = 0; i < args.size(); ++i) locals[i] = Slot::of(std::move(args[i]));
  for (auto& [key, value] : named) {
    size_t at = static_cast<size_t>(code->co_posonlyargcount);
    while (at < all && key != text_of(PyTuple_GET_ITEM(code->co_localsplusnames, static_cast<Py_ssize_t>(at)))) ++at;
    if (at == all || given(at)) abort(AbortId::arguments_, name);
    locals[at] = Slot::of(std::move(value));
  }
  const size_t defaults = f->func_defaults ? static_cast<size_t>(PyTuple_GET_SIZE(f->func_defaults)) : 0;
  for (size_t i = 0; i < all; ++i) {
    if (given(i)) continue;
    PyObject* value = nullptr;
    if (i < positional && i + defaults >= positional) {
      value = PyTuple_GET_ITEM(f->func_defaults, static_cast<Py_ssize_t>(i + defaults - positional));
    } else if (i >= positional && f->func_kwdefaults) {
      value =
          PyDict_GetItem(f->func_kwdefaults, PyTuple_GET_ITEM(code->co_localsplusnames, static_cast<Py_ssize_t>(i)));
    }
    if (!value) abort(AbortId::arguments_, name);
    locals[i] = Slot::of(constant(*this, value));
  }
  return locals;
}

Recorder::Flow Recorder::inline_call(const Traced& function, std::vector<Traced> args,
                                     std::vector<std::pair<std::string, Traced>> named) {
  auto* f = reinterpret_cast<PyFunctionObject*>(function.object.get());
  auto* code = reinterpret_cast<PyCodeObject*>(f->func_code);
  const std::string name = text_of(f->func_name);
  if (depth_ >= max_depth) abort(AbortId::recursion_, std::to_string(max_depth));
  constexpr int other_kinds = CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if (code->co_flags & other_kinds) abort(AbortId::function_kind_, name);
  if (function.input < 0) abort(AbortId::call_, name);
  if (!bytecode::handlers(code).empty()) abort(AbortId::handler_);
  const Code& text = code_of(code);
  if (text.instructions.empty()) abort(AbortId::call_, name);
  if (!text.cfg->fault().empty()) abort(AbortId::control_flow_, text.cfg->fault());

  Frame callee;
  callee.code = code;
  callee.text = &text;
  callee.globals = f->func_globals;
  callee.builtins = f->func_builtins;
  callee.closure = f->func_closure;
  callee.function = function.input;
  callee.inlined_at = builder_.loc();
  callee.file = text_of(code->co_filename);
  callee.caller = frame_;
  callee.locals = slots_.size();
  // A parameter is a variable: what it holds has been computed.
  const auto is_list = [](const Traced& t) { return t.kind == Kind::list; };
  if (std::any_of(args.begin(), args.end(), is_list)) abort(AbortId::live_out_, "a list");
  for (const auto& [key, t] : named) {
    if (is_list(t)) abort(AbortId::live_out_, "a list");
  }
  for (Traced& t : args) t = computed(std::move(t));
  for (auto& [key, t] : named) t = computed(std::move(t));
  std::vector<Slot> locals = bind(function, args, named);
  slots_.insert(slots_.end(), locals.begin(), locals.end());
  callee.result = slots_.size();
  slots_.emplace_back();
  callee.stack = slots_.size();

  const ir::LocId loc = builder_.loc();
  const int line = line_;
  ++depth_;
  frame_ = &callee;
  Stops stops(text.cfg->nodes().size(), false);
  for (size_t n = 0; n < stops.size(); ++n) stops[n] = text.cfg->nodes()[n].kind != bytecode::Node::Kind::block;
  Outcome o = execute(text.cfg->entry(), std::move(slots_), stops);
  frame_ = callee.caller;
  --depth_;
  builder_.set_loc(loc);
  line_ = line;
  if (o.targets.empty()) return Flow::dead;
  slots_ = std::move(o.slots);
  Slot value = std::move(slots_[callee.result]);
  slots_.resize(callee.locals);
  slots_.push_back(std::move(value));
  return Flow::next;
}

}  // namespace appy::trace
