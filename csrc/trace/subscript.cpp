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

void run_in_order(Context& c) {
  for (ir::Block* block = c.builder().block(); block && block->owner; block = block->owner->parent) {
    if (!block->owner->loop) continue;
    block->owner->loop->parallel = false;
    block->owner->loop->simd = false;
  }
}

namespace {

/// How an atomic update of such an element combines; empty: no atomic operation does it.
std::optional<ir::Combiner> combiner_of(BinaryOp op, DType element) {
  const bool booleans = element == DType::bool_, real = ir::is_real(element);
  switch (op) {
    case BinaryOp::add:
      return booleans ? ir::Combiner::or_ : ir::Combiner::sum_;
    case BinaryOp::subtract:
      if (booleans) return {};
      return ir::Combiner::sum_;
    case BinaryOp::multiply:
      return booleans ? ir::Combiner::and_ : ir::Combiner::prod_;
    case BinaryOp::and_:
    case BinaryOp::or_:
    case BinaryOp::xor_:
      if (real) return {};
      return op == BinaryOp::and_ ? ir::Combiner::and_ : op == BinaryOp::or_ ? ir::Combiner::or_ : ir::Combiner::xor_;
    default:
      return {};
  }
}

}  // namespace

bool has_atomic(Context& c, BinaryOp op, DType element, const Traced& value) {
  if (!combiner_of(op, element)) return false;
  if (is_tensor(value)) return promote(element, as_tensor(c, value)->dtype) == element;
  const Traced self = np_scalar(Emit(c).integer(element, 0));
  const Traced x = number(c, value, &self);
  return !x.tag && common_type(self, x) == element;
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
  if (!has_atomic(c, op, element, value)) {
    run_in_order(c);
    Traced result = binary(c, op, getitem(c, container, index), value);
    const bool real = result.is_scalar() && ir::is_real(result.value->type.dtype);
    if (c.library() != runtime::Library::numpy && real && !ir::is_real(element)) {
      refuse(c, AbortId::operands_, "an in-place operator whose result does not fit the array's dtype");
    }
    setitem(c, container, index, result);
    return;
  }
  const std::vector<Value*> indices = checked_indices(c, container, index);
  const Traced self = np_scalar(e.integer(element, 0));
  Value* operand = to_dtype(c, number(c, value, &self), element);
  if (op == BinaryOp::subtract) operand = e.op(Opcode::neg_, {operand});  // a - b is a + (-b) to the bit
  c.builder().atomic(*combiner_of(op, element), operand, container.value, indices);
}

}  // namespace appy::trace
