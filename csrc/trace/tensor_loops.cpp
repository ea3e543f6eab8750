// Array statements as loops.
#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/tensor_mapping.h"
#include "trace/torch.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
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

/// Is the extent, or where a slice stops, no greater than the position, which is none below 0?
bool ends_by(const Value* end, const Value* position) {
  if (same_number(end, position)) return true;
  if (!end->op || end->op->operands.size() != 2) return false;
  const Value &x = *end->op->operands[0], &y = *end->op->operands[1];
  if (end->op->code == Opcode::pymin_) return ends_by(&x, position) || ends_by(&y, position);
  if (end->op->code != Opcode::pymax_) return false;
  return (known_integer(&y) == 0 && ends_by(&x, position)) || (known_integer(&x) == 0 && ends_by(&y, position));
}

/// Does the axis lie before the position, or have no elements?
bool is_before(const Tensor& view, const Axis& axis, const Value* position) {
  if (axis.dim < 0 || axis.step != 1) return false;
  const Value* extent = view.shape[static_cast<size_t>(axis.dim)];
  if (known_integer(axis.start) == 0) return ends_by(extent, position);
  // A slice has as many elements as from its start to its end, if that is behind it.
  if (!extent->op || extent->op->code != Opcode::pymax_ || known_integer(extent->op->operands[1]) != 0) return false;
  const ir::Op* length = extent->op->operands[0]->op;
  return length && length->code == Opcode::sub_ && same_number(length->operands[1], axis.start) &&
         ends_by(length->operands[0], position);
}

