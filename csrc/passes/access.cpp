// Folds index arithmetic into the affine rows of loads, stores and atomics. Rows wrap as i64 does, so add, sub, mul,
// neg and shl move into them without any range being known. What no enclosing loop varies stays one term; its constant
// part still moves into the offset.
#include <algorithm>
#include <utility>
#include <vector>

#include "passes/loops.h"

namespace appy::passes {

namespace {

using ir::Op;
using ir::Opcode;
using ir::Value;

/// offset + sum of coef * term, modulo 2^64, terms in order of appearance.
struct Row {
  uint64_t offset = 0;
  InlineVector<std::pair<Value*, uint64_t>, 4> terms;

  void add(Value* term, uint64_t factor) {
    for (auto& [known, coef] : terms) {
      if (known == term) {
        coef += factor;
        return;
      }
    }
    terms.push_back({term, factor});
  }
};

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : varies_(graph.value_count()) { note_varying(*graph.body, false); }

  bool fold(Op& op) {
    ir::Access& access = *op.access;
    const size_t rank = access.offset.size(), first = op.first_term();
    rows_.resize(rank);
    for (size_t d = 0; d < rank; ++d) {
      Row& row = rows_[d];
      row.terms.clear();
      row.offset = static_cast<uint64_t>(access.offset[d]);
      for (int t = 0; t < access.terms; ++t) {
        const auto coef = static_cast<uint64_t>(access.coef[d][t]);
        if (coef != 0) decompose(*op.operands[first + t], coef, row, kDepth);
      }
    }
    InlineVector<Value*, 4> terms;
    for (const Row& row : rows_) {
      for (const auto& [term, coef] : row.terms) {
        if (coef != 0 && std::find(terms.begin(), terms.end(), term) == terms.end()) terms.push_back(term);
      }
    }
    bool changed =
        !std::equal(terms.begin(), terms.end(), op.operands.begin() + static_cast<ptrdiff_t>(first), op.operands.end());
    op.operands.resize(first);
    op.operands.insert(op.operands.end(), terms.begin(), terms.end());
    access.terms = static_cast<int>(terms.size());
    for (size_t d = 0; d < rank; ++d) {
      const auto offset = static_cast<int64_t>(rows_[d].offset);
      changed |= std::exchange(access.offset[d], offset) != offset;
      ir::Access::Row coefs(terms.size(), 0);
      for (const auto& [term, coef] : rows_[d].terms) {
        if (coef != 0)
          coefs[static_cast<size_t>(std::find(terms.begin(), terms.end(), term) - terms.begin())] =
              static_cast<int64_t>(coef);
      }
      changed |= coefs != access.coef[d];
      access.coef[d] = coefs;
    }
    return changed;
  }

 private:
  static constexpr int kDepth = 32;

  /// Does the value depend on a loop around it? Arguments, memory and results of control ops inside one do.
  void note_varying(ir::Block& block, bool in_loop) {
    for (Value* arg : block.args) varies_[arg->id] = in_loop;
    for (Op* op = block.first; op; op = op->next) {
      bool varies = in_loop && !ir::is_pure(op->code);
      for (Value* operand : op->operands) varies = varies || varies_[operand->id];
      for (ir::Block* inner : op->blocks) note_varying(*inner, in_loop || is_loop(*op));
      for (Value* result : op->results) varies_[result->id] = varies;
    }
  }

  void decompose(Value& v, uint64_t factor, Row& row, int depth) {
    if (const auto number = constant(v)) {
      row.offset += factor * static_cast<uint64_t>(*number);
      return;
    }
    if (!v.op || depth == 0) return row.add(&v, factor);
    const Op& op = *v.op;
    const auto constant_operand = [&](size_t i) { return constant(*op.operands[i]); };
    switch (op.code) {
      case Opcode::add_:
      case Opcode::sub_: {
        if (!varies_[v.id] && !constant_operand(0) && !constant_operand(1)) break;
        decompose(*op.operands[0], factor, row, depth - 1);
        decompose(*op.operands[1], op.code == Opcode::add_ ? factor : -factor, row, depth - 1);
        return;
      }
      case Opcode::mul_:
        for (size_t i = 0; i < 2; ++i) {
          if (const auto number = constant_operand(i)) {
            return decompose(*op.operands[1 - i], factor * static_cast<uint64_t>(*number), row, depth - 1);
          }
        }
        break;
      case Opcode::shl_:
        if (const auto count = constant_operand(1); count && *count >= 0 && *count < 64) {
          return decompose(*op.operands[0], factor << *count, row, depth - 1);
        }
        break;
      case Opcode::neg_:
        return decompose(*op.operands[0], -factor, row, depth - 1);
      default:
        break;
    }
    row.add(&v, factor);
  }

  std::vector<bool> varies_;
  std::vector<Row> rows_;  // of the op at hand
};

}  // namespace

bool access(ir::Graph& graph) {
  Folder folder(graph);
  bool changed = false;
  ir::walk(*graph.body, [&](Op& op) {
    if (op.access) changed = folder.fold(op) || changed;
  });
  return changed;
}

}  // namespace appy::passes
