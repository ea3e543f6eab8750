// Subscripts of arrays with slices, None, ... and index arrays.
#include <algorithm>

#include "ir/builder.h"
#include "runtime/numpy.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/functions.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

bool is_object(const Traced& t, const PyObject* o) { return t.kind == Kind::object && t.object.get() == o; }
bool is_none(const Traced& t) { return is_object(t, Py_None); }
bool is_slice(const Traced& t) {
  return t.kind == Kind::slice || (t.kind == Kind::object && PySlice_Check(t.object.get()));
}

/// One dimension of what is subscripted: from `start` in steps of `step`, as dimension `dim` of the result; -1: start
/// alone; with an index array: start + the array's element.
struct Selected {
  int dim = -1;
  Value* start = nullptr;
  int64_t step = 1;
  TensorRef gathered;
  bool in_range = false;  // the elements of `gathered` are known to be
};

struct Selection {
  std::vector<Selected> dims;  // of what is subscripted
  std::vector<Value*> shape;   // of the result
  std::vector<Names> names;    // of its dimensions
  int gather_first = -1;       // result dimensions of the index arrays: first and number
  int gather_rank = 0;
  bool gathers = false;
};

/// One index of a subscript.
struct Item {
  Traced what;
  TensorRef indices;      // an index array
  bool in_range = false;  // its elements are known to be
  size_t whole = 0;       // an ellipsis: the dimensions that it stands for
};

struct Bounds {
  Traced start, stop, step;
};

Bounds bounds_of(Context& c, const Traced& t) {
  if (t.kind == Kind::slice) return {t.items[0], t.items[1], t.items[2]};
  auto* s = reinterpret_cast<PySliceObject*>(t.object.get());
  return {constant(c, s->start), constant(c, s->stop), constant(c, s->step)};
}

/// i + n where i is negative.
Value* wrapped(Context& c, Value* i, Value* n) {
  Emit e(c);
  if (std::optional<int64_t> k = known_integer(i)) return *k >= 0 ? i : e.op(Opcode::add_, {n, i});
  return e.op(Opcode::wrap_, {i, n});
}

Value* at_least_zero(Emit& e, Value* v) { return e.op(Opcode::pymax_, {v, e.i64(0)}); }

/// slice.indices as ops: first element, step and number of elements.
Selected slice(Context& c, const Traced& t, Value* extent, Value** count) {
  Emit e(c);
  const Bounds b = bounds_of(c, t);
  const std::optional<int64_t> by = is_none(b.step)      ? 1
                                    : b.step.is_scalar() ? known_integer(b.step.value)
                                                         : std::nullopt;
  if (!by || *by == 0 || std::abs(*by) > (int64_t{1} << 31)) {
    refuse(c, AbortId::subscript_, "a slice whose step is no constant");
  }
  const auto given = [&](const Traced& bound) { return wrapped(c, as_index(c, bound), extent); };
  if (*by < 0 && c.library() == runtime::Library::torch)
    refuse(c, AbortId::subscript_, "of a tensor with a step below 0");
  Selected out;
  out.step = *by;
  Value* distance = nullptr;
  if (*by > 0) {
    // Beyond the end nothing is selected, so that only the lower end of `start` matters.
    Value* start = is_none(b.start) ? e.i64(0) : given(b.start);
    const std::optional<int64_t> first = known_integer(start);
    if (!first || *first < 0) start = at_least_zero(e, start);
    Value* stop = extent;
    if (!is_none(b.stop)) {
      stop = given(b.stop);
      stop = e.op(Opcode::pymin_, {stop, extent});
    }
    out.start = start;
    distance = known_integer(start) == 0 ? stop : e.op(Opcode::sub_, {stop, start});
  } else {
    Value* last = e.op(Opcode::sub_, {extent, e.i64(1)});
    Value* start = is_none(b.start) ? last : e.op(Opcode::pymin_, {given(b.start), last});
    Value* stop = e.i64(-1);
    if (!is_none(b.stop)) stop = e.op(Opcode::pymax_, {given(b.stop), e.i64(-1)});
    out.start = start;
    distance = e.op(Opcode::sub_, {start, stop});
  }
  const int64_t size = std::abs(*by);
  if (size > 1) {
    distance = e.op(Opcode::floordiv_, {e.op(Opcode::add_, {distance, e.i64(size - 1)}), e.i64(size)});
  }
  const bool whole = is_none(b.start) && is_none(b.stop) && size == 1;
  *count = whole ? extent : at_least_zero(e, distance);
  if (!known_integer(*count) && c.is_single(*count)) *count = e.i64(1);  // which is broadcast
  return out;
}

