// What a specialization takes from the frame and leaves in it. The tracer writes a Signature next to the graph; the
// dispatcher checks its inputs on every entry, flattens them to the kernel's argument words, and writes the outputs.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/formula.h"
#include "ir/ir.h"
#include "support/ref.h"

namespace appy::runtime {

/// The frame of the function that holds the region. `localsplus` is CPython's array of locals, cells and free
/// variables; an entry of a cell variable holds the cell object.
struct Scope {
  PyCodeObject* code = nullptr;
  PyObject** localsplus = nullptr;
  PyObject* globals = nullptr;
  PyObject* builtins = nullptr;
  /// What LOAD_NAME and STORE_NAME use first: the module's globals, or what `exec` or a class body has; null in
  /// functions.
  PyObject* names = nullptr;
};

/// Whose an array is. It says what operations on the array mean, and who makes new arrays beside it.
enum class Library : uint8_t {
  numpy,
  cupy,
  torch,
  interface,  // something else with __cuda_array_interface__
  dlpack,     // something else with __dlpack__
};

/// Where arrays lie: on the device of this number, or in the host's memory.
constexpr int host_memory = -1;

/// The Python type of a scalar: int, float, bool or the NumPy scalar type of `dtype`.
enum class ScalarKind : uint8_t { py_int, py_float, py_bool, np_scalar };
struct PyScalarType {
  ScalarKind kind = ScalarKind::py_int;
  ir::DType dtype = ir::DType::i64_;
  friend bool operator==(const PyScalarType&, const PyScalarType&) = default;
};

/// One thing read at entry, and what must hold of it for the specialization to be valid. Inputs form a forest: `item`
/// and `attr` hang on an earlier input.
struct Input {
  enum class From : uint8_t {
    fast,     // localsplus[index]
    cell,     // contents of the cell localsplus[index]
    global,   // globals[key], else builtins[key] (a guard on which of the two found it)
    builtin,  // builtins[key], and globals has no such key
    item,     // inputs[index] is a tuple; element `position`
    field,    // inputs[index] is an array of records; the view of field `key`
    attr,     // getattr(inputs[index], key); the parent is a module, type or instance guarded by `is`
    closure,  // inputs[index] is a plain Python function; contents of its closure cell `position`
  };
  enum class Guard : uint8_t {
    absent,    // the local or cell is unbound, the global does not exist
    is,        // the very object `object` (functions, modules, types, None, strings, dtypes, ...)
    function,  // a plain Python function with the same code, defaults, keyword defaults and globals (each compared by
               // identity) as the function `object`
    tuple,     // a tuple of `size` elements
    scalar,    // exact type `type`; a py_int lies in `range`; the value goes to parameter `param`
    constant,  // a scalar equal in type and value to `object` (the trace used the value)
    records,   // exact numpy.ndarray of records; guarded are the fields that are read
    array,     // exact numpy.ndarray, or where `library` is another one exact type `object` on `device`; native byte
               // order, aligned where `aligned`, dtype, rank and at least `layout`; writeable if `written`
  };
  From from = From::fast;
  int index = 0;
  int position = 0;
  Ref key;
  Guard guard = Guard::is;
  Ref object;
  int size = 0;
  PyScalarType type;
  /// scalar, constant: a complex number whose parts are of `type`; the imaginary one goes to the parameter after
  /// `param`. array: of complex numbers with parts of `dtype`; the parameter has one dimension more than `rank`.
  bool complex = false;
  ir::Range range;
  ir::DType dtype = ir::DType::f64_;
  int rank = 0;
  ir::Layout layout = ir::Layout::strided;
  bool written = false;
  bool aligned = true;  // array: every element lies at a multiple of its alignment
  Library library = Library::numpy;
  int device = host_memory;
  /// array: of which dimensions the trace has asked whether they have extent 1, which is then guarded.
  enum class Single : uint8_t { unasked, yes, no };
  std::vector<Single> single;
  int param = -1;         // the graph parameter it feeds (scalar, array), or -1
  int same_view_as = -1;  // array: an earlier array input with the same data, shape and strides; it shares its param
  std::string name;       // for messages: "x", "self.data", "dims[0]"
};

/// One thing written after the region.
struct Output {
  enum class To : uint8_t {
    fast,
    cell,
    global,
    ret,  // the value that the function returns where the region was left through exit `index`
  } to = To::fast;
  int index = 0;  // localsplus index; ret: the exit
  Ref name;       // global
  /// result: the region result that holds the scalar's word; -1: the output is the array of slot `alloc`, or the object
  /// of input `input`, or, where these are -1 too, `object` itself. All unset: the variable becomes unbound.
  int result = -1;
  int input = -1;
  int alloc = -1;
  Ref object;
  /// Region result (i64), or -1: says which array the output is where that depends on the path taken or on how early
  /// the region was left. The four above count for nothing then.
  int which = -1;
  /// The output is a view of the array that `input` or `alloc` says, where `which` is 0. The region results that follow
  /// `which` are the start in each dimension of the array, and then the extents of the view. Dimension k of the array
  /// is read in steps of axes[k].step along dimension axes[k].dim of the view, or at its start alone where that is -1.
  struct Axis {
    int dim = -1;
    int64_t step = 1;
  };
  bool view = false;
  std::vector<Axis> axes;
  int rank = 0;
  bool writeable = true;
  static constexpr int64_t keep = -1;             // what `which` may be: the variable stays as it was,
  static constexpr int64_t unbind = -2;           // becomes unbound,
  static constexpr int64_t first_slot = 1000000;  // below: the object of that input; from here on: slot which - first
  /// Where `bound` is false the variable becomes unbound instead of keeping what it had.
  bool unset = false;
  PyScalarType type;
  /// Region results, or -1: `bound` is false (0) where Python leaves the variable as it was before the region
  /// (unbound or otherwise); `tag` holds an index into `types` where the Python type depends on the path taken.
  int bound = -1;
  int tag = -1;
  /// Region result, or -1: the scalar is a complex number whose parts are of the type, and this is the imaginary one.
  int imaginary = -1;
  std::vector<PyScalarType> types;
};

/// A number of elements that the trace asked whether it is 1, and what it was. Where it was 1 it is guarded. Where it
/// was not, the code is right for 1 as well, but it declines where one element would be broadcast.
struct AskedExtent {
  ir::Formula extent;
  bool single = false;
};

/// How the region was left, for `break`/`return` out of the compiled statement: region result `exit` (or -1: always the
/// normal end). Values are indices into the exits the region's rewriting defines; 0 is the normal end.
struct Signature {
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<AskedExtent> asked;
  std::vector<ir::Formula> settled;  // conditions that were taken to hold (ir/sizes.h); else it declines
  std::vector<int> complex_arrays;   // slots of arrays that are made as complex ones, of one dimension less
  int exit = -1;
  /// All arrays of a region are of one library and in one memory, those among its outputs too.
  Library library = Library::numpy;
  int device = host_memory;

  /// By parameter of the graph: is it an array whose pointer is one of the device?
  std::vector<bool> device_parameters(size_t count) const {
    std::vector<bool> out(count, false);
    for (const Input& in : inputs) {
      if (in.guard == Input::Guard::array && in.param >= 0) out[static_cast<size_t>(in.param)] = in.device >= 0;
    }
    return out;
  }
};

}  // namespace appy::runtime
