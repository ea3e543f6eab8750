#include "runtime/guards.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/alias.h"
#include "runtime/numpy.h"
#include "runtime/scalar.h"

namespace appy::runtime {
namespace {

using From = Input::From;
using Guard = Input::Guard;

bool same_constant(PyObject* object, PyObject* expected) {
  if (object == expected) return true;
  if (Py_TYPE(object) != Py_TYPE(expected)) return false;
  if (PyLong_CheckExact(expected) || PyUnicode_CheckExact(expected))
    return PyObject_RichCompareBool(object, expected, Py_EQ) == 1;
  ComplexValue x, y;
  if (read_complex(expected, &x)) {
    return read_complex(object, &y) && std::memcmp(&x.re, &y.re, sizeof x.re) == 0 &&
           std::memcmp(&x.im, &y.im, sizeof x.im) == 0;
  }
  auto type = scalar_type_of(expected);
  ir::Word a, b;
  return type && read_word(object, *type, &a) && read_word(expected, *type, &b) && a == b;
}

PyObject* look_up(PyObject* dict, PyObject* key) {
  PyObject* found = PyDict_CheckExact(dict) ? PyDict_GetItemWithError(dict, key) : nullptr;
  if (!found && PyErr_Occurred()) PyErr_Clear();
  return found;
}

bool is_records(PyObject* object) {
  return PyArray_CheckExact(object) && PyDataType_HASFIELDS(PyArray_DESCR(reinterpret_cast<PyArrayObject*>(object)));
}

Extent numpy_extent(PyObject* object) {
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  static_assert(sizeof(npy_intp) == sizeof(int64_t));
  return {PyArray_BYTES(array), PyArray_NDIM(array), PyArray_SHAPE(array), PyArray_STRIDES(array),
          PyArray_ITEMSIZE(array)};
}

bool same_view(const Extent& a, const Extent& b) {
  if (a.data != b.data || a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; d++)
    if (a.shape[d] != b.shape[d] || (a.strides[d] != b.strides[d] && a.shape[d] > 1)) return false;
  return true;
}

}  // namespace

void Entry::hold(size_t count) {
  for (size_t i = 0; i < count; i++) Py_XINCREF(objects[i]);
  held_ = count;
}

void Entry::release() {
  for (size_t i = 0; i < held_; i++) Py_XDECREF(objects[i]);
  held_ = 0;
  for (PyObject* object : fresh_) Py_DECREF(object);
  fresh_.clear();
  streams.clear();
}

/// What a function was when it was traced; its attributes can be assigned to later.
struct Guards::Function {
  Ref code, defaults, kwdefaults, globals;

  explicit Function(PyFunctionObject* f)
      : code(Ref::borrow(f->func_code)),
        defaults(Ref::borrow(f->func_defaults)),
        kwdefaults(Ref::borrow(f->func_kwdefaults)),
        globals(Ref::borrow(f->func_globals)) {}
  bool is(PyFunctionObject* f) const {
    return f->func_code == code.get() && f->func_defaults == defaults.get() && f->func_kwdefaults == kwdefaults.get() &&
           f->func_globals == globals.get();
  }
};

Guards::Guards(const Signature& signature, const ir::Graph& graph, const Scope& scope) : may_alias_(graph.may_alias) {
  std::vector<int> offsets;
  for (const ir::Value* param : graph.body->args) {
    offsets.push_back(static_cast<int>(words_));
    words_ += ir::words_of(param->type);
  }
  for (const Input& in : signature.inputs) {
    Step step;
    step.from = in.from;
    step.guard = in.guard;
    step.index = in.index;
    step.position = in.position;
    step.size = in.size;
    step.key = in.key;
    step.object = in.object;
    step.scalar = in.type;
    step.range = in.range;
    step.same_view_as = in.same_view_as;
    if (in.param >= 0 && in.same_view_as < 0) step.word = offsets[static_cast<size_t>(in.param)];
    step.complex = in.complex;
    if (in.guard == Guard::scalar) step.cls = in.complex ? complex_class_of(in.type) : class_of(in.type);
    if (in.guard == Guard::array) {
      step.library = in.library;
      step.device = in.device;
      step.dtype = in.dtype;
      step.item_size = ir::size_of(in.dtype) * (in.complex ? 2 : 1);
      if (in.library != Library::numpy) {
        step.cls = reinterpret_cast<PyTypeObject*>(in.object.get());
        foreign_ = true;
      }
      step.number = in.complex ? complex_type_number(in.dtype) : type_number(in.dtype);
      step.rank = in.rank;
      step.flags = in.aligned ? NPY_ARRAY_ALIGNED : 0;
      if (in.written) step.flags |= NPY_ARRAY_WRITEABLE;
      if (in.layout == ir::Layout::c || in.layout == ir::Layout::pairs) step.flags |= NPY_ARRAY_C_CONTIGUOUS;
      if (in.layout == ir::Layout::f) step.flags |= NPY_ARRAY_F_CONTIGUOUS;
      for (size_t d = 0; d < in.single.size(); d++) {
        step.asked |= uint64_t{in.single[d] != Input::Single::unasked} << d;
        step.single |= uint64_t{in.single[d] == Input::Single::yes} << d;
      }
      step.inner = in.layout == ir::Layout::inner && !in.complex;
    }
    if (in.from == From::global) step.in_globals = look_up(scope.globals, in.key.get()) != nullptr;
    if (PyObject* object = in.object.get(); in.guard == Guard::function && object && PyFunction_Check(object)) {
      functions_.push_back(std::make_unique<Function>(reinterpret_cast<PyFunctionObject*>(object)));
      step.function = functions_.back().get();
    }
    names_.push_back(in.name);
    steps_.push_back(std::move(step));
  }
  for (const AskedExtent& asked : signature.asked) (asked.single ? single_ : not_single_).push_back(asked.extent);
  settled_ = signature.settled;
  names_.push_back("an extent of 1");
  const auto& inputs = signature.inputs;
  for (size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i].guard != Guard::array || inputs[i].same_view_as >= 0) continue;
    bool i_written = inputs[i].written;
    // A view that shares this one's parameter is this one.
    for (const Input& other : inputs)
      if (other.guard == Guard::array && other.same_view_as == static_cast<int>(i)) i_written |= other.written;
    const ir::Layout layout = inputs[i].layout;
    if (i_written && layout != ir::Layout::c && layout != ir::Layout::f && layout != ir::Layout::pairs)
      solo_.push_back(static_cast<int>(i));
    for (size_t j = 0; j < inputs.size(); j++) {
      if (j == i || inputs[j].guard != Guard::array || inputs[j].same_view_as >= 0) continue;
      if (i_written && !(j < i && inputs[j].written)) pairs_.push_back({static_cast<int>(i), static_cast<int>(j)});
    }
  }
}

