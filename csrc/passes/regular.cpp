#include "passes/regular.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "passes/affine.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;

namespace {

/// By how much integers change from one iteration to the next, as sums of values that do not change.
class Changes {
 public:
  using Change = std::optional<Affine>;  // nothing where it is not known

  explicit Changes(const ir::Op& loop) : loop_(loop), body_(*loop.blocks[0]) {}

  const Change& of(const Value& v) {
    if (const auto at = known_.find(&v); at != known_.end()) return at->second;
    Change change = found(v);
    return known_[&v] = std::move(change);
  }
  bool stays(const Value& v) {
    const Change& change = of(v);
    return change && *change == Affine{};
  }

 private:
  static Affine multiple_of(const Value& v, Wide times) {
    Affine out;
    if (int64_t number = 0; is_constant(v, number)) {
      out.constant = times * number;
    } else {
      out.add(v, times);
    }
    return out;
  }

  Change found(const Value& v) {
    if (ir::defined_outside(v, body_)) return Affine{};
    if (!v.op) return of_argument(v);
    const ir::Op& op = *v.op;
    const auto all_stay = [&] { return std::ranges::all_of(op.operands, [&](const Value* o) { return stays(*o); }); };
    // What one iteration stores no other one reads.
    if (op.code == Opcode::load_) return all_stay() ? Change(Affine{}) : std::nullopt;
    if (!ir::is_pure(op.code)) return {};
    if (all_stay()) return Affine{};
    if (v.type.dtype != ir::DType::i64_) return {};
    switch (op.code) {
      case Opcode::add_:
        return sum(op, 1);
      case Opcode::sub_:
        return sum(op, -1);
      case Opcode::mul_:
        return product(op);
      case Opcode::pymin_:
      case Opcode::pymax_: {
        // A limit that stays the same cuts off the first iterations, or the last.
        const Value &a = *op.operands[0], &b = *op.operands[1];
        return stays(a) ? of(b) : stays(b) || of(a) == of(b) ? of(a) : std::nullopt;
      }
      case Opcode::select_: {
        const Change &a = of(*op.operands[1]), &b = of(*op.operands[2]);
        return stays(*op.operands[0]) && a == b ? a : std::nullopt;
      }
      default:
        return {};
    }
  }

  /// The variable of the loop, or of one inside, whose n-th iteration is meant.
  Change of_argument(const Value& v) {
    const ir::Op* loop = v.block->owner;
    if (loop->code != Opcode::for_ || &v != v.block->args[0]) return {};
    const Value& step = *loop->operands[2];
    if (loop == &loop_) return multiple_of(step, 1);
    return stays(step) ? of(*loop->operands[0]) : std::nullopt;
  }

  Change sum(const ir::Op& op, int sign) {
    const Change &a = of(*op.operands[0]), &b = of(*op.operands[1]);
    if (!a || !b) return {};
    Affine total = *a;
    total.add(*b, sign);
    return bounded(std::move(total));
  }

  Change product(const ir::Op& op) {
    const bool first = stays(*op.operands[0]);
    const Value &factor = *op.operands[first ? 0 : 1], &other = *op.operands[first ? 1 : 0];
    const Change& change = of(other);
    if (!stays(factor) || !change) return {};
    if (int64_t number = 0; is_constant(factor, number)) {
      Affine scaled;
      scaled.add(*change, number);
      return bounded(std::move(scaled));
    }
    return change->is_constant() ? bounded(multiple_of(factor, change->constant)) : std::nullopt;
  }

  /// Numbers of more than 64 bits are left out, so that products of those that stay fit `Wide`.
  static Change bounded(Affine sum) {
    const auto fits = [](Wide v) { return v == static_cast<int64_t>(v); };
    const bool all =
        fits(sum.constant) && std::ranges::all_of(sum.terms, [&](const auto& t) { return fits(t.second); });
    return all ? Change(std::move(sum)) : std::nullopt;
  }

  const ir::Op& loop_;
  const ir::Block& body_;
  std::unordered_map<const Value*, Change> known_;
};

}  // namespace

Iterations compare_iterations(const ir::Op& loop) {
  Changes changes(loop);
  const ir::Block& body = *loop.blocks[0];
  Iterations found = Iterations::same;
  ir::walk(*loop.blocks[0], [&](ir::Op& op) {
    if (op.code == Opcode::while_ || op.code == Opcode::break_) found = Iterations::unlike;
    if (op.code != Opcode::for_ || found == Iterations::unlike) return;
    const Value &low = *op.operands[0], &high = *op.operands[1], &step = *op.operands[2];
    const auto is_known = [&](const Value& v) { return ir::defined_outside(v, body) || constant_op(v); };
    if (is_known(low) && is_known(high) && is_known(step)) return;
    const auto &from = changes.of(low), &to = changes.of(high);
    found = from && to && *from == *to && changes.stays(step) ? Iterations::alike : Iterations::unlike;
  });
  return found;
}

}  // namespace appy::passes
