// Machines load, store and convert halves, f16 and bf16, they do not compute with them: each operation becomes one in
// f32 whose result is rounded. That is what NumPy and torch do, and products are not contracted with sums past the
// rounding. Only what a loop with permission reduces stays in f32 from iteration to iteration.
#include <bit>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/eval.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Combiner;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;
using ir::Word;

namespace {

bool is_half(const Value& v) { return !v.type.is_view() && ir::is_half(v.type.dtype); }

/// Does the op give one of its operands, or a number that a half holds wherever it holds the operands?
bool keeps_halves(Opcode code) {
  switch (code) {
    case Opcode::neg_:
    case Opcode::abs_:
    case Opcode::copysign_:
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::minimum_:
    case Opcode::maximum_:
    case Opcode::select_:
    case Opcode::floor_:
    case Opcode::ceil_:
    case Opcode::trunc_:
    case Opcode::rint_:
      return true;
    default:
      return false;
  }
}

class Halves {
 public:
  explicit Halves(ir::Graph& graph) : graph_(graph), b_(graph) {}

  bool run() {
    for (Op* loop : for_loops(graph_)) widen_reductions(*loop);
    ir::walk(*graph_.body, [&](Op& op) { visit(op); });
    if (changed_) ir::replace_uses(graph_, to_);
    return changed_;
  }

 private:
  /// What replaces the value, where something does.
  Value* now(Value* v) const { return v->id < to_.size() && to_[v->id] ? to_[v->id] : v; }

  void replace(Op& op, Value* by) {
    if (to_.size() <= op.result()->id) to_.resize(op.result()->id + 1, nullptr);
    if (by->name.empty()) by->name = op.result()->name;
    to_[op.result()->id] = by;
    op.parent->remove(&op);
    changed_ = true;
  }

  /// Is what the f32 value holds always one of that half type?
  bool is_exact(const Value& v, DType half, int depth = 0) const {
    if (const auto found = extremes_.find(&v); found != extremes_.end()) return found->second == half;
    if (!v.op || depth > 4) return false;
    if (v.op->code == Opcode::cast_) return now(v.op->operands[0])->type == ir::scalar(half);
    if (v.op->code == Opcode::const_) {
      const Word rounded = converted(DType::f32_, half, converted(half, DType::f32_, v.op->imm));
      return value_of(rounded) == value_of(v.op->imm);
    }
    if (!keeps_halves(v.op->code)) return false;
    for (size_t i = v.op->code == Opcode::select_; i < v.op->operands.size(); ++i) {
      if (!is_exact(*v.op->operands[i], half, depth + 1)) return false;
    }
    return true;
  }

  static float value_of(Word word) { return std::bit_cast<float>(static_cast<uint32_t>(word)); }
  static Word converted(DType to, DType from, Word word) {
    return ir::evaluate_op(Opcode::cast_, to, from, {&word, 1});
  }

  /// In f32, before the op that is being visited.
  Value* wide(Value* given) {
    Value* v = now(given);
    if (v->op && v->op->code == Opcode::const_) {
      return b_.constant(DType::f32_, converted(DType::f32_, v->type.dtype, v->op->imm));
    }
    const bool rounded = v->op && v->op->code == Opcode::cast_ && v->op->operands[0]->type.dtype == DType::f32_;
    return rounded && is_exact(*v->op->operands[0], v->type.dtype) ? v->op->operands[0] : b_.cast(v, DType::f32_);
  }

  void visit(Op& op) {
    if (!ir::is_pure(op.code) || !op.result()) return;
    const bool from = !op.operands.empty() && is_half(*op.operands.back()), to = is_half(*op.result());
    if (op.code == Opcode::const_ || op.code == Opcode::bitcast_ || (!from && !to)) return;
    b_.set_before(&op);
    b_.set_loc(op.loc);
    if (op.code == Opcode::cast_) return cast(op);
    std::vector<Value*> operands = op.operands;
    const size_t first = op.code == Opcode::select_;
    if (first) {
      const auto rounded = [&](Value* v) { return now(v)->op && now(v)->op->code == Opcode::cast_; };
      if (!rounded(operands[1]) && !rounded(operands[2])) return;
      operands[0] = now(operands[0]);
    }
    for (size_t i = first; i < operands.size(); ++i) operands[i] = wide(operands[i]);
    Value* result = b_.op(op.code, operands);
    replace(op, to ? b_.cast(result, op.result()->type.dtype) : result);
  }