Guards::~Guards() = default;

bool Guards::read(const Step& step, const Scope& scope, Entry& entry, PyObject** object) const {
  auto at = static_cast<size_t>(step.index);
  switch (step.from) {
    case From::fast:
      *object = scope.localsplus[at];
      return true;
    case From::cell: {
      PyObject* cell = scope.localsplus[at];
      if (!cell || !PyCell_Check(cell)) return false;
      *object = PyCell_GET(cell);
      return true;
    }
    case From::global:
      *object = look_up(scope.globals, step.key.get());
      if ((*object != nullptr) != step.in_globals) return false;
      if (!*object) *object = look_up(scope.builtins, step.key.get());
      return true;
    case From::builtin:
      *object = look_up(scope.builtins, step.key.get());
      return look_up(scope.globals, step.key.get()) == nullptr;
    case From::item: {
      PyObject* tuple = entry.objects[at];
      if (!tuple || !PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) <= step.position) return false;
      *object = PyTuple_GET_ITEM(tuple, step.position);
      return true;
    }
    case From::field: {
      PyObject* records = entry.objects[at];
      if (!records || !is_records(records)) return false;
      *object = PyObject_GetItem(records, step.key.get());
      if (!*object) {
        PyErr_Clear();
        return false;
      }
      entry.keep(*object);
      return true;
    }
    case From::closure: {
      PyObject* function = entry.objects[at];
      PyObject* closure = function && PyFunction_Check(function) ? PyFunction_GET_CLOSURE(function) : nullptr;
      if (!closure || PyTuple_GET_SIZE(closure) <= step.position) return false;
      *object = PyCell_GET(PyTuple_GET_ITEM(closure, step.position));
      return true;
    }
    case From::attr: {
      PyObject* parent = entry.objects[at];
      if (!parent) return false;
      if (PyModule_CheckExact(parent)) {
        if ((*object = look_up(PyModule_GetDict(parent), step.key.get()))) return true;
      }
      if (!plain_attribute(parent, step.key.get(), object)) {
        *object = nullptr;
        return step.guard == Guard::absent;
      }
      entry.keep(*object);
      return true;
    }
  }
  return false;
}

