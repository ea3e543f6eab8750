// Loop fusion: two loops of one block that may run out of order and count the same become one, where an iteration of
// the later one touches nothing that another iteration of the earlier one touches. What the first stores and the
// second loads is then forwarded in a register (cse), and an array that nothing else reads goes away (dce). Loops that
// only read may begin at different numbers.
//
// The method is the classical one (Kennedy and McKinley, "Maximizing loop parallelism and improving data locality via
// loop fusion and distribution", 1993), greedy from the first loop on.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "fuse";
/// Arrays that one innermost loop runs through at the same time: beyond that the streams disturb each other.
constexpr size_t kMostViews = 16;
/// What loops read that are further apart is not in the first cache any more.
constexpr Wide kMostApart = 64;

bool has_checks(const Op& loop) {
  bool found = false;
  ir::walk(body_of(loop), [&](const Op& op) { found |= op.code == Opcode::check_; });
  return found;
}

/// Has it checks for what Python raises? A Python int that leaves 64 bits is no error there.
bool has_errors(const Op& loop) {
  bool found = false;
  ir::walk(body_of(loop),
           [&](const Op& op) { found |= op.code == Opcode::check_ && op.check->kind != ir::CheckKind::overflow_; });
  return found;
}

std::vector<Op*> accesses_of(const Op& loop) {
  std::vector<Op*> out;
  ir::walk(body_of(loop), [&](Op& op) {
    if (is_access(op)) out.push_back(&op);
  });
  return out;
}

bool uses_result(Block& block, const Op& producer) {
  bool found = false;
  ir::walk(block, [&](const Op& op) {
    for (const Value* v : op.operands) found |= v->op == &producer;
  });
  return found;
}

class Fuser {
 public:
  explicit Fuser(ir::Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (Op* op = block.first; op; op = op->next) {
      if (is_for(*op)) {
        while (fuse_next(*op)) changed = true;
      }
      for (Block* inner : op->blocks) changed |= run(*inner);
    }
    return changed;
  }

 private:
  /// Fuses the next loop of the block into `first` if that is legal.
  bool fuse_next(Op& first) {
    Op* second = first.next;
    while (second && !is_loop(*second)) {
      const Effect effect = ir::info(second->code).effect;
      const bool passed = effect == Effect::pure || effect == Effect::alloc || effect == Effect::load;
      if (!passed && !may_go_first(*second)) return false;
      second = second->next;
    }
    const std::optional<int64_t> distance = second && is_for(*second) ? may_fuse(first, *second) : std::nullopt;
    if (!distance) return false;
    std::vector<Op*> needed;
    if (!collect_between(first, *second, needed)) return false;
    for (Op* op : needed) {
      op->parent->remove(op);
      first.parent->insert_before(&first, op);
    }
    remark(graph_, ir::Severity::note, kStage, second->loc,
           "the loop at " + line_of(graph_, second->loc) + " runs inside the one at " + line_of(graph_, first.loc));
    merge(first, *second, *distance);
    return true;
  }

  /// Its iterations are one worker's in any case.
  static bool inside_parallel(const Op& loop) {
    for (const Op* at = loop.parent->owner; at; at = at->parent->owner) {
      if (at->loop && at->loop->parallel && at->loop->threads != 1) return true;
    }
    return false;
  }

  static bool in_tiles(const Op& loop) {
    for (const Op* at = &loop; at; at = ir::enclosing_loop(*at->parent)) {
      if (is_for(*at) && at->loop->tiles) return true;
    }
    return false;
  }

  /// Workers share the iterations of both in one way.
  static bool shared_alike(const ir::Loop& a, const ir::Loop& b) {
    return a.schedule == b.schedule && a.chunk == b.chunk && a.threads == b.threads && a.collapse == b.collapse;
  }

  /// A check that leaves everything to the interpreter does so before the first loop as well as after it.
  static bool may_go_first(const Op& op) { return op.code == Opcode::check_ && op.check->declines; }

