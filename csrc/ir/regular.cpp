#include "ir/regular.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

namespace appy::ir {

namespace {

/// By how much an integer changes from one iteration to the next: a sum of values that do not change, each times a
/// number; by null the number alone. Empty: it stays the same.
using Change = std::map<const Value*, int64_t>;

Change plus(Change a, const Change& b, int64_t times) {
  for (const auto& [value, factor] : b) {
    if ((a[value] += times * factor) == 0) a.erase(value);
  }
  return a;
}

class Changes {
 public:
  explicit Changes(const Op& loop) : loop_(loop), body_(*loop.blocks[0]) {}

  /// Nothing where it is not known.
  const std::optional<Change>& of(const Value& v) {
    if (const auto at = known_.find(&v); at != known_.end()) return at->second;
    auto change = found(v);
    return known_[&v] = std::move(change);
  }
  bool stays(const Value& v) {
    const auto& change = of(v);
    return change && change->empty();
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 30;  // of a factor

  /// What an integer that stays the same adds to a sum.
  static Change term(const Value& v, int64_t times) {
    if (!v.op || v.op->code != Opcode::const_) return {{&v, times}};
    const auto number = static_cast<int64_t>(v.op->imm);
    if (number == 0) return {};
    return {{nullptr, times * number}};
  }
  static bool is_small(const Value& v) {
    return !v.op || v.op->code != Opcode::const_ || std::abs(static_cast<int64_t>(v.op->imm)) <= kMost;
  }

  std::optional<Change> found(const Value& v) {
    if (defined_outside(v, body_)) return Change{};
    if (!v.op) return of_argument(v);
    const Op& op = *v.op;
    const auto all_stay = [&] { return std::ranges::all_of(op.operands, [&](const Value* o) { return stays(*o); }); };
    // What one iteration stores no other one reads.
    if (op.code == Opcode::load_) return all_stay() ? std::optional(Change{}) : std::nullopt;
    if (!is_pure(op.code)) return {};
    if (all_stay()) return Change{};
    if (v.type.dtype != DType::i64_) return {};
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
        const auto &a = of(*op.operands[1]), &b = of(*op.operands[2]);
        return stays(*op.operands[0]) && a == b ? a : std::nullopt;
      }
      default:
        return {};
    }
  }

  /// The variable of the loop, or of one inside, whose n-th iteration is meant.
  std::optional<Change> of_argument(const Value& v) {
    const Op* loop = v.block->owner;
    if (loop->code != Opcode::for_ || &v != v.block->args[0]) return {};
    const Value& step = *loop->operands[2];
    if (loop == &loop_) return is_small(step) ? std::optional(term(step, 1)) : std::nullopt;
    return stays(step) ? of(*loop->operands[0]) : std::nullopt;
  }

  std::optional<Change> sum(const Op& op, int64_t sign) {
    const auto &a = of(*op.operands[0]), &b = of(*op.operands[1]);
    if (!a || !b) return {};
    return bounded(plus(*a, *b, sign));
  }

  std::optional<Change> product(const Op& op) {
    const bool first = stays(*op.operands[0]);
    const Value &factor = *op.operands[first ? 0 : 1], &other = *op.operands[first ? 1 : 0];
    const auto& change = of(other);
    if (!stays(factor) || !change || !is_small(factor)) return {};
    if (factor.op && factor.op->code == Opcode::const_) {
      return bounded(plus({}, *change, static_cast<int64_t>(factor.op->imm)));
    }
    if (change->size() != 1 || change->begin()->first) return {};
    return term(factor, change->begin()->second);
  }

  static std::optional<Change> bounded(Change change) {
    const bool small = std::ranges::all_of(change, [](const auto& term) { return std::abs(term.second) <= kMost; });
    return small ? std::optional(std::move(change)) : std::nullopt;
  }

  const Op& loop_;
  const Block& body_;
  std::unordered_map<const Value*, std::optional<Change>> known_;
};

}  // namespace

Iterations compare_iterations(const Op& loop) {
  Changes changes(loop);
  const Block& body = *loop.blocks[0];
  Iterations found = Iterations::same;
  walk(*loop.blocks[0], [&](Op& op) {
    if (op.code == Opcode::while_ || op.code == Opcode::break_) found = Iterations::unlike;
    if (op.code != Opcode::for_ || found == Iterations::unlike) return;
    const Value &low = *op.operands[0], &high = *op.operands[1], &step = *op.operands[2];
    const auto is_known = [&](const Value& v) {
      return defined_outside(v, body) || (v.op && v.op->code == Opcode::const_);
    };
    if (is_known(low) && is_known(high) && is_known(step)) return;
    const auto &from = changes.of(low), &to = changes.of(high);
    found = from && to && *from == *to && changes.stays(step) ? Iterations::alike : Iterations::unlike;
  });
  return found;
}

}  // namespace appy::ir