bool Guards::pass(const Step& step, PyObject* object, Entry& entry, Compared compared) const {
  if (!object) return step.guard == Guard::absent;
  switch (step.guard) {
    case Guard::absent:
      return false;
    case Guard::is:
      return object == step.object.get();
    case Guard::function:
      return PyFunction_Check(object) && step.function &&
             step.function->is(reinterpret_cast<PyFunctionObject*>(object));
    case Guard::tuple:
      return PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == step.size;
    case Guard::records:
      return is_records(object);
    case Guard::constant:
      return same_constant(object, step.object.get());
    case Guard::scalar: {
      if (Py_TYPE(object) != step.cls) return false;
      if (step.complex) {
        ComplexValue value;
        if (!read_complex(object, &value)) return false;
        const auto word = [&](double part) {
          return convert_word(ir::DType::f64_, graph_type(value.type), std::bit_cast<ir::Word>(part));
        };
        entry.args[static_cast<size_t>(step.word)] = word(value.re);
        entry.args[static_cast<size_t>(step.word) + 1] = word(value.im);
        return true;
      }
      ir::Word word;
      if (!read_word(object, step.scalar, &word)) return false;
      if (compared == Compared::all && step.scalar.kind == ScalarKind::py_int) {
        auto value = static_cast<int64_t>(word);
        if (value < step.range.lo || value > step.range.hi) return false;
      }
      if (step.word >= 0) entry.args[static_cast<size_t>(step.word)] = word;
      return true;
    }
    case Guard::array:
      break;
  }
  if (step.library != Library::numpy) return pass_foreign(step, object, entry, compared);
  if (!PyArray_CheckExact(object)) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(object);
  PyArray_Descr* descr = PyArray_DESCR(array);
  if (descr->type_num != step.number || !PyArray_ISNBO(descr->byteorder)) return false;
  if (PyArray_NDIM(array) != step.rank || (PyArray_FLAGS(array) & step.flags) != step.flags) return false;
  const npy_intp *shape = PyArray_SHAPE(array), *strides = PyArray_STRIDES(array);
  auto rank = static_cast<size_t>(step.rank);
  if (step.inner && rank && shape[rank - 1] > 1 && strides[rank - 1] != descr->elsize && PyArray_SIZE(array))
    return false;
  for (size_t d = 0; compared != Compared::types && step.asked >> d; d++)
    if ((step.asked >> d & 1) && (shape[d] == 1) != (step.single >> d & 1)) return false;
  if (step.same_view_as >= 0) {
    return object == entry.objects[static_cast<size_t>(step.same_view_as)] ||
           same_view(numpy_extent(object), extent_of(entry, step.same_view_as));
  }
  if (step.word < 0) return true;
  ir::Word* word = &entry.args[static_cast<size_t>(step.word)];
  *word++ = reinterpret_cast<ir::Word>(PyArray_BYTES(array));
  for (size_t d = 0; d < rank; d++) *word++ = static_cast<ir::Word>(shape[d]);
  if (step.complex) *word++ = 2;
  for (size_t d = 0; d < rank; d++) *word++ = static_cast<ir::Word>(strides[d]);
  if (step.complex) *word++ = static_cast<ir::Word>(descr->elsize / 2);
  return true;
}

bool Guards::pass_foreign(const Step& step, PyObject* object, Entry& entry, Compared compared) const {
  if (Py_TYPE(object) != step.cls) return false;
  ForeignArray a;
  if (read_array(step.library, object, &a)) return false;
  if (a.dtype != step.dtype || a.complex != step.complex || a.rank != step.rank || a.device != step.device)
    return false;
  if ((step.flags & NPY_ARRAY_WRITEABLE) && !a.writeable) return false;
  if ((step.flags & NPY_ARRAY_ALIGNED) && !a.is_aligned()) return false;
  if ((step.flags & NPY_ARRAY_C_CONTIGUOUS) && !a.is_contiguous(false)) return false;
  if ((step.flags & NPY_ARRAY_F_CONTIGUOUS) && !a.is_contiguous(true)) return false;
  if (step.inner && !a.is_inner()) return false;
  const auto rank = static_cast<size_t>(step.rank);
  for (size_t d = 0; compared != Compared::types && step.asked >> d; d++)
    if ((step.asked >> d & 1) && (a.shape[d] == 1) != (step.single >> d & 1)) return false;
  if (a.owner) entry.keep(a.owner.release());
  if (a.stream) entry.streams.push_back(a.stream);
  if (step.same_view_as >= 0) {
    const Extent own{a.data, a.rank, a.shape.data(), a.strides.data(), a.item_size()};
    return same_view(own, extent_of(entry, step.same_view_as));
  }
  if (step.word < 0) return true;
  ir::Word* word = &entry.args[static_cast<size_t>(step.word)];
  *word++ = reinterpret_cast<ir::Word>(a.data);
  for (size_t d = 0; d < rank; d++) *word++ = static_cast<ir::Word>(a.shape[d]);
  if (step.complex) *word++ = 2;
  for (size_t d = 0; d < rank; d++) *word++ = static_cast<ir::Word>(a.strides[d]);
  if (step.complex) *word++ = static_cast<ir::Word>(ir::size_of(step.dtype));
  return true;
}

