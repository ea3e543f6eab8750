#include "trace/samples.h"

#include <algorithm>
#include <array>

#include "ir/eval.h"

namespace appy::trace {

std::optional<int64_t> Samples::of(const ir::Value* v) const {
  const auto is_parameter = [](const ir::Value& x) { return !x.op && x.block && !x.block->owner; };
  if (is_parameter(*v)) {
    const auto known = scalars_.find(v->index);
    return known == scalars_.end() ? std::nullopt : std::optional(known->second);
  }
  if (!v->op || !ir::is_pure(v->op->code) || v->type.is_view() || ir::is_real(v->type.dtype)) return {};
  if (v->op->code == ir::Opcode::dim_) {
    if (!is_parameter(*v->op->operands[0])) return {};
    const auto array = extents_.find(v->op->operands[0]->index);
    if (array == extents_.end()) return {};
    return array->second[static_cast<size_t>(v->op->dim)];
  }
  if (v->op->code == ir::Opcode::const_) return static_cast<int64_t>(v->op->imm);
  std::array<ir::Word, 3> words{};
  const size_t count = v->op->operands.size();
  if (count == 0 || count > words.size()) return {};
  for (size_t k = 0; k < count; ++k) {
    const ir::Value* operand = v->op->operands[k];
    if (ir::is_real(operand->type.dtype)) return {};
    const std::optional<int64_t> word = of(operand);
    if (!word) return {};
    words[k] = static_cast<ir::Word>(*word);
  }
  const ir::DType from = v->op->operands[v->op->code == ir::Opcode::select_ ? 1 : 0]->type.dtype;
  return static_cast<int64_t>(ir::evaluate_op(v->op->code, v->type.dtype, from, std::span(words).first(count)));
}

std::vector<ir::Word> Samples::words(const ir::Graph& graph) const {
  std::vector<ir::Word> out;
  for (const ir::Value* param : graph.body->args) {
    const size_t first = out.size();
    out.resize(first + ir::words_of(param->type));
    if (const auto scalar = scalars_.find(param->index); scalar != scalars_.end()) {
      out[first] = static_cast<ir::Word>(scalar->second);
    } else if (const auto array = extents_.find(param->index); array != extents_.end()) {
      std::copy(array->second.begin(), array->second.end(), out.begin() + static_cast<ptrdiff_t>(first) + 1);
      if (param->type.layout == ir::Layout::pairs) out[first + static_cast<size_t>(param->type.rank)] = 2;
    }
  }
  return out;
}

void ArrayCount::add(const Samples& samples, ir::DType dtype, std::span<ir::Value* const> shape) {
  ++arrays;
  int64_t size = ir::size_of(dtype);
  for (const ir::Value* extent : shape) {
    const std::optional<int64_t> n = samples.of(extent);
    if (!n) return;
    size *= *n;
  }
  bytes += size;
}

ArrayCounts& ArrayCounts::operator+=(const ArrayCounts& more) {
  once.arrays += more.once.arrays;
  once.bytes += more.once.bytes;
  each.arrays += more.each.arrays;
  each.bytes += more.each.bytes;
  return *this;
}

ArrayCounts allocated(const ir::Graph& graph, const Samples& samples) {
  ArrayCounts out;
  ir::walk(*graph.body, [&](const ir::Op& op) {
    if (op.code != ir::Opcode::alloc_) return;
    ArrayCount& count = ir::enclosing_loop(*op.parent) ? out.each : out.once;
    count.add(samples, op.result()->type.dtype, op.operands);
  });
  return out;
}

}  // namespace appy::trace