/// Have the two views no element of the array in common, as one dimension shows: two rows, or one behind a slice of
/// them?
bool are_apart(const Tensor& a, const Tensor& b) {
  const auto is_position = [](const Tensor& view, const Axis& axis) {
    return axis.dim < 0 || is_one(view.shape[static_cast<size_t>(axis.dim)]);
  };
  for (size_t k = 0; k < a.axes.size(); k++) {
    const Axis &x = a.axes[k], &y = b.axes[k];
    const bool one_of_a = is_position(a, x), one_of_b = is_position(b, y);
    if (one_of_a && one_of_b) {
      const std::optional<int64_t> one = known_integer(x.start), other = known_integer(y.start);
      if (one && other && *one != *other) return true;
    }
    if ((one_of_a && is_before(b, y, x.start)) || (one_of_b && is_before(a, x, y.start))) return true;
  }
  return false;
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

bool conflicts(Context& c, const Tensor& target, const Read& read, bool elementwise) {
  const Tensor& view = *read.view;
  if (!share_memory(c, view.base, target.base)) return false;
  if (view.base.value == target.base.value && are_apart(target, view)) return false;
  if (!elementwise || !read.regular || view.base.value != target.base.value) return true;
  bool same = true;
  for (size_t k = 0; k < target.axes.size(); k++) {
    const Axis &to = target.axes[k], &from = view.axes[k];
    const int dim = from.dim < 0 ? -1 : read.dims[static_cast<size_t>(from.dim)];
    same &= same_number(to.start, from.start) && to.dim == dim && (dim < 0 || to.step == from.step);
  }
  return !same;
}

std::vector<Value*> emit_loop(Context& c, Value* lower, Value* upper, std::span<Value* const> inits,
                              ir::Loop attributes, const LoopBody& body, int64_t step) {
  finish_product(c);
  ir::Builder& b = c.builder();
  attributes.annotated = attributes.annotated || c.annotated();
  ir::Block* outer = b.block();
  const ir::Op* op = b.for_loop(lower, upper, b.i64(step), inits, attributes);
  ir::Block* block = op->blocks[0];
  b.set_block(block);
  c.poll();
  b.yield(body(block->args[0], std::span<Value* const>(block->args).subspan(1)));
  b.set_block(outer);
  return {op->results.begin(), op->results.end()};
}

void emit_loop(Context& c, Value* lower, Value* upper, ir::Loop attributes, const std::function<void(Value*)>& body,
               int64_t step) {
  const LoopBody in_loop = [&](Value* i, std::span<Value* const>) {
    body(i);
    return std::vector<Value*>{};
  };
  emit_loop(c, lower, upper, {}, std::move(attributes), in_loop, step);
}

int runs(const Read& read) {
  const int unit = unit_dimension(read.view->base.value->type);
  if (!read.regular || unit < 0) return -1;
  // The parts of complex numbers stand side by side.
  const std::vector<Axis>& axes = read.view->axes;
  const bool parts = unit > 0 && unit + 1 == static_cast<int>(axes.size()) && axes.back().dim < 0;
  const Axis& axis = axes[static_cast<size_t>(parts ? unit - 1 : unit)];
  return axis.dim < 0 || std::abs(axis.step) != 1 ? -1 : read.dims[static_cast<size_t>(axis.dim)];
}

std::vector<int> votes_of(std::span<const Read> touched, size_t rank) {
  std::vector<int> votes(rank, 0);
  for (const Read& read : touched) {
    // More is read of a matrix than of a row.
    const auto indexed = std::count_if(read.dims.begin(), read.dims.end(), [](int d) { return d >= 0; });
    if (const int dim = runs(read); dim >= 0) votes[static_cast<size_t>(dim)] += static_cast<int>(indexed);
  }
  return votes;
}

std::vector<int> loop_order(std::span<const Read> touched, size_t rank) {
  std::vector<int> order(rank);
  const std::vector<int> votes = votes_of(touched, rank);
  std::iota(order.begin(), order.end(), 0);
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

namespace {

class NestEmitter {
 public:
  NestEmitter(Context& c, std::span<Value* const> shape, const Mapping& mapping, const ElementValue& value,
              const ElementStore& store)
      : c_(c),
        e_(c),
        loops_(mapping.loops),
        value_(value),
        store_(store),
        index_(shape.size(), e_.i64(0)),
        low_(shape.size(), e_.i64(0)),
        high_(shape.begin(), shape.end()),
        together_(shape.size(), 1) {}

  void level(size_t k) {
    if (k == loops_.size()) {
      elements();
      return;
    }
    const NestLoop& loop = loops_[k];
    Value *low = low_[loop.dim], *high = high_[loop.dim];
    if (loop.tile > 0) {
      emit(loop, low, high, loop.tile, [&](Value* first) {
        low_[loop.dim] = first;
        high_[loop.dim] = e_.op(Opcode::pymin_, {e_.op(Opcode::add_, {first, e_.i64(loop.tile)}), high});
        level(k + 1);
      });
      low_[loop.dim] = low, high_[loop.dim] = high;
      return;
    }
    const auto body = [&](Value* i) {
      index_[loop.dim] = i;
      level(k + 1);
    };
    if (loop.unroll > 1) {
      // As many whole groups as there are, and the rest one by one.
      Value* count = e_.op(Opcode::sub_, {high, low});
      Value* rest = e_.op(Opcode::rem_, {count, e_.i64(loop.unroll)});
      Value* end = e_.op(Opcode::sub_, {high, rest});
      together_[loop.dim] = loop.unroll;
      emit(loop, low, end, loop.unroll, body);
      together_[loop.dim] = 1;
      low = end;
    }
    emit(loop, low, high, 1, body);
  }

 private:
  void emit(const NestLoop& loop, Value* low, Value* high, int64_t step, const std::function<void(Value*)>& body) {
    ir::Loop attributes;
    attributes.parallel = loop.parallel || (loop.alone && !loop.simd);
    attributes.simd = loop.simd;
    if (attributes.parallel && !loop.parallel) attributes.threads = 1;
    attributes.le = loop.le;
    attributes.chunk = loop.chunk;
    emit_loop(c_, low, high, std::move(attributes), body, step);
  }

  /// The elements at the index and, where loops are unrolled, at those after it: all values before the first store.
  void elements() {
    std::vector<std::vector<Value*>> at = {index_};
    for (size_t d = 0; d < index_.size(); d++) {
      const size_t count = at.size();
      for (int64_t u = 1; u < together_[d]; u++) {
        for (size_t k = 0; k < count; k++) {
          at.push_back(at[k]);
          at.back()[d] = e_.op(Opcode::add_, {index_[d], e_.i64(u)});
        }
      }
    }
    std::vector<Value*> values;
    for (const std::vector<Value*>& index : at) values.push_back(value_ ? value_(index) : nullptr);
    for (size_t k = 0; k < at.size(); k++) store_(at[k], values[k]);
  }

  Context& c_;
  Emit e_;
  const std::vector<NestLoop>& loops_;
  const ElementValue& value_;
  const ElementStore& store_;
  std::vector<Value*> index_, low_, high_;
  std::vector<int64_t> together_;
};

}  // namespace

void for_each(Context& c, std::span<Value* const> shape, const Mapping& mapping, const ElementValue& value,
              const ElementStore& store) {
  finish_product(c);
  Statement* st = c.statement();
  const bool around = st && st->lanes;
  if (st) st->lanes |= mapping.lanes_said;
  NestEmitter(c, shape, mapping, value, store).level(0);
  if (st) st->lanes = around;
}

std::vector<Value*> accumulate(Context& c, std::span<const InnerRef> dims, std::span<Value* const> inits,
                               Order permitted,
                               const std::function<std::vector<Value*>(Index, std::span<Value* const>)>& body) {
  const std::vector<NestLoop> loops = plan_inner(c, dims, permitted);
  std::vector<Value*> index(dims.size(), c.builder().i64(0));
  const std::function<std::vector<Value*>(size_t, std::span<Value* const>)> level =
      [&](size_t k, std::span<Value* const> carried) {
        if (k == loops.size()) return body(index, carried);
        ir::Loop attributes;
        attributes.parallel = loops[k].parallel;
        attributes.simd = loops[k].simd;
        attributes.le = loops[k].le;
        attributes.chunk = loops[k].chunk;
        attributes.annotated = permitted != Order::kept;  // NumPy's own sums have an order of their own
        return emit_loop(c, c.builder().i64(0), dims[loops[k].dim]->extent, carried, std::move(attributes),
                         [&](Value* i, std::span<Value* const> now) {
                           index[loops[k].dim] = i;
                           return level(k + 1, now);
                         });
      };
  return level(0, inits);
}

TensorRef allocate(Context& c, DType dtype, std::span<Value* const> shape, std::vector<Names> names,
                   ir::Layout layout) {
  Tensor view;
  view.names = std::move(names);
  view.base.kind = Kind::array;
  view.base.value = c.builder().alloc({dtype, static_cast<int8_t>(shape.size()), layout}, shape);
  view.shape.assign(shape.begin(), shape.end());
  for (size_t d = 0; d < shape.size(); d++) view.axes.push_back({static_cast<int>(d), c.builder().i64(0), 1});
  return make_view(std::move(view));
}

namespace {

/// The dimensions of an expression that run along those of the array it reads, the fastest first.
std::vector<int> dims_by_speed(const Read& read) {
  const ir::Type& base = read.view->base.value->type;
  std::vector<int> dims;
  for (size_t k = 0; k < read.view->axes.size(); k++) {
    const int dim = read.view->axes[ir::by_speed(base, k)].dim;
    if (dim >= 0 && read.dims[static_cast<size_t>(dim)] >= 0) dims.push_back(read.dims[static_cast<size_t>(dim)]);
  }
  return dims;
}

TensorRef computed(Context& c, const TensorRef& t, ir::Layout layout, bool in_order) {
  const std::vector<Names> names = names_of(*t);
  TensorRef out = allocate(c, t->dtype, t->shape, names, layout);
  std::vector<Read> touched = reads_of(t);
  touched.push_back(reads_of(out)[0]);
  const Mapping mapping = plan(c, {t->shape, names, t->inner, touched, !t->lanes_inside, in_order});
  if (!in_order && store_in_product(c, *out, t, mapping)) return out;
  const auto value = [&](Index index) { return t->at(c, index).value; };
  for_each(c, t->shape, mapping, value, [&](Index i, Value* v) { c.builder().store(v, out->base.value, i); });
  return out;
}

}  // namespace

ir::Layout kept_order(const TensorRef& t) {
  const int rank = t->rank();
  if (rank < 2 || !t->inner.empty()) return ir::Layout::c;
  bool columns = false;
  for (const Read& read : reads_of(t)) {
    if (!read.regular) return ir::Layout::c;
    const std::vector<int> dims = dims_by_speed(read);
    if (dims.size() < 2) continue;
    const ir::Layout layout = read.view->base.value->type.layout;
    if (layout != ir::Layout::c && layout != ir::Layout::f) return ir::Layout::c;
    if (!std::is_sorted(dims.begin(), dims.end())) return ir::Layout::c;
    columns |= static_cast<int>(dims.size()) == rank;
  }
  return columns ? ir::Layout::f : ir::Layout::c;
}

ir::Layout kept_order(Context& c, std::span<const TensorRef> all) {
  const auto by_columns = [](const TensorRef& t) { return kept_order(t) == ir::Layout::f; };
  const bool columns = c.library() == runtime::Library::numpy && std::all_of(all.begin(), all.end(), by_columns);
  return columns ? ir::Layout::f : ir::Layout::c;
}

namespace {

/// Of what operators make: CuPy's are rows, whatever their operands are.
ir::Layout order_of_results(Context& c, const TensorRef& t) {
  return c.library() == runtime::Library::cupy ? ir::Layout::c : kept_order(t);
}

}  // namespace

TensorRef materialised(Context& c, const TensorRef& t) { return materialised(c, t, order_of_results(c, t)); }

TensorRef materialised(Context& c, const TensorRef& t, ir::Layout layout) { return computed(c, t, layout, false); }

TensorRef materialised_in_order(Context& c, const TensorRef& t) { return computed(c, t, order_of_results(c, t), true); }

Traced materialised(Context& c, const Traced& t) {
  if (!is_lazy(t)) return t;
  if (t.tensor->shares) refuse(c, AbortId::operands_, "a name for an array in another shape");
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
  bool conflict = false;
  for (const Read& read : reads_of(source)) conflict |= conflicts(c, target, read, elementwise);
  return conflict ? materialised(c, source) : source;
}

/// A vector from elements in more dimensions: loops over those.
void assign_unravelled(Context& c, const Tensor& target, const TensorRef& source) {
  const std::vector<Value*>& shape = target.shape;
  const std::vector<std::span<Value* const>> both = {source->shape, shape};
  require_same_extent(c, shape[0], source->shape[0], {CheckKind::broadcast_, "into", both});
  const TensorRef t = before_stores(c, target, source->unravelled, false);
  const Mapping mapping = plan(c, {t->shape, names_of(*t), t->inner, reads_of(t), !t->lanes_inside});
  Emit e(c);
  const auto element = [&](Index index) { return cast_element(c, t->at(c, index), target.dtype); };
  for_each(c, t->shape, mapping, element, [&](Index index, Value* v) {
    Value* const at[] = {flat_index(e, t->shape, index)};
    c.builder().store(v, target.base.value, positions(c, target, at));
  });
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
    const Mapping mapping = plan(c, {shape, names_of(*target), {}, reads_of(target)});
    for_each(c, shape, mapping, nullptr, [&](Index index, Value*) { store(index, element); });
    return;
  }
  TensorRef source = as_tensor(c, value);
  if (same_view(*target, *source)) return;  // x[i] op= y ends in x[i] = x[i]
  if (source->unravelled && target->rank() == 1) return assign_unravelled(c, *target, source);
  source = broadcast_to(c, source, shape);
  source = before_stores(c, *target, source, true);
  std::vector<Read> touched = reads_of(source);
  touched.push_back(reads_of(target)[0]);
  std::vector<Names> names = names_of(*target);
  add_names(names, *source);
  const Mapping mapping = plan(c, {shape, names, source->inner, touched, !source->lanes_inside});
  if (store_in_product(c, *target, source, mapping)) return;
  const auto element = [&](Index index) { return cast_element(c, source->at(c, index), target->dtype); };
  for_each(c, shape, mapping, element, store);
}

Traced updated(Context& c, BinaryOp op, const TensorRef& target, const Traced& value) {
  Traced operands[] = {tensor(target), value};
  const std::optional<Traced> half = torch_half(c, op, operands[0], value);
  auto cast = half ? std::nullopt : torch_operands(c, op, operands[0], value);
  if (cast) std::tie(operands[0], operands[1]) = *std::move(cast);
  if (any_complex(operands)) {
    refuse(c, AbortId::operands_, "an in-place operator whose result does not fit the array's dtype");
  }
  const auto apply = [op](Context& context, Scalars x) { return binary(context, op, x[0], x[1]); };
  const Traced result = half ? *half : map(c, operands, apply);
  const TensorRef& made = result.tensor;
  const bool torch = c.library() == runtime::Library::torch;
  if (!(torch ? torch_casts : casts_same_kind)(made->dtype, target->dtype)) {
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