/// Of an array with argument words.
Extent Guards::extent_of(const Entry& entry, int input) const {
  const Step& step = steps_[static_cast<size_t>(input)];
  const auto* words = reinterpret_cast<const int64_t*>(&entry.args[static_cast<size_t>(step.word)]);
  // A complex array's words have a dimension more, of the parts.
  return {reinterpret_cast<const char*>(words[0]), step.rank, words + 1, words + 1 + step.rank + step.complex,
          step.item_size};
}

bool Guards::overlapping(const Entry& entry) const {
  for (int i : solo_)
    if (overlaps_itself(extent_of(entry, i))) return true;
  for (auto [a, b] : pairs_)
    if (overlap(extent_of(entry, a), extent_of(entry, b))) return true;
  return false;
}

int Guards::first_mismatch(const Scope& scope, Entry& entry, Compared compared) const {
  entry.release();
  entry.args.reserve(words_);
  PyObject** objects = entry.objects.reserve(steps_.size());
  for (size_t i = 0; i < steps_.size(); i++) {
    objects[i] = nullptr;
    bool passes = read(steps_[i], scope, entry, &objects[i]);
    // Reading an array of another library may run code, which may drop what the frame has.
    if (foreign_ && objects[i]) entry.keep(Py_NewRef(objects[i]));
    passes = passes && pass(steps_[i], objects[i], entry, compared);
    if (!passes) return static_cast<int>(i);
  }
  if (compared != Compared::all) return -1;
  const auto differs = [&](const ir::Formula& extent) { return extent(entry.args.data()) != 1; };
  if (std::any_of(single_.begin(), single_.end(), differs)) return static_cast<int>(steps_.size());
  return -1;
}

bool Guards::match(const Scope& scope, Entry& entry) const {
  return first_mismatch(scope, entry) < 0 && overlapping(entry) == may_alias_;
}

bool Guards::matches_sizes(const Scope& scope, Entry& entry) const {
  return match(scope, entry) && std::all_of(settled_.begin(), settled_.end(), [&](const ir::Formula& condition) {
           return condition(entry.args.data()) != 0;
         });
}

bool Guards::is_for_sizes(const Scope& scope) const {
  Entry entry;
  return matches_sizes(scope, entry);
}

bool Guards::fits(const Scope& scope) const {
  Entry entry;
  return matches_sizes(scope, entry) &&
         std::none_of(not_single_.begin(), not_single_.end(),
                      [&](const ir::Formula& extent) { return extent(entry.args.data()) == 1; });
}

bool Guards::matches_beside_ranges(const Scope& scope) const {
  Entry entry;
  return first_mismatch(scope, entry, Compared::beside_ranges) < 0;
}

bool Guards::matches_types(const Scope& scope) const {
  Entry entry;
  return first_mismatch(scope, entry, Compared::types) < 0;
}

bool Guards::overlaps(const Scope& scope) const {
  Entry entry;
  return first_mismatch(scope, entry) < 0 && overlapping(entry);
}

std::string Guards::mismatch(const Scope& scope) const {
  Entry entry;
  int i = first_mismatch(scope, entry);
  if (i >= 0) return names_[static_cast<size_t>(i)].empty() ? "an input" : names_[static_cast<size_t>(i)];
  return overlapping(entry) == may_alias_ ? "" : "overlapping arrays";
}

int plain_attribute(PyObject* object, PyObject* name, PyObject** value) {
  *value = nullptr;
  PyTypeObject* type = Py_TYPE(object);
  if (PyDict_CheckExact(object)) {
    *value = Py_XNewRef(look_up(object, name));
  } else if (PyModule_CheckExact(object)) {
    *value = Py_XNewRef(look_up(PyModule_GetDict(object), name));
  } else if (PyFunction_Check(object) && PyUnicode_CompareWithASCIIString(name, "__globals__") == 0) {
    *value = Py_NewRef(reinterpret_cast<PyFunctionObject*>(object)->func_globals);
  } else if (PyType_CheckExact(object)) {
    // A class attribute; a metaclass's own descriptors (__name__, ...) are not plain.
    if (!_PyType_Lookup(&PyType_Type, name))
      *value = Py_XNewRef(_PyType_Lookup(reinterpret_cast<PyTypeObject*>(object), name));
    if (*value && Py_TYPE(*value)->tp_descr_get) Py_CLEAR(*value);
  } else if (type->tp_getattro == PyObject_GenericGetAttr) {
    PyObject* found = _PyType_Lookup(type, name);
    bool plain = !found || !Py_TYPE(found)->tp_descr_get || Py_TYPE(found) == &PyMemberDescr_Type;
    if (plain) *value = PyObject_GenericGetAttr(object, name);
    if (!*value) PyErr_Clear();
  }
  return *value != nullptr;
}

}  // namespace appy::runtime
