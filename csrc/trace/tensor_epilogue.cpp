// Statements that end in the loops of a product of matrices: `C[:, :] = alpha * (A @ B) + beta * C` takes the sums from
// registers instead of an array of them.
#include <algorithm>
#include <utility>

#include "ir/builder.h"
#include "trace/tensor_mapping.h"

namespace appy::trace {
namespace {

using ir::Value;

/// Is it this element that is read wherever `out` is?
bool takes_own_element(const Tensor& out, std::span<const Read> reads) {
  bool found = false;
  for (const Read& read : reads) {
    if (read.view->base.value != out.base.value) continue;
    if (!read.regular || read.dims != std::vector<int>{0, 1} || !same_view(*read.view, out)) return false;
    found = true;
  }
  return found;
}

/// Does the mapping ask for no more than what a product's loops are: divided between workers, with lanes?
bool leaves_the_rest_open(const Mapping& mapping) {
  if (mapping.loops.empty() || !mapping.loops[0].parallel) return false;
  const auto open = [](const NestLoop& loop) { return !loop.le && !loop.chunk && loop.unroll == 1; };
  return std::ranges::all_of(mapping.loops, open);
}

}  // namespace

void finish_product(Context& c) {
  std::shared_ptr<MatrixProduct>* waiting = c.product();
  if (!waiting || !*waiting || (*waiting)->element || (*waiting)->sums) return;
  const std::shared_ptr<MatrixProduct> product = std::exchange(*waiting, nullptr);
  product->emit(nullptr);
}

bool store_in_product(Context& c, const Tensor& target, const TensorRef& source, const Mapping& mapping) {
  std::shared_ptr<MatrixProduct>* waiting = c.product();
  if (!waiting || !*waiting || !c.annotated()) return false;
  const std::shared_ptr<MatrixProduct> product = *waiting;
  if (source->rank() != 2 || source->heavy || source->lanes_inside || !source->inner.empty()) return false;
  if (!takes_own_element(*product->out, reads_of(source)) || !leaves_the_rest_open(mapping)) return false;
  for (const TensorRef& factor : product->factors) {
    for (Read read : reads_of(factor)) {
      read.make_irregular();
      if (conflicts(c, target, read, false)) return false;
    }
  }
  waiting->reset();
  const auto store = [&](Index at, Value* element) {
    c.builder().store(element, target.base.value, positions(c, target, at));
  };
  const auto element = [&](Index at) { return cast_element(c, source->at(c, at), target.dtype); };
  const MatrixProduct::Epilogue epilogue = {[&](Value* sum, Value* row, Value* column) {
                                              Value* const at[] = {row, column};
                                              product->element = sum;
                                              *waiting = product;
                                              Value* made = element(at);
                                              waiting->reset();
                                              product->element = nullptr;
                                              return made;
                                            },
                                            [&](Value* made, Value* row, Value* column) {
                                              Value* const at[] = {row, column};
                                              store(at, made);
                                            },
                                            [&](Value* sums) {
                                              product->sums = sums;
                                              *waiting = product;
                                              for_each(c, source->shape, mapping, element, store);
                                              waiting->reset();
                                              product->sums = nullptr;
                                            }};
  product->emit(&epilogue);
  return true;
}

}  // namespace appy::trace
