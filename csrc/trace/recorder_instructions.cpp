#include "runtime/guards.h"
#include "runtime/numpy.h"
#include "support/abort.h"
#include "support/check.h"
#include "trace/complex.h"
#include "trace/recorder.h"
#include "trace/tensor.h"

namespace appy::trace {

using bytecode::Instruction;
using bytecode::Op;

namespace {

// The exception class and message of a constant exception: `E`, `E("text")`.
bool constant_exception(const Traced& t, std::string& text) {
  if (t.kind != Kind::object) return false;
  PyObject* o = t.object.get();
  const bool type = PyExceptionClass_Check(o);
  if (!type && !PyExceptionInstance_Check(o)) return false;
  PyObject* cls = type ? o : reinterpret_cast<PyObject*>(Py_TYPE(o));
  text = reinterpret_cast<PyTypeObject*>(cls)->tp_name;
  if (!type) {
    Ref message = Ref::steal(PyObject_Str(o));
    const char* words = message ? PyUnicode_AsUTF8(message.get()) : nullptr;
    PyErr_Clear();
    if (words && *words) text += std::string(": ") + words;
  }
  return true;
}

}  // namespace

Traced Recorder::pop() {
  APPY_CHECK(slots_.size() > frame_->stack, "the traced stack is empty");
  Slot s = std::move(slots_.back());
  slots_.pop_back();
  if (s.kind == Slot::Kind::conflict) abort(AbortId::path_types_, s.why);
  if (s.kind != Slot::Kind::value) abort(AbortId::path_types_, "a stack entry depends on the path taken");
  const std::vector<Traced>& parts = s.traced.items;
  const bool complex = s.traced.kind == Kind::complex && !parts.empty();
  if (s.traced.outdated || (complex && parts[0].outdated))
    abort(AbortId::element_, "an element of an array is read before a store to it and used after");
  return std::move(s.traced);
}

Traced Recorder::peek(size_t depth) const {
  APPY_CHECK(slots_.size() >= frame_->stack + depth, "the traced stack is too short");
  const Slot& s = slots_[slots_.size() - depth];
  if (s.kind != Slot::Kind::value) abort(AbortId::path_types_, s.why);
  return s.traced;
}

std::string Recorder::variable_name(int index) const {
  PyObject* names = frame_->code->co_localsplusnames;
  return index < PyTuple_GET_SIZE(names) ? text_of(PyTuple_GET_ITEM(names, index)) : "?";
}

Recorder::Flow Recorder::load_variable(size_t slot, const std::string& name, ir::CheckKind unbound) {
  Slot& s = slots_[slot];
  switch (s.kind) {
    case Slot::Kind::entry:
      push(entry_value(static_cast<int>(slot)));
      break;
    case Slot::Kind::value:
      if (s.maybe_entry) throw Restart{static_cast<int>(slot)};
      push(s.traced);
      break;
    case Slot::Kind::conflict:
      abort(AbortId::path_types_, name + ": " + s.why);
    default:
      abort(AbortId::path_types_, name);
  }
  Traced& t = slots_.back().traced;
  if (t.kind != Kind::unbound && !t.bound) return Flow::next;
  ir::Check check;
  check.kind = unbound;
  check.text = name;
  ir::Value* bound = t.kind == Kind::unbound ? builder_.boolean(false) : t.bound;
  t.bound = nullptr;
  this->check(std::move(check), bound, {});
  if (t.kind == Kind::unbound) return Flow::dead;
  slots_[slot].traced.bound = nullptr;  // from here on it is known to be bound
  return Flow::next;
}

/// Expressions that wait on the stack read arrays as they are now; before a store they are computed.
void Recorder::materialise_pending() {
  for (size_t k = variables_; k < slots_.size(); ++k) {
    if (slots_[k].kind != Slot::Kind::value) continue;
    const Traced pending = slots_[k].traced;
    if (is_complex(pending)) {
      slots_[k].traced = complex_materialised(*this, pending);
    } else if (is_lazy(pending) && !pending.tensor->reads.empty()) {
      slots_[k].traced = materialised(*this, pending);
    }
  }
}

/// What a variable holds of the value: arrays in place of expressions.
Traced Recorder::computed(Traced t) {
  if (is_complex(t)) return complex_materialised(*this, t);
  return is_lazy(t) && !t.tensor->ramp ? materialised(*this, t) : t;
}

void Recorder::store_variable(size_t slot, Traced t) {
  t = computed(std::move(t));
  finish_product(*this);
  if (t.kind == Kind::method || t.kind == Kind::zero_d) abort(AbortId::live_out_, "a bound method or a 0-d array");
  if (t.kind == Kind::list) abort(AbortId::live_out_, "a list");
  slots_[slot] = Slot::of({});
  share(t);
  slots_[slot] = Slot::of(std::move(t));
}

/// `del`, after the variable was loaded: it has to be bound.
Recorder::Flow Recorder::delete_variable(size_t slot, Flow loaded) {
  if (loaded == Flow::dead) return Flow::dead;
  slots_.pop_back();
  slots_[slot] = Slot::of({});
  return Flow::next;
}

Recorder::Flow Recorder::load_deref(int index) {
  const int free = frame_->code->co_nlocalsplus - frame_->code->co_nfreevars;
  if (frame_->function < 0 || index < free) {
    const auto unbound = index < free ? ir::CheckKind::unbound_ : ir::CheckKind::unbound_free_;
    return load_variable(frame_->locals + static_cast<size_t>(index), variable_name(index), unbound);
  }
  // A cell that the region's own function shares with the helper is one of the region's variables.
  PyObject* cell = PyTuple_GET_ITEM(frame_->closure, index - free);
  for (int i = 0; i < scope_.code->co_nlocalsplus; ++i) {
    if (scope_.localsplus[i] != cell) continue;
    return load_variable(static_cast<size_t>(i), variable_name(index), ir::CheckKind::unbound_free_);
  }
  push(closure_value(index - free));
  return Flow::next;
}

void Recorder::unpack(int count) {
  Traced t = pop();
  if (t.kind != Kind::tuple && !(t.kind == Kind::object && PyTuple_Check(t.object.get()))) {
    abort(AbortId::unsupported_type_, "that is unpacked and no tuple");
  }
  std::vector<Traced> items = t.items;
  if (t.kind == Kind::object) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(t.object.get()); ++i) {
      items.push_back(constant(*this, PyTuple_GET_ITEM(t.object.get(), i)));
    }
  }
  if (static_cast<int>(items.size()) != count) abort(AbortId::unpack_, std::to_string(items.size()));
  for (size_t i = items.size(); i-- > 0;) push(std::move(items[i]));
}

