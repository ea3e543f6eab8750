// A traced value: what Python has on its stack or in a local, as far as the tracer knows it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/ir.h"
#include "runtime/signature.h"
#include "support/ref.h"

namespace appy::trace {

enum class Kind : uint8_t {
  unbound,
  scalar,   // `type` and `value`; the Python type may depend on the path (`tag`)
  array,    // `value` is a view; `writeable`
  tuple,    // `items`
  range,    // `items`: start, stop, step as py_int scalars
  object,   // `object` itself is known: function, module, type, None, str, slice of constants, dtype, ...
  method,   // `items[0]` is self, `name` the attribute: x.sum, i.bit_length
  null,     // the NULL that CPython pushes for calls
  tensor,   // `tensor`: part of an array, or an expression of arrays that has not been computed (tensor.h)
  list,     // `items`; of a list display, on the stack only
  slice,    // `items`: start, stop, step
  complex,  // complex.h: `items` are the parts, or `value` is a whole array of pairs
  zero_d,   // `type` (a NumPy scalar's) and `value`: a 0-d array that is no variable, as np.where returns for scalars
};

struct Tensor;
/// Stands for an array that is not known.
extern const ir::Value any_array;
}  // namespace appy::trace
namespace appy::pragma {
struct NamedSlice;
}
namespace appy::trace {

struct Traced {
  Kind kind = Kind::unbound;
  runtime::PyScalarType type;  // scalar
  ir::Value* value = nullptr;  // scalar, array
  /// scalar: an i64 index into `types` where the Python type depends on the path; null: it is `type`. `type` then is a
  /// type whose numeric values hold every alternative exactly, or np.uint64, whose words hold the bits of each.
  ir::Value* tag = nullptr;
  std::vector<runtime::PyScalarType> types;
  /// With a tag: for each of `types` the constant that it stands for wherever the value has this type, or null. Empty:
  /// none is known.
  std::vector<Ref> constants;
  /// integer scalar: the very same number as a float value, where there is one (an alternative of a tagged float).
  ir::Value* as_float = nullptr;
  /// scalar: an i1 that is false where the variable is unbound on some path; null: bound.
  ir::Value* bound = nullptr;
  std::vector<Traced> items;
  Ref object;        // object; scalar that is a compile-time constant: the Python object itself
  std::string name;  // method
  std::shared_ptr<const Tensor> tensor;
  const pragma::NamedSlice* named = nullptr;  // slice: where it stands in a statement with a tensor pragma
  int input = -1;                             // the signature input it came from, where it is one unchanged
  bool writeable = true;                      // array
  /// scalar that to Python is a 0-d array of CuPy or torch: the array whose memory it shares (`any_array`: not known
  /// which); it was stored to since; another variable holds the same object.
  const ir::Value* element_of = nullptr;
  bool outdated = false;
  bool shared = false;

  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_py_int() const { return is_scalar() && !tag && type.kind == runtime::ScalarKind::py_int; }
  bool is_py_float() const { return is_scalar() && !tag && type.kind == runtime::ScalarKind::py_float; }
  bool is_py_bool() const { return is_scalar() && !tag && type.kind == runtime::ScalarKind::py_bool; }
  bool is_np() const { return is_scalar() && !tag && type.kind == runtime::ScalarKind::np_scalar; }
};

Traced scalar(runtime::ScalarKind, ir::Value*);  // dtype from the value's type
Traced np_scalar(ir::Value*);
Traced object(PyObject* borrowed);

}  // namespace appy::trace