/// The items of a subscript; a mask stands there as the index arrays that it means.
std::vector<Item> items_of(Context& c, const Tensor& t, const Traced& index) {
  const std::span<const Traced> given = index.kind == Kind::tuple ? std::span(index.items) : std::span(&index, 1);
  std::vector<Item> items;
  size_t consumed = 0;  // dimensions
  bool ellipsis = false;
  for (const Traced& item : given) {
    if (is_object(item, Py_Ellipsis)) {
      if (ellipsis) refuse(c, AbortId::subscript_, "with two ellipses");
      ellipsis = true;
    } else if (is_mask(c, item)) {
      consumed += static_cast<size_t>(as_tensor(c, item)->rank());
    } else if (!is_none(item)) {
      consumed++;
    }
  }
  const size_t rank = t.shape.size();
  if (consumed > rank) {
    refuse(c, AbortId::subscript_,
           "with " + std::to_string(consumed) + " indices of an array of " + std::to_string(rank) + " dimensions");
  }
  size_t dim = 0;
  for (const Traced& item : given) {
    if (is_object(item, Py_Ellipsis)) {
      // Here and at the end whole dimensions are added.
      items.push_back({item, nullptr, false, rank - consumed});
      dim += rank - consumed;
    } else if (is_mask(c, item)) {
      const TensorRef mask = as_tensor(c, item);
      require_mask_fits(c, *mask, t.shape, dim);
      for (const TensorRef& indices : true_indices(c, mask)) items.push_back({item, indices, true});
      dim += static_cast<size_t>(mask->rank());
    } else if (is_tensor(item) || item.kind == Kind::array) {
      const TensorRef indices = as_tensor(c, item);
      const bool bytes = indices->dtype == DType::u8_ && c.library() == runtime::Library::torch;  // a mask there
      if (!ir::is_int(indices->dtype) || bytes) refuse(c, AbortId::subscript_, "an array that is no integer array");
      items.push_back({item, indices, false});
      dim++;
    } else {
      items.push_back({item, nullptr, false});
      dim += is_none(item) ? 0 : 1;
    }
  }
  return items;
}

Selection select(Context& c, const Tensor& t, const Traced& index) {
  Emit e(c);
  const std::vector<Item> items = items_of(c, t, index);
  std::vector<TensorRef> arrays;
  size_t first = items.size(), last = 0, advanced = 0;  // integers count beside index arrays
  for (size_t k = 0; k < items.size(); k++) {
    if (items[k].indices) arrays.push_back(items[k].indices);
    if (!items[k].indices && !items[k].what.is_scalar()) continue;
    first = std::min(first, k);
    last = k;
    advanced++;
  }
  Selection out;
  std::vector<Value*> gathered_shape;
  if (!arrays.empty()) {
    // With a slice between them their dimensions would come first.
    if (advanced != last - first + 1) refuse(c, AbortId::subscript_, "index arrays on both sides of a slice");
    out.gathers = true;
    gathered_shape = broadcast_shapes(c, arrays);
    out.gather_rank = static_cast<int>(gathered_shape.size());
  }

  const size_t rank = t.shape.size();
  size_t dim = 0;
  const std::vector<Names> own = names_of(t);
  const auto whole = [&] {
    out.dims.push_back({static_cast<int>(out.shape.size()), e.i64(0), 1, nullptr});
    out.names.push_back(own[dim]);
    out.shape.push_back(t.shape[dim++]);
  };
  for (const Item& item : items) {
    if (is_object(item.what, Py_Ellipsis)) {
      for (size_t k = 0; k < item.whole; k++) whole();
    } else if (is_none(item.what)) {
      out.shape.push_back(e.i64(1));
      out.names.emplace_back();
    } else if (is_slice(item.what)) {
      Value* count = nullptr;
      out.names.push_back(item.what.named ? Names{item.what.named} : own[dim]);
      Selected s = slice(c, item.what, t.shape[dim++], &count);
      s.dim = static_cast<int>(out.shape.size());
      out.shape.push_back(count);
      out.dims.push_back(std::move(s));
    } else if (item.indices) {
      if (out.gather_first < 0) {
        out.gather_first = static_cast<int>(out.shape.size());
        out.shape.insert(out.shape.end(), gathered_shape.begin(), gathered_shape.end());
        std::vector<Names> gathered(gathered_shape.size());
        for (const TensorRef& a : arrays) add_names(gathered, *a);
        out.names.insert(out.names.end(), gathered.begin(), gathered.end());
      }
      Selected s;
      s.start = e.i64(0);
      s.gathered = item.indices;
      s.in_range = item.in_range;
      out.dims.push_back(std::move(s));
      dim++;
    } else {
      out.dims.push_back({-1, checked_index(c, t.shape[dim], static_cast<int>(dim), item.what), 1, nullptr});
      dim++;
    }
  }
  while (dim < rank) whole();
  return out;
}

