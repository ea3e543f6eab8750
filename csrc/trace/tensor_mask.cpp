// Masks: arrays of bool as subscripts. x[mask] is a gather by the indices where the mask is true; what needs no
// positions, a reduction or a store through the same mask, goes over x and asks the mask instead.
#include <algorithm>
#include <numeric>

#include "ir/builder.h"
#include "trace/conversion.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::Value;

void append_reads(std::vector<Read>& to, const TensorRef& t) {
  const std::vector<Read> reads = reads_of(t);
  to.insert(to.end(), reads.begin(), reads.end());
}

}  // namespace

bool is_mask(Context& c, const Traced& t) { return is_tensor(t) && as_tensor(c, t)->dtype == DType::bool_; }

void require_mask_fits(Context& c, const Tensor& mask, std::span<Value* const> shape, size_t first) {
  Emit e(c);
  for (size_t d = 0; d < mask.shape.size(); d++) {
    if (same_number(mask.shape[d], shape[first + d])) continue;
    e.check(ir::CheckKind::mask_, e.eq(mask.shape[d], shape[first + d]), {},
            {e.i64(static_cast<int64_t>(first + d)), shape[first + d], mask.shape[d]});
  }
}

std::vector<TensorRef> true_indices(Context& c, const TensorRef& given) {
  Emit e(c);
  const TensorRef mask = given->heavy ? materialised(c, given) : given;
  Value* const none[] = {e.i64(0)};
  const auto counted = [&](Index index, Value* so_far) {
    Emit emit(c);
    return emit.op(Opcode::add_, {so_far, emit.cast(mask->at(c, index).value, DType::i64_)});
  };
  const std::vector<InnerRef> dims = all_dimensions(*mask, "sum");
  Value* count = accumulate(c, dims, none, Order::any, [&](Index index, std::span<Value* const> carried) {
    return std::vector<Value*>{counted(index, carried[0])};
  })[0];
  // Every index is stored, the next one over it unless the mask is true: no branch, and one element more than needed.
  Value* const room[] = {e.op(Opcode::add_, {count, e.i64(1)})};
  std::vector<TensorRef> arrays, out;
  for (size_t d = 0; d < mask->shape.size(); d++) {
    arrays.push_back(allocate(c, DType::i64_, room));
    Tensor part = *arrays.back();
    part.shape = {count};
    out.push_back(make_view(std::move(part)));
  }
  accumulate(c, dims, none, Order::kept, [&](Index index, std::span<Value* const> carried) {
    Value* const at[] = {carried[0]};
    for (size_t d = 0; d < arrays.size(); d++) c.builder().store(index[d], arrays[d]->base.value, at);
    return std::vector<Value*>{counted(index, carried[0])};
  });
  return out;
}

std::shared_ptr<const Filter> filtered(const TensorRef& source, const TensorRef& mask) {
  if (mask->heavy || source->heavy) return nullptr;
  return std::make_shared<const Filter>(Filter{mask, source});
}

std::shared_ptr<const Filter> map_filters(Context& c, std::span<const Traced> operands, const ElementFunction& f) {
  std::vector<Traced> sources(operands.begin(), operands.end());
  TensorRef mask;
  for (Traced& t : sources) {
    if (!is_tensor(t)) continue;
    const std::shared_ptr<const Filter> filter = t.kind == Kind::tensor ? t.tensor->filter : nullptr;
    if (!filter || (mask && !same_elements(c, mask, filter->mask))) return nullptr;
    mask = filter->mask;
    t = tensor(filter->source);
  }
  return mask ? filtered(map(c, sources, f).tensor, mask) : nullptr;
}

bool store_where(Context& c, const TensorRef& target, const TensorRef& given, const Traced& value) {
  TensorRef source;
  Value* element = nullptr;
  if (is_tensor(value)) {
    const std::shared_ptr<const Filter> filter = value.kind == Kind::tensor ? value.tensor->filter : nullptr;
    if (!filter || !same_elements(c, filter->mask, given)) return false;
    // What is selected has the target's shape, or is broadcast to it.
    if (filter->source->rank() != target->rank()) return false;
    for (size_t d = 0; d < target->shape.size(); d++) {
      if (!same_number(filter->source->shape[d], target->shape[d])) return false;
    }
    source = filter->source;
  } else {
    element = stored(c, value, target->dtype);
  }
  c.mark_written(target->base);
  std::vector<int> order(target->shape.size(), -1);
  std::iota(order.begin(), order.begin() + given->rank(), 0);
  const TensorRef mask =
      before_stores(c, *target, rearranged(c, given->heavy ? materialised(c, given) : given, order), true);
  if (source) source = before_stores(c, *target, source, true);
  std::vector<Read> touched = reads_of(target);
  append_reads(touched, mask);
  if (source) append_reads(touched, source);
  std::vector<Names> names = names_of(*target);
  add_names(names, *mask);
  if (source) add_names(names, *source);
  const Mapping mapping = plan(c, {target->shape, names, {}, touched});
  for_each(c, target->shape, mapping, nullptr, [&](Index index, Value*) {
    ir::Builder& b = c.builder();
    ir::Block* outer = b.block();
    ir::Op* choice = b.if_op(mask->at(c, own_index(c, mask->shape, index, 0)).value, {});
    b.set_block(choice->blocks[0]);
    Value* v = source ? cast_element(c, source->at(c, index), target->dtype) : element;
    b.store(v, target->base.value, positions(c, *target, index));
    b.yield({});
    b.set_block(choice->blocks[1]);
    b.yield({});
    b.set_block(outer);
  });
  return true;
}

}  // namespace appy::trace