void Recorder::load_attribute(const std::string& name, PyObject* key) {
  Traced object = pop();
  const bool module = object.kind == Kind::object && PyModule_Check(object.object.get());
  if (module && PyModule_GetDict(object.object.get()) == scope_.globals && stored_global(key) >= 0) {
    abort(AbortId::attribute_, name + " of a module, a global that the statement assigns,");
  }
  if (object.kind != Kind::object || object.input < 0) {
    push(getattr(*this, object, name));
    return;
  }
  const std::string id = std::to_string(object.input) + "." + name;
  auto found = attributes_.find(id);
  if (found == attributes_.end()) {
    PyObject* value = nullptr;
    if (!runtime::plain_attribute(object.object.get(), key, &value)) {
      push(getattr(*this, object, name));
      return;
    }
    alive_.push_back(Ref::steal(value));
    runtime::Input in;
    in.from = runtime::Input::From::attr;
    in.index = object.input;
    in.key = Ref::borrow(key);
    in.name = signature_.inputs[static_cast<size_t>(object.input)].name + "." + name;
    const bool fixed = PyModule_Check(object.object.get()) || PyType_Check(object.object.get());
    found = attributes_.emplace(id, read(value, std::move(in), fixed)).first;
  }
  Traced t = found->second;
  if (t.kind == Kind::scalar && t.object) {
    t = constant(*this, t.object.get());
    t.input = found->second.input;
  }
  push(std::move(t));
}

bool Recorder::in_atomic_statement(const Instruction& i) const {
  if (frame_->function >= 0) return false;
  for (const pragma::Placed& p : region_.pragmas) {
    if (p.pragma.atomic && i.position.line >= p.line && i.position.line <= p.end_line) return true;
  }
  return false;
}

/// start, stop[, step] from the stack.
Traced Recorder::pop_slice(int count, const Instruction& i) {
  Traced t;
  t.kind = Kind::slice;
  t.named = named_slice(i);
  t.items.assign(3, object(Py_None));
  for (size_t k = static_cast<size_t>(count); k-- > 0;) t.items[k] = pop();
  return t;
}

