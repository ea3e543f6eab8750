// Unrolls loops that count what they look up, as histograms do:
//
//   for i: { x = labels[i];  check x;  atomic h[x] += 1 }
//
// The processor cannot know that an update leaves the next label alone before both addresses are there, and each
// iteration has a test and a jump of its own. So eight iterations load first, the tests of all their indices follow,
// and then the updates in their order. Where an index fails its test, or is negative, and at the end, the iterations
// run as written, one by one.
//
// What an iteration adds to numbers with a fraction takes longer than that, and gains nothing; nor do two indices, of
// which registers hold too few.
//
// Rules for editors:
// 1. What comes before the updates of earlier iterations has no effect, and reads nothing that they write.
// 2. A load comes before other iterations' checks, but never before one of its own that it stood behind.
// 3. An iteration that fails finds all earlier ones complete, and no later one begun.

#include <algorithm>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "unroll";
/// As many as there are registers for.
constexpr int64_t kTogether = 8;
/// Ops of an iteration, at most, and iterations, at least, of a loop whose length is known.
constexpr int64_t kMostOps = 16, kLeastTrips = 32;

class Unroll {
 public:
  explicit Unroll(Op& loop) : graph_(*loop.graph), loop_(loop), b_(graph_) {}

  bool find() {
    if (!is_simple_for(loop_) || !loop_.results.empty() || loop_.loop->simd || in_lanes(loop_) ||
        loop_.loop->chunk > 0 || graph_.may_alias || !is_long())
      return false;
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (op->code == Opcode::store_ || op->code == Opcode::atomic_) updated_.insert(op->view());
    }
    int64_t ops = 0;
    bool first = true;  // no check and no update so far
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      switch (op->code) {
        case Opcode::poll_:
          if (poll_ || !is_known_before(op->operands)) return false;
          poll_ = op;
          break;
        case Opcode::check_:
          if (!add_check(*op)) return false;
          first = false;
          break;
        case Opcode::store_:
        case Opcode::atomic_:
          first = false;
          ++ops;
          break;
        case Opcode::load_:
          if (first && !updated_.contains(op->view()) && is_early(op->operands)) early_.insert(op);
          ++ops;
          break;
        case Opcode::yield_:
        case Opcode::const_:
        case Opcode::dim_:
          break;
        default:
          if (!ir::is_pure(op->code)) return false;
          if (first && is_early(op->operands)) early_.insert(op);
          ++ops;
      }
    }
    return ops <= kMostOps && kept_by_one() == 1 && counts_what_it_looks_up();
  }

  void run() {
    remark(
        graph_, ir::Severity::note, kStage, loop_.loc,
        "the loop at " + line_of(graph_, loop_.loc) + " runs eight iterations at a time: they load before they update");
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    Value *high = loop_.operands[1], *length = b_.i64(kTogether);
    Op* groups = b_.for_loop(loop_.operands[0], high, length, {}, *loop_.loop);
    induction(*groups)->name = induction(loop_)->name;
    b_.set_block(&body_of(*groups));
    Value* from = induction(*groups);
    Value* whole = b_.op(Opcode::ge_, {b_.op(Opcode::sub_, {high, from}), length});
    emit_if(
        b_, whole, [&] { group(from); }, [&] { as_written(from, high); });
    if (poll_) b_.block()->append(Copier(graph_).copy(*poll_));
    b_.yield({});
    loop_.parent->remove(&loop_);
  }

 private:
  /// A check that an index lies in [0, extent), or in [-extent, extent) where it counts from the end.
  struct Check {
    Value *index, *extent;
    const Value* wrapped;  // the index as it is used
  };

  /// Rows of a sparse matrix have a few elements each; a loop whose bounds are those of all rows is not of that kind.
  bool is_long() const {
    const auto low = constant(*loop_.operands[0]), high = constant(*loop_.operands[1]);
    if (low && high) return *high - *low >= kLeastTrips;
    const auto moves = [](const Value* v) {
      if (constant(*v)) return false;
      const ir::Block* home = v->op ? v->op->parent : v->block;
      return home->owner && (is_loop(*home->owner) || ir::enclosing_loop(*home->owner->parent));
    };
    return std::none_of(loop_.operands.begin(), loop_.operands.begin() + 2, moves);
  }

  bool is_known_before(const std::vector<Value*>& operands) const {
    return std::all_of(operands.begin(), operands.end(), [&](const Value* v) { return visible_before(*v, loop_); });
  }
  bool is_early(const Value& v) const {
    return ir::defined_outside(v, body_of(loop_)) || &v == induction(loop_) ||
           (v.op && (v.op->code == Opcode::const_ || v.op->code == Opcode::dim_ || early_.contains(v.op)));
  }
  bool is_early(const std::vector<Value*>& operands) const {
    return std::all_of(operands.begin(), operands.end(), [&](const Value* v) { return is_early(*v); });
  }

  bool add_check(const Op& op) {
    const auto test = ir::index_test(*op.operands[0]);
    if (!test || test->index->type.dtype != ir::DType::i64_) return false;
    Check check = {test->index, test->extent, test->index};
    if (const Op* wrap = check.index->op; wrap && wrap->code == Opcode::wrap_) {
      if (wrap->operands[1] != check.extent) return false;
      check.index = wrap->operands[0];
    }
    if (!is_early(*check.index) || !visible_before(*check.extent, loop_)) return false;
    checks_.push_back(check);
    return true;
  }

  /// An update of integers whose subscripts come from memory.
  bool counts_what_it_looks_up() const {
    for (const Op* op = body_of(loop_).first; op; op = op->next) {
      if (op->code != Opcode::atomic_ || !ir::is_int(op->operands[0]->type.dtype)) continue;
      std::set<const Op*> needed;
      for (const Value* term : op->terms()) add_needed(*term, body_of(loop_), needed);
      const auto looks_up = [&](const Op* each) { return each->code == Opcode::load_ && early_.contains(each); };
      if (std::any_of(needed.begin(), needed.end(), looks_up)) return true;
    }
    return false;
  }

  /// Values that the ops of an iteration that come before all updates give the others.
  int64_t kept_by_one() const {
    std::set<const Value*> kept;
    for (const Op* op = body_of(loop_).first; op; op = op->next) {
      if (early_.contains(op) || op->code == Opcode::check_) continue;
      for (const Value* v : op->operands) {
        const auto is_wrapped = [&](const Check& check) { return check.wrapped == v; };
        const auto check = std::find_if(checks_.begin(), checks_.end(), is_wrapped);
        if (early_.contains(v->op)) kept.insert(check == checks_.end() ? v : check->index);
      }
    }
    return static_cast<int64_t>(kept.size());
  }

  void group(Value* from) {
    std::vector<Copier> copies(static_cast<size_t>(kTogether), Copier(graph_));
    for (int64_t k = 0; k < kTogether; ++k) {
      Copier& copy = copies[static_cast<size_t>(k)];
      copy.map(induction(loop_), k ? b_.op(Opcode::add_, {from, b_.i64(k)}) : from);
      copy_ops(copy, true);
    }
    if (checks_.empty()) return update(copies);
    Value* all = nullptr;
    for (const Copier& copy : copies) {
      for (const Check& check : checks_) {
        Value* index = copy.of(check.index);
        Value* low = b_.op(Opcode::ge_, {index, b_.i64(0)});
        Value* inside = b_.op(Opcode::and_, {low, b_.op(Opcode::lt_, {index, check.extent})});
        all = all ? b_.op(Opcode::and_, {all, inside}) : inside;
      }
    }
    emit_if(
        b_, all, [&] { update(copies); },
        [&] {
          as_written(from, b_.op(Opcode::add_, {from, b_.i64(kTogether)}));
        });
  }

  void update(std::vector<Copier>& copies) {
    for (Copier& copy : copies) copy_ops(copy, false);
  }

  /// Those that come before all updates, or the others.
  void copy_ops(Copier& copy, bool early) {
    for (const Op* op = body_of(loop_).first; op; op = op->next) {
      const bool anywhere = op->code == Opcode::const_ || op->code == Opcode::dim_;
      if (op->code == Opcode::poll_ || op->code == Opcode::check_ || op->code == Opcode::yield_) continue;
      if ((anywhere || early_.contains(op)) != early) continue;
      if (is_wrap(*op)) {
        copy.map(op->result(), copy.of(op->operands[0]));
      } else {
        b_.block()->append(copy.copy(*op));
      }
    }
  }
  /// The index that it gives is the index itself where the checks let it pass.
  bool is_wrap(const Op& op) const {
    return op.code == Opcode::wrap_ &&
           std::any_of(checks_.begin(), checks_.end(), [&](const Check& c) { return c.wrapped == op.result(); });
  }

  /// A part of the iterations, in order. It polls for nobody: it is short.
  void as_written(Value* from, Value* until) {
    Op* loop = Copier(graph_).copy(loop_);
    loop->operands[0] = from;
    loop->operands[1] = until;
    loop->loop->parallel = false;
    loop->loop->schedule = ir::Schedule::automatic;
    remove_polls(body_of(*loop));
    b_.block()->append(loop);
  }

  ir::Graph& graph_;
  Op& loop_;
  Builder b_;
  std::set<const Value*> updated_;  // views
  std::set<const Op*> early_;       // ops that may come before the updates of earlier iterations
  std::vector<Check> checks_;
  const Op* poll_ = nullptr;
};

}  // namespace

bool unroll(ir::Graph& graph) {
  std::vector<Unroll> found;
  for (Op* loop : for_loops(graph)) {
    if (Unroll unroll(*loop); unroll.find()) found.push_back(std::move(unroll));
  }
  for (Unroll& unroll : found) unroll.run();  // none of them stands in another
  return !found.empty();
}

}  // namespace appy::passes