  /// By how much their variables differ, where the loops may become one.
  std::optional<int64_t> may_fuse(const Op& a, const Op& b) {
    const ir::Loop &x = *a.loop, &y = *b.loop;
    if (!has_permission(a) || !has_permission(b)) return {};
    // A nest with tiles has them only as a whole: what nobody annotated in it stays without FMA.
    if (x.annotated != y.annotated && !in_tiles(a) && !in_tiles(b)) return {};
    if (x.parallel != y.parallel && !inside_parallel(a)) return {};
    if (!shared_alike(x, y)) return {};
    // Without inner loops the lanes are in this one; with them they are in those.
    if (x.simd != y.simd && has_inner_loop(a) == has_inner_loop(b)) return {};
    if ((x.tiles || y.tiles) && !stays_a_nest(a, b)) return {};
    if (!left_by_yield_only(a) || !left_by_yield_only(b) || uses_result(body_of(b), a)) return {};
    for (const Value* v : b.operands) {
      if (v->op == &a) return {};
    }
    const std::optional<int64_t> distance = apart_by(a, b);
    if (!distance) return {};
    // A check that fails finds everything before it done, and nothing after it.
    if ((has_checks(a) && writes_lasting(b)) || (has_checks(b) && writes_lasting(a))) return {};
    // All iterations of the first loop come before those of the second, which may fail earlier on.
    if ((has_errors(a) && has_checks(b)) || (has_checks(a) && has_errors(b))) return {};
    return independent(a, b) ? distance : std::nullopt;
  }

  /// Of two nests one has tiles and the other becomes what is done with each of its elements.
  bool stays_a_nest(const Op& a, const Op& b) {
    const std::vector<const Op*> x = nest_of(a), y = nest_of(b);
    if (a.loop->tiles == b.loop->tiles || x.size() != y.size()) return false;
    if (has_inner_loop(a.loop->tiles ? *y.back() : *x.back())) return false;
    for (size_t level = 1; level < x.size(); ++level) {
      const ir::Loop &first = *x[level]->loop, &second = *y[level]->loop;
      if (!has_permission(*x[level]) || !has_permission(*y[level])) return false;
      if (first.simd != second.simd && level + 1 < x.size()) return false;
      if (!shared_alike(first, second)) return false;
      // What the second nest loads between its loops goes before those of the first.
      for (const Op* op = body_of(*y[level - 1]).first; op; op = op->next) {
        if (op->code == Opcode::load_ && writes_view(a, *op->view())) return false;
      }
    }
    for (size_t level = 0; level < x.size(); ++level) {
      for (size_t k = 0; k < 3; ++k) {
        if (!same_number(*x[level]->operands[k], *y[level]->operands[k])) return false;
      }
    }
    for (const Op* first : accesses_of(a)) {
      for (const Op* second : accesses_of(b)) {
        const bool both_load = first->code == Opcode::load_ && second->code == Opcode::load_;
        if (first->view() == second->view() && !both_load && !same_place(*first, x, *second, y)) return false;
      }
    }
    return true;
  }

  /// Loops that consist of the next one and of what computes for it.
  static std::vector<const Op*> nest_of(const Op& outermost) {
    std::vector<const Op*> nest = {&outermost};
    for (;;) {
      const Op* inner = nullptr;
      for (const Op* op = body_of(*nest.back()).first; op; op = op->next) {
        if (is_for(*op) && op->results.empty() && !inner) {
          inner = op;
        } else if (!ir::is_pure(op->code) && op->code != Opcode::load_ && op->code != Opcode::yield_) {
          return nest;
        }
      }
      if (!inner) return nest;
      nest.push_back(inner);
    }
  }

  static bool same_place(const Op& a, const std::vector<const Op*>& x, const Op& b, const std::vector<const Op*>& y) {
    for (size_t d = 0; d < a.access->offset.size(); ++d) {
      Affine difference = row(a, d);
      difference.add(row(b, d), -1);
      for (size_t level = 0; level < x.size(); ++level) {
        const Wide coef = difference.coef(*induction(*x[level]));
        difference.add(*induction(*x[level]), -coef);
        difference.add(*induction(*y[level]), coef);
      }
      if (!difference.is_constant() || difference.constant != 0) return false;
    }
    return true;
  }