void Recorder::load_element(const Instruction& i, bool duplicated, Traced container, Traced index) {
  const bool records =
      container.kind == Kind::object && container.input >= 0 && PyArray_CheckExact(container.object.get());
  if (records && index.kind == Kind::object && PyUnicode_CheckExact(index.object.get())) {
    push(field(container, index.object.get()));
    return;
  }
  if (!duplicated || (container.kind != Kind::array && !is_complex(container)) || !in_atomic_statement(i)) {
    push(getitem(*this, container, index));
    if (!duplicated) mark_element(container);
    return;
  }
  if (container.kind == Kind::array) {
    // x[i] is read before the value is computed, and fails first.
    if (gathers(index)) {
      run_in_order(*this);
      push(getitem(*this, container, index));
      return;
    }
    if (!is_tensor_index(container, index)) getitem(*this, container, index);
  }
  Slot s = Slot::of({});
  s.kind = Slot::Kind::element;
  s.traced.kind = Kind::tuple;
  s.traced.items = {std::move(container), std::move(index)};
  slots_.push_back(std::move(s));
}

void Recorder::store_element(const Instruction& i, Traced container, Traced index) {
  if (slots_.back().kind == Slot::Kind::update) {
    Slot s = std::move(slots_.back());
    slots_.pop_back();
    atomic_update(*this, s.op, s.traced.items[0], s.traced.items[1], s.traced.items[2]);
    return;
  }
  Traced value = pop();
  if (!is_tensor(value)) finish_product(*this);
  if (value.kind == Kind::scalar && is_zero_d_array(value) && !value.tag)
    value.kind = Kind::zero_d;                      // which is cast as an array is
  if (in_atomic_statement(i)) run_in_order(*this);  // x[k] = max(x[k], v)
  setitem(*this, container, index, value);
}

// Subscripts and in-place operators, among them the pieces of an atomic update: container[index] is not loaded but kept
// as an element, the operator makes an update of it, and the store performs the update.
Recorder::Flow Recorder::subscript_op(const Instruction& i) {
  switch (i.op) {
    case Op::binary_subscr_: {
      const size_t top = slots_.size();
      const bool duplicated =
          top >= frame_->stack + 4 && same(slots_[top - 1], slots_[top - 3]) && same(slots_[top - 2], slots_[top - 4]);
      Traced index = pop();
      Traced container = pop();
      load_element(i, duplicated, std::move(container), std::move(index));
      return Flow::next;
    }
    case Op::binary_slice_: {
      const size_t top = slots_.size();
      bool duplicated = top >= frame_->stack + 6;
      for (size_t k = 1; duplicated && k <= 3; ++k) duplicated = same(slots_[top - k], slots_[top - k - 3]);
      Traced index = pop_slice(2, i);
      Traced container = pop();
      load_element(i, duplicated, std::move(container), std::move(index));
      return Flow::next;
    }
    case Op::store_slice_: {
      Traced index = pop_slice(2, i);
      Traced container = pop();
      store_element(i, std::move(container), std::move(index));
      return Flow::next;
    }
    case Op::binary_op_: {
      if (slots_.size() >= frame_->stack + 2 && slots_[slots_.size() - 2].kind == Slot::Kind::element) {
        if (!i.arg2) abort(AbortId::atomic_, "an operator inside the update");
        Traced value = pop();
        Slot& s = slots_.back();
        s.kind = Slot::Kind::update;
        s.op = static_cast<BinaryOp>(i.arg);
        s.traced.items.push_back(std::move(value));
        return Flow::next;
      }
      Traced b = pop();
      Traced a = pop();
      const auto op = static_cast<BinaryOp>(i.arg);
      if (i.arg2 && is_complex_tensor(a)) {
        if (op == BinaryOp::matrix_multiply) abort(AbortId::array_statement_, "an in-place matrix product");
        if (is_lazy_complex(a)) {
          push(binary(*this, op, a, b));
          return Flow::next;
        }
        complex_update(*this, op, a, b);
        push(std::move(a));
        return Flow::next;
      }
      if (i.arg2 && (is_tensor(a) || a.kind == Kind::array)) {
        if (op == BinaryOp::matrix_multiply) abort(AbortId::array_statement_, "an in-place matrix product");
        if (is_lazy(a)) {  // an array of the statement's own, as x[idx] in x[idx] += 1
          push(updated(*this, op, a.tensor, b));
          return Flow::next;
        }
        update(*this, op, as_tensor(*this, a), b);
        push(std::move(a));
        return Flow::next;
      }
      push(binary(*this, static_cast<BinaryOp>(i.arg), a, b));
      if (i.arg2) review_in_place(a, slots_.back().traced);
      return Flow::next;
    }
    default: {  // store_subscr
      Traced index = pop();
      Traced container = pop();
      store_element(i, std::move(container), std::move(index));
      return Flow::next;
    }
  }
}

