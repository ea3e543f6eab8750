#include "passes/jammer.h"

#include <set>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "passes/copier.h"
#include "passes/loops.h"
#include "passes/overlap.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Jammer {
 public:
  Jammer(ir::Graph& graph, Ranges& ranges, Op& loop, const JamOrder& order, int64_t copies, int64_t least_trips)
      : loop_(loop), order_(order), count_(copies), least_trips_(least_trips), builder_(graph) {
    for (int64_t u = 0; u < copies; ++u) copies_.emplace_back(graph);
    for (const Op* inner : order.jammed) {
      slopes_[inner] = {*slope(ranges, *inner->operands[0], loop, *inner),
                        *slope(ranges, *inner->operands[1], loop, *inner)};
      if (ranges.always_runs(*inner)) never_empty_.insert(inner);
    }
  }

  /// The loop over groups of iterations, in front of the loop, which does those that are left.
  std::map<const Op*, Op*> run() {
    Builder& b = builder_;
    b.set_loc(loop_.loc);
    Value *lower = loop_.operands[0], *upper = loop_.operands[1];
    b.set_before(known_before(lower, upper));
    Value* trips = emit_distance(b, lower, upper);
    Value* middle = b.op(Opcode::add_, {lower, whole_groups(trips)});
    ir::Loop attributes = *loop_.loop;
    attributes.chunk = (attributes.chunk + count_ - 1) / count_;
    attributes.le = (attributes.le + count_ - 1) / count_;
    const std::vector<Value*> inits(loop_.operands.begin() + 3, loop_.operands.end());
    b.set_before(&loop_);
    Op* groups = b.for_loop(lower, middle, b.i64(count_), inits, std::move(attributes));
    loop_.operands[0] = middle;
    for (size_t k = 0; k < inits.size(); ++k) loop_.operands[3 + k] = groups->results[k];
    const Block& from = body_of(loop_);
    Block& into = body_of(*groups);
    for (size_t k = 0; k < from.args.size(); ++k) {
      into.args[k]->name = from.args[k]->name;
      copies_[0].map(from.args[k], into.args[k]);
    }
    b.set_block(&into);
    for (int64_t u = 1; u < count_; ++u) copies_[u].map(from.args[0], b.op(Opcode::add_, {into.args[0], b.i64(u)}));
    body(from, into);
    end(from, into);
    return std::move(common_);
  }

 private:
  /// The outermost of the loops before which the bounds are known, so that they are not computed again and again.
  Op* known_before(const Value* lower, const Value* upper) const {
    Op* at = &loop_;
    for (Op* around = at->parent->owner; around && is_for(*around); around = around->parent->owner) {
      if (!visible_before(*lower, *around) || !visible_before(*upper, *around)) break;
      at = around;
    }
    return at;
  }

  /// Iterations in whole groups: none where the loop is shorter than it has to be.
  Value* whole_groups(Value* trips) {
    Builder& b = builder_;
    if (least_trips_ <= count_) return rounded_down(trips);
    Value* enough = b.op(Opcode::ge_, {trips, b.i64(least_trips_)});
    return b.select(enough, rounded_down(trips), b.i64(0));
  }

  Value* rounded_down(Value* trips) {
    Builder& b = builder_;
    if ((count_ & (count_ - 1)) != 0) {
      return b.op(Opcode::mul_, {b.op(Opcode::floordiv_, {trips, b.i64(count_)}), b.i64(count_)});
    }
    int64_t bits = 0;
    while (int64_t{1} << bits < count_) ++bits;
    return b.op(Opcode::mul_, {b.op(Opcode::shr_, {trips, b.i64(bits)}), b.i64(count_)});
  }

  /// The ops of all copies. Where iterations know nothing of each other one op of all lies beside each other, as the
  /// backend takes them for vectors (cpu/packs.h); but not in lanes, whose vectors there are anyway, nor where sums
  /// grow.
  template <class F>
  void in_order(const std::vector<const Op*>& ops, const Op& loop, F&& f) {
    const bool independent = loop_.loop->parallel && loop_.results.empty();
    if (independent && !adds_up(loop) && !loop.loop->simd && !in_lanes(loop)) {
      for (const Op* op : ops) {
        for (size_t u = 0; u < copies_.size(); ++u) f(u, *op);
      }
    } else {
      for (size_t u = 0; u < copies_.size(); ++u) {
        for (const Op* op : ops) f(u, *op);
      }
    }
  }

  void body(const Block& from, Block& into) {
    std::vector<const Op*> segment;
    const auto flush = [&] {
      in_order(segment, *from.owner, [&](size_t u, const Op& op) {
        if (op.code != Opcode::poll_ || u == 0) into.append(copies_[u].copy(op));
      });
      segment.clear();
    };
    for (const Op* op = from.first; op != from.last; op = op->next) {
      if (order_.jammed.count(op)) {
        flush();
        inner_loop(*op, into);
      } else if (!order_.late.count(op)) {
        segment.push_back(op);
      }
    }
    flush();
  }

  /// What comes after all jammed loops, copy by copy, and the values for the next group.
  void end(const Block& from, Block& into) {
    builder_.set_block(&into);
    std::vector<const Op*> ops;
    for (const Op* op = from.first; op != from.last; op = op->next) ops.push_back(op);
    in_order(ops, loop_, [&](size_t u, const Op& op) {
      for (size_t k = 1; u > 0 && &op == from.first && k < from.args.size(); ++k) {
        copies_[u].map(from.args[k], copies_[u - 1].of(from.last->operands[k - 1]));
      }
      if (order_.jammed.count(&op)) hand_on(op, static_cast<int64_t>(u));
      if (order_.late.count(&op) && (op.code != Opcode::poll_ || u == 0)) into.append(copies_[u].copy(op));
    });
    std::vector<Value*> next;
    for (Value* v : from.last->operands) next.push_back(copies_.back().of(v));
    builder_.set_block(&into);
    builder_.yield(next);
  }

  /// What a loop leaves of its last iteration is what was there before where it has none.
  void hand_on(const Op& inner, int64_t u) {
    Copier& copy = copies_[u];
    for (size_t k = 0; k < inner.results.size(); ++k) {
      if (!order_.is_late_result(inner, k)) continue;
      Value* made = copy.of(inner.results[k]);
      if (never_empty_.contains(&inner)) continue;
      Value* runs = builder_.op(Opcode::lt_, {copy.of(inner.operands[0]), copy.of(inner.operands[1])});
      copy.map(inner.results[k], builder_.select(runs, made, copy.of(inner.operands[3 + k])));
    }
  }

  struct Bounds {
    Value *lower, *upper;
  };

  void inner_loop(const Op& inner, Block& into) {
    Builder& b = builder_;
    b.set_loc(inner.loc);
    b.set_block(&into);
    const auto [lower, upper] = slopes_.at(&inner);
    std::vector<std::vector<Value*>> values(copies_.size());  // carried values, by copy
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < inner.results.size(); ++k) {
        values[u].push_back(order_.is_late_result(inner, k) ? b.constant(inner.results[k]->type.dtype, 0)
                                                            : copies_[u].of(inner.operands[3 + k]));
      }
    }
    const auto bound = [&](size_t k, bool last) {
      return copies_[last ? copies_.size() - 1 : 0].of(inner.operands[k]);
    };
    // From the last lower bound of all to the first upper bound of all.
    const Bounds all{bound(0, lower > 0), bound(1, upper < 0)};
    if (lower != 0) {
      for (size_t u = 0; u < copies_.size(); ++u) {
        if (copies_[u].of(inner.operands[0]) == all.lower) continue;
        b.set_block(&into);
        Value* until = b.op(Opcode::pymin_, {all.lower, copies_[u].of(inner.operands[1])});
        alone(inner, u, {copies_[u].of(inner.operands[0]), until}, values[u], into);
      }
    }
    together(inner, all, values, into);
    if (upper != 0) {
      for (size_t u = 0; u < copies_.size(); ++u) {
        if (copies_[u].of(inner.operands[1]) == all.upper) continue;
        b.set_block(&into);
        Value* from = b.op(Opcode::pymax_, {all.lower, all.upper});
        alone(inner, u, {from, copies_[u].of(inner.operands[1])}, values[u], into);
      }
    }
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < inner.results.size(); ++k) copies_[u].map(inner.results[k], values[u][k]);
    }
  }

  /// A part of one copy's loop, of fewer iterations than there are copies.
  void alone(const Op& inner, size_t u, Bounds bounds, std::vector<Value*>& values, Block& into) {
    Op* made = copies_[u].copy(inner);
    made->operands = {bounds.lower, bounds.upper, made->operands[2]};
    made->operands.insert(made->operands.end(), values.begin(), values.end());
    if (adds_up(inner)) {
      made->loop->simd = made->loop->parallel = false;
      for (ir::Carried& c : made->loop->carried) c = {};
    }
    into.append(made);
    values.assign(made->results.begin(), made->results.end());
  }

  void together(const Op& inner, Bounds bounds, std::vector<std::vector<Value*>>& values, Block& into) {
    Builder& b = builder_;
    b.set_block(&into);
    ir::Loop attributes = *inner.loop;
    attributes.carried.clear();
    const size_t each = inner.results.size();
    std::vector<Value*> inits;
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (ir::Carried c : inner.loop->carried) {
        const auto offset = static_cast<int>(u * each);
        if (c.leader >= 0) c.leader += offset;
        if (c.tie >= 0) c.tie += offset;
        attributes.carried.push_back(c);
      }
      inits.insert(inits.end(), values[u].begin(), values[u].end());
    }
    Op* made = b.for_loop(bounds.lower, bounds.upper, copies_[0].of(inner.operands[2]), inits, std::move(attributes));
    common_[&inner] = made;
    const Block& from = body_of(inner);
    Block& block = body_of(*made);
    block.args[0]->name = from.args[0]->name;
    for (size_t u = 0; u < copies_.size(); ++u) {
      copies_[u].map(from.args[0], block.args[0]);
      for (size_t k = 0; k < each; ++k) {
        Value* arg = block.args[1 + u * each + k];
        arg->name = from.args[1 + k]->name;
        copies_[u].map(from.args[1 + k], arg);
      }
    }
    body(from, block);
    std::vector<Value*> next;
    for (Copier& copy : copies_) {
      for (Value* v : from.last->operands) next.push_back(copy.of(v));
    }
    b.set_block(&block);
    b.yield(next);
    for (size_t u = 0; u < copies_.size(); ++u) {
      for (size_t k = 0; k < each; ++k) values[u][k] = made->results[u * each + k];
    }
  }

  Op& loop_;
  const JamOrder& order_;
  int64_t count_, least_trips_;
  Builder builder_;
  std::vector<Copier> copies_;
  std::map<const Op*, Op*> common_;
  // Of jammed loops, before anything is rewritten: slopes of their bounds, and which have an iteration in any case.
  std::map<const Op*, std::pair<Wide, Wide>> slopes_;
  std::set<const Op*> never_empty_;
};

}  // namespace

std::map<const Op*, Op*> jam_loop(ir::Graph& graph, Ranges& ranges, Op& loop, const JamOrder& order, int64_t copies,
                                  int64_t least_trips) {
  return Jammer(graph, ranges, loop, order, copies, least_trips).run();
}

}  // namespace appy::passes
