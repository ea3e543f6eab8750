#include "gpu/whole_product.h"

#include <algorithm>

#include "gpu/blas.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Op;
using ir::Opcode;
using ir::Value;
using passes::Product;

namespace {

/// The access is view[i + constant, j + constant], in either order, of the variables of these two loops.
bool describe(const Op& access, const Op& rows, const Op& columns, WholeProduct::Operand& out) {
  if (access.view()->type.rank != 2) return false;
  out.view = access.view();
  bool seen[2] = {false, false};
  for (size_t d = 0; d < 2; ++d) {
    const passes::Affine subscript = passes::row(access, d);
    if (subscript.terms.size() != 1) return false;
    const size_t which = subscript.terms[0].first == passes::induction(rows) ? 0 : 1;
    const Op& loop = which == 0 ? rows : columns;
    if (subscript.terms[0].first != passes::induction(loop) || subscript.terms[0].second != 1 || seen[which])
      return false;
    seen[which] = true;
    const auto lower = passes::constant(*loop.operands[0]);
    if (!lower || passes::constant(*loop.operands[2]) != 1) return false;
    out.first[d] = static_cast<int64_t>(subscript.constant) + *lower;
    if (which == 0) out.rows = d;
  }
  return seen[0] && seen[1];
}

const Op* load_of(const Value& v) { return v.op && v.op->code == Opcode::load_ ? v.op : nullptr; }

/// Where the launch finds the operand; false: it is not for a library.
bool locate(const ir::Graph& graph, const HostPart& part, const std::vector<bool>& unaligned,
            WholeProduct::Operand& operand) {
  if (const Op* alloc = ir::alloc_of(*operand.view)) {
    const auto array =
        std::find_if(part.arrays.begin(), part.arrays.end(), [&](const ArraySize& a) { return a.alloc == alloc; });
    operand.made = true;
    operand.position = static_cast<size_t>(array - part.arrays.begin());
    return array != part.arrays.end();
  }
  const uint32_t index = operand.view->index;
  for (uint32_t k = 0; k < index; ++k) operand.position += ir::words_of(graph.body->args[k]->type);
  return index >= unaligned.size() || !unaligned[index];
}

bool is_zero(const Value& v) { return v.op && v.op->code == Opcode::const_ && v.op->imm == 0; }

}  // namespace

std::optional<WholeProduct> whole_product_of(const ir::Graph& graph, const HostPart& part,
                                             const std::vector<bool>& unaligned) {
  if (part.products.size() != 1) return {};
  const Product& p = part.products[0].product;
  if (!p.multiplies || p.nest.size() != 2 || !p.rectangular || !is_zero(*p.steps->operands[3])) return {};
  const ir::DType type = p.steps->result()->type.dtype;
  if (type != ir::DType::f64_ && type != ir::DType::f32_) return {};
  if (std::find(part.known.begin(), part.known.end(), false) != part.known.end()) return {};
  // Around the nest: what the host has done.
  const Op* alloc = nullptr;
  for (const Op* op = graph.body->first; op; op = op->next) {
    if (op == p.nest[0] || op->code == Opcode::yield_ || ir::is_pure(op->code)) continue;
    if (op->code == Opcode::check_ && part.made.count(op)) continue;
    if (op->code != Opcode::alloc_ || alloc) return {};
    alloc = op;
  }
  const Op *store = nullptr, *a = load_of(*p.of_row[0]), *b = load_of(*p.of_column[0]);
  bool simple = a && b;
  ir::walk(*p.columns().blocks[0], [&](const Op& op) {
    simple &= op.code != Opcode::if_ && (op.code != Opcode::store_ || !store);
    if (op.code == Opcode::store_) store = &op;
  });
  if (!simple) return {};
  WholeProduct out;
  const Value& stored = *store->operands[0];
  if (&stored != p.steps->result()) {
    if (!stored.op || stored.op->code != Opcode::add_) return {};
    const size_t side = stored.op->operands[0] == p.steps->result() ? 0 : 1;
    const Op* before = load_of(*stored.op->operands[1 - side]);
    if (stored.op->operands[side] != p.steps->result() || !before || !passes::same_element(*before, *store)) return {};
    out.adds = true;
  }
  if (!describe(*store, p.rows(), p.columns(), out.c) || !describe(*a, p.rows(), *p.steps, out.a) ||
      !describe(*b, *p.steps, p.columns(), out.b))
    return {};
  if (alloc && alloc->result() != out.c.view) return {};
  for (WholeProduct::Operand* operand : {&out.c, &out.a, &out.b}) {
    if (!locate(graph, part, unaligned, *operand)) return {};
  }
  return out;
}

std::string multiply(const WholeProduct& product, const Device& device, Stream stream, const Sizes& sizes,
                     std::span<const ir::Word> arguments, std::span<const ir::Word> made) {
  const auto matrix = [&](const WholeProduct::Operand& operand, int64_t rows, int64_t columns) {
    const int64_t size = ir::size_of(operand.view->type.dtype);
    const ir::Word* const words = operand.made ? &made[operand.position] : &arguments[operand.position];
    int64_t strides[2] = {0, size};
    if (operand.made) {
      const ArraySize& array = sizes.part().arrays[operand.position];
      strides[0] = std::max<int64_t>(sizes.at(array.extents[1], 0), 0) * size;
    } else {
      for (size_t d = 0; d < 2; ++d) strides[d] = static_cast<int64_t>(words[3 + d]);
    }
    const auto elements = [&](size_t d) { return strides[d] % size == 0 ? strides[d] / size : 0; };
    const auto first = static_cast<ir::Word>(operand.first[0] * strides[0] + operand.first[1] * strides[1]);
    return Matrix{words[0] + first, rows, columns, elements(operand.rows), elements(1 - operand.rows)};
  };
  const ProductSize& size = sizes.part().products[0];
  const int64_t rows = sizes.at(size.rows, 0), columns = sizes.at(size.columns, 0), steps = sizes.at(size.steps, 0);
  const Matrix a = matrix(product.a, rows, steps), b = matrix(product.b, steps, columns),
               c = matrix(product.c, rows, columns);
  if (!takes(c, a, b)) return {};
  std::string problem;
  const Blas* library = blas(problem);
  const bool is_double = product.c.view->type.dtype == ir::DType::f64_;
  if (!library || !multiply(device, stream, is_double, product.adds, c, a, b, problem)) return {};
  return "cuBLAS " + std::to_string(library->version / 1000) + "." + std::to_string(library->version % 1000 / 10);
}

}  // namespace appy::gpu