Recorder::Flow Recorder::raise(int count) {
  if (count != 1) abort(AbortId::raise_, "`raise ... from`, or a bare raise");
  Traced t = pop();
  std::string text;
  if (!constant_exception(t, text)) abort(AbortId::raise_, "an exception that is not constant");
  ir::Check check;
  check.kind = ir::CheckKind::raise_;
  check.text = text;
  PyObject* o = t.object.get();
  if (o == PyExc_AssertionError || Py_TYPE(o) == reinterpret_cast<PyTypeObject*>(PyExc_AssertionError)) {
    check.kind = ir::CheckKind::assertion_;
    const size_t colon = text.find(": ");
    check.text = colon == std::string::npos ? "" : text.substr(colon + 2);
  }
  this->check(std::move(check), builder_.boolean(false), {});
  return Flow::dead;
}

/// The condition under which a conditional jump jumps.
ir::Value* Recorder::condition(const Instruction& i, bool& pops_on_jump, bool& pops_on_fall) {
  pops_on_jump = pops_on_fall = true;
  const auto negated = [&](ir::Value* v) {
    if (v->op && v->op->code == ir::Opcode::const_) return builder_.boolean(!v->op->imm);
    return builder_.op(ir::Opcode::not_, {v});
  };
  switch (i.op) {
    case Op::pop_jump_if_true_:
      return truth(*this, peek(1));
    case Op::pop_jump_if_false_:
      return negated(truth(*this, peek(1)));
    case Op::jump_if_true_or_pop_:
      pops_on_jump = false;
      return truth(*this, peek(1));
    case Op::jump_if_false_or_pop_:
      pops_on_jump = false;
      return negated(truth(*this, peek(1)));
    case Op::pop_jump_if_none_:
    case Op::pop_jump_if_not_none_: {
      const Traced t = peek(1);
      const bool none = t.kind == Kind::object && t.object.get() == Py_None;
      return builder_.boolean(none == (i.op == Op::pop_jump_if_none_));
    }
    default:
      abort(AbortId::opcode_, std::string(pycompat::name_of(i.op)));
  }
}

namespace {

/// Does the instruction compute of values, without loops or stores, or store one at the end of an expression? Of a
/// value that is copied, as in `x = y = a @ b`, nobody knows who takes it last.
bool continues_expression(Op op) {
  switch (op) {
    case Op::nop_:
    case Op::push_null_:
    case Op::swap_:
    case Op::load_const_:
    case Op::load_fast_:
    case Op::load_fast_check_:
    case Op::load_global_:
    case Op::load_deref_:
    case Op::load_attr_:
    case Op::unary_negative_:
    case Op::binary_op_:
    case Op::build_slice_:
    case Op::build_tuple_:
    case Op::store_subscr_:
    case Op::store_slice_:
    case Op::store_fast_:
      return true;
    default:
      return false;
  }
}

}  // namespace

