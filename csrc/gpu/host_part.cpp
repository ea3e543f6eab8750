#include "gpu/host_part.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/range.h"

namespace appy::gpu {

using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// KernelShape has two bits for each.
constexpr size_t kMostVersions = 16;

class Splitter {
 public:
  explicit Splitter(const ir::Graph& graph)
      : from_(graph), to_(std::make_unique<ir::Graph>()), builder_(*to_), ranges_(graph), of_(graph.value_count()) {}

  HostPart run() {
    HostPart part;
    to_->name = from_.name;
    to_->exact = from_.exact;
    for (const Value* arg : from_.body->args) {
      Value* copy = ir::add_arg(*to_->body, arg->type, arg->name);
      copy->range = arg->range;
      of_[arg->id] = copy;
    }
    const Op* yield = nullptr;
    for (const Op* op = from_.body->first; op; op = op->next) {
      if (op->code == Opcode::yield_) yield = op;
      if (op->code == Opcode::check_ && take_check(*op)) part.made.insert(op);
      if (ir::is_pure(op->code)) take(*op);
    }
    for (const Value* v : yield->operands) {
      Value* known = of_[v->id];
      part.known.push_back(known != nullptr);
      results_.push_back(known ? known : builder_.constant(v->type.dtype, 0));
    }
    nests(*from_.body, part);
    versions(part);
    ir::walk(*from_.body, [&](const Op& op) {
      if (op.code != Opcode::alloc_) return;
      ArraySize& size = part.arrays.emplace_back();
      size.alloc = &op;
      for (const Value* extent : op.operands) {
        size.extents.push_back(word(of_[extent->id]));
        size.most.push_back(size.extents.back() >= 0 ? size.extents.back() : word(most(*extent)));
      }
    });
    builder_.yield(results_);
    part.graph = std::move(to_);
    return part;
  }

 private:
  bool take(const Op& op) {
    if (op.code == Opcode::dim_ && ir::alloc_of(*op.operands[0])) {
      of_[op.result()->id] = of_[op.operands[0]->op->operands[static_cast<size_t>(op.dim)]->id];
      return of_[op.result()->id] != nullptr;
    }
    std::vector<Value*> operands;
    for (const Value* v : op.operands) {
      if (!of_[v->id]) return false;
      operands.push_back(of_[v->id]);
    }
    Op* copy = to_->new_op(op.code, 0);
    copy->operands = std::move(operands);
    copy->imm = op.imm;
    copy->dim = op.dim;
    of_[op.result()->id] = ir::add_result(*copy, op.result()->type);
    to_->body->append(copy);
    return true;
  }

  bool take_check(const Op& op) {
    if (!op.check->declines || !of_[op.operands[0]->id]) return false;
    ir::Check check;
    check.kind = ir::CheckKind::decline_;
    check.declines = true;
    builder_.check(std::move(check), of_[op.operands[0]->id], {}, {});
    return true;
  }

  int word(Value* v) {
    if (!v) return -1;
    results_.push_back(v);
    return static_cast<int>(results_.size()) - 1;
  }

  Value* op(Opcode code, Value* a, Value* b) { return builder_.op(code, {a, b}); }

  int trips(const Op& loop) { return word(trip_count(loop)); }

  Value* trip_count(const Op& loop) {
    Value *lower = of_[loop.operands[0]->id], *upper = of_[loop.operands[1]->id];
    const auto step = passes::constant(*loop.operands[2]);
    if (!lower || !upper || !step || *step == 0) return nullptr;
    Value* span = op(Opcode::sub_, upper, lower);
    if (*step != 1) {
      span = op(Opcode::floordiv_, op(Opcode::add_, span, builder_.i64(*step - (*step > 0 ? 1 : -1))),
                builder_.i64(*step));
    }
    return op(Opcode::pymax_, span, builder_.i64(0));
  }

