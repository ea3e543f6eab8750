// Array statements as loops.
#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/tensor.h"

namespace appy::trace {
namespace {

using ir::Value;

/// The dimension of the base whose neighbours are neighbours in memory, or -1.
int unit_dimension(const ir::Type& base) {
  switch (base.layout) {
    case ir::Layout::c:
    case ir::Layout::inner:
    case ir::Layout::pairs:
      return base.rank - 1;
    case ir::Layout::f:
      return 0;
    default:
      return -1;
  }
}

/// Are the two one array, or may they overlap?
bool share_memory(Context& c, const Traced& a, const Traced& b) {
  const auto fresh = [](const Traced& array) { return array.value->op != nullptr; };
  return a.value == b.value || (c.builder().graph().may_alias && !fresh(a) && !fresh(b));
}

/// Are other elements read than the one that is stored, which a store may have changed by then?
bool conflicts(Context& c, const Tensor& target, const Read& read, bool elementwise) {
  const Tensor& view = *read.view;
  if (!share_memory(c, view.base, target.base)) return false;
  if (!elementwise || !read.regular || view.base.value != target.base.value) return true;
  bool same = true;
  for (size_t k = 0; k < target.axes.size(); k++) {
    const Axis &to = target.axes[k], &from = view.axes[k];
    const int dim = from.dim < 0 ? -1 : read.dims[static_cast<size_t>(from.dim)];
    if (to.dim < 0 && dim < 0) {
      const std::optional<int64_t> a = known_integer(to.start), b = known_integer(from.start);
      if (a && b && *a != *b) return false;  // another row
    }
    same &= same_number(to.start, from.start) && to.dim == dim && (dim < 0 || to.step == from.step);
  }
  return !same;
}

/// NumPy's "same_kind": what in-place operators may convert to.
bool casts_same_kind(DType from, DType to) {
  const auto kind = [](DType t) { return static_cast<int>(ir::class_of(t)); };
  if (ir::class_of(from) == ir::class_of(to)) return true;
  if (ir::class_of(from) == ir::TypeClass::boolean) return true;
  if (ir::class_of(to) == ir::TypeClass::real) return kind(from) != static_cast<int>(ir::TypeClass::real);
  return ir::class_of(from) == ir::TypeClass::uint && ir::class_of(to) == ir::TypeClass::sint;
}

}  // namespace

std::vector<Value*> emit_loop(Context& c, Value* lower, Value* upper, std::span<Value* const> inits,
                              ir::Loop attributes, const LoopBody& body) {
  ir::Builder& b = c.builder();
  attributes.annotated = attributes.annotated || c.annotated();
  ir::Block* outer = b.block();
  const ir::Op* op = b.for_loop(lower, upper, b.i64(1), inits, attributes);
  ir::Block* block = op->blocks[0];
  b.set_block(block);
  c.poll();
  b.yield(body(block->args[0], std::span<Value* const>(block->args).subspan(1)));
  b.set_block(outer);
  return {op->results.begin(), op->results.end()};
}

std::vector<int> loop_order(std::span<const Read> touched, size_t rank) {
  std::vector<int> order(rank), votes(rank, 0);
  std::iota(order.begin(), order.end(), 0);
  for (const Read& read : touched) {
    const int unit = unit_dimension(read.view->base.value->type);
    if (!read.regular || unit < 0) continue;
    // The parts of complex numbers stand side by side.
    const std::vector<Axis>& axes = read.view->axes;
    const bool parts = unit > 0 && unit + 1 == static_cast<int>(axes.size()) && axes.back().dim < 0;
    const Axis& axis = axes[static_cast<size_t>(parts ? unit - 1 : unit)];
    const int dim = axis.dim < 0 ? -1 : read.dims[static_cast<size_t>(axis.dim)];
    // More is read of a matrix than of a row.
    const auto indexed = std::count_if(read.dims.begin(), read.dims.end(), [](int d) { return d >= 0; });
    if (dim >= 0 && std::abs(axis.step) == 1) votes[static_cast<size_t>(dim)] += static_cast<int>(indexed);
  }
  // Ties go to the last dimension.
  size_t inner = rank;
  for (size_t d = 0; d < rank; d++) {
    if (inner == rank || votes[d] >= votes[inner]) inner = d;
  }
  if (inner < rank)
    std::rotate(order.begin() + static_cast<ptrdiff_t>(inner), order.begin() + static_cast<ptrdiff_t>(inner) + 1,
                order.end());
  return order;
}

void for_each(Context& c, std::span<Value* const> shape, std::span<const int> order, bool lanes,
              const std::function<void(Index)>& body) {
  std::vector<int> loops;
  for (int d : order) {
    if (!is_one(shape[static_cast<size_t>(d)])) loops.push_back(d);
  }
  std::vector<Value*> index(shape.size(), c.builder().i64(0));
  const std::function<void(size_t)> level = [&](size_t k) {
    if (k == loops.size()) {
      body(index);
      return;
    }
    ir::Loop attributes;
    attributes.parallel = k == 0;
    attributes.simd = lanes && k + 1 == loops.size();
    const auto dim = static_cast<size_t>(loops[k]);
    emit_loop(c, c.builder().i64(0), shape[dim], {}, std::move(attributes), [&](Value* i, std::span<Value* const>) {
      index[dim] = i;
      level(k + 1);
      return std::vector<Value*>{};
    });
  };
  level(0);
}

std::vector<Value*> accumulate(Context& c, std::span<Value* const> shape, std::span<Value* const> inits, bool reorders,
                               const std::function<std::vector<Value*>(Index, std::span<Value* const>)>& body) {
  std::vector<size_t> loops;
  for (size_t d = 0; d < shape.size(); d++) {
    if (!is_one(shape[d])) loops.push_back(d);
  }
  std::vector<Value*> index(shape.size(), c.builder().i64(0));
  const std::function<std::vector<Value*>(size_t, std::span<Value* const>)> level =
      [&](size_t k, std::span<Value* const> carried) {
        if (k == loops.size()) return body(index, carried);
        ir::Loop attributes;
        attributes.parallel = reorders && k == 0;
        attributes.simd = reorders && k + 1 == loops.size();
        attributes.annotated = reorders;  // NumPy's own sums have an order of their own
        return emit_loop(c, c.builder().i64(0), shape[loops[k]], carried, std::move(attributes),
                         [&](Value* i, std::span<Value* const> now) {
                           index[loops[k]] = i;
                           return level(k + 1, now);
                         });
      };
  return level(0, inits);
}

TensorRef allocate(Context& c, DType dtype, std::span<Value* const> shape) {
  Tensor view;
  view.base.kind = Kind::array;
  view.base.value = c.builder().alloc({dtype, static_cast<int8_t>(shape.size()), ir::Layout::c}, shape);
  view.shape.assign(shape.begin(), shape.end());
  for (size_t d = 0; d < shape.size(); d++) view.axes.push_back({static_cast<int>(d), c.builder().i64(0), 1});
  return make_view(std::move(view));
}

TensorRef materialised(Context& c, const TensorRef& t) {
  TensorRef out = allocate(c, t->dtype, t->shape);
  std::vector<Read> touched = reads_of(t);
  touched.push_back(reads_of(out)[0]);
  for_each(c, t->shape, loop_order(touched, t->shape.size()), !t->lanes_inside, [&](Index index) {
    Value* value = t->at(c, index).value;
    c.builder().store(value, out->base.value, index);
  });
  return out;
}

Traced materialised(Context& c, const Traced& t) {
  if (!is_lazy(t)) return t;
  const TensorRef made = materialised(c, t.tensor);
  return made->base;
}

bool same_view(const Tensor& a, const Tensor& b) {
  if (!a.is_view() || !b.is_view() || a.base.value != b.base.value || a.shape.size() != b.shape.size()) return false;
  for (size_t d = 0; d < a.shape.size(); d++) {
    if (!same_number(a.shape[d], b.shape[d])) return false;
  }
  for (size_t k = 0; k < a.axes.size(); k++) {
    const Axis &x = a.axes[k], &y = b.axes[k];
    if (x.dim != y.dim || x.step != y.step || !same_number(x.start, y.start)) return false;
  }
  return true;
}

TensorRef before_stores(Context& c, const Tensor& target, const TensorRef& source, bool elementwise) {
  bool conflict = source->checks;
  for (const Read& read : reads_of(source)) conflict |= conflicts(c, target, read, elementwise);
  return conflict ? materialised(c, source) : source;
}

void assign(Context& c, const TensorRef& target, const Traced& value) {
  if (!target->is_view()) refuse(c, AbortId::operands_, "an assignment to elements of an expression");
  c.mark_written(target->base);
  const std::vector<Value*>& shape = target->shape;
  const auto store = [&](Index index, Value* element) {
    c.builder().store(element, target->base.value, positions(c, *target, index));
  };
  if (!is_tensor(value)) {
    Value* element = stored(c, value, target->dtype);
    for_each(c, shape, loop_order(reads_of(target), shape.size()), true, [&](Index index) { store(index, element); });
    return;
  }
  TensorRef source = as_tensor(c, value);
  if (same_view(*target, *source)) return;  // x[i] op= y ends in x[i] = x[i]
  source = broadcast_to(c, source, shape);
  source = before_stores(c, *target, source, true);
  std::vector<Read> touched = reads_of(source);
  touched.push_back(reads_of(target)[0]);
  for_each(c, shape, loop_order(touched, shape.size()), !source->lanes_inside,
           [&](Index index) { store(index, cast_element(c, source->at(c, index), target->dtype)); });
}

Traced updated(Context& c, BinaryOp op, const TensorRef& target, const Traced& value) {
  const Traced operands[] = {tensor(target), value};
  const Traced result = map(c, operands, [op](Context& context, Scalars x) { return binary(context, op, x[0], x[1]); });
  const TensorRef& made = result.tensor;
  if (!casts_same_kind(made->dtype, target->dtype)) {
    refuse(c, AbortId::operands_, "an in-place operator whose result does not fit the array's dtype");
  }
  bool fits = made->rank() == target->rank();
  for (size_t d = 0; fits && d < target->shape.size(); d++) fits = !is_one(target->shape[d]) || is_one(made->shape[d]);
  if (!fits) refuse(c, AbortId::operands_, "an in-place operator whose result has more elements than the array");
  if (made->dtype == target->dtype) return result;
  return map(c, std::span<const Traced>(&result, 1),
             [to = target->dtype](Context& context, Scalars x) { return np_scalar(cast_element(context, x[0], to)); });
}

void update(Context& c, BinaryOp op, const TensorRef& target, const Traced& value) {
  assign(c, target, updated(c, op, target, value));
}

}  // namespace appy::trace