Recorder::Flow Recorder::step(const Instruction& i) {
  if (!continues_expression(i.op)) finish_product(*this);
  PyObject* consts = frame_->code->co_consts;
  PyObject* names = frame_->code->co_names;
  follow_statement(i);
  const auto name = [&] { return PyTuple_GET_ITEM(names, i.arg); };
  const size_t local = frame_->locals + static_cast<size_t>(i.arg);
  switch (i.op) {
    case Op::nop_:
    case Op::jump_:
      return Flow::next;
    case Op::pop_top_:
      if (slots_.size() <= frame_->stack) abort(AbortId::control_flow_, "a return out of many nested blocks");
      slots_.pop_back();
      return Flow::next;
    case Op::push_null_: {
      Traced t;
      t.kind = Kind::null;
      push(std::move(t));
      return Flow::next;
    }
    case Op::copy_: {
      Slot s = slots_[slots_.size() - static_cast<size_t>(i.arg)];
      slots_.push_back(std::move(s));
      return Flow::next;
    }
    case Op::swap_:
      if (slots_.size() < frame_->stack + static_cast<size_t>(i.arg)) {
        abort(AbortId::control_flow_, "a return out of many nested blocks");
      }
      std::swap(slots_.back(), slots_[slots_.size() - static_cast<size_t>(i.arg)]);
      return Flow::next;
    case Op::load_const_:
      push(constant(*this, PyTuple_GET_ITEM(consts, i.arg)));
      return Flow::next;
    case Op::load_assertion_error_:
      push(object(PyExc_AssertionError));
      return Flow::next;
    case Op::load_fast_:
    case Op::load_fast_check_:
      return load_variable(local, variable_name(i.arg), ir::CheckKind::unbound_);
    case Op::load_deref_:
      return load_deref(i.arg);
    case Op::store_deref_:
    case Op::delete_deref_:
      if (frame_->function >= 0 && i.arg >= frame_->code->co_nlocalsplus - frame_->code->co_nfreevars) {
        abort(AbortId::helper_store_, variable_name(i.arg));
      }
      if (i.op == Op::delete_deref_) return delete_variable(local, load_deref(i.arg));
      store_variable(local, pop());
      return Flow::next;
    case Op::store_fast_:
      store_variable(local, pop());
      return Flow::next;
    case Op::delete_fast_:
      return delete_variable(local, load_variable(local, variable_name(i.arg), ir::CheckKind::unbound_));
    case Op::load_global_: {
      Traced null;
      null.kind = Kind::null;
      if (i.arg2 == 1) push(null);
      if (load_global(name()) == Flow::dead) return Flow::dead;
      if (i.arg2 == 2) push(null);
      return Flow::next;
    }
    case Op::store_global_:
    case Op::delete_global_: {
      if (frame_->function >= 0) abort(AbortId::helper_store_, text_of(name()));
      if (i.op == Op::delete_global_) abort(AbortId::opcode_, "DELETE_GLOBAL");
      store_variable(static_cast<size_t>(stored_global(name())), pop());
      return Flow::next;
    }
    case Op::load_attr_:
      load_attribute(text_of(name()), name());
      return Flow::next;
    case Op::load_method_: {
      load_attribute(text_of(name()), name());
      Traced null;
      null.kind = Kind::null;
      push(std::move(null));
      std::swap(slots_.back(), slots_[slots_.size() - 2]);
      return Flow::next;
    }
    case Op::binary_op_:
    case Op::binary_subscr_:
    case Op::store_subscr_:
    case Op::binary_slice_:
    case Op::store_slice_:
      return subscript_op(i);
    case Op::build_slice_:
      push(pop_slice(i.arg, i));
      return Flow::next;
    case Op::unary_negative_:
      push(unary(*this, UnaryOp::negative, pop()));
      return Flow::next;
    case Op::unary_positive_:
      push(unary(*this, UnaryOp::positive, pop()));
      return Flow::next;
    case Op::unary_invert_:
      push(unary(*this, UnaryOp::invert, pop()));
      return Flow::next;
    case Op::unary_not_:
      push(unary(*this, UnaryOp::not_, pop()));
      return Flow::next;
    case Op::to_bool_:
      push(scalar(runtime::ScalarKind::py_bool, truth(*this, pop())));
      return Flow::next;
    case Op::compare_op_:
    case Op::is_op_:
    case Op::contains_op_: {
      Traced b = pop();
      Traced a = pop();
      push(i.op == Op::compare_op_ ? compare(*this, static_cast<CompareOp>(i.arg), a, b)
           : i.op == Op::is_op_    ? identity(*this, a, b, i.arg != 0)
                                   : contains(*this, a, b, i.arg != 0));
      return Flow::next;
    }
    case Op::build_tuple_:
    case Op::build_list_: {
      Traced t;
      t.kind = i.op == Op::build_tuple_ ? Kind::tuple : Kind::list;
      t.items.resize(static_cast<size_t>(i.arg));
      for (size_t k = t.items.size(); k-- > 0;) t.items[k] = pop();
      push(std::move(t));
      return Flow::next;
    }
    case Op::unpack_sequence_:
      unpack(i.arg);
      return Flow::next;
    case Op::get_iter_:
      if (peek(1).kind != Kind::range) abort(AbortId::iterable_);
      return Flow::next;
    case Op::kw_names_:
      frame_->keywords = PyTuple_GET_ITEM(consts, i.arg);
      return Flow::next;
    case Op::call_: {
      PyObject* keywords = std::exchange(frame_->keywords, nullptr);
      return call(i.arg, keywords);
    }
    case Op::call_kw_: {
      const Traced t = pop();
      Ref names = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(t.items.size())));
      for (size_t k = 0; k < t.items.size(); ++k) {
        PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(k), Py_NewRef(t.items[k].object.get()));
      }
      alive_.push_back(names);
      return call(i.arg, names.get());
    }
    case Op::raise_varargs_:
      return raise(i.arg);
    case Op::unsupported_:
      abort(AbortId::opcode_, pycompat::raw_name(i.arg));
    default:
      abort(AbortId::opcode_, std::string(pycompat::name_of(i.op)));
  }
}

}  // namespace appy::trace
