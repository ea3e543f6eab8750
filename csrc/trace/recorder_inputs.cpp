// Values of the frame: each becomes an input with its guard, scalars and arrays a parameter as well.
#include "pycompat/locals.h"
#include "runtime/device_arrays.h"
#include "runtime/scalar.h"
#include "support/abort.h"
#include "trace/complex.h"
#include "trace/recorder.h"

namespace appy::trace {

using runtime::Input;

namespace {

/// The range that the guard of a Python int promises: few classes, so that few versions are compiled.
ir::Range class_of(int64_t v) {
  constexpr int64_t small = int64_t{1} << 31;
  if (v < -small || v >= small) return {};
  return {v < 0 ? -small : 0, small - 1};
}

}  // namespace

int Recorder::add_input(Input in) {
  signature_.inputs.push_back(std::move(in));
  arrays_.emplace_back();
  return static_cast<int>(signature_.inputs.size()) - 1;
}

int Recorder::parameter(ir::Type type, const std::string& name, ir::Range range) {
  ir::Value* v = ir::add_arg(*graph_->body, type);
  v->range = range;
  // Names of parameters are unique and made of letters, digits and underscores.
  for (char c : name) v->name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  for (const ir::Value* other : graph_->body->args) {
    if (other != v && other->name == v->name) v->name += "_" + std::to_string(v->index);
  }
  return static_cast<int>(v->index);
}

/// The traced value of an object of the frame; `constant`: a scalar is guarded by its value.
Traced Recorder::read(PyObject* value, Input in, bool fixed) {
  if (!value) {
    in.guard = Input::Guard::absent;
    add_input(std::move(in));
    return {};
  }
  const std::string name = in.name;
  if (auto type = runtime::scalar_type_of(value)) {
    numpy_scalars_ |= type->kind == runtime::ScalarKind::np_scalar;
    if (fixed) {
      in.guard = Input::Guard::constant;
      in.object = Ref::borrow(value);
      in.type = *type;
      const int index = add_input(std::move(in));
      Traced t = constant(*this, value);
      t.input = index;
      return t;
    }
    ir::Word word = 0;
    if (!runtime::read_word(value, *type, &word)) abort(AbortId::big_int_, name);
    in.guard = Input::Guard::scalar;
    in.type = *type;
    if (type->kind == runtime::ScalarKind::py_int && !region_.any_int) in.range = class_of(static_cast<int64_t>(word));
    in.param = parameter(ir::scalar(runtime::graph_type(*type)), name, in.range);
    Traced t;
    t.kind = Kind::scalar;
    t.type = *type;
    t.value = graph_->body->args[static_cast<size_t>(in.param)];
    if (!ir::is_real(t.value->type.dtype)) samples_.scalar(t.value, static_cast<int64_t>(word));
    t.input = add_input(std::move(in));
    return t;
  }
  runtime::ComplexValue number;
  if (runtime::read_complex(value, &number)) {
    numpy_scalars_ |= number.type.kind == runtime::ScalarKind::np_scalar;
    in.complex = true;
    in.type = number.type;
    if (fixed) {
      in.guard = Input::Guard::constant;
      in.object = Ref::borrow(value);
      add_input(std::move(in));
      return constant(*this, value);
    }
    in.guard = Input::Guard::scalar;
    const ir::Type part = ir::scalar(runtime::graph_type(number.type));
    in.param = parameter(part, name + "_re");
    const int imaginary = parameter(part, name + "_im");  // follows the real part
    const auto item = [&](int param) { return make(number.type, graph_->body->args[static_cast<size_t>(param)]); };
    Traced t = complex_of(item(in.param), item(imaginary));
    add_input(std::move(in));
    return t;
  }
  if (const std::optional<runtime::Library> library = runtime::library_of(value)) {
    return read_array(*library, value, std::move(in));
  }
  if (PyTuple_CheckExact(value)) {
    in.guard = Input::Guard::tuple;
    in.size = static_cast<int>(PyTuple_GET_SIZE(value));
    const int size = in.size;
    const int index = add_input(std::move(in));
    Traced t;
    t.kind = Kind::tuple;
    t.input = index;
    for (int i = 0; i < size; ++i) {
      Input item;
      item.from = Input::From::item;
      item.index = index;
      item.position = i;
      item.name = name + "[" + std::to_string(i) + "]";
      t.items.push_back(read(PyTuple_GET_ITEM(value, i), std::move(item), fixed));
    }
    return t;
  }
  const bool function = PyFunction_Check(value);
  in.guard = function ? Input::Guard::function : Input::Guard::is;
  in.object = Ref::borrow(value);
  const int index = add_input(std::move(in));
  Traced t = object(value);
  t.input = index;
  return t;
}

Traced Recorder::field(const Traced& records, PyObject* name) {
  const std::string id = std::to_string(records.input) + "[" + text_of(name) + "]";
  auto found = attributes_.find(id);
  if (found == attributes_.end()) {
    PyObject* value = PyObject_GetItem(records.object.get(), name);
    if (!value) {
      PyErr_Clear();
      abort(AbortId::subscript_, "by a name that is no field");
    }
    alive_.push_back(Ref::steal(value));
    Input in;
    in.from = Input::From::field;
    in.index = records.input;
    in.key = Ref::borrow(name);
    in.name = signature_.inputs[static_cast<size_t>(records.input)].name + "[\"" + text_of(name) + "\"]";
    found = attributes_.emplace(id, read(value, std::move(in), false)).first;
  }
  return found->second;
}

PyObject* Recorder::entry_object(int variable) const {
  if (variable >= scope_.code->co_nlocalsplus) {
    return PyDict_GetItem(scope_.globals, stored_globals_[static_cast<size_t>(variable - scope_.code->co_nlocalsplus)]);
  }
  PyObject* value = scope_.localsplus[variable];
  const bool cell = value && PyCell_Check(value) && pycompat::is_cell(scope_.code, variable);
  return cell ? PyCell_GET(value) : value;
}

Traced Recorder::entry_value(int variable) {
  if (auto found = entry_values_.find(variable); found != entry_values_.end()) return found->second;
  Input in;
  PyObject* value = entry_object(variable);
  if (variable < scope_.code->co_nlocalsplus) {
    in.index = variable;
    in.name = text_of(PyTuple_GET_ITEM(scope_.code->co_localsplusnames, variable));
    PyObject* held = scope_.localsplus[variable];
    if (held != value) in.from = Input::From::cell;
  } else {
    PyObject* name = stored_globals_[static_cast<size_t>(variable - scope_.code->co_nlocalsplus)];
    in.from = Input::From::global;
    in.key = Ref::borrow(name);
    in.name = text_of(name);
  }
  const auto known = entry_variables_.find(variable);
  return entry_values_[variable] = read(value, std::move(in), known != entry_variables_.end() && known->second);
}

Slot Recorder::settled(const Slot& s, size_t index) const {
  if (s.kind != Slot::Kind::entry) return s;
  auto found = entry_values_.find(static_cast<int>(index));
  return found == entry_values_.end() ? s : Slot::of(found->second);
}

/// The input of the globals of the function that is inlined.
int Recorder::function_globals() {
  constexpr const char* name = "__globals__";
  const std::string id = std::to_string(frame_->function) + "." + name;
  auto found = attributes_.find(id);
  if (found == attributes_.end()) {
    Input in;
    in.from = Input::From::attr;
    in.index = frame_->function;
    in.key = Ref::steal(PyUnicode_InternFromString(name));
    in.name = signature_.inputs[static_cast<size_t>(frame_->function)].name + "." + name;
    in.guard = Input::Guard::is;
    in.object = Ref::borrow(frame_->globals);
    Traced t;
    t.input = add_input(std::move(in));
    found = attributes_.emplace(id, std::move(t)).first;
  }
  return found->second.input;
}

Traced Recorder::closure_value(int index) {
  const std::string id = std::to_string(frame_->function) + ".__closure__[" + std::to_string(index) + "]";
  auto found = attributes_.find(id);
  if (found == attributes_.end()) {
    PyObject* cell = PyTuple_GET_ITEM(frame_->closure, index);
    Input contents;
    contents.from = Input::From::closure;
    contents.index = frame_->function;
    contents.position = index;
    contents.name = text_of(PyTuple_GET_ITEM(frame_->code->co_localsplusnames,
                                             frame_->code->co_nlocalsplus - frame_->code->co_nfreevars + index));
    if (!PyCell_GET(cell)) abort(AbortId::unbound_, contents.name);
    found = attributes_.emplace(id, read(PyCell_GET(cell), std::move(contents), false)).first;
  }
  return found->second;
}

int Recorder::stored_global(PyObject* name) const {
  for (size_t g = 0; g < stored_globals_.size(); ++g) {
    if (PyUnicode_Compare(stored_globals_[g], name) == 0) return scope_.code->co_nlocalsplus + static_cast<int>(g);
  }
  return -1;
}

Recorder::Flow Recorder::load_global(PyObject* name) {
  const int slot = frame_->globals == scope_.globals ? stored_global(name) : -1;
  if (slot < 0) {
    push(global_value(name));
    return Flow::next;
  }
  const Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.kind == Slot::Kind::entry) entry_value(slot);
  const Slot now = settled(s, static_cast<size_t>(slot));
  // Where the global is not bound, the name is that of a builtin.
  const bool may_be_unbound = !now.maybe_entry && (now.traced.kind == Kind::unbound || now.traced.bound);
  if (may_be_unbound && PyDict_GetItem(scope_.builtins, name)) abort(AbortId::unbound_, text_of(name));
  return load_variable(static_cast<size_t>(slot), text_of(name), ir::CheckKind::unbound_global_);
}

/// A global that the region does not store to.
Traced Recorder::global_value(PyObject* name) {
  const std::string text = text_of(name);
  const bool own = frame_->globals == scope_.globals;
  const std::string id = (own ? "" : std::to_string(frame_->function)) + ":" + text;
  auto found = globals_.find(id);
  if (found == globals_.end()) {
    Input in;
    in.key = Ref::borrow(name);
    in.name = text;
    PyObject* value = PyDict_GetItem(frame_->globals, name);
    if (own) {
      in.from = value ? Input::From::global : Input::From::builtin;
    } else {
      in.from = Input::From::attr;
      in.index = function_globals();
      if (!value) {
        // Nothing of that name in the helper's module: that, and what builtins has.
        Input absent = in;
        absent.guard = Input::Guard::absent;
        add_input(std::move(absent));
        if (PyDict_GetItem(scope_.globals, name)) abort(AbortId::call_, text);
        in.from = Input::From::builtin;
      }
    }
    if (!value) value = PyDict_GetItem(frame_->builtins, name);
    if (!value) abort(AbortId::unbound_, text);
    found = globals_.emplace(id, read(value, std::move(in), false)).first;
  }
  return found->second;
}

}  // namespace appy::trace
