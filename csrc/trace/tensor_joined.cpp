// The same elements in another shape, and several arrays as one.
#include <algorithm>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/promote.h"
#include "trace/tensor_call.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

Value* count_of(Emit& e, std::span<Value* const> shape) {
  Value* count = e.i64(1);
  for (Value* extent : shape) {
    count = is_one(count) ? extent : is_one(extent) ? count : e.op(Opcode::mul_, {count, extent});
  }
  return count;
}

/// The elements one after the other: a vector as it is, else a copy.
TensorRef in_a_row(Context& c, const TensorRef& t, Value* count) {
  if (t->rank() == 1) return t;
  Value* const extents[] = {count};
  TensorRef out = allocate(c, t->dtype, extents);
  const Mapping mapping = plan(c, {t->shape, names_of(*t), t->inner, reads_of(t), !t->lanes_inside});
  Emit e(c);
  const auto value = [&](Index index) { return t->at(c, index).value; };
  for_each(c, t->shape, mapping, value, [&](Index index, Value* v) {
    Value* const at[] = {flat_index(e, t->shape, index)};
    c.builder().store(v, out->base.value, at);
  });
  return out;
}

/// Whether NumPy copies is known only where the elements are nobody else's.
Traced in_shape(Context& c, const TensorRef& given, std::vector<Value*> shape, bool copies) {
  Emit e(c);
  const TensorRef t = given->rank() != 1 && given->heavy ? materialised(c, given) : given;
  const TensorRef row = in_a_row(c, t, count_of(e, t->shape));
  Tensor out;
  out.dtype = t->dtype;
  out.shape = std::move(shape);
  out.heavy = row->heavy;
  out.lanes_inside = row->lanes_inside;
  out.inner = row->inner;
  out.shares = !copies && (given->is_view() || given->shares);
  if (out.shape.size() == 1 && t->rank() > 1) out.unravelled = t;
  for (Read read : reads_of(row)) {
    read.make_irregular();
    out.reads.push_back(std::move(read));
  }
  out.at = [row, extents = out.shape](Context& context, Index index) {
    Emit emit(context);
    Value* const at[] = {flat_index(emit, extents, index)};
    return row->at(context, at);
  };
  return tensor(std::move(out));
}

Traced flattened(const Call& call, bool copies) {
  call.refuse_given({"order"});
  const TensorRef t = call.array("a");
  Emit e(call.context());
  return in_shape(call.context(), t, {count_of(e, t->shape)}, copies);
}

/// All of one shape but for dimension `axis`.
void require_alike(const Call& call, std::span<const TensorRef> arrays, int axis, CheckKind kind, const char* text) {
  Emit e(call.context());
  for (const TensorRef& t : arrays.subspan(1)) {
    if (t->rank() != arrays[0]->rank()) call.refuse_arguments();
    for (int d = 0; d < t->rank(); d++) {
      Value *a = arrays[0]->shape[static_cast<size_t>(d)], *b = t->shape[static_cast<size_t>(d)];
      if (d != axis && !same_number(a, b)) e.check(kind, e.eq(a, b), text);
    }
  }
}

/// The arrays side by side along the axis, in a new array.
Traced joined(const Call& call, std::span<const TensorRef> arrays, int axis) {
  Context& c = call.context();
  Emit e(c);
  DType dtype = arrays[0]->dtype;
  Value* total = e.i64(0);
  const auto along = static_cast<size_t>(axis);
  for (const TensorRef& t : arrays) {
    dtype = promote(dtype, t->dtype);
    total = known_integer(total) == 0 ? t->shape[along] : e.op(Opcode::add_, {total, t->shape[along]});
  }
  std::vector<Value*> shape = arrays[0]->shape;
  shape[along] = total;
  const TensorRef out = allocate(c, dtype, shape, {}, kept_order(c, arrays));
  Value* first = e.i64(0);
  for (const TensorRef& t : arrays) {
    Tensor part;
    part.base = out->base;
    part.axes = out->axes;
    part.axes[along].start = first;
    part.shape = shape;
    part.shape[along] = t->shape[along];
    assign(c, make_view(std::move(part)), tensor(t));
    first = known_integer(first) == 0 ? t->shape[along] : e.op(Opcode::add_, {first, t->shape[along]});
  }
  return out->base;
}

/// Those of a list or tuple; all have at least `rank` dimensions.
std::vector<TensorRef> arrays_of(const Call& call, const char* name, int rank) {
  const Traced given = call[name];
  if ((given.kind != Kind::tuple && given.kind != Kind::list) || given.items.empty()) call.refuse_arguments();
  std::vector<TensorRef> out;
  for (const Traced& item : given.items) {
    if (!is_tensor(item)) call.refuse_arguments();
    out.push_back(as_tensor(call.context(), item));
    if (out.back()->rank() < rank) call.refuse_arguments();
  }
  return out;
}

/// A constant axis among so many dimensions.
int axis_of(const Call& call, int rank) {
  const int64_t k = call.integer("axis", 0);
  if (k < -rank || k >= rank) call.refuse_arguments();
  return static_cast<int>(k < 0 ? k + rank : k);
}

TensorRef with_dimension(Context& c, const TensorRef& t, int axis) {
  std::vector<int> order;
  for (int d = 0; d < t->rank(); d++) order.push_back(d);
  order.insert(order.begin() + axis, -1);
  return rearranged(c, t, order);
}

Traced beside(const Call& call, std::span<const TensorRef> arrays, int axis) {
  require_alike(call, arrays, axis, CheckKind::decline_, "");
  return joined(call, arrays, axis);
}

}  // namespace