  /// Computed alike from the same values, as the bounds of tiles are.
  static bool same_number(const Value& a, const Value& b) {
    if (&a == &b) return true;
    if (!a.op || !b.op || a.op->code != b.op->code || !ir::is_pure(a.op->code) || !(a.type == b.type)) return false;
    if (a.op->imm != b.op->imm || a.op->dim != b.op->dim || a.op->operands.size() != b.op->operands.size())
      return false;
    for (size_t k = 0; k < a.op->operands.size(); ++k) {
      if (!same_number(*a.op->operands[k], *b.op->operands[k])) return false;
    }
    return true;
  }

  /// By how much the variable of `b` is more than that of `a`, where they count the same. Other than 0 only where both
  /// loops just read, as the iterations of one then do not mind which one of the other they meet.
  std::optional<int64_t> apart_by(const Op& a, const Op& b) const {
    Ranges ranges(graph_);
    std::optional<Wide> apart[3];
    for (size_t k = 0; k < 3; ++k) apart[k] = difference(ranges, *b.operands[k], *a.operands[k], b);
    if (!apart[0] || apart[0] != apart[1] || apart[2] != 0) return {};
    const bool near = -kMostApart <= *apart[0] && *apart[0] <= kMostApart;
    if (*apart[0] != 0 && !(near && only_loads(a) && only_loads(b))) return {};
    return static_cast<int64_t>(*apart[0]);
  }

  static bool only_loads(const Op& loop) {
    bool only = true;
    ir::walk(body_of(loop), [&](const Op& op) {
      only &= ir::is_pure(op.code) || op.code == Opcode::load_ || op.code == Opcode::poll_ || op.code == Opcode::yield_;
    });
    return only;
  }

  /// a - b, where it is always the same.
  static std::optional<Wide> difference(Ranges& ranges, const Value& a, const Value& b, const Op& where) {
    if (same_number(a, b)) return 0;
    Affine below = ranges.affine(a, where);
    below.add(ranges.affine(b, where), -1);
    if (below.is_constant()) return below.constant;
    Affine above;
    above.add(below, -1);
    const bool none = ranges.proves_nonpositive(below, where) && ranges.proves_nonpositive(above, where);
    return none ? std::optional<Wide>(0) : std::nullopt;
  }

  /// No element is touched by different iterations of the two, one of them writing.
  bool independent(const Op& a, const Op& b) {
    std::vector<const Value*> views;
    for (const Op* x : accesses_of(a)) {
      if (std::find(views.begin(), views.end(), x->view()) == views.end()) views.push_back(x->view());
      for (const Op* y : accesses_of(b)) {
        if (x->code == Opcode::load_ && y->code == Opcode::load_) continue;
        if (x->code == Opcode::atomic_ && y->code == Opcode::atomic_ && x->combiner == y->combiner) continue;
        const bool fresh = ir::alloc_of(*x->view()) || ir::alloc_of(*y->view());
        if (x->view() != y->view()) {
          if (graph_.may_alias && !fresh) return false;
          continue;
        }
        if (!apart(*x, *y, a, b)) return false;
      }
    }
    for (const Op* y : accesses_of(b)) {
      if (std::find(views.begin(), views.end(), y->view()) == views.end()) views.push_back(y->view());
    }
    return views.size() <= kMostViews;
  }

  /// Iteration i of `a` and iteration k of `b` touch different elements unless i == k.
  static bool apart(const Op& x, const Op& y, const Op& a, const Op& b) {
    for (size_t d = 0; d < x.access->offset.size(); ++d) {
      Affine rx = row(x, d), ry = row(y, d);
      const Wide c = rx.coef(*induction(a));
      if (c != ry.coef(*induction(b))) continue;
      rx.add(*induction(a), -c);
      ry.add(*induction(b), -c);
      const auto outside = [&](const Affine& r) {
        return std::all_of(r.terms.begin(), r.terms.end(), [&](const auto& term) {
          return ir::defined_outside(*term.first, body_of(a)) && ir::defined_outside(*term.first, body_of(b));
        });
      };
      if (!outside(rx) || !outside(ry)) continue;
      rx.add(ry, -1);
      if (!rx.is_constant()) continue;
      if (c == 0 ? rx.constant != 0 : rx.constant == 0 || rx.constant % c != 0) return true;
    }
    return false;
  }

