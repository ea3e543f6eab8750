// Rotates loops whose iterations go twice over the same elements, for a sum and to update them:
//
//   for k: { t = sum over i of what reads a[i];  for i: a[i] = what k and t make of it }
//
// so that each update is one pass with the next iteration's sum: an element is loaded once for both, and stored once.
// The sum of the first iteration goes in front; the last one computes its own once more, for nobody. Gram and Schmidt's
// method behind a tile of columns is such a loop. It is loop shifting and fusion (Darte and Huard, "Loop shifting for
// loop compaction", 2000) of two passes.
//
// Rules for editors:
// 1. Each sum adds up in its order, of the same values. What moves is the sum's element i in front of the update of
//    elements behind i: none of those may be what it reads.
// 2. Only in lanes, where such passes take the time, and an interrupt may find what it finds.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ir/builder.h"
#include "ir/ir.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "rotate";
/// Operations of the two passes: more would only be a lot of code.
constexpr size_t kMostOps = 40;

/// A loop inside that goes once over elements, in order.
bool is_pass(const Op& op, const Op& around) {
  if (!is_simple_for(op) || has_permission(op) || has_inner_loop(op)) return false;
  return std::all_of(op.operands.begin(), op.operands.end(),
                     [&](const Value* v) { return ir::defined_outside(*v, body_of(around)); });
}

bool computes(const Op& op) { return ir::is_pure(op.code) || op.code == Opcode::poll_ || op.code == Opcode::yield_; }

bool holds_only(Block& block, bool stores) {
  bool only = true;
  ir::walk(block, [&](const Op& op) {
    only &= computes(op) || op.code == Opcode::load_ || (stores && op.code == Opcode::store_);
  });
  return only;
}

size_t op_count(Block& block) {
  size_t ops = 0;
  ir::walk(block, [&](const Op&) { ++ops; });
  return ops;
}

class Rotation {
 public:
  explicit Rotation(Op& loop) : graph_(*loop.graph), loop_(loop), b_(graph_) {}

  bool find() {
    if (!is_simple_for(loop_) || has_permission(loop_) || !in_lanes(loop_) || !ordered_by_accesses_only(loop_))
      return false;
    for (Op* op = body_of(loop_).first; op; op = op->next) {
      if (is_for(*op)) {
        if (update_ || !is_pass(*op, loop_)) return false;
        (sum_ ? update_ : sum_) = op;
      } else if (!computes(*op) && (update_ || (op->code != Opcode::load_ && (!sum_ || op->code != Opcode::store_)))) {
        return false;
      }
    }
    return update_ && !sum_->results.empty() && update_->results.empty() && count_alike(*sum_, *update_) &&
           sum_->loop->annotated == update_->loop->annotated && holds_only(body_of(*sum_), false) &&
           holds_only(body_of(*update_), true) && op_count(body_of(*sum_)) + op_count(body_of(*update_)) <= kMostOps &&
           find_needed() && may_go_together();
  }

  void run() {
    remark(graph_, ir::Severity::note, kStage, sum_->loc,
           "the sum at " + line_of(graph_, sum_->loc) + " is computed while the iteration before updates, at " +
               line_of(graph_, update_->loc));
    b_.set_loc(loop_.loc);
    b_.set_before(&loop_);
    const std::vector<Value*> first = first_sums();
    b_.set_before(&loop_);
    Value* last = b_.op(Opcode::sub_, {loop_.operands[1], b_.i64(1)});
    std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
    inits.insert(inits.end(), first.begin(), first.end());
    ir::Loop kind = *loop_.loop;
    kind.carried.resize(inits.size());
    Op* made = b_.for_loop(loop_.operands[0], loop_.operands[1], loop_.operands[2], inits, std::move(kind));
    fill(*made, last);
    for (size_t k = 0; k < loop_.results.size(); ++k) ir::replace_uses(graph_, loop_.results[k], made->results[k]);
    loop_.parent->remove(&loop_);
  }

 private:
  /// What the sum needs of the iteration: known from the variable alone.
  bool find_needed() {
    bool known = true;
    ir::walk(body_of(*sum_), [&](const Op& op) {
      for (const Value* v : op.operands) add_needed(*v, body_of(loop_), needed_);
      for (const Value* v : op.operands) known &= !is_carried(*v);
    });
    for (const Op* op : needed_) {
      known &= ir::is_pure(op->code);
      for (const Value* v : op->operands) known &= !is_carried(*v);
    }
    return known;
  }
  bool is_carried(const Value& v) const { return !v.op && v.block == &body_of(loop_) && v.index > 0; }

  /// The sum at an element reads of what is updated that element only.
  bool may_go_together() {
    bool may = !graph_.may_alias;
    for (Op* op = body_of(*sum_).first; op && may; op = op->next) {
      if (op->code != Opcode::load_) continue;
      Op* store = nullptr;
      size_t stores = 0;
      for (Op* other = body_of(*update_).first; other; other = other->next) {
        if (other->code != Opcode::store_ || other->view() != op->view()) continue;
        store = other;
        ++stores;
      }
      if (stores == 0) continue;
      may &= stores == 1 && is_own(*op) && same_element_in(*op, *sum_, *store, *update_);
      stored_[op] = store;
    }
    return may;
  }

