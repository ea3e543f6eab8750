#include "frame/region.h"

#include <cstddef>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "lower.h"
#include "pycompat/frame.h"
#include "support/abort.h"

namespace appy::frame {

namespace {

struct Region {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  PyObject* weakrefs;
  RegionCache* cache;
  PyObject* layout;  // co_localsplusnames of the last code that called; owned
  RegionParts parts;
};

bool enabled = true;
thread_local LowerNext* lower_next = nullptr;

Region* as_region(PyObject* object) { return reinterpret_cast<Region*>(object); }

/// A copy of a rewritten code object that runs its original statements: its regions are replaced by `bool`, and bool()
/// is False. The copy does not refer to the regions, so that they may own it.
Ref without_regions(PyCodeObject* code) {
  Py_ssize_t size = PyTuple_GET_SIZE(code->co_consts);
  Ref consts = Ref::steal(PyTuple_New(size));
  if (!consts) return {};
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* item = PyTuple_GET_ITEM(code->co_consts, i);
    if (Py_TYPE(item) == region_type()) item = reinterpret_cast<PyObject*>(&PyBool_Type);
    PyTuple_SET_ITEM(consts.get(), i, Py_NewRef(item));
  }
  Ref replace = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(code), "replace"));
  Ref args = Ref::steal(PyTuple_New(0));
  Ref kwargs = Ref::steal(PyDict_New());
  if (!replace || !args || !kwargs || PyDict_SetItemString(kwargs.get(), "co_consts", consts.get()) < 0) return {};
  return Ref::steal(PyObject_Call(replace.get(), args.get(), kwargs.get()));
}

bool attach(Region* region, PyCodeObject* code) {
  Ref copy = without_regions(code);
  if (!copy) return false;
  RegionParts& parts = region->parts;
  parts.options.name = PyUnicode_AsUTF8(code->co_qualname);
  parts.options.file = PyUnicode_AsUTF8(code->co_filename);
  region->cache = new RegionCache(reinterpret_cast<PyCodeObject*>(copy.get()), parts.begin, parts.end, parts.pragmas,
                                  parts.options);
  parts.code = std::move(copy);
  return true;
}

/// The frame's variables stand where this region's code has them.
bool same_layout(Region* region, PyCodeObject* code) {
  if (region->layout == code->co_localsplusnames) return true;
  if (!region->parts.code) return true;
  auto* own = reinterpret_cast<PyCodeObject*>(region->parts.code.get());
  int equal = PyObject_RichCompareBool(own->co_localsplusnames, code->co_localsplusnames, Py_EQ);
  if (equal > 0) equal = PyObject_RichCompareBool(own->co_localspluskinds, code->co_localspluskinds, Py_EQ);
  if (equal < 0) PyErr_Clear();
  if (equal <= 0) return false;
  Py_XSETREF(region->layout, Py_NewRef(code->co_localsplusnames));
  return true;
}

PyObject* answer(Outcome outcome, PyObject* returned) {
  switch (outcome) {
    case Outcome::declined:
      return Py_NewRef(Py_False);
    case Outcome::done:
      return Py_NewRef(Py_True);
    case Outcome::exited: {
      PyObject* boxed = PyTuple_New(1);
      if (!boxed) {
        Py_DECREF(returned);
        return nullptr;
      }
      PyTuple_SET_ITEM(boxed, 0, returned);
      return boxed;
    }
    case Outcome::raised:
      return nullptr;
  }
  return nullptr;
}

void set_error(const std::exception& error) {
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, error.what());
}

}  // namespace

/// One call of a region.
class RegionCall {
 public:
  static PyObject* run(PyObject* self, PyObject* const*, size_t nargsf, PyObject* kwnames) {
    if (PyVectorcall_NARGS(nargsf) != 0 || (kwnames && PyTuple_GET_SIZE(kwnames) != 0)) {
      PyErr_SetString(PyExc_TypeError, "a region takes no arguments");
      return nullptr;
    }
    Region* region = as_region(self);
    appy_frame view;
    if (!enabled || !appy_frame_current(&view) || appy_frame_stepped()) return Py_NewRef(Py_False);
    if (region->layout != view.code->co_localsplusnames && !same_layout(region, view.code)) return Py_NewRef(Py_False);
    try {
      if (!region->cache && !attach(region, view.code)) return nullptr;
      runtime::Scope scope{view.code, view.localsplus, view.globals, view.builtins, view.names};
      if (!region->cache->is_for(scope)) return Py_NewRef(Py_False);
      if (lower_next) return lower(region, scope);
      PyObject* returned = nullptr;
      Outcome outcome = region->cache->enter(scope, &returned);
      return answer(outcome, returned);
    } catch (const std::bad_alloc&) {
      return PyErr_NoMemory();
    } catch (const std::exception& error) {
      set_error(error);
      return nullptr;
    }
  }

 private:
  static PyObject* lower(Region* region, const runtime::Scope& scope) {
    LowerNext* request = std::exchange(lower_next, nullptr);
    try {
      request->lowered_ = region->cache->lower(scope);
    } catch (...) {
      request->error_ = std::current_exception();
    }
    if (!request->lowered_ && region->cache->options().repeats) {
      // Its statements are regions of their own.
      request->error_ = nullptr;
      lower_next = request;
      return Py_NewRef(Py_False);
    }
    PyErr_SetNone(request->stop_);
    return nullptr;
  }
};

