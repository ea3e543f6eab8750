// Ownership of Python objects in types. The GIL is held wherever these are copied or destroyed.
#pragma once

#include <Python.h>

#include <utility>

namespace appy {

/// An owned reference, or null.
class Ref {
 public:
  Ref() = default;
  Ref(const Ref& other) : object_(Py_XNewRef(other.object_)) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() { Py_XDECREF(object_); }

  /// Takes over a new reference / adds one to a borrowed reference.
  static Ref steal(PyObject* object) {
    Ref r;
    r.object_ = object;
    return r;
  }
  static Ref borrow(PyObject* object) { return steal(Py_XNewRef(object)); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

}  // namespace appy
