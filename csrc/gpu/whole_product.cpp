#include "gpu/whole_product.h"

#include <algorithm>
#include <bit>

#include "gpu/operands.h"
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

double number_of(ir::Word word, ir::DType type) {
  return type == ir::DType::f64_ ? std::bit_cast<double>(word) : std::bit_cast<float>(static_cast<uint32_t>(word));
}

/// The value as a factor that the host knows, or nothing.
std::optional<WholeProduct::Factor> factor_of(const ir::Graph& graph, const Value& v) {
  const ir::DType type = v.type.dtype;
  if (v.type.is_view() || (type != ir::DType::f64_ && type != ir::DType::f32_)) return {};
  if (v.block == graph.body) return WholeProduct::Factor{0, type, ir::first_word(graph, v.index)};
  if (!v.op) return {};
  if (v.op->code == Opcode::const_) return WholeProduct::Factor{number_of(v.op->imm, type), type, {}};
  // A Python float for arrays of float32, which the library's call rounds.
  const bool rounds = v.op->code == Opcode::cast_ && type == ir::DType::f32_;
  return rounds ? factor_of(graph, *v.op->operands[0]) : std::nullopt;
}

/// The value is `base`, or its product with a factor.
template <class F>
bool is_multiple(const ir::Graph& graph, const Value& v, const F& is_base, WholeProduct::Factor& factor) {
  if (is_base(v)) return true;
  if (!v.op || v.op->code != Opcode::mul_) return false;
  for (size_t side = 0; side < 2; ++side) {
    const auto by = factor_of(graph, *v.op->operands[side]);
    if (!by || !is_base(*v.op->operands[1 - side])) continue;
    factor = *by;
    return true;
  }
  return false;
}

/// Row i, counted from 0, has the columns from 0 to i.
bool is_triangle(const Product& p) {
  const Op &rows = p.rows(), &columns = p.columns();
  const Op* end = columns.operands[1]->op;
  const bool from_zero = passes::constant(*rows.operands[0]) == 0 && passes::constant(*columns.operands[0]) == 0;
  if (!from_zero || !end || end->code != Opcode::add_) return false;
  const Value* const i = passes::induction(rows);
  for (size_t side = 0; side < 2; ++side) {
    if (end->operands[side] == i && passes::constant(*end->operands[1 - side]) == 1) return true;
  }
  return false;
}

double value_of(const WholeProduct::Factor& factor, std::span<const ir::Word> arguments) {
  return factor.word ? number_of(arguments[*factor.word], factor.type) : factor.number;
}

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
  operand.position = ir::first_word(graph, operand.view->index);
  return index >= unaligned.size() || !unaligned[index];
}

}  // namespace

std::optional<WholeProduct::Operand> operand_of(const ir::Graph& graph, const HostPart& part,
                                                const std::vector<bool>& unaligned, const Op& access, const Op& rows,
                                                const Op& columns) {
  WholeProduct::Operand out;
  if (!describe(access, rows, columns, out) || !locate(graph, part, unaligned, out)) return {};
  return out;
}

std::optional<WholeProduct::Update> update_of(const ir::Graph& graph, const Op& store, const Value& sum) {
  const auto is_sum = [&](const Value& v) { return &v == &sum; };
  const auto is_before = [&](const Value& v) { return load_of(v) && passes::same_element(*v.op, store); };
  const Value& stored = *store.operands[0];
  WholeProduct::Update out;
  out.beta.number = 0;
  if (is_multiple(graph, stored, is_sum, out.alpha)) return out;
  if (!stored.op) return {};
  out.beta.number = 1;
  const std::vector<Value*>& from = stored.op->operands;
  if (stored.op->code == Opcode::add_) {
    for (size_t side = 0; side < 2; ++side) {
      if (is_multiple(graph, *from[side], is_sum, out.alpha) &&
          is_multiple(graph, *from[1 - side], is_before, out.beta))
        return out;
    }
  }
  if (stored.op->code != Opcode::fma_) return {};
  for (size_t side = 0; side < 2; ++side) {
    const auto by = factor_of(graph, *from[side]);
    if (!by) continue;
    if (is_sum(*from[1 - side]) && is_multiple(graph, *from[2], is_before, out.beta)) {
      out.alpha = *by;
      return out;
    }
    if (is_before(*from[1 - side]) && is_multiple(graph, *from[2], is_sum, out.alpha)) {
      out.beta = *by;
      return out;
    }
  }
  return {};
}

