#include "trace/samples.h"

#include <algorithm>

#include "ir/formula.h"

namespace appy::trace {

std::optional<int64_t> Samples::of(const ir::Value* v) const {
  const ir::Graph& graph = v->op ? *v->op->graph : *v->block->graph;
  const std::optional<ir::Formula> formula = ir::Formula::of(v, graph);
  return formula ? std::optional((*formula)(words(graph).data())) : std::nullopt;
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