  /// The greatest value of a sum, with loops' variables and minima taken apart, the innermost first, and what is
  /// computed from a variable before the variable: the rest of it goes away with that of other terms.
  std::optional<passes::Wide> greatest(const passes::Affine& sum, const Op& where, int depth = 8) {
    if (sum.is_constant()) return sum.constant;
    if (depth == 0) return {};
    const auto inner = std::max_element(sum.terms.begin(), sum.terms.end(), [](const auto& a, const auto& b) {
      return std::pair(depth_of(*a.first), a.first->op != nullptr) <
             std::pair(depth_of(*b.first), b.first->op != nullptr);
    });
    const auto [v, coef] = *inner;
    const auto instead = [&](const Value& bound, int64_t more, const Op& at) {
      passes::Affine by = ranges_.affine(bound, at), rest = sum;
      by.constant += more;
      rest.add(*v, -coef);
      rest.add(by, coef);
      return greatest(rest, at, depth - 1);
    };
    if (v->op) {
      const Opcode least = coef > 0 ? Opcode::pymin_ : Opcode::pymax_;
      if (v->op->code != least) return {};
      const auto a = instead(*v->op->operands[0], 0, where), b = instead(*v->op->operands[1], 0, where);
      return a && b ? std::min(*a, *b) : a ? a : b;
    }
    const Op* loop = v->block->owner;
    if (!loop || loop->code != Opcode::for_ || v->index != 0) return {};
    const auto step = passes::constant(*loop->operands[2]);
    if (!step || *step < 1) return {};
    return coef > 0 ? instead(*loop->operands[1], -1, *loop) : instead(*loop->operands[0], 0, *loop);
  }

  static int depth_of(const Value& v) {
    int depth = 0;
    for (const ir::Block* at = v.op ? v.op->parent : v.block; at && at->owner; at = at->owner->parent) ++depth;
    return depth;
  }

  /// As many iterations as the host can count, or as there are at most: what tiles leave to a loop inside them.
  int trips_or_bound(const Op& loop) {
    if (const int count = trips(loop); count >= 0 || passes::constant(*loop.operands[2]) != 1) return count;
    passes::Affine span = ranges_.affine(*loop.operands[1], loop);
    span.add(ranges_.affine(*loop.operands[0], loop), -1);
    const auto bound = greatest(span, loop);
    if (!bound || *bound < 0 || *bound > INT32_MAX) return -1;
    return word(builder_.i64(static_cast<int64_t>(*bound)));
  }

  /// As many iterations as the host can count, or more: those of a loop whose bounds move with one around it.
  int most_trips(const Op& loop) {
    if (const int count = trips(loop); count >= 0) return count;
    if (passes::constant(*loop.operands[2]) != 1) return -1;
    Value *upper = most(*loop.operands[1]), *lower = of_[loop.operands[0]->id];
    if (!upper || !(lower || is_natural(*loop.operands[0]))) return -1;
    return word(op(Opcode::pymax_, lower ? op(Opcode::sub_, upper, lower) : upper, builder_.i64(0)));
  }

  bool is_natural(const Value& v) { return ranges_.of(v).lo >= 0; }

  /// Something that the host computes and that is at least the value; null where nothing is known.
  Value* most(const Value& v) {
    if (of_[v.id]) return of_[v.id];
    const Op* op = v.op;
    if (!op) {
      const Op* loop = v.block->owner;
      if (!loop || loop->code != Opcode::for_ || v.index != 0) return nullptr;
      if (passes::constant(*loop->operands[2]).value_or(-1) < 1) return either(*loop->operands[0], *loop->operands[1]);
      Value* first = most(*loop->operands[0]);
      Value* end = first ? most(*loop->operands[1]) : nullptr;
      return end ? this->op(Opcode::pymax_, first, this->op(Opcode::sub_, end, builder_.i64(1))) : nullptr;
    }
    switch (op->code) {
      case Opcode::const_:
        return builder_.constant(v.type.dtype, op->imm);
      case Opcode::pymin_:
      case Opcode::minimum_: {
        Value* a = most(*op->operands[0]);
        Value* b = most(*op->operands[1]);
        return a && b ? this->op(Opcode::pymin_, a, b) : a ? a : b;
      }
      case Opcode::pymax_:
      case Opcode::maximum_:
        return either(*op->operands[0], *op->operands[1]);
      case Opcode::select_:
        return either(*op->operands[1], *op->operands[2]);
      case Opcode::add_: {
        Value* a = most(*op->operands[0]);
        Value* b = a ? most(*op->operands[1]) : nullptr;
        return b ? this->op(Opcode::add_, a, b) : nullptr;
      }
      case Opcode::sub_: {
        Value* a = most(*op->operands[0]);
        if (!a) return nullptr;
        if (Value* b = of_[op->operands[1]->id]) return this->op(Opcode::sub_, a, b);
        return is_natural(*op->operands[1]) ? a : nullptr;
      }
      case Opcode::mul_: {
        if (!is_natural(*op->operands[0]) || !is_natural(*op->operands[1])) return nullptr;
        Value* a = most(*op->operands[0]);
        Value* b = a ? most(*op->operands[1]) : nullptr;
        return b ? this->op(Opcode::mul_, a, b) : nullptr;
      }
      case Opcode::if_:
        return either(*op->blocks[0]->last->operands[v.index], *op->blocks[1]->last->operands[v.index]);
      case Opcode::for_: {
        Value* init = most(*op->operands[3 + v.index]);
        Value* grown = init ? growth(*op, v.index) : nullptr;
        return grown ? this->op(Opcode::add_, init, grown) : nullptr;
      }
      default:
        return nullptr;
    }
  }