LowerNext::LowerNext(PyObject* stop) : stop_(stop), outer_(std::exchange(lower_next, this)) {}
LowerNext::~LowerNext() { lower_next = outer_; }

std::shared_ptr<Lowered> LowerNext::take() {
  if (error_) std::rethrow_exception(error_);
  return std::move(lowered_);
}

namespace {

void dealloc(PyObject* self) {
  Region* region = as_region(self);
  if (region->weakrefs) PyObject_ClearWeakRefs(self);
  delete region->cache;
  Py_XDECREF(region->layout);
  region->parts.~RegionParts();
  Py_TYPE(self)->tp_free(self);
}

PyObject* repr(PyObject* self) {
  const RegionParts& parts = as_region(self)->parts;
  return PyUnicode_FromFormat("<appy region at %s, line %d>", parts.options.file.c_str(), parts.options.line);
}

Py_hash_t hash(PyObject* self) {
  const RegionParts& parts = as_region(self)->parts;
  Py_hash_t h = PyObject_Hash(parts.key.get());
  return h == -1 ? -1 : (h ^ (parts.index + 1)) == -1 ? -2 : h ^ (parts.index + 1);
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(b) != region_type()) Py_RETURN_NOTIMPLEMENTED;
  const RegionParts &x = as_region(a)->parts, &y = as_region(b)->parts;
  int equal = x.index == y.index ? PyObject_RichCompareBool(x.key.get(), y.key.get(), Py_EQ) : 0;
  if (equal < 0) return nullptr;
  return PyBool_FromLong(op == Py_EQ ? equal : !equal);
}

/// (eval, (recipe,)): builtins only, so that it also loads where appy is not installed.
PyObject* reduce(PyObject* self, PyObject*) {
  const RegionParts& parts = as_region(self)->parts;
  PyObject* eval = PyDict_GetItemString(PyEval_GetBuiltins(), "eval");
  if (!eval || !parts.recipe) return PyErr_Format(PyExc_TypeError, "cannot pickle %R", self);
  return Py_BuildValue("O(O)", eval, parts.recipe.get());
}

PyObject* same(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyObject* get_key(PyObject* self, void*) {
  const RegionParts& parts = as_region(self)->parts;
  return Py_BuildValue("(Oi)", parts.key.get(), parts.index);
}

PyObject* get_line(PyObject* self, void*) { return PyLong_FromLong(as_region(self)->parts.options.line); }

PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, nullptr},
    {"__copy__", same, METH_NOARGS, nullptr},
    {"__deepcopy__", same, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"key", get_key, nullptr, "(hash of the code object, index in it)", nullptr},
    {"line", get_line, nullptr, "line of the statement", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject make_type() {
  PyTypeObject type{};
  Py_SET_REFCNT(reinterpret_cast<PyObject*>(&type), 1);
  type.tp_name = "appy._C.Region";
  type.tp_doc = "A compiled statement, in the constants of the function that holds it.";
  type.tp_basicsize = sizeof(Region);
  type.tp_flags =
      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION;
  type.tp_vectorcall_offset = offsetof(Region, vectorcall);
  type.tp_weaklistoffset = offsetof(Region, weakrefs);
  type.tp_call = PyVectorcall_Call;
  type.tp_dealloc = dealloc;
  type.tp_repr = repr;
  type.tp_hash = hash;
  type.tp_richcompare = compare;
  type.tp_methods = methods;
  type.tp_getset = properties;
  return type;
}

PyTypeObject the_type = make_type();

}  // namespace

PyTypeObject* region_type() { return &the_type; }
bool init_region_type() { return PyType_Ready(&the_type) == 0; }

PyObject* make_region(RegionParts parts) {
  PyObject* self = the_type.tp_alloc(&the_type, 0);
  if (!self) return nullptr;
  Region* region = as_region(self);
  region->vectorcall = RegionCall::run;
  new (&region->parts) RegionParts(std::move(parts));
  const RegionParts& own = region->parts;
  if (own.code) {
    auto* code = reinterpret_cast<PyCodeObject*>(own.code.get());
    region->cache = new RegionCache(code, own.begin, own.end, own.pragmas, own.options);
    region->layout = Py_NewRef(code->co_localsplusnames);
  }
  return self;
}

void set_recipe(PyObject* region, PyObject* recipe) { as_region(region)->parts.recipe = Ref::borrow(recipe); }

RegionCache* region_cache(PyObject* region) { return as_region(region)->cache; }

void set_enabled(bool on) { enabled = on; }
bool is_enabled() { return enabled; }

bool frame_reads(PyObject* a, PyObject* b) {
  appy_frame view;
  if (!appy_frame_current(&view) || view.code->co_nlocalsplus < 2) return false;
  return view.localsplus[0] == a && view.localsplus[1] == b && PyDict_CheckExact(view.globals) &&
         view.builtins == PyEval_GetBuiltins() && view.globals == PyEval_GetGlobals();
}

}  // namespace appy::frame