/// A run of neighbouring elements is no gather: an index array start, start + step ... whose ends are in range.
void straighten(Context& c, const Tensor& t, Selection& s) {
  Emit e(c);
  int gathers = 0;
  for (const Selected& d : s.dims) gathers += d.gathered != nullptr;
  if (gathers != 1 || s.gather_rank != 1) return;
  for (size_t k = 0; k < s.dims.size(); k++) {
    Selected& d = s.dims[k];
    if (!d.gathered || !d.gathered->ramp) continue;
    Value* count = s.shape[static_cast<size_t>(s.gather_first)];
    Value* last = e.op(Opcode::sub_, {count, e.i64(1)});
    Value* end = e.op(Opcode::add_, {d.gathered->ramp, e.op(Opcode::mul_, {last, e.i64(d.gathered->ramp_step)})});
    Value *low = d.gathered->ramp, *high = end;
    if (d.gathered->ramp_step < 0) std::swap(low, high);
    // Negative indices wrap, others raise: both are the interpreter's.
    Value* inside = e.both(e.ge(low, e.i64(0)), e.lt(high, t.shape[k]));
    e.check(CheckKind::decline_, e.either(e.le(count, e.i64(0)), inside));
    d.start = d.gathered->ramp;
    d.step = d.gathered->ramp_step;
    d.dim = s.gather_first;
    d.gathered = nullptr;
    s.gathers = false;
  }
}

/// NumPy looks at all indices, one index array after the other, before it reads or writes the first element.
void check_indices(Context& c, const Tensor& t, Selection& s) {
  for (size_t k = 0; k < s.dims.size(); k++) {
    Selected& d = s.dims[k];
    if (!d.gathered || d.in_range) continue;
    Tensor in_range;
    in_range.dtype = DType::i64_;
    in_range.shape = d.gathered->shape;
    in_range.names = names_of(*d.gathered);
    in_range.reads = reads_of(d.gathered);
    in_range.at = [source = d.gathered, extent = t.shape[k], k](Context& context, Index index) {
      return np_scalar(checked_index(context, extent, static_cast<int>(k), source->at(context, index)));
    };
    d.gathered = materialised(c, std::make_shared<const Tensor>(std::move(in_range)));
    d.in_range = true;
  }
}

/// The indices in what is subscripted for an index of the result, once those of index arrays are known to be in range.
std::vector<Value*> source_index(Context& c, const Selection& s, Index index) {
  Emit e(c);
  std::vector<Value*> at;
  for (const Selected& d : s.dims) {
    if (d.gathered) {
      const auto first = static_cast<size_t>(s.gather_first + s.gather_rank - d.gathered->rank());
      const Traced element = d.gathered->at(c, own_index(c, d.gathered->shape, index, first));
      at.push_back(element.value);
    } else {
      at.push_back(d.dim < 0 ? d.start : position(e, d.start, d.step, index[static_cast<size_t>(d.dim)]));
    }
  }
  return at;
}

