// Arrays as values of the trace. A view selects elements of an array in memory; every other tensor is an expression
// that is computed where an element is asked for, so that the operators of one statement become one loop nest. An
// expression lives on the traced stack only: what a variable holds, and what a later store could change, is
// materialised first. No element of it may raise: what does is computed, or its indices are checked, where Python
// evaluates it, so that exceptions come in Python's order.
#pragma once

#include <functional>
#include <memory>

#include "pragma/pragma.h"
#include "trace/emit.h"

namespace appy::trace {

using ir::kCacheLine;

using Index = std::span<ir::Value* const>;
using Element = std::function<Traced(Context&, Index)>;

struct Tensor;
using TensorRef = std::shared_ptr<const Tensor>;

/// x[mask], element by element: those of `source` where `mask`, which has its leading dimensions, is true.
struct Filter {
  TensorRef mask, source;
};

/// Where one dimension of a view's array is read: at start + step * (index of dimension `dim` of the view), or, where
/// `dim` is -1, at start alone.
struct Axis {
  int dim = -1;
  ir::Value* start = nullptr;
  int64_t step = 1;
};

/// A view that an expression reads. `dims[v]` is the dimension of the expression that indexes dimension v of the view,
/// or -1 where that has one element; an irregular read may touch any element, and its dims are all -1.
struct Read {
  TensorRef view;
  std::vector<int> dims;
  bool regular = true;

  void make_irregular() {
    regular = false;
    dims.assign(dims.size(), -1);
  }
};

/// Where a statement's text speaks of a dimension.
using Names = std::vector<const pragma::NamedSlice*>;

/// A dimension that disappears inside an element.
struct Dimension {
  ir::Value* extent = nullptr;
  Names names;
  std::string op;  // by what: sum, prod, max, ...
};
using InnerRef = std::shared_ptr<const Dimension>;

struct Tensor {
  DType dtype = DType::f64_;
  std::vector<ir::Value*> shape;  // i64; a known 1 broadcasts
  Element at;                     // a NumPy scalar of `dtype`; the indices are in range
  Traced base;                    // view: the array
  std::vector<Axis> axes;         // view: one a dimension of the base
  std::vector<Read> reads;        // other than views
  bool heavy = false;             // an element takes a loop: it is not to be computed twice
  bool lanes_inside = false;      // that loop runs along memory, so the lanes are its
  ir::Value* ramp = nullptr;      // element i is ramp + i * ramp_step, as np.arange makes it
  int64_t ramp_step = 1;
  bool shares = false;   // to NumPy it is a view of somebody else's memory: it cannot be bound to a name
  TensorRef unravelled;  // the same elements, in row-major order, in more dimensions
  std::shared_ptr<const Filter> filter;  // the same elements without their positions, where they are a selection
  std::vector<Names> names;              // one a dimension
  std::vector<InnerRef> inner;           // dimensions that an element runs over

