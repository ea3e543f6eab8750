// An interpreter with NumPy inside a test program. PYTHONPATH must lead to NumPy.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/numpy.h"
#include "runtime/signature.h"
#include "support/ref.h"

namespace appy::runtime::testing {

/// Starts Python once for the program.
class Python : public ::testing::Environment {
 public:
  void SetUp() override {
    Py_InitializeEx(0);
    if (!import_numpy()) {
      PyErr_Print();
      FAIL() << "numpy cannot be imported; set PYTHONPATH to the site-packages of the virtual environment";
    }
  }
};

/// A frame of its own: the names `locals` bound to the values that the Python code gives them; `globals` is the code's
/// module namespace.
class Frame {
 public:
  Frame(const std::string& source, const std::vector<std::string>& locals) {
    globals_ = Ref::steal(PyDict_New());
    PyDict_SetItemString(globals_.get(), "__builtins__", PyEval_GetBuiltins());
    run("import numpy as np\n" + source);
    std::string function = "def f(";
    for (const std::string& name : locals) function += name + ", ";
    run(function + "): pass");
    code_ = Ref::steal(PyObject_GetAttrString(PyDict_GetItemString(globals_.get(), "f"), "__code__"));
    for (const std::string& name : locals) locals_.push_back(Py_XNewRef(get(name)));
  }
  ~Frame() {
    for (PyObject* value : locals_) Py_XDECREF(value);
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  void run(const std::string& source) {
    Ref done = Ref::steal(PyRun_String(source.c_str(), Py_file_input, globals_.get(), globals_.get()));
    if (!done) PyErr_Print();
    ASSERT_TRUE(done) << source;
  }
  /// A global (borrowed).
  PyObject* get(const std::string& name) { return PyDict_GetItemString(globals_.get(), name.c_str()); }
  /// The value of an expression.
  Ref eval(const std::string& source) {
    Ref value = Ref::steal(PyRun_String(source.c_str(), Py_eval_input, globals_.get(), globals_.get()));
    if (!value) PyErr_Print();
    return value;
  }
  /// Rebinds a local to the value of an expression.
  void set(size_t local, const std::string& source) { bind(local, eval(source).release()); }
  PyObject* local(size_t i) const { return locals_[i]; }
  void bind(size_t i, PyObject* stolen) {
    Py_XDECREF(locals_[i]);
    locals_[i] = stolen;
  }

  Scope scope() {
    return {reinterpret_cast<PyCodeObject*>(code_.get()), locals_.data(), globals_.get(), PyEval_GetBuiltins()};
  }

 private:
  Ref globals_, code_;
  std::vector<PyObject*> locals_;
};

inline Ref text(const char* s) { return Ref::steal(PyUnicode_InternFromString(s)); }

inline Input array_input(int local, ir::DType dtype, int rank, int param, bool written,
                         ir::Layout layout = ir::Layout::strided) {
  Input in;
  in.index = local;
  in.guard = Input::Guard::array;
  in.dtype = dtype;
  in.rank = rank;
  in.param = param;
  in.written = written;
  in.layout = layout;
  in.name = "a" + std::to_string(local);
  return in;
}

inline Input scalar_input(int local, PyScalarType type, int param) {
  Input in;
  in.index = local;
  in.guard = Input::Guard::scalar;
  in.type = type;
  in.param = param;
  in.name = "s" + std::to_string(local);
  return in;
}

constexpr PyScalarType py_int{ScalarKind::py_int, ir::DType::i64_};
constexpr PyScalarType py_float{ScalarKind::py_float, ir::DType::f64_};
constexpr PyScalarType py_bool{ScalarKind::py_bool, ir::DType::bool_};
constexpr PyScalarType np(ir::DType t) { return {ScalarKind::np_scalar, t}; }

}  // namespace appy::runtime::testing