TensorRef view_of(Context& c, const Tensor& t, const Selection& s) {
  Emit e(c);
  Tensor out;
  out.base = t.base;
  out.shape = s.shape;
  out.names = s.names;
  for (const Axis& axis : t.axes) {
    if (axis.dim < 0) {
      out.axes.push_back(axis);
      continue;
    }
    const Selected& d = s.dims[static_cast<size_t>(axis.dim)];
    Value* offset = d.start;
    if (axis.step != 1) offset = e.op(Opcode::mul_, {offset, e.i64(axis.step)});
    Value* start = known_integer(axis.start) == 0 ? offset
                   : known_integer(d.start) == 0  ? axis.start
                                                  : e.op(Opcode::add_, {axis.start, offset});
    out.axes.push_back({d.dim, start, axis.step * d.step});
  }
  return make_view(std::move(out));
}

TensorRef expression_of(Context&, const TensorRef& t, const Selection& s) {
  Tensor out;
  out.dtype = t->dtype;
  out.heavy = t->heavy;
  out.lanes_inside = t->lanes_inside;
  out.shares = t->shares && !s.gathers;
  out.shape = s.shape;
  out.names = s.names;
  out.inner = t->inner;
  for (Read read : reads_of(t)) {
    read.make_irregular();
    out.reads.push_back(std::move(read));
  }
  for (const Selected& d : s.dims) {
    if (!d.gathered) continue;
    for (Read read : reads_of(d.gathered)) {
      for (int& dim : read.dims) {
        if (dim >= 0) dim += s.gather_first + s.gather_rank - d.gathered->rank();
      }
      out.reads.push_back(std::move(read));
    }
  }
  out.at = [t, s](Context& context, Index index) { return t->at(context, source_index(context, s, index)); };
  return std::make_shared<const Tensor>(std::move(out));
}

/// x[index arrays] = value: in order, so that the last of equal indices wins.
void scatter(Context& c, const TensorRef& t, const Selection& s, const Traced& value) {
  TensorRef source;
  Value* element = nullptr;
  if (is_tensor(value)) {
    source = before_stores(c, *t, broadcast_to(c, as_tensor(c, value), s.shape), false);
  } else {
    element = stored(c, value, t->dtype);
  }
  std::vector<InnerRef> dims;
  for (size_t d = 0; d < s.shape.size(); d++) {
    dims.push_back(std::make_shared<const Dimension>(Dimension{s.shape[d], s.names[d], ""}));
  }
  accumulate(c, dims, {}, Order::kept, [&](Index index, std::span<Value* const>) {
    Value* v = source ? cast_element(c, source->at(c, index), t->dtype) : element;
    c.builder().store(v, t->base.value, positions(c, *t, source_index(c, s, index)));
    return std::vector<Value*>{};
  });
}

}  // namespace

Value* checked_index(Context& c, Value* extent, int axis, const Traced& t) {
  Emit e(c);
  const bool integer = t.is_scalar() && ir::is_int(t.value->type.dtype);
  // np.array[True] is a mask; a bool among the alternatives of a tag is one too.
  bool mask = false;
  for (const PyScalarType& type : t.types) mask |= type.dtype == DType::bool_;
  if (!integer || mask) refuse(c, AbortId::subscript_, describe(t));
  Value* index = e.cast(t.value, DType::i64_);
  const DType type = t.value->type.dtype;
  if (type == DType::u64_) {
    e.check(CheckKind::range_error_, e.ge(index, e.i64(0)), "Python int too large to convert to C long");
  }
  const std::optional<int64_t> k = known_integer(index);
  Value* in_range = index;
  Value* ok = nullptr;
  if (!ir::is_signed(type) || (k && *k >= 0)) {
    ok = e.lt(index, extent);
  } else {
    in_range = e.op(Opcode::wrap_, {index, extent});
    ok = k ? e.ge(in_range, e.i64(0)) : e.both(e.ge(in_range, e.i64(0)), e.lt(in_range, extent));
  }
  e.check(CheckKind::bounds_, ok, {}, {index, e.i64(axis), extent});
  return in_range;
}