std::optional<Factors> factors_of(const WholeProduct::Update& update, ir::DType type,
                                  std::span<const ir::Word> arguments) {
  Factors out = {value_of(update.alpha, arguments), update.reads() ? value_of(update.beta, arguments) : 0};
  if (type == ir::DType::f32_) out = {static_cast<float>(out.alpha), static_cast<float>(out.beta)};
  return out.alpha == 0 || (update.reads() && out.beta == 0) ? std::nullopt : std::optional(out);
}

std::optional<WholeProduct> whole_product_of(const ir::Graph& graph, const HostPart& part,
                                             const std::vector<bool>& unaligned) {
  if (part.products.size() != 1) return {};
  const Product& p = part.products[0].product;
  const bool triangle = is_triangle(p);
  if (p.terms != 1 || p.nest.size() != 2 || (!p.rectangular && !triangle) || p.uneven != passes::Side::neither ||
      !p.from_zero())
    return {};
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
  const auto update = update_of(graph, *store, *p.steps->result());
  if (!update) return {};
  out.update = *update;
  const auto at = [&](const Op& access, const Op& rows, const Op& columns, WholeProduct::Operand& to) {
    const auto found = operand_of(graph, part, unaligned, access, rows, columns);
    if (found) to = *found;
    return found.has_value();
  };
  if (!at(*store, p.rows(), p.columns(), out.c) || !at(*a, p.rows(), *p.steps, out.a) ||
      !at(*b, *p.steps, p.columns(), out.b))
    return {};
  if (alloc && alloc->result() != out.c.view) return {};
  if (triangle) {
    const auto of_column = operand_of(graph, part, unaligned, *b, p.columns(), *p.steps);
    if (!of_column || !(*of_column == out.a) || out.c.first[0] != out.c.first[1]) return {};
    out.triangle = true;
  }
  return out;
}

Matrix matrix_of(const WholeProduct::Operand& operand, int64_t rows, int64_t columns, const Sizes& sizes,
                 std::span<const ir::Word> arguments, std::span<const ir::Word> made) {
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
}

std::string multiply(const WholeProduct& product, const Device& device, Stream stream, const Sizes& sizes,
                     std::span<const ir::Word> arguments, std::span<const ir::Word> made) {
  const auto matrix = [&](const WholeProduct::Operand& operand, int64_t rows, int64_t columns) {
    return matrix_of(operand, rows, columns, sizes, arguments, made);
  };
  const auto factors = factors_of(product.update, product.c.view->type.dtype, arguments);
  if (!factors) return {};
  const auto [alpha, beta] = *factors;
  const ProductSize& size = sizes.part().products[0];
  const int64_t rows = sizes.at(size.rows, 0), columns = sizes.at(size.columns, 0), steps = sizes.at(size.steps, 0);
  const Matrix a = matrix(product.a, rows, steps), b = matrix(product.b, steps, columns),
               c = matrix(product.c, rows, columns);
  if (!takes(c, a, b)) return {};
  if (product.triangle && rows != columns) return {};
  std::string problem;
  const FoundLibrary* const library = blas(problem);
  const bool is_double = product.c.view->type.dtype == ir::DType::f64_;
  if (library && product.triangle)
    return multiply_by_itself(device, stream, is_double, alpha, beta, c, a, problem) ? name_of(*library) : "";
  if (!library || !multiply(device, stream, is_double, alpha, beta, c, a, b, problem)) return {};
  return name_of(*library);
}

}  // namespace appy::gpu
