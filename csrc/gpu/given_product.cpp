#include "gpu/given_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "passes/loops.h"

namespace appy::gpu {

using ir::Op;
using ir::Opcode;
using passes::Product;

namespace {

/// Before the nest: each thread knows what follows from scalars, and all else is in memory when the kernel ends.
bool may_end_before(const Op& nest) {
  for (const Op* op = nest.parent->first; op != &nest; op = op->next) {
    const bool leaves_nothing =
        op->results.empty() && (op->code == Opcode::for_ || op->code == Opcode::store_ || op->code == Opcode::barrier_);
    if (!ir::is_pure(op->code) && op->code != Opcode::alloc_ && op->code != Opcode::check_ && !leaves_nothing)
      return false;
  }
  return true;
}

/// What is done with each sum is one store; null where it is more.
const Op* only_store(const Product& p) {
  const Op* store = nullptr;
  for (const Op* op = passes::body_of(p.columns()).first; op; op = op->next) {
    if ((!op->blocks.empty() && op != p.steps) || (op->code == Opcode::store_ && store)) return nullptr;
    if (op->code == Opcode::store_) store = op;
  }
  return p.steps->results.size() == 1 ? store : nullptr;
}

std::optional<GivenProduct> given(const ir::Graph& graph, const HostPart& part, const std::vector<bool>& unaligned,
                                  size_t nest) {
  const Product& p = part.products[nest].product;
  const ir::DType type = p.steps->result()->type.dtype;
  const bool simple = p.terms && p.nest.size() == 2 && p.uneven == passes::Side::neither &&
                      p.nest[0]->parent == graph.body && (type == ir::DType::f64_ || type == ir::DType::f32_);
  if (!simple || !may_end_before(*p.nest[0])) return {};
  // An element that all share is loaded where there is any row and column: nobody knows that here.
  bool shares = false;
  ir::walk(passes::body_of(*p.nest[0]),
           [&](const Op& op) { shares |= op.code == Opcode::load_ && p.side(*op.result()) == passes::Side::neither; });
  if (shares) return {};
  // Of the row's values and the column's that are multiplied with each other, term by term.
  std::array<WholeProduct::Operand, 2> a, b;
  for (size_t term = 0; term < p.terms; ++term) {
    const ir::Value *x = p.of_row[term], *y = p.of_column[p.crossed ? 1 - term : term];
    const bool loads = x->op && x->op->code == Opcode::load_ && y->op && y->op->code == Opcode::load_ &&
                       x->op->view()->type.dtype == type && y->op->view()->type.dtype == type;
    if (!loads) return {};
    const auto of_row = operand_of(graph, part, unaligned, *x->op, p.rows(), *p.steps);
    const auto of_column = operand_of(graph, part, unaligned, *y->op, p.columns(), *p.steps);
    if (!of_row || !of_column) return {};
    a[term] = *of_row;
    b[term] = *of_column;
  }
  const bool mirrored = p.terms == 2;
  if (mirrored && (!(a[0] == b[1]) || !(a[1] == b[0]))) return {};
  GivenProduct out{nest, a[0], b[0], {}, {}, type, mirrored};
  const ProductSize& size = part.products[nest];
  const Op* const store = p.rectangular && !mirrored && p.from_zero() ? only_store(p) : nullptr;
  if (!store || store->view()->type.dtype != type) return out;
  if (!size.store) out.update = update_of(graph, *store, *p.steps->result());
  if (size.store || out.update) out.c = operand_of(graph, part, unaligned, *store, p.rows(), p.columns());
  return out;
}

struct Extents {
  int64_t rows, columns, steps;
};

Extents extents_of(const GivenProduct& product, const Sizes& sizes) {
  const ProductSize& size = sizes.part().products[product.nest];
  return {sizes.at(size.rows, 0), sizes.at(size.columns, 0), sizes.at(size.steps, 0)};
}

/// Has the operand's array so many rows and columns? Of a triangle some rows may have no columns, and never be read.
bool has(const WholeProduct::Operand& operand, int64_t rows, int64_t columns, const Sizes& sizes,
         std::span<const ir::Word> arguments) {
  for (size_t d = 0; d < 2; ++d) {
    const int64_t extent = operand.made ? sizes.at(sizes.part().arrays[operand.position].extents[d], 0)
                                        : static_cast<int64_t>(arguments[operand.position + 1 + d]);
    const int64_t used = d == operand.rows ? rows : columns;
    if (operand.first[d] < 0 || operand.first[d] + used > extent) return false;
  }
  return true;
}

/// What sums are multiplied by; nothing where that is not a product with it to 1.5 units in the last place, or the
/// library would not compute sums at all.
std::optional<double> scale_of(const GivenProduct& product, const Sizes& sizes) {
  const ProductSize& size = sizes.part().products[product.nest];
  const auto word = static_cast<ir::Word>(sizes.at(size.scale, 0));
  double by = std::bit_cast<double>(word);
  if (product.type == ir::DType::f32_) by = std::bit_cast<float>(static_cast<uint32_t>(word));
  if (size.divides) by = product.type == ir::DType::f32_ ? 1 / static_cast<float>(by) : 1 / by;
  const bool normal = product.type == ir::DType::f32_ ? std::isnormal(static_cast<float>(by)) : std::isnormal(by);
  return normal ? std::optional(by) : std::nullopt;
}

std::optional<Factors> factors_for(const GivenProduct& product, const Sizes& sizes,
                                   std::span<const ir::Word> arguments) {
  if (product.update) return factors_of(*product.update, product.type, arguments);
  const auto scale = scale_of(product, sizes);
  return scale ? std::optional(Factors{*scale, 0}) : std::nullopt;
}

/// Of the sums a row at a time; operands that lie in columns are columns of a matrix.
Matrix sums_at(uint64_t at, const Extents& e, int64_t leading) { return {at, e.rows, e.columns, leading, 1}; }

}  // namespace

std::vector<GivenProduct> given_products(const ir::Graph& graph, const HostPart& part,
                                         const std::vector<bool>& unaligned) {
  std::vector<GivenProduct> out;
  for (size_t nest = 0; nest < part.products.size() && nest < 32; ++nest) {
    if (const auto found = given(graph, part, unaligned, nest)) out.push_back(*found);
  }
  return out;
}

bool takes(const GivenProduct& product, const Sizes& sizes, std::span<const ir::Word> arguments) {
  const Extents e = extents_of(product, sizes);
  if (e.rows < 1 || e.columns < 1 || e.steps < 1 || (product.mirrored && e.rows != e.columns)) return false;
  if (!has(product.a, e.rows, e.steps, sizes, arguments) || !has(product.b, e.columns, e.steps, sizes, arguments))
    return false;
  const std::vector<ir::Word> nowhere(sizes.part().arrays.size());
  const Matrix a = matrix_of(product.a, e.rows, e.steps, sizes, arguments, nowhere),
               b = matrix_of(product.b, e.columns, e.steps, sizes, arguments, nowhere);
  return takes(sums_at(0, e, sums_of(product, sizes).leading), a, b.transposed());
}

bool pays(const GivenProduct& product, const Sizes& sizes) {
  const Extents e = extents_of(product, sizes);
  // H200, 10^12 operations a second: the library has 50 of either type. Tiles of float64 have 16 where there are few
  // and 32 where there are many, of float32 37; they compute no more than a triangle needs, and the library a mirrored
  // sum from half of its products. Where the whole takes less than a few launches, one kernel is best.
  const double all = 2.0 * static_cast<double>(e.rows) * static_cast<double>(e.columns) * static_cast<double>(e.steps);
  const bool whole = sizes.part().products[product.nest].product.rectangular;
  const double tiles = all * (product.mirrored ? 2 : 1) * (whole ? 1 : 0.5);
  const double rate = product.type == ir::DType::f32_ ? 37 : tiles < 8e9 ? 16 : 32;
  return tiles / rate > 20e6 && all / 50 + 10e6 < tiles / rate;
}

bool stores(const GivenProduct& product, const Sizes& sizes, std::span<const ir::Word> arguments) {
  if (!product.c || !factors_for(product, sizes, arguments)) return false;
  const Extents e = extents_of(product, sizes);
  const std::vector<ir::Word> nowhere(sizes.part().arrays.size());
  const Matrix a = matrix_of(product.a, e.rows, e.steps, sizes, arguments, nowhere),
               b = matrix_of(product.b, e.columns, e.steps, sizes, arguments, nowhere),
               c = matrix_of(*product.c, e.rows, e.columns, sizes, arguments, nowhere);
  return takes(c, a, b.transposed());
}

GivenSums sums_of(const GivenProduct& product, const Sizes& sizes) {
  const Extents e = extents_of(product, sizes);
  constexpr int64_t line = 16;  // elements, or two lines of memory: so that the library may store whole ones
  const int64_t leading = (e.columns + line - 1) / line * line;
  return {leading, leading * e.rows};
}

bool multiply(const GivenProduct& product, const Device& device, Stream stream, const Sizes& sizes,
              std::span<const ir::Word> arguments, std::span<const ir::Word> made, uint64_t sums,
              std::string& problem) {
  const Extents e = extents_of(product, sizes);
  const Matrix a = matrix_of(product.a, e.rows, e.steps, sizes, arguments, made),
               b = matrix_of(product.b, e.columns, e.steps, sizes, arguments, made);
  const Matrix c = sums ? sums_at(sums, e, sums_of(product, sizes).leading)
                        : matrix_of(*product.c, e.rows, e.columns, sizes, arguments, made);
  const Factors by = sums ? Factors() : *factors_for(product, sizes, arguments);
  return multiply(device, stream, product.type == ir::DType::f64_, by.alpha, by.beta, c, a, b.transposed(), problem);
}

}  // namespace appy::gpu