  void cast(Op& op) {
    Value* v = now(op.operands[0]);
    const DType from = v->type.dtype, to = op.result()->type.dtype;
    if (from == to) return replace(op, v);
    if (ir::is_half(from)) {
      Value* in_f32 = wide(v);
      return replace(op, to == DType::f32_ ? in_f32 : b_.cast(in_f32, to));
    }
    if (from == DType::f32_) return;
    // Integers beyond f32 are beyond f16.
    const bool once = from == DType::f64_ && to == DType::f16_;
    replace(op, b_.cast(once ? to_odd(v) : b_.cast(v, DType::f32_), to));
  }

  /// A double in f32, cut off, and made odd where that lost something: rounded once more it is as if rounded once.
  Value* to_odd(Value* v) {
    constexpr int64_t lost = (int64_t{1} << 29) - 1;
    Value* bits = b_.bitcast(v, DType::i64_);
    Value* tail = b_.op(Opcode::and_, {bits, b_.i64(lost)});
    Value* sticky = b_.op(Opcode::and_, {b_.op(Opcode::add_, {tail, b_.i64(lost)}), b_.i64(lost + 1)});
    Value* kept = b_.op(Opcode::or_, {b_.op(Opcode::and_, {bits, b_.i64(~lost)}), sticky});
    return b_.cast(b_.bitcast(kept, DType::f64_), DType::f32_);
  }

  /// Partial results in f32. Rounding each of them would be the order of the loop made part of the result.
  void widen_reductions(Op& loop) {
    if (!has_permission(loop)) return;
    const Exits exits = exits_of(loop);
    for (size_t k = 0; k < carried_count(loop); ++k) {
      const Combiner combiner = loop.loop->carried[k].combiner;
      const bool moves = combiner == Combiner::recur_ || combiner == Combiner::last_ ||
                         combiner == Combiner::follow_first_ || combiner == Combiner::follow_last_;
      Value *arg = body_of(loop).args[first_carried(loop) + k], *result = loop.results[k];
      if (moves || !is_half(*arg)) continue;
      const DType half = arg->type.dtype;
      b_.set_loc(loop.loc);
      b_.set_before(&loop);
      Value*& init = loop.operands[first_init(loop) + k];
      init = wide(init);
      arg->type = result->type = ir::scalar(DType::f32_);
      if (combiner != Combiner::sum_ && combiner != Combiner::prod_) extremes_.emplace(arg, half);
      b_.set_before(body_of(loop).first);
      const Uses uses(graph_);
      Value* narrow_arg = b_.cast(arg, half);
      for (const Use& use : uses.of(*arg)) use.op->operands[use.operand] = narrow_arg;
      b_.set_before(loop.next);
      Value* narrow_result = b_.cast(result, half);
      for (const Use& use : uses.of(*result)) use.op->operands[use.operand] = narrow_result;
      for (const auto* list : {&exits.next, &exits.breaks}) {
        for (Op* exit : *list) {
          b_.set_before(exit);
          exit->operands[k] = unrounded(exit->operands[k], narrow_arg, arg);
        }
      }
      changed_ = true;
    }
  }

  /// The carried value after an iteration, in f32: the sums and products that lead to it are not rounded.
  Value* unrounded(Value* v, const Value* narrow_arg, Value* arg) {
    if (v == narrow_arg) return arg;
    if (!updates(*v, narrow_arg)) return b_.cast(v, DType::f32_);
    Op* op = v->op;
    std::vector<Value*> operands;
    for (size_t i = 0; i < op->operands.size(); ++i) {
      b_.set_before(op);
      b_.set_loc(op->loc);
      const bool condition = op->code == Opcode::select_ && i == 0;
      operands.push_back(condition ? op->operands[i] : unrounded(op->operands[i], narrow_arg, arg));
    }
    b_.set_before(op);
    return b_.op(op->code, operands);
  }

  /// Is the value what is carried, or a sum, product or choice that it goes into?
  static bool updates(const Value& v, const Value* carried, int depth = 0) {
    if (&v == carried) return true;
    if (!v.op || depth > 8) return false;
    const Opcode code = v.op->code;
    if (code != Opcode::add_ && code != Opcode::sub_ && code != Opcode::mul_ && code != Opcode::select_) return false;
    for (size_t i = code == Opcode::select_; i < v.op->operands.size(); ++i) {
      if (updates(*v.op->operands[i], carried, depth + 1)) return true;
    }
    return false;
  }

  ir::Graph& graph_;
  Builder b_;
  std::vector<Value*> to_;
  std::unordered_map<const Value*, DType> extremes_;  // carried in f32: of these halves the least, or the greatest
  bool changed_ = false;
};

}  // namespace

bool halves(ir::Graph& graph) { return Halves(graph).run(); }

}  // namespace appy::passes
