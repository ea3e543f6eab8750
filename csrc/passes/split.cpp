// Index-set splitting: a loop whose `wrap(i + c, n)` turns non-negative after its first iterations becomes two loops,
// so that the subscript is affine in the second one (and, where it alone wraps, in the first). Only loops without inner
// loops: further out, one select an iteration costs nothing.

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kPeel = 8;  // at most so many iterations make a loop that needs no permission
constexpr int kMostSplits = 2;

/// Copies an op with its blocks inside its graph.
class Copier {
 public:
  explicit Copier(ir::Graph& graph) : graph_(graph) {}

  Op* copy(const Op& from) {
    Op* made = graph_.new_op(from.code, from.loc);
    for (Value* v : from.operands) made->operands.push_back(of(v));
    made->imm = from.imm;
    made->dim = from.dim;
    made->combiner = from.combiner;
    if (from.access) made->access = std::make_unique<ir::Access>(*from.access);
    if (from.check) made->check = std::make_unique<ir::Check>(*from.check);
    if (from.loop) made->loop = std::make_unique<ir::Loop>(*from.loop);
    for (const Block* block : from.blocks) {
      Block* inner = graph_.new_block(made);
      made->blocks.push_back(inner);
      for (const Value* arg : block->args) map_[arg] = ir::add_arg(*inner, arg->type, arg->name);
      for (const Op* op = block->first; op; op = op->next) inner->append(copy(*op));
    }
    for (const Value* result : from.results) {
      Value* v = ir::add_result(*made, result->type);
      v->name = result->name;
      v->range = result->range;
      map_[result] = v;
    }
    return made;
  }

  Value* of(Value* v) const {
    const auto found = map_.find(v);
    return found == map_.end() ? v : found->second;
  }

 private:
  ir::Graph& graph_;
  std::unordered_map<const Value*, Value*> map_;
};

/// A wrap of i + rest, where rest does not vary in the loop.
struct Crossing {
  Op* wrap;
  Affine rest;
};

class Splitter {
 public:
  explicit Splitter(ir::Graph& graph) : graph_(graph) {}

  /// Splits once. The second loop is `loop` itself.
  bool split(Op& loop) {
    if (constant(*loop.operands[2]) != 1 || !exits_of(loop).breaks.empty()) return false;
    Ranges ranges(graph_);
    std::vector<Crossing> group = crossings(ranges, loop);
    if (group.empty()) return false;
    const Crossing& last = *std::min_element(group.begin(), group.end(), [](const Crossing& a, const Crossing& b) {
      return a.rest.constant < b.rest.constant;
    });

    Builder b(graph_);
    b.set_loc(loop.loc);
    b.set_before(&loop);
    Value *lower = loop.operands[0], *upper = loop.operands[1];
    Value* point = nullptr;
    for (const auto& [value, coef] : last.rest.terms) {
      Value* term = b.op(Opcode::mul_, {const_cast<Value*>(value), b.i64(static_cast<int64_t>(-coef))});
      point = point ? b.op(Opcode::add_, {point, term}) : term;
    }
    Value* offset = b.i64(static_cast<int64_t>(-last.rest.constant));
    point = point ? b.op(Opcode::add_, {point, offset}) : offset;
    Value* middle = b.op(Opcode::maximum_, {lower, b.op(Opcode::minimum_, {point, upper})});

    Copier copier(graph_);
    Op* first = copier.copy(loop);
    loop.parent->insert_before(&loop, first);
    first->operands[1] = middle;
    loop.operands[0] = middle;
    for (size_t k = 0; k < first->results.size(); ++k) loop.operands[3 + k] = first->results[k];

    const auto from = constant(*lower);
    const bool peeled = from && last.rest.terms.empty() && -last.rest.constant - *from <= kPeel;
    if (peeled) {
      first->loop->parallel = first->loop->simd = false;
      for (ir::Carried& c : first->loop->carried) c = {};
    } else if (group.size() == 1) {
      Value* wrapped = copier.of(last.wrap->result());
      Builder inner(graph_);
      inner.set_loc(wrapped->op->loc);
      inner.set_before(wrapped->op);
      replace(*wrapped->op, inner.op(Opcode::add_, {wrapped->op->operands[0], wrapped->op->operands[1]}));
    }
    for (const Crossing& crossing : group) replace(*crossing.wrap, crossing.wrap->operands[0]);
    return true;
  }

 private:
  void replace(Op& wrap, Value* by) {
    ir::replace_uses(graph_, wrap.result(), by);
    wrap.parent->remove(&wrap);
  }

  /// The wraps that one split serves: their indices differ by constants.
  static std::vector<Crossing> crossings(Ranges& ranges, Op& loop) {
    std::vector<Crossing> group;
    bool nested = false;
    ir::walk(body_of(loop), [&](Op& op) {
      nested |= is_loop(op);
      if (op.code != Opcode::wrap_ || nested) return;
      const Value& index = *op.operands[0];
      if (ranges.proves_ge(index, 0, op) || ranges.at(index, op).hi < 0) return;
      Affine rest = ranges.affine(index, op);
      const Value* iv = induction(loop);
      if (rest.coef(*iv) != 1) return;
      rest.add(*iv, -1);
      for (const auto& [value, coef] : rest.terms) {
        if (!visible_before(*value, loop) || coef < INT32_MIN || coef > INT32_MAX) return;
        if (value->type != ir::scalar(ir::DType::i64_)) return;
      }
      if (rest.constant < INT32_MIN || rest.constant > INT32_MAX) return;
      if (!group.empty() && group[0].rest.terms != rest.terms) return;
      group.push_back({&op, std::move(rest)});
    });
    if (nested) group.clear();
    return group;
  }

  ir::Graph& graph_;
};

}  // namespace

bool split(ir::Graph& graph) {
  bool changed = false;
  Splitter splitter(graph);
  for (Op* loop : for_loops(graph)) {
    for (int n = 0; n < kMostSplits && splitter.split(*loop); ++n) changed = true;
  }
  return changed;
}

}  // namespace appy::passes
