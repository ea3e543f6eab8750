// Diagonals and triangles.
#include <numeric>

#include "ir/builder.h"
#include "trace/conversion.h"
#include "trace/tensor_call.h"

namespace appy::trace {
namespace {

using ir::Value;

/// The diagonal `offset` of a matrix. It selects elements, so that of a view it is a view: no value is copied, and as
/// in NumPy none can be assigned.
TensorRef diagonal_of(Context& c, const TensorRef& t, int64_t offset) {
  Emit e(c);
  Value *rows = t->shape[0], *columns = t->shape[1];
  Value* row = e.i64(offset < 0 ? -offset : 0);
  Value* column = e.i64(offset > 0 ? offset : 0);
  if (offset < 0) rows = e.op(Opcode::sub_, {rows, row});
  if (offset > 0) columns = e.op(Opcode::sub_, {columns, column});
  Value* length = same_number(rows, columns) ? rows : e.op(Opcode::pymin_, {rows, columns});
  if (offset) length = e.op(Opcode::pymax_, {length, e.i64(0)});
  Tensor out;
  out.shape = {length};
  Value* const starts[] = {row, column};
  if (t->is_view()) {
    out.base = t->base;
    out.base.writeable = false;
    for (const Axis& axis : t->axes) {
      Axis moved = axis;
      if (axis.dim >= 0) {
        Value* start = position(e, axis.start, axis.step, starts[axis.dim]);
        moved = {0, known_integer(starts[axis.dim]) == 0 ? axis.start : start, axis.step};
      }
      out.axes.push_back(moved);
    }
    return make_view(std::move(out));
  }
  out.dtype = t->dtype;
  out.heavy = t->heavy;
  out.lanes_inside = t->lanes_inside;
  out.shares = t->shares;
  for (Read read : t->reads) {
    read.make_irregular();
    out.reads.push_back(std::move(read));
  }
  out.at = [t, row, column](Context& context, Index index) {
    Emit emit(context);
    Value* const at[] = {position(emit, row, 1, index[0]), position(emit, column, 1, index[0])};
    return t->at(context, at);
  };
  return std::make_shared<const Tensor>(std::move(out));
}

TensorRef diagonal_argument(const Call& call) {
  const TensorRef t = call.array("a");
  const bool usual = call.integer("axis1", 0) == 0 && call.integer("axis2", 1) == 1;
  if (t->rank() != 2 || !usual) call.refuse_arguments();
  return diagonal_of(call.context(), t, call.integer("offset", 0));
}

/// column - row >= offset, or < offset: the elements that stay.
Traced triangle(const Call& call, bool upper) {
  const TensorRef t = call.array("a");
  const auto rank = static_cast<size_t>(t->rank());
  if (rank < 2) call.refuse_arguments();
  const int64_t offset = call.integer("offset", 0);
  Tensor out = *t;
  if (t->is_view()) out.reads = reads_of(t);
  out.base = {};
  out.axes.clear();
  out.filter = nullptr;
  out.ramp = nullptr;
  out.shares = false;
  out.at = [t, upper, offset, rank](Context& context, Index index) {
    Emit e(context);
    Value* row = index[rank - 2];
    if (offset) row = e.op(Opcode::add_, {row, e.i64(offset)});
    Value* stays = upper ? e.ge(index[rank - 1], row) : e.le(index[rank - 1], row);
    return np_scalar(e.select(stays, t->at(context, index).value, e.number(t->dtype, 0)));
  };
  return tensor(std::move(out));
}

/// A matrix with these elements on the diagonal `offset`, ones where there are none given, and zeros elsewhere.
Traced diagonal_matrix(DType dtype, Value* rows, Value* columns, int64_t offset, const TensorRef& diagonal) {
  Tensor out;
  out.dtype = dtype;
  out.shape = {rows, columns};
  if (diagonal) {
    for (Read read : reads_of(diagonal)) {
      read.make_irregular();
      out.reads.push_back(std::move(read));
    }
  }
  out.at = [dtype, offset, diagonal](Context& context, Index index) {
    Emit e(context);
    Value* row = offset ? e.op(Opcode::add_, {index[0], e.i64(offset)}) : index[0];
    Value* hit = e.eq(index[1], row);
    if (!diagonal) return np_scalar(e.select(hit, e.number(dtype, 1), e.number(dtype, 0)));
    return np_scalar(e.select(hit, diagonal->at(context, index.first(1)).value, e.number(dtype, 0)));
  };
  return tensor(std::move(out));
}

}  // namespace

Traced diagonal(const Call& call) { return tensor(diagonal_argument(call)); }

Traced diag(const Call& call) {
  const TensorRef t = call.array("a");
  if (t->rank() == 2) return diagonal(call);
  if (t->rank() != 1 || call.integer("offset", 0) != 0) call.refuse_arguments();
  const TensorRef elements = t->heavy ? materialised(call.context(), t) : t;
  return diagonal_matrix(t->dtype, t->shape[0], t->shape[0], 0, elements);
}

Traced trace_of(const Call& call) {
  call.refuse_given({"out"});
  Axes all;
  all.reduced = {true};
  return reduce(call.context(), Reduction::sum, diagonal_argument(call), all, call.dtype(), {});
}

Traced eye(const Call& call) {
  Context& c = call.context();
  call.refuse_given({"order", "device", "like"});
  if (!call.given("N")) call.refuse_arguments();
  Emit e(c);
  const auto extent = [&](const char* name) {
    Value* n = as_index(c, call[name]);
    e.check(ir::CheckKind::value_, e.ge(n, e.i64(0)), "negative dimensions are not allowed");
    return n;
  };
  Value* rows = extent("N");
  Value* columns = call.given("M") ? extent("M") : rows;
  return diagonal_matrix(call.dtype().value_or(DType::f64_), rows, columns, call.integer("offset", 0), nullptr);
}

Traced ufunc_outer(Context& c, const Traced& ufunc, Args args) {
  if (args.size() != 2) refuse(c, AbortId::call_, "outer with these arguments");
  // Numbers are made arrays first, so that Python's have a dtype of their own.
  const auto operand = [&](const Traced& t) { return is_tensor(t) ? t : as_numpy(c, t); };
  Traced both[] = {operand(args[0]), operand(args[1])};
  if (is_tensor(both[0]) && is_tensor(both[1])) {
    const TensorRef a = as_tensor(c, both[0]);
    std::vector<int> order(a->shape.size() + as_tensor(c, both[1])->shape.size(), -1);
    std::iota(order.begin(), order.begin() + a->rank(), 0);
    both[0] = tensor(rearranged(c, a, order));
  }
  return *call(c, ufunc, both, {});
}

Traced upper_triangle(const Call& call) { return triangle(call, true); }
Traced lower_triangle(const Call& call) { return triangle(call, false); }

}  // namespace appy::trace
