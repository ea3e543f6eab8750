// What Python's and NumPy's operations on traced values mean in ops of the graph: types by NEP 50, checks where Python
// raises. No control flow and no frames here; the recorder (recorder.h) calls these and owns both.
//
// Every function either returns a value with exactly the type and value Python would give, or throws Abort. Values that
// are compile-time constants (Traced::object set on a scalar) may be computed by calling Python itself.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "trace/value.h"

namespace appy::trace {

/// CPython's BINARY_OP operators, in its own order (nb_add = 0 ...), without the in-place half.
enum class BinaryOp : uint8_t {
  add,
  and_,
  floor_divide,
  lshift,
  matrix_multiply,
  multiply,
  remainder,
  or_,
  power,
  rshift,
  subtract,
  true_divide,
  xor_,
};
enum class CompareOp : uint8_t { lt, le, eq, ne, gt, ge };
enum class UnaryOp : uint8_t { negative, positive, invert, not_ };

struct Statement;
struct MatrixProduct;

/// What the semantics need of the recorder.
class Context {
 public:
  virtual ~Context() = default;
  virtual ir::Builder& builder() = 0;
  /// Emits `check` with the interpreter's state at the current instruction.
  virtual void check(ir::Check, ir::Value* ok, std::span<ir::Value* const> info) = 0;
  /// Emits ops under a condition, for short-circuit functions (min, max, any of generators ...): not needed for pure
  /// ops.
  virtual int line() const = 0;
  virtual bool exact() const = 0;
  /// The view was stored to: its input must be writeable (a read-only array aborts: Python raises there).
  virtual void mark_written(const Traced& array) = 0;
  /// The extent of a dimension of an array; a constant 1 where it is 1, which the region's guards then promise.
  virtual ir::Value* extent(const Traced& array, int dim) = 0;
  /// What the i64 value is in the frame that is traced, where it follows from arguments and extents alone.
  virtual std::optional<int64_t> sample(const ir::Value*) const = 0;
  /// Is a number of elements 1 at every entry that the trace is for? It is guarded where it is.
  virtual bool is_single(ir::Value*) { return false; }
  /// Which of two ways to compute what is traced next the sizes at entry choose; a check declines other entries.
  /// Nothing where that is not to be, or takes more than arguments.
  virtual std::optional<bool> settle(ir::Value* /*condition*/) { return {}; }
  /// Emits the poll at the start of a loop's body.
  virtual void poll() = 0;
  /// Does a pragma speak of the current statement?
  virtual bool annotated() const = 0;
  /// The statement that is traced, where its pragma has items (tensor_mapping.h); null: it has none.
  virtual Statement* statement() { return nullptr; }
  /// Where a product of matrices waits for what is computed of its elements (tensor.h); null: none may.
  virtual std::shared_ptr<MatrixProduct>* product() { return nullptr; }
  /// Do array statements have lanes without being told?
  virtual bool auto_simd() const { return true; }
  /// Is the code for a device with many workers, which arranges products by itself?
  virtual bool for_device() const { return false; }
  /// Threads that the sizes of tiles are chosen for.
  virtual int workers() const { return 1; }
  /// Vector registers that the code is for; sizes of blocks may depend on it.
  virtual int registers() const { return 16; }
  /// The variable that holds the array, or an empty string.
  virtual std::string variable_of(const Traced&) const { return {}; }
  /// Whose arrays the region has, as far as it is traced.
  virtual runtime::Library library() const { return runtime::Library::numpy; }
  /// A function of the module makes an array of its library's: one that fits those of the region, or a refusal.
  virtual void make_arrays_of(const char* /*module*/, const char* /*function*/) {}
};

Traced constant(Context&, PyObject*);  // int, float, bool, NumPy scalar, tuple of those, or any object (Kind::object)

Traced binary(Context&, BinaryOp, const Traced& a, const Traced& b);
/// a op= b on a scalar is binary(), on an array update() of tensor.h.
Traced compare(Context&, CompareOp, const Traced& a, const Traced& b);
Traced identity(Context&, const Traced& a, const Traced& b, bool negated);  // is, is not
Traced contains(Context&, const Traced& item, const Traced& container, bool negated);
Traced unary(Context&, UnaryOp, const Traced&);
/// Truth value as a bool ir value.
ir::Value* truth(Context&, const Traced&);

/// array[index] and array[index] = value; index is a scalar or a tuple of scalars. Emits wrap and bounds checks (with
/// the axis), integer and dtype checks of the stored value as NumPy has them. Also tuple[constant], and subscripts that
/// select more than one element (tensor.h).
Traced getitem(Context&, const Traced& container, const Traced& index);
void setitem(Context&, const Traced& container, const Traced& index, const Traced& value);
/// container[index] op= value under `#pragma atomic`.
void atomic_update(Context&, BinaryOp, const Traced& container, const Traced& index, const Traced& value);

/// Attributes of arrays (shape, ndim, size, dtype, T, ...), scalars (real, dtype, ...), modules and types (the object).
/// Methods come back as Kind::method.
Traced getattr(Context&, const Traced&, std::string_view name);

/// A call of a builtin, a `math`, `numpy` or `scipy.special` function, a type (int, float, bool, np.float32 ...),
/// range, or a method. Empty where the callable is a plain Python function (the recorder inlines it). Throws Abort for
/// others.
std::optional<Traced> call(Context&, const Traced& callable, std::span<const Traced> args,
                           std::span<const std::pair<std::string, Traced>> kwargs);

/// The type that holds both on a merge of two paths, as the language page's Scalars rule has it: equal types stay,
/// a Python scalar and a NumPy one (or int and float whose values convert exactly) become tagged. Throws Abort
/// otherwise.
struct Join {
  runtime::PyScalarType type;
  std::vector<runtime::PyScalarType> types;  // empty: no tag is needed
};
Join join(const Traced& a, const Traced& b);
/// The value of `a` converted to the join's representation, and its tag as an i64 (null where the join needs none).
std::pair<ir::Value*, ir::Value*> convert(Context&, const Traced& a, const Join&);

}  // namespace appy::trace