  /// An element of the pass's iteration, the same one in each iteration of the loop around.
  bool is_own(const Op& load) const {
    bool own = false;
    for (size_t d = 0; d < load.access->offset.size(); ++d) own |= row(load, d).coef(*induction(*sum_)) != 0;
    return own && std::all_of(load.terms().begin(), load.terms().end(), [&](const Value* term) {
             return term == induction(*sum_) || ir::defined_outside(*term, body_of(loop_));
           });
  }

  std::vector<Value*> first_sums() {
    std::vector<ir::Type> types;
    for (const Value* v : sum_->results) types.push_back(v->type);
    Op* runs = b_.if_op(emit_runs(b_, loop_), types);
    b_.set_block(runs->blocks[0]);
    Copier copier(graph_);
    copier.map(induction(loop_), loop_.operands[0]);
    copy_needed(copier);
    const Op* const made = copy(*sum_, copier);
    std::vector<Value*> sums(made->results.begin(), made->results.end());
    b_.yield(sums);
    b_.set_block(runs->blocks[1]);
    for (size_t k = 0; k < sums.size(); ++k) sums[k] = b_.constant(types[k].dtype, 0);
    b_.yield(sums);
    return {runs->results.begin(), runs->results.end()};
  }

  void fill(Op& made, Value* last) {
    Block& body = body_of(made);
    b_.set_block(&body);
    Copier here(graph_), next(graph_);
    const size_t own = carried_count(loop_);
    for (size_t k = 0; k < 1 + own; ++k) here.map(body_of(loop_).args[k], body.args[k]);
    for (size_t k = 0; k < sum_->results.size(); ++k) here.map(sum_->results[k], body.args[1 + own + k]);
    std::vector<Value*> sums;
    for (Op* op = body_of(loop_).first; op != body_of(loop_).last; op = op->next) {
      if (op == sum_) continue;
      if (op != update_) {
        copy(*op, here);
        continue;
      }
      Value* following = b_.op(Opcode::add_, {induction(made), b_.i64(1)});
      next.map(induction(loop_), b_.op(Opcode::pymin_, {following, last}));
      copy_needed(next);
      sums = both(here, next);
      b_.set_block(&body);
    }
    std::vector<Value*> yields;
    for (Value* v : body_of(loop_).last->operands) yields.push_back(here.of(v));
    yields.insert(yields.end(), sums.begin(), sums.end());
    b_.yield(yields);
  }

  /// One pass: the update, and the next iteration's sum of what it stores.
  std::vector<Value*> both(Copier& here, Copier& next) {
    const std::vector<Value*> inits(sum_->operands.begin() + 3, sum_->operands.end());
    ir::Loop kind = *update_->loop;
    kind.carried = sum_->loop->carried;
    Op* made = b_.for_loop(sum_->operands[0], sum_->operands[1], sum_->operands[2], inits, std::move(kind));
    made->loc = update_->loc;
    b_.set_block(&body_of(*made));
    here.map(induction(*update_), induction(*made));
    for (size_t k = 0; k < body_of(*sum_).args.size(); ++k) next.map(body_of(*sum_).args[k], body_of(*made).args[k]);
    for (const Op* op = body_of(*update_).first; op != body_of(*update_).last; op = op->next) copy(*op, here);
    for (const Op* op = body_of(*sum_).first; op != body_of(*sum_).last; op = op->next) {
      if (const auto found = stored_.find(op); found != stored_.end()) {
        next.map(op->result(), here.of(found->second->operands[0]));
      } else if (op->code != Opcode::poll_) {
        copy(*op, next);
      }
    }
    std::vector<Value*> yields;
    for (Value* v : body_of(*sum_).last->operands) yields.push_back(next.of(v));
    b_.yield(yields);
    return {made->results.begin(), made->results.end()};
  }

  void copy_needed(Copier& copier) {
    for (const Op* op = body_of(loop_).first; op != sum_; op = op->next) {
      if (needed_.contains(op)) copy(*op, copier);
    }
  }
  Op* copy(const Op& op, Copier& copier) {
    Op* made = copier.copy(op);
    b_.block()->append(made);
    return made;
  }

  ir::Graph& graph_;
  Op& loop_;
  Builder b_;
  Op *sum_ = nullptr, *update_ = nullptr;
  std::set<const Op*> needed_;             // ops in front of the sum that it needs
  std::map<const Op*, const Op*> stored_;  // the sum's loads of what the update stores
};

}  // namespace

bool rotate(ir::Graph& graph) {
  std::vector<Rotation> found;
  for (Op* loop : for_loops(graph)) {
    if (Rotation rotation(*loop); rotation.find()) found.push_back(std::move(rotation));
  }
  for (Rotation& rotation : found) rotation.run();  // none of them stands in another
  return !found.empty();
}

}  // namespace appy::passes