  /// The ops between the loops that the second one needs: they go before the first. False where that is not possible.
  bool collect_between(const Op& first, const Op& second, std::vector<Op*>& needed) {
    std::vector<const Value*> used(second.operands.begin(), second.operands.end());
    ir::walk(body_of(second), [&](const Op& op) { used.insert(used.end(), op.operands.begin(), op.operands.end()); });
    for (Op* op = second.prev; op != &first; op = op->prev) {
      const bool wanted = may_go_first(*op) || std::any_of(op->results.begin(), op->results.end(), [&](const Value* v) {
                            return std::find(used.begin(), used.end(), v) != used.end();
                          });
      if (op->code == Opcode::load_) {
        // It stays behind, so the second loop must not write what it reads; or goes before a nest with tiles.
        if (wanted ? !in_tiles(first) || writes_view(first, *op->view()) : writes_view(second, *op->view()))
          return false;
      }
      if (!wanted) continue;
      used.insert(used.end(), op->operands.begin(), op->operands.end());
      for (const Value* v : op->operands) {
        if (v->op == &first) return false;
      }
      needed.insert(needed.begin(), op);
    }
    return true;
  }

  bool writes_view(const Op& loop, const Value& view) {
    for (const Op* op : accesses_of(loop)) {
      if (op->code != Opcode::load_ && (op->view() == &view || graph_.may_alias)) return true;
    }
    return false;
  }

  void merge(Op& first, Op& second, int64_t distance) {
    Block &into = body_of(first), &from = body_of(second);
    Value* variable = induction(first);
    if (distance != 0) {
      ir::Builder b(graph_);
      b.set_loc(second.loc);
      b.set_before(into.last);
      variable = b.op(Opcode::add_, {variable, b.i64(distance)});
    }
    std::vector<Value*> to(graph_.value_count());
    to[induction(second)->id] = variable;
    const auto offset = static_cast<int>(first.results.size());
    for (size_t k = 0; k < second.results.size(); ++k) {
      const Value* arg = from.args[1 + k];
      ir::Carried carried = second.loop->carried[k];
      if (carried.leader >= 0) carried.leader += offset;
      if (carried.tie >= 0) carried.tie += offset;
      const NewCarried added = append_carried(first, second.operands[3 + k], carried, arg->name);
      added.result->name = second.results[k]->name;
      to[arg->id] = added.arg;
      to[second.results[k]->id] = added.result;
    }
    Op* end = into.last;
    for (Op *op = from.first, *next; op; op = next) {
      next = op->next;
      from.remove(op);
      if (op->code == Opcode::poll_) continue;
      if (!next) {
        end->operands.insert(end->operands.end(), op->operands.begin(), op->operands.end());
      } else {
        into.insert_before(end, op);
      }
    }
    second.parent->remove(&second);
    first.loop->simd = first.loop->simd && second.loop->simd;
    first.loop->parallel = first.loop->parallel && second.loop->parallel;
    // Each may run in any order, if not for the same reason.
    if (in_tiles(first) && !first.loop->simd) first.loop->parallel = true;
    first.loop->tiles |= second.loop->tiles;
    first.loop->annotated = first.loop->annotated && second.loop->annotated;
    if (first.loop->le != second.loop->le) first.loop->le = 0;
    to.resize(graph_.value_count());
    ir::replace_uses(graph_, to);
  }

  ir::Graph& graph_;
};

}  // namespace

bool fuse(ir::Graph& graph) { return Fuser(graph).run(*graph.body); }

}  // namespace appy::passes
