// Overflow tests against constants: `x + 1` leaves 64 bits just where x is the largest value, so one comparison does
// what took the operation and a look at its flags. Tests of a chain, `3 * x + 1`, become one test of x.

#include <algorithm>
#include <optional>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/interval.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// lo <= *value <= hi
struct Limits {
  Value* value = nullptr;
  Wide lo = INT64_MIN, hi = INT64_MAX;
};

Wide floor_quotient(Wide a, Wide b) {
  const Wide q = a / b;
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

Wide ceil_quotient(Wide a, Wide b) { return -floor_quotient(-a, b); }

/// The limits of the variable operand of `code(x, c)`, or `code(c, x)`, for which the exact result lies in [lo, hi].
std::optional<Limits> operand_limits(const Op& op, Opcode code, Wide lo, Wide hi) {
  if (op.operands.size() != 2 || op.operands[0]->type != ir::scalar(ir::DType::i64_)) return std::nullopt;
  const auto left = constant(*op.operands[0]), right = constant(*op.operands[1]);
  if (left.has_value() == right.has_value()) return std::nullopt;
  const Wide c = left ? *left : *right;
  Limits out;
  out.value = op.operands[left ? 1 : 0];
  switch (code) {
    case Opcode::add_:
      out.lo = lo - c;
      out.hi = hi - c;
      break;
    case Opcode::sub_:
      out.lo = left ? c - hi : lo + c;
      out.hi = left ? c - lo : hi + c;
      break;
    case Opcode::mul_:
      if (c == 0) return std::nullopt;
      out.lo = c > 0 ? ceil_quotient(lo, c) : ceil_quotient(hi, c);
      out.hi = c > 0 ? floor_quotient(hi, c) : floor_quotient(lo, c);
      break;
    default:
      return std::nullopt;
  }
  out.lo = std::max<Wide>(out.lo, INT64_MIN);
  out.hi = std::min<Wide>(out.hi, INT64_MAX);
  return out.lo <= out.hi ? std::optional(out) : std::nullopt;
}

/// The condition `not ovf_*(x, c)` as limits of x.
std::optional<Limits> limits_of(const Value& condition) {
  const Op* negation = condition.op;
  if (!negation || negation->code != Opcode::not_ || !negation->operands[0]->op) return std::nullopt;
  const Op& test = *negation->operands[0]->op;
  switch (test.code) {
    case Opcode::ovf_add_:
      return operand_limits(test, Opcode::add_, INT64_MIN, INT64_MAX);
    case Opcode::ovf_sub_:
      return operand_limits(test, Opcode::sub_, INT64_MIN, INT64_MAX);
    case Opcode::ovf_mul_:
      return operand_limits(test, Opcode::mul_, INT64_MIN, INT64_MAX);
    default:
      return std::nullopt;
  }
}

/// May the later check speak for the earlier one too?
bool say_the_same(const ir::Graph& graph, const Op& a, const Op& b) {
  const ir::Check &x = *a.check, &y = *b.check;
  const ir::Loc &p = graph.locs[a.loc], &q = graph.locs[b.loc];
  return x.kind == y.kind && x.ninfo == y.ninfo && x.has_state == y.has_state && x.declines == y.declines &&
         x.text == y.text && p.file == q.file && p.line == q.line && p.inlined_at == q.inlined_at &&
         std::equal(a.operands.begin() + 1, a.operands.end(), b.operands.begin() + 1, b.operands.end());
}

class Overflow {
 public:
  explicit Overflow(ir::Graph& graph) : graph_(graph), uses_(graph), builder_(graph) { ranges_.emplace(graph); }

  bool run() {
    block(*graph_.body);
    return changed_;
  }

 private:
  void block(Block& block) {
    Op* pending = nullptr;  // a check with only pure ops between it and here
    Limits known;
    const auto flush = [&] {
      if (pending) write(*pending, known);
      pending = nullptr;
    };
    for (Op *op = block.first, *next; op; op = next) {
      next = op->next;
      if (op->code != Opcode::check_) {
        if (!ir::is_pure(op->code)) flush();
        for (Block* inner : op->blocks) this->block(*inner);
        if (op->code == Opcode::if_ && in_lanes(*op)) speculate(*op);
        continue;
      }
      std::optional<Limits> limits = limits_of(*op->operands[0]);
      std::optional<Limits> both;
      if (limits && pending && say_the_same(graph_, *pending, *op)) both = combined(known, *limits);
      if (both) {
        Op* negation = pending->operands[0]->op;
        block.remove(pending);
        drop(negation);
        ranges_.emplace(graph_);  // the old one may have believed it
      } else {
        flush();
      }
      pending = limits ? op : nullptr;
      if (limits) known = both ? *both : *limits;
    }
  }

  /// Takes away `not ovf_*` where the check was its one use.
  void drop(Op* negation) {
    if (uses_.of(*negation->result()).size() != 1) return;
    Op* test = negation->operands[0]->op;
    negation->parent->remove(negation);
    if (uses_.of(*test->result()).size() == 1) test->parent->remove(test);
  }

  /// Cheap arms with overflow checks go before the `if`, the checks with the arm's condition as a way out: an arm with
  /// a check would cost a jump around it.
  void speculate(Op& op) {
    int count = 0;
    bool checks = false;
    for (const Block* arm : op.blocks) {
      if (arm->last->code != Opcode::yield_) return;
      for (const Op* at = arm->first; at != arm->last; at = at->next) {
        const bool check = at->code == Opcode::check_ && at->check->kind == ir::CheckKind::overflow_;
        if (!check && (!ir::is_pure(at->code) || !is_cheap(*at))) return;
        checks |= check;
        count += at->code != Opcode::const_;
      }
    }
    if (!checks || count > kSpeculated) return;
    for (size_t k = 0; k < 2; ++k) {
      Block& arm = *op.blocks[k];
      while (arm.first != arm.last) {
        Op* moving = arm.first;
        arm.remove(moving);
        op.parent->insert_before(&op, moving);
        if (moving->code != Opcode::check_) continue;
        builder_.set_before(moving);
        builder_.set_loc(moving->loc);
        Value* other = k == 0 ? builder_.op(Opcode::not_, {op.operands[0]}) : op.operands[0];
        moving->operands[0] = builder_.op(Opcode::or_, {moving->operands[0], other});
      }
    }
    changed_ = true;
  }

  /// Limits of a's value that say both, where b's value is computed from a's.
  static std::optional<Limits> combined(const Limits& a, const Limits& b) {
    Limits out = b;
    if (a.value != b.value) {
      if (!b.value->op) return std::nullopt;
      const auto found = operand_limits(*b.value->op, b.value->op->code, b.lo, b.hi);
      if (!found || found->value != a.value) return std::nullopt;
      out = *found;
    }
    out.lo = std::max(out.lo, a.lo);
    out.hi = std::min(out.hi, a.hi);
    return out.lo <= out.hi ? std::optional(out) : std::nullopt;
  }

  void write(Op& check, const Limits& limits) {
    builder_.set_before(&check);
    builder_.set_loc(check.loc);
    const ir::Range range = ranges_->at(*limits.value, check);
    Value* ok = nullptr;
    if (limits.hi < range.hi) {
      ok = builder_.op(Opcode::le_, {limits.value, builder_.i64(static_cast<int64_t>(limits.hi))});
    }
    if (limits.lo > range.lo) {
      Value* above = builder_.op(Opcode::ge_, {limits.value, builder_.i64(static_cast<int64_t>(limits.lo))});
      ok = ok ? builder_.op(Opcode::and_, {ok, above}) : above;
    }
    Op* negation = check.operands[0]->op;
    check.operands[0] = ok ? ok : builder_.boolean(true);
    drop(negation);
    changed_ = true;
  }

  ir::Graph& graph_;
  Uses uses_;
  std::optional<Ranges> ranges_;
  Builder builder_;
  bool changed_ = false;
};

}  // namespace

bool overflow(ir::Graph& graph) { return Overflow(graph).run(); }

}  // namespace appy::passes
