#include "trace/arithmetic.h"
#include "trace/complex.h"
#include "trace/conversion.h"
#include "trace/semantics.h"
#include "trace/tensor.h"

namespace appy::trace {
namespace {

using ir::CheckKind;
using ir::Value;

std::vector<Value*> checked_indices(Context& c, const Traced& array, const Traced& index) {
  const std::span<const Traced> items = index.kind == Kind::tuple ? std::span(index.items) : std::span(&index, 1);
  const int rank = array.value->type.rank;
  if (items.size() != static_cast<size_t>(rank)) {
    refuse(c, AbortId::subscript_,
           "with " + std::to_string(items.size()) + " indices of an array of " + std::to_string(rank) + " dimensions");
  }
  std::vector<Value*> result;
  for (int axis = 0; axis < rank; axis++) {
    result.push_back(checked_index(c, c.builder().dim(array.value, axis), axis, items[static_cast<size_t>(axis)]));
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
  if (is_complex(container)) return complex_getitem(c, container, index);
  if (is_tensor_index(container, index)) return tensor_getitem(c, container, index);
  if (container.kind != Kind::array) refuse(c, AbortId::subscript_, "of a value of type " + describe(container));
  const std::vector<Value*> indices = checked_indices(c, container, index);
  return np_scalar(c.builder().load(container.value, indices));
}

void setitem(Context& c, const Traced& container, const Traced& index, const Traced& value) {
  if (is_complex(container)) {
    complex_setitem(c, container, index, value);
    return;
  }
  if (is_tensor_index(container, index)) {
    tensor_setitem(c, container, index, value);
    return;
  }
  if (container.kind != Kind::array) refuse(c, AbortId::subscript_, "of a value of type " + describe(container));
  if (is_tensor(value)) refuse(c, AbortId::operands_, "an array that is stored as one element");
  c.mark_written(container);
  const std::vector<Value*> indices = checked_indices(c, container, index);
  c.builder().store(stored(c, value, container.value->type.dtype), container.value, indices);
}

void atomic_update(Context& c, BinaryOp op, const Traced& container, const Traced& index, const Traced& value) {
  if (is_complex(container)) {
    complex_atomic(c, op, container, index, value);
    return;
  }
  if (is_tensor_index(container, index)) {
    tensor_atomic(c, op, container, index, value);
    return;
  }
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
