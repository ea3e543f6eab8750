#include "runtime/numpy.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"
#include "trace/semantics.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

/// The subscript as an index that lies in the dimension: wrapped and checked.
Value* checked_index(Context& c, const Traced& array, int axis, const Traced& t) {
  Emit e(c);
  const bool integer = t.is_scalar() && ir::is_int(t.value->type.dtype);
  // np.array[True] is a mask; a bool among the alternatives of a tag is one too.
  bool mask = false;
  for (const PyScalarType& type : t.types) mask |= type.dtype == DType::bool_;
  if (!integer || mask) refuse(c, AbortId::subscript_, describe(t));
  Value* extent = c.builder().dim(array.value, axis);
  Value* index = e.cast(t.value, DType::i64_);
  const DType type = t.value->type.dtype;
  if (type == DType::u64_) {
    e.check(CheckKind::range_error_, e.ge(index, e.i64(0)), "Python int too large to convert to C long");
  }
  const std::optional<int64_t> k = known_integer(index);
  Value* wrapped = index;
  Value* ok = nullptr;
  if (!ir::is_signed(type) || (k && *k >= 0)) {
    ok = e.lt(index, extent);
  } else {
    wrapped = e.op(Opcode::wrap_, {index, extent});
    ok = k ? e.ge(wrapped, e.i64(0)) : e.both(e.ge(wrapped, e.i64(0)), e.lt(wrapped, extent));
  }
  e.check(CheckKind::bounds_, ok, {}, {index, e.i64(axis), extent});
  return wrapped;
}

std::vector<Value*> checked_indices(Context& c, const Traced& array, const Traced& index) {
  const std::span<const Traced> items = index.kind == Kind::tuple ? std::span(index.items) : std::span(&index, 1);
  const int rank = array.value->type.rank;
  if (items.size() != static_cast<size_t>(rank)) {
    refuse(c, AbortId::subscript_,
           "with " + std::to_string(items.size()) + " indices of an array of " + std::to_string(rank) + " dimensions");
  }
  std::vector<Value*> result;
  for (int axis = 0; axis < rank; axis++) {
    result.push_back(checked_index(c, array, axis, items[static_cast<size_t>(axis)]));
  }
  return result;
}

Traced tuple_item(Context& c, const Traced& tuple, const Traced& index) {
  const std::optional<int64_t> k = index.is_scalar() ? known_integer(index.value) : std::nullopt;
  if (!k) refuse(c, AbortId::subscript_, describe(index) + " of a tuple");
  const auto size = static_cast<int64_t>(tuple.items.size());
  const int64_t position = *k < 0 ? *k + size : *k;
  if (position < 0 || position >= size) refuse(c, AbortId::subscript_, std::to_string(*k) + " of a tuple");
  return tuple.items[static_cast<size_t>(position)];
}

}  // namespace

Traced getitem(Context& c, const Traced& container, const Traced& index) {
  if (container.kind == Kind::tuple) return tuple_item(c, container, index);
  if (container.kind == Kind::zero_d && index.kind == Kind::tuple && index.items.empty()) {
    return np_scalar(container.value);
  }
  if (container.kind != Kind::array) refuse(c, AbortId::subscript_, "of a value of type " + describe(container));
  const std::vector<Value*> indices = checked_indices(c, container, index);
  return np_scalar(c.builder().load(container.value, indices));
}

void setitem(Context& c, const Traced& container, const Traced& index, const Traced& value) {
  if (container.kind != Kind::array) refuse(c, AbortId::subscript_, "of a value of type " + describe(container));
  c.mark_written(container);
  const std::vector<Value*> indices = checked_indices(c, container, index);
  c.builder().store(stored(c, value, container.value->type.dtype), container.value, indices);
}

void atomic_update(Context& c, BinaryOp op, const Traced& container, const Traced& index, const Traced& value) {
  Emit e(c);
  if (container.kind != Kind::array) refuse(c, AbortId::subscript_, "of a value of type " + describe(container));
  c.mark_written(container);
  const DType element = container.value->type.dtype;
  const Traced self = np_scalar(e.integer(element, 0));
  const Traced x = number(c, value, &self);
  if (x.tag || common_type(self, x) != element) {
    refuse(c, AbortId::operands_, "an atomic update of " + describe(self) + " by " + describe(value));
  }
  const bool booleans = element == DType::bool_;
  ir::Combiner combiner;
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::subtract:
      combiner = booleans ? ir::Combiner::or_ : ir::Combiner::sum_;
      break;
    case BinaryOp::multiply:
      combiner = booleans ? ir::Combiner::and_ : ir::Combiner::prod_;
      break;
    case BinaryOp::and_:
      combiner = ir::Combiner::and_;
      break;
    case BinaryOp::or_:
      combiner = ir::Combiner::or_;
      break;
    case BinaryOp::xor_:
      combiner = ir::Combiner::xor_;
      break;
    default:
      refuse(c, AbortId::operands_, "an atomic update by this operator");
  }
  const bool bitwise = op == BinaryOp::and_ || op == BinaryOp::or_ || op == BinaryOp::xor_;
  if ((bitwise && ir::is_real(element)) || (booleans && op == BinaryOp::subtract)) {
    refuse(c, AbortId::operands_, "an atomic update of " + describe(self) + " by this operator");
  }
  const std::vector<Value*> indices = checked_indices(c, container, index);
  Value* operand = to_dtype(c, x, element);
  if (op == BinaryOp::subtract) operand = e.op(Opcode::neg_, {operand});  // a - b is a + (-b) to the bit
  c.builder().atomic(combiner, operand, container.value, indices);
}

}  // namespace appy::trace