  Value* either(const Value& a, const Value& b) {
    Value* x = most(a);
    Value* y = x ? most(b) : nullptr;
    return y ? op(Opcode::pymax_, x, y) : nullptr;
  }

  /// By how much a carried value that counts grows in a loop, at most.
  Value* growth(const Op& loop, size_t k) {
    Value* trips = trip_count(loop);
    if (!trips || loop.blocks[0]->last->code != Opcode::yield_) return nullptr;
    Value* once = step(*loop.blocks[0]->last->operands[k], *loop.blocks[0]->args[1 + k]);
    return once ? op(Opcode::mul_, trips, once) : nullptr;
  }

  /// next <= before + step.
  Value* step(const Value& next, const Value& before) {
    if (&next == &before) return builder_.i64(0);
    const Op* at = next.op;
    if (!at) return nullptr;
    if (at->code == Opcode::for_) {
      Value* first = step(*at->operands[3 + next.index], before);
      Value* more = first ? growth(*at, next.index) : nullptr;
      return more ? op(Opcode::add_, first, more) : nullptr;
    }
    if (at->code != Opcode::add_) return nullptr;
    for (size_t side = 0; side < 2; ++side) {
      const ir::Range added = ranges_.of(*at->operands[1 - side]);
      if (added.lo < 0 || added.hi > 1) continue;
      Value* first = step(*at->operands[side], before);
      if (first) return op(Opcode::add_, first, builder_.i64(1));
    }
    return nullptr;
  }

  void nests(const ir::Block& block, HostPart& part) {
    for (const Op* at = block.first; at; at = at->next) {
      if (at->mapping == Mapping::threads || at->mapping == Mapping::workers || at->mapping == Mapping::columns ||
          at->mapping == Mapping::repeated) {
        if (at->code == Opcode::for_ && !passes::is_one_block(*at)) nest(*at, part);
        if (at->code == Opcode::for_ && at->loop->tiles) product(*at, part);
      } else {
        for (const ir::Block* inner : at->blocks) nests(*inner, part);
      }
    }
  }

  void nest(const Op& outer, HostPart& part) {
    NestSize& size = part.nests.emplace_back();
    size.mapping = outer.mapping == Mapping::repeated ? Mapping::threads : outer.mapping;
    for (const Op* loop = &outer; loop;) {
      size.trips.push_back(most_trips(*loop));
      const Op* inner = loop->blocks[0]->first;
      while (inner && !(inner->code == Opcode::for_ && inner->mapping == outer.mapping)) inner = inner->next;
      loop = inner;
    }
    ir::walk(*outer.blocks[0], [&](const Op& op) {
      if (op.mapping != Mapping::lanes || op.code != Opcode::for_) return;
      const int count = trips_or_bound(op);
      size.lane_trips.push_back(count);
      if (count < 0) extent_along(op, size);
      if (outer.mapping == Mapping::columns) ir::walk(*op.blocks[0], [&](const Op& each) { stored(each, size); });
    });
  }

  static void stored(const Op& op, NestSize& size) {
    if (op.code != Opcode::store_) return;
    const int bytes = static_cast<int>(ir::size_of(op.view()->type.dtype));
    size.stored_bytes = size.stored_bytes ? std::min(size.stored_bytes, bytes) : bytes;
  }