bool is_tensor_index(const Traced& container, const Traced& index) {
  if (container.kind == Kind::tensor) return true;
  if (container.kind != Kind::array) return false;
  const std::span<const Traced> items = index.kind == Kind::tuple ? std::span(index.items) : std::span(&index, 1);
  if (items.size() != static_cast<size_t>(container.value->type.rank)) return true;
  return std::any_of(items.begin(), items.end(), [](const Traced& item) {
    return is_slice(item) || is_none(item) || is_object(item, Py_Ellipsis) || is_tensor(item) ||
           item.kind == Kind::array;
  });
}

bool gathers(const Traced& index) {
  const std::span<const Traced> items = index.kind == Kind::tuple ? std::span(index.items) : std::span(&index, 1);
  return std::any_of(items.begin(), items.end(), [](const Traced& item) {
    return item.kind == Kind::array || (item.kind == Kind::tensor && !item.tensor->ramp);
  });
}

Traced tensor_getitem(Context& c, const Traced& container, const Traced& index) {
  const TensorRef t = as_tensor(c, container);
  const Traced& only = index.kind == Kind::tuple && index.items.size() == 1 ? index.items[0] : index;
  if (is_mask(c, only)) {
    const TensorRef mask = as_tensor(c, only);
    Tensor out = *expression_of(c, t, select(c, *t, only));
    // Whatever asks the filter leaves the gather unused.
    out.filter = filtered(t, mask);
    for (Read read : reads_of(mask)) {
      read.make_irregular();
      out.reads.push_back(std::move(read));
    }
    return tensor(std::move(out));
  }
  Selection s = select(c, *t, index);
  straighten(c, *t, s);
  if (s.shape.empty()) return t->at(c, source_index(c, s, {}));
  if (t->is_view() && !s.gathers) return tensor(view_of(c, *t, s));
  check_indices(c, *t, s);
  return tensor(expression_of(c, t, s));
}

void tensor_setitem(Context& c, const Traced& container, const Traced& index, const Traced& value) {
  const TensorRef t = as_tensor(c, container);
  if (!t->is_view()) refuse(c, AbortId::subscript_, "of an expression that is assigned to");
  const Traced& only = index.kind == Kind::tuple && index.items.size() == 1 ? index.items[0] : index;
  if (is_mask(c, only)) {
    const TensorRef mask = as_tensor(c, only);
    require_mask_fits(c, *mask, t->shape, 0);
    if (store_where(c, t, mask, value)) return;
  }
  Selection s = select(c, *t, index);
  straighten(c, *t, s);
  if (!s.gathers) {
    assign(c, view_of(c, *t, s), value);
    return;
  }
  c.mark_written(t->base);
  check_indices(c, *t, s);
  scatter(c, t, s, value);
}

void tensor_atomic(Context& c, BinaryOp op, const Traced& container, const Traced& index, const Traced& value) {
  const TensorRef t = as_tensor(c, container);
  if (!t->is_view()) refuse(c, AbortId::atomic_, "an expression");
  Selection s = select(c, *t, index);
  straighten(c, *t, s);
  if (s.gathers) {
    // A repeated index is updated once: x[i] is read as a whole first, and no other worker may come between.
    run_in_order(c);
    c.mark_written(t->base);
    check_indices(c, *t, s);
    scatter(c, t, s, updated(c, op, expression_of(c, t, s), value));
    return;
  }
  const TensorRef target = view_of(c, *t, s);
  if (!has_atomic(c, op, target->dtype, value)) {
    run_in_order(c);
    update(c, op, target, value);
    return;
  }
  c.mark_written(target->base);
  TensorRef source;
  if (is_tensor(value)) {
    source = before_stores(c, *target, broadcast_to(c, as_tensor(c, value), target->shape), true);
  }
  std::vector<Names> names = names_of(*target);
  if (source) add_names(names, *source);
  const Mapping mapping = plan(c, {target->shape, names, {}, reads_of(target)});
  const auto operand = [&](Index i) { return source ? source->at(c, i).value : nullptr; };
  for_each(c, target->shape, mapping, operand, [&](Index i, Value* v) {
    std::vector<Traced> at;
    for (Value* subscript : positions(c, *target, i)) at.push_back(scalar(ScalarKind::py_int, subscript));
    atomic_update(c, op, target->base, tuple_of(std::move(at)), v ? np_scalar(v) : value);
  });
}

}  // namespace appy::trace
