// Python's ints in fewer bits, in lanes: `(int(a[i]) * 77 + int(b[i]) * 179) >> 8` of bytes fits 16 bits, of which a
// vector has four times as many as of 64. Where 16 bits, with a sign or without, or 32 have all that a loop computes in
// 64, as far as ranges tell, it is computed in them.
//
// Rules for editors:
// 1. Each value, and each operand, is a number of the narrower type, so that an operation gives the same number there.
// 2. All or nothing: the widest values of a loop say how many lanes it has.

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "ir/typing.h"
#include "passes/comparisons.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"
#include "support/check.h"

namespace appy::passes {

using ir::Builder;
using ir::DType;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_wide(const Value& v) { return !v.type.is_view() && ir::size_of(v.type.dtype) == 8; }

bool is_shift(Opcode code) { return code == Opcode::shl_ || code == Opcode::shr_; }

/// Gives the same number in any type that has it and the operands.
bool is_exact(Opcode code) {
  switch (code) {
    case Opcode::add_:
    case Opcode::sub_:
    case Opcode::mul_:
    case Opcode::neg_:
    case Opcode::abs_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::shl_:
    case Opcode::shr_:
    case Opcode::minimum_:
    case Opcode::maximum_:
    case Opcode::pymin_:
    case Opcode::pymax_:
    case Opcode::select_:
      return true;
    default:
      return false;
  }
}

bool has(DType type, const ir::Range& range) {
  const int bits = 8 * ir::size_of(type);
  const int64_t most = (int64_t{1} << (ir::is_signed(type) ? bits - 1 : bits)) - 1;
  return range.lo >= (ir::is_signed(type) ? -most - 1 : 0) && range.hi <= most;
}

class Narrower {
 public:
  Narrower(ir::Graph& graph, Op& loop) : loop_(loop), ranges_(graph), b_(graph) {}

  bool run() {
    if (!survey() || computed_.empty()) return false;
    for (DType type : {DType::i16_, DType::u16_, DType::i32_}) {
      if (ir::size_of(type) < widest_ || !fits(type)) continue;
      rewrite(type);
      return true;
    }
    return false;
  }

 private:
  bool is_inside(const Value& v) const { return !ir::defined_outside(v, body_of(loop_)); }

  /// Collects what is computed in 64 bits; false where something has to stay so.
  bool survey() {
    for (size_t k = first_carried(loop_); k < body_of(loop_).args.size(); ++k) {
      const Value& carried = *body_of(loop_).args[k];
      if (is_wide(carried)) return false;
      widest_ = std::max(widest_, ir::size_of(carried.type.dtype));
    }
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (!op->blocks.empty() || op->code == Opcode::check_ || !survey(*op)) return false;
    }
    return true;
  }

  bool survey(Op& op) {
    const Value* v = op.result();
    if (is_access(op)) {
      for (const Value* operand : op.operands) {
        if (operand != op.view() && operand != induction(loop_) && is_wide(*operand) && is_inside(*operand))
          return false;
      }
      widest_ = std::max(widest_, ir::size_of(op.view()->type.dtype));
      return !v || !is_wide(*v);
    }
    const bool uses_wide = std::any_of(op.operands.begin(), op.operands.end(),
                                       [&](const Value* operand) { return is_wide(*operand) && is_inside(*operand); });
    if (!v) return !uses_wide;
    if (!is_wide(*v)) {
      widest_ = std::max(widest_, ir::size_of(v->type.dtype));
      if (!uses_wide) return true;
      used_.push_back(&op);
      const bool converts = op.code == Opcode::cast_ && v->type.dtype != DType::bool_;
      return (converts || is_comparison(op.code)) && op.operands[0]->type.dtype == DType::i64_;
    }
    if (v->type.dtype != DType::i64_) return false;
    if (op.code == Opcode::const_) return true;
    if (op.code == Opcode::cast_) {
      const DType from = op.operands[0]->type.dtype;
      computed_.push_back(&op);
      return ir::is_int(from) && ir::size_of(from) < 8;
    }
    computed_.push_back(&op);
    return is_exact(op.code);
  }

  bool fits(DType type) {
    const auto fits_operands = [&](const Op& op) {
      return std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
        return v != induction(loop_) && (!is_wide(*v) || has(type, ranges_.of(*v)));
      });
    };
    for (const Op* op : computed_) {
      if (!has(type, ranges_.of(*op->result())) || !fits_operands(*op)) return false;
      if (!is_shift(op->code)) continue;
      const auto count = constant(*op->operands[1]);
      if (!count || *count < 0 || *count >= 8 * ir::size_of(type)) return false;
    }
    return std::all_of(used_.begin(), used_.end(), [&](const Op* op) { return fits_operands(*op); });
  }

  void rewrite(DType type) {
    remark(*loop_.graph, ir::Severity::note, "narrow", loop_.loc,
           "the ints of the loop at " + line_of(*loop_.graph, loop_.loc) + " are computed in " +
               std::to_string(8 * ir::size_of(type)) + " bits");
    for (Op* op : computed_) {
      b_.set_loc(op->loc);
      if (op->code == Opcode::cast_) {
        b_.set_before(op);
        narrow_[op->result()] = b_.cast(op->operands[0], type);
        continue;
      }
      std::vector<Value*> operands;
      for (Value* v : op->operands) operands.push_back(is_wide(*v) ? narrowed(v, type) : v);
      b_.set_before(op);  // `narrowed` moves it
      Value* made =
          op->code == Opcode::select_ ? b_.select(operands[0], operands[1], operands[2]) : b_.op(op->code, operands);
      narrow_[op->result()] = made;
    }
    for (Op* op : used_) {
      for (Value*& v : op->operands) v = narrowed(v, type);
    }
  }

  Value* narrowed(Value* v, DType type) {
    const auto known = narrow_.find(v);
    if (known != narrow_.end()) return known->second;
    b_.set_before(&loop_);
    // A shift has to know how far.
    if (v->op && v->op->code == Opcode::const_) return narrow_[v] = b_.constant(type, ir::canonical(type, v->op->imm));
    APPY_CHECK(!is_inside(*v), "what is computed in the loop is narrowed in order");
    return narrow_[v] = b_.cast(v, type);
  }

  Op& loop_;
  Ranges ranges_;
  Builder b_;
  std::vector<Op*> computed_, used_;
  std::unordered_map<const Value*, Value*> narrow_;
  int widest_ = 1;  // bytes of what is in fewer than 64 bits
};

}  // namespace

bool narrow(ir::Graph& graph) {
  bool changed = false;
  for (Op* loop : for_loops(graph)) {
    if (loop->loop->simd && !in_lanes(*loop)) changed |= Narrower(graph, *loop).run();
  }
  return changed;
}

}  // namespace appy::passes