Traced reshape(const Call& call) {
  Context& c = call.context();
  call.refuse_given({"order", "copy"});
  const TensorRef t = call.array("a");
  const Traced wanted = call["shape"];
  if (wanted.kind == Kind::unbound) call.refuse_arguments();
  const std::span<const Traced> items = wanted.kind == Kind::tuple ? std::span(wanted.items) : std::span(&wanted, 1);
  if (items.empty()) call.refuse_arguments();
  Emit e(c);
  std::vector<Value*> shape;
  Value* const count = count_of(e, t->shape);
  size_t open = items.size();
  for (size_t d = 0; d < items.size(); d++) {
    Value* extent = as_index(c, items[d]);
    if (known_integer(extent) == -1) {
      if (open < items.size()) call.refuse_arguments();
      open = d;
      extent = e.i64(1);
    } else {
      e.check(CheckKind::decline_, e.ge(extent, e.i64(0)));
    }
    shape.push_back(extent);
  }
  Value* others = e.i64(1);
  for (Value* extent : shape) {
    // A product modulo 2**64 may be the number of elements by chance.
    if (!is_one(others) && !is_one(extent))
      e.check(CheckKind::decline_, e.negate(e.op(Opcode::ovf_mul_, {others, extent})));
    others = is_one(others) ? extent : is_one(extent) ? others : e.op(Opcode::mul_, {others, extent});
  }
  if (open < items.size()) {
    if (is_one(others)) {
      shape[open] = count;
    } else {
      e.check(CheckKind::decline_, e.gt(others, e.i64(0)));
      e.check(CheckKind::decline_, e.eq(e.op(Opcode::rem_, {count, others}), e.i64(0)));
      shape[open] = e.op(Opcode::floordiv_, {count, others});
    }
  } else if (!same_number(count, others)) {
    e.check(CheckKind::decline_, e.eq(count, others));
  }
  return in_shape(c, t, std::move(shape), false);
}

Traced ravel(const Call& call) { return flattened(call, false); }
Traced flatten(const Call& call) { return flattened(call, true); }

Traced concatenate(const Call& call) {
  call.refuse_given({"out", "dtype", "casting"});
  const std::vector<TensorRef> arrays = arrays_of(call, "arrays", 1);
  return beside(call, arrays, axis_of(call, arrays[0]->rank()));
}

Traced stack(const Call& call) {
  call.refuse_given({"out", "dtype", "casting"});
  std::vector<TensorRef> arrays = arrays_of(call, "arrays", 1);
  const int axis = axis_of(call, arrays[0]->rank() + 1);
  require_alike(call, arrays, -1, CheckKind::value_, "all input arrays must have the same shape");
  for (TensorRef& t : arrays) t = with_dimension(call.context(), t, axis);
  return joined(call, arrays, axis);
}

Traced hstack(const Call& call) {
  call.refuse_given({"dtype", "casting"});
  const std::vector<TensorRef> arrays = arrays_of(call, "arrays", 1);
  return beside(call, arrays, arrays[0]->rank() == 1 ? 0 : 1);
}

Traced vstack(const Call& call) {
  call.refuse_given({"dtype", "casting"});
  std::vector<TensorRef> arrays = arrays_of(call, "arrays", 1);
  for (TensorRef& t : arrays) t = t->rank() == 1 ? with_dimension(call.context(), t, 0) : t;
  return beside(call, arrays, 0);
}

Traced column_stack(const Call& call) {
  std::vector<TensorRef> arrays = arrays_of(call, "arrays", 1);
  for (TensorRef& t : arrays) t = t->rank() == 1 ? with_dimension(call.context(), t, 1) : t;
  return beside(call, arrays, 1);
}

Traced ufunc_at(Context& c, const Traced& ufunc, Args args) {
  const auto refuse_arguments = [&] { refuse(c, AbortId::call_, "at with these arguments"); };
  if (args.size() != 3 || !is_tensor(args[0])) refuse_arguments();
  const TensorRef target = as_tensor(c, args[0]);
  if (!target->is_view() || target->rank() != 1 || !is_tensor(args[1])) refuse_arguments();
  const TensorRef index = as_tensor(c, args[1]);
  if (index->rank() != 1 || !ir::is_int(index->dtype)) refuse_arguments();
  // A wrong index raises before anything is stored.
  const Traced operands[] = {tensor(index)};
  Traced places = map(c, operands, [extent = target->shape[0]](Context& context, Scalars x) {
    return np_scalar(checked_index(context, extent, 0, x[0]));
  });
  const TensorRef at = materialised(c, places.tensor);
  const Traced given = is_tensor(args[2]) ? args[2] : as_numpy(c, args[2]);
  TensorRef source;
  if (is_tensor(given)) {
    source = as_tensor(c, given);
    if (source->rank() > 1) refuse_arguments();
    source = before_stores(c, *target, broadcast_to(c, source, index->shape), false);
  }
  c.mark_written(target->base);
  emit_loop(c, c.builder().i64(0), index->shape[0], {}, [&](Value* k) {
    Value* const where[] = {k};
    Value* const chosen[] = {at->at(c, where).value};
    const std::vector<Value*> cell = positions(c, *target, chosen);
    const Traced both[] = {np_scalar(c.builder().load(target->base.value, cell)),
                           source ? source->at(c, where) : given};
    const Traced result = *call(c, ufunc, both, {});
    if (!result.is_np() || result.type.dtype != target->dtype) {
      refuse(c, AbortId::operands_, "an update by `at` in another dtype than the array's");
    }
    c.builder().store(result.value, target->base.value, cell);
  });
  return object(Py_None);
}

}  // namespace appy::trace