  bool is_view() const { return base.kind == Kind::array; }
  int rank() const { return static_cast<int>(shape.size()); }
};

Traced tensor(Tensor);
Traced tensor(TensorRef);
/// A fresh array as the array that it is, other tensors as they are.
Traced whole(const TensorRef&);
/// A view with the base, the axes and the shape given; `dtype` and `at` follow from them.
TensorRef make_view(Tensor);
/// An array of any rank as a view, a tensor as it is; null for other values.
TensorRef as_tensor(Context&, const Traced&);
/// Is it an array with dimensions, or a tensor?
bool is_tensor(const Traced&);
/// An expression, not a view: it has no memory yet.
bool is_lazy(const Traced&);
/// What the dimensions are called, one set each.
std::vector<Names> names_of(const Tensor&);
void add_names(Names& to, const Names& from);
/// Its dimensions as what disappears when all elements are reduced.
std::vector<InnerRef> all_dimensions(const Tensor&, const char* op);
/// The dimensions `from` of one operand, aligned at the right with those of a broadcast result.
void add_names(std::vector<Names>& to, const Tensor& from);
void add_inner(std::vector<InnerRef>& to, std::span<const InnerRef> from);
inline bool is_one(const ir::Value* extent) { return known_integer(extent) == 1; }
/// start + step * index.
ir::Value* position(Emit&, ir::Value* start, int64_t step, ir::Value* index);
/// The subscripts in the view's array for an index of the view.
std::vector<ir::Value*> positions(Context&, const Tensor& view, Index);
/// An index of a broadcast result, from its dimension `first` on, as one of a tensor of this shape: 0 where that has
/// one element.
std::vector<ir::Value*> own_index(Context&, std::span<ir::Value* const> shape, Index, size_t first);
/// NumPy's cast of an element.
ir::Value* cast_element(Context&, const Traced&, DType);

/// What the reads of an expression are, a view's own among them.
std::vector<Read> reads_of(const TensorRef&);

/// f over the elements of the operands, broadcast against each other; operands that are no tensors go to f as they are.
using Scalars = std::span<const Traced>;
using ElementFunction = std::function<Traced(Context&, Scalars)>;
Traced map(Context&, std::span<const Traced> operands, ElementFunction);

/// The dtype of f's result, and whether it may leave the region depending on the elements. Nothing is emitted but the
/// checks that do not depend on them.
struct Probed {
  DType dtype;
  bool checks;
};
Probed probe(Context&, std::span<const Traced> scalars, std::span<const DType> lanes,
             const std::function<Traced(Context&, Scalars)>&);

/// Do the two have the same elements, by how they are computed?
bool same_elements(Context&, const TensorRef& a, const TensorRef& b);

/// The position in row-major order.
ir::Value* flat_index(Emit&, std::span<ir::Value* const> shape, Index);
/// The same elements in another arrangement: dimension d of the result is dimension order[d] of t, or a new one of
/// extent 1 where order[d] is -1; dimensions of t that are left out are indexed by 0 and must have extent 1.
TensorRef rearranged(Context&, const TensorRef&, std::span<const int> order);
/// The dimensions in reverse order.
TensorRef transposed(Context&, const TensorRef&);
/// Repeats dimensions of extent 1 so that the shape is this one.
TensorRef broadcast_to(Context&, const TensorRef&, std::span<ir::Value* const> shape);
/// The common shape; checks what is not known to agree.
std::vector<ir::Value*> broadcast_shapes(Context&, std::span<const TensorRef> tensors);
/// The two extents are equal, or the region is left: with an exception of this kind about these shapes, where something
/// was written.
struct Shapes {
  ir::CheckKind kind;
  const char* word;  // see ir/checks.def
  std::vector<std::span<ir::Value* const>> shapes;
};
void require_same_extent(Context&, ir::Value* a, ir::Value* b, const Shapes&);
/// Do the two i64 values have the same number, by how they are computed?
bool same_number(const ir::Value* a, const ir::Value* b);

// tensor_loops.cpp: statements.
/// One loop that counts up by `step`; `body` is in it, takes the carried values and gives back the next ones.
using LoopBody = std::function<std::vector<ir::Value*>(ir::Value* i, std::span<ir::Value* const> carried)>;
std::vector<ir::Value*> emit_loop(Context&, ir::Value* lower, ir::Value* upper, std::span<ir::Value* const> inits,
                                  ir::Loop attributes, const LoopBody&, int64_t step = 1);
/// The same without carried values.
void emit_loop(Context&, ir::Value* lower, ir::Value* upper, ir::Loop attributes,
               const std::function<void(ir::Value*)>& body, int64_t step = 1);
/// The dimension whose neighbours the access finds next to each other in memory, or -1.
int runs(const Read&);
/// The order of loops over `rank` dimensions, outermost first, that makes most of the accesses run along their memory.
std::vector<int> loop_order(std::span<const Read> touched, size_t rank);
/// How much of what is accessed runs along its memory in each dimension.
std::vector<int> votes_of(std::span<const Read> touched, size_t rank);
struct Mapping;
/// Loops over the shape as the mapping has them: `value` in the innermost, what it gives to `store`.
using ElementValue = std::function<ir::Value*(Index)>;
using ElementStore = std::function<void(Index, ir::Value*)>;
void for_each(Context&, std::span<ir::Value* const> shape, const Mapping&, const ElementValue& value,
              const ElementStore& store);
/// Loops with carried values over the dimensions, which the body takes and gives back.
enum class Order : uint8_t {
  kept,     // one after the other
  divided,  // divided between threads or lanes, each part in order
  any,      // the loops may change places, too
};
std::vector<ir::Value*> accumulate(
    Context&, std::span<const InnerRef> dims, std::span<ir::Value* const> inits, Order,
    const std::function<std::vector<ir::Value*>(Index, std::span<ir::Value* const>)>& body);
/// A fresh array with the elements of t, in the order that the library's operators give it.
TensorRef materialised(Context&, const TensorRef&);
TensorRef materialised(Context&, const TensorRef&, ir::Layout);
/// The same where elements may raise: the first one that does is to be the one.
TensorRef materialised_in_order(Context&, const TensorRef&);
Traced materialised(Context&, const Traced&);
/// A fresh array, contents unspecified.
TensorRef allocate(Context&, DType, std::span<ir::Value* const> shape, std::vector<Names> names = {},
                   ir::Layout = ir::Layout::c);
/// How NumPy lays out a new array of the elements, whose order it keeps (order='K'): as Fortran does where all
/// arrays lie so that have several of the dimensions, and one has all.
ir::Layout kept_order(const TensorRef&);
/// The same for NumPy's functions that make one of several, of as many dimensions; other libraries' make rows.
ir::Layout kept_order(Context&, std::span<const TensorRef>);
/// Are other elements read than the one that is stored, which a store may have changed by then?
bool conflicts(Context&, const Tensor& target, const Read&, bool elementwise);
/// The value of a statement that stores to the target, as if it were evaluated before the first store: a copy of the
/// elements where a store may change what is still to be read. `elementwise`: the element of an index is stored at that
/// index of the target; else it may go anywhere.
TensorRef before_stores(Context&, const Tensor& target, const TensorRef& source, bool elementwise);
/// target[...] = value, as NumPy's assignment casts and broadcasts.
void assign(Context&, const TensorRef& target, const Traced& value);
/// What an array has after `array op= value`: in its shape and dtype; refuses what NumPy does not cast.
Traced updated(Context&, BinaryOp, const TensorRef& array, const Traced& value);
/// target op= value in place.
void update(Context&, BinaryOp, const TensorRef& target, const Traced& value);
/// Is it the very selection of elements that the other is?
bool same_view(const Tensor&, const Tensor&);

// tensor_epilogue.cpp
/// A product of matrices that has an array, but no loops so far: those of a statement that takes each of its elements
/// for one of its own may end in the product's, which have the element in a register.
struct MatrixProduct {
  /// What becomes of an element when its sum is complete: a value, which goes to its place when those of its group are
  /// known. `apart`: the same of all elements, in loops of their own, from an array where `out` has them.
  struct Epilogue {
    std::function<ir::Value*(ir::Value* sum, ir::Value* row, ir::Value* column)> value;
    std::function<void(ir::Value*, ir::Value* row, ir::Value* column)> store;
    std::function<void(ir::Value* sums)> apart;
  };
  TensorRef out;
  std::vector<TensorRef> factors;             // views
  std::function<void(const Epilogue*)> emit;  // the loops; null: elements go to `out`
  ir::Value* element = nullptr;               // in place of those of `out`, while an epilogue is emitted
  ir::Value* sums = nullptr;                  // likewise, the array that they are in
};
/// Emits the loops of the product that waits, if one does.
void finish_product(Context&);
/// The same with `target[...] = source`, whose loops the mapping has, at their end, if that may be there; else false,
/// and nothing is emitted.
bool store_in_product(Context&, const Tensor& target, const TensorRef& source, const Mapping&);

// tensor_index.cpp: subscripts.
bool is_tensor_index(const Traced& container, const Traced& index);
/// Are there arrays among the subscripts, other than runs of neighbours?
bool gathers(const Traced& index);
Traced tensor_getitem(Context&, const Traced& container, const Traced& index);
void tensor_setitem(Context&, const Traced& container, const Traced& index, const Traced& value);
void tensor_atomic(Context&, BinaryOp, const Traced& container, const Traced& index, const Traced& value);
/// Does an atomic operation do `element op= value`?
bool has_atomic(Context&, BinaryOp, ir::DType element, const Traced& value);
/// Takes their permissions from the loops around: the update that follows is indivisible because iterations run in
/// order.
void run_in_order(Context&);
/// A subscript of one dimension, wrapped and checked.
ir::Value* checked_index(Context&, ir::Value* extent, int axis, const Traced&);

// tensor_mask.cpp: masks, arrays of bool as subscripts.
bool is_mask(Context&, const Traced&);
/// The mask's dimensions are the leading ones of the shape, from dimension `first` on; otherwise the region is left.
void require_mask_fits(Context&, const Tensor& mask, std::span<ir::Value* const> shape, size_t first);
/// As np.nonzero: for each dimension an array of the indices where the mask is true.
std::vector<TensorRef> true_indices(Context&, const TensorRef& mask);
/// x[mask] as a filter, where an element may be computed although the mask leaves it out; null elsewhere.
std::shared_ptr<const Filter> filtered(const TensorRef& source, const TensorRef& mask);
/// The filter of an elementwise result, where all operands are selected by one mask.
std::shared_ptr<const Filter> map_filters(Context&, std::span<const Traced> operands, const ElementFunction&);
/// target[mask] = value, where the value is a scalar or selected by the mask; false: it is neither, nothing was done.
bool store_where(Context&, const TensorRef& target, const TensorRef& mask, const Traced& value);

// tensor_functions.cpp: functions and methods of arrays.
std::optional<Traced> call_tensor_function(Context&, PyObject* callable, std::span<const Traced> args,
                                           std::span<const std::pair<std::string, Traced>> kwargs);
/// Does the callable make arrays of numbers alone, as np.zeros does?
bool makes_arrays_of_numbers(PyObject* callable);
/// The name of the callable's row, or null.
const char* tensor_function_name(PyObject* callable);
bool has_tensor_method(std::string_view name);
/// ufunc.at(a, indices, b).
Traced ufunc_at(Context&, const Traced& ufunc, std::span<const Traced> args);
/// ufunc.outer(a, b).
Traced ufunc_outer(Context&, const Traced& ufunc, std::span<const Traced> args);
Traced call_tensor_method(Context&, const Traced& self, const std::string& name, std::span<const Traced> args,
                          std::span<const std::pair<std::string, Traced>> kwargs);

// tensor_reduce.cpp
enum class Reduction : uint8_t { sum, prod, max, min, mean, any, all, argmax, argmin, std, var };
struct Axes {
  std::vector<bool> reduced;  // by dimension
  bool keep = false;          // keepdims
};
Traced reduce(Context&, Reduction, const TensorRef&, const Axes&, std::optional<DType> dtype, const Traced& ddof);
Traced cumulate(Context&, BinaryOp, const TensorRef&, int axis, std::optional<DType> dtype);

// tensor_product.cpp
/// sum (any, for bool) over labels of products: operand k has the labels labels[k], one a dimension, numbered so that
/// the first `free` of them are the result's dimensions in order.
TensorRef contraction(Context&, DType, std::span<const TensorRef> operands, std::span<const std::vector<int>> labels,
                      std::span<ir::Value* const> extents, int free);
/// left @ right of two matrices, a fresh array; its loops may wait (tensor_tiles.cpp).
TensorRef product_in_tiles(Context&, DType, const TensorRef& left, const TensorRef& right);
Traced matmul(Context&, const Traced& a, const Traced& b, bool dot);
Traced outer(Context&, const Traced& a, const Traced& b);
Traced einsum(Context&, const std::string& subscripts, std::span<const Traced> operands);

}  // namespace appy::trace