  /// By conditions that come out the same wherever they are computed.
  void versions(HostPart& part) {
    const auto has_loops = [](ir::Block* arm) {
      bool any = false;
      ir::walk(*arm, [&](const Op& op) { any |= op.code == Opcode::for_; });
      return any;
    };
    for (const Op* op = from_.body->first; op && part.versions.size() < kMostVersions; op = op->next) {
      if (op->code != Opcode::if_ || !std::all_of(op->blocks.begin(), op->blocks.end(), has_loops)) continue;
      std::set<const Value*> seen;
      if (of_[op->operands[0]->id] && is_of_integers(*op->operands[0], seen))
        part.versions.push_back({op, word(of_[op->operands[0]->id])});
    }
  }

  static bool is_of_integers(const Value& v, std::set<const Value*>& seen) {
    if (v.type.is_view() || !seen.insert(&v).second) return true;
    if (ir::is_real(v.type.dtype)) return false;
    return !v.op || std::all_of(v.op->operands.begin(), v.op->operands.end(),
                                [&](const Value* of) { return is_of_integers(*of, seen); });
  }

  /// Whether a subscript is i, or i counted from the end where it is negative.
  static bool follows(const Value& subscript, const Value& i) {
    if (&subscript == &i) return true;
    return subscript.op && subscript.op->code == Opcode::wrap_ && subscript.op->operands[0] == &i;
  }

  void product(const Op& outer, HostPart& part) {
    ProductSize& size = part.products.emplace_back();
    size.product = *passes::product_of(outer);
    const passes::Product& p = size.product;
    for (size_t k = 0; k + 2 < p.nest.size(); ++k) size.repeats.push_back(trips(*p.nest[k]));
    // Rows of different lengths, or with different numbers of steps, and tiles of a recurrence: no more than that.
    const auto at_most = [&](const Op& loop) {
      const int count = trips_or_bound(loop);
      return count < 0 ? word(most(*loop.operands[1])) : count;
    };
    size.rows = at_most(p.rows());
    size.columns = at_most(p.columns());
    size.steps = p.uneven == passes::Side::neither ? trips(*p.steps) : at_most(*p.steps);
    scaled_store(size);
  }

  void scaled_store(ProductSize& size) {
    const passes::Product& p = size.product;
    const Op* store = nullptr;
    bool only = p.steps->results.size() == 1;
    for (const Op* op = passes::body_of(p.columns()).first; op; op = op->next) {
      only &= op->blocks.empty() || op == p.steps;
      if (op->code != Opcode::store_) continue;
      only &= !store;
      store = op;
    }
    const Op* by = only && store ? store->operands[0]->op : nullptr;
    if (!by || (by->code != Opcode::mul_ && by->code != Opcode::div_)) return;
    const bool divides = by->code == Opcode::div_;
    const Value* const sum = p.steps->results[0];
    const size_t side = by->operands[0] == sum ? 0 : 1;
    if (by->operands[side] != sum || (divides && side == 1) || !of_[by->operands[1 - side]->id]) return;
    size.store = store;
    size.scale = word(of_[by->operands[1 - side]->id]);
    size.divides = divides;
  }

  /// The extent of an array that the loop's variable runs along with step 1.
  void extent_along(const Op& loop, NestSize& size) {
    const Value* i = loop.blocks[0]->args[0];
    ir::walk(*loop.blocks[0], [&](const Op& op) {
      if (size.lane_extent >= 0 || !op.access || !of_[op.view()->id] || op.view()->type.rank != 1) return;
      for (size_t k = op.first_term(); k < op.operands.size(); ++k) {
        if (follows(*op.operands[k], *i) && op.access->coef[0][k - op.first_term()] == 1) {
          size.lane_extent = word(builder_.dim(of_[op.view()->id], 0));
          return;
        }
      }
    });
  }

  const ir::Graph& from_;
  std::unique_ptr<ir::Graph> to_;
  ir::Builder builder_;
  passes::Ranges ranges_;
  std::vector<Value*> of_;  // by id: the host's value, or null
  std::vector<Value*> results_;
};

}  // namespace

HostPart host_part_of(const ir::Graph& graph) { return Splitter(graph).run(); }

}  // namespace appy::gpu
