// Producers into consumers: a temporary that one loop nest fills element by element, and that is cheap to compute, is
// computed anew where its elements are read, at whatever shift. A stencil of a stencil needs no array in between where
// fusion cannot bring the two together, because they count differently or read neighbours: memory traffic is paid with
// arithmetic (Halide's inlining of stages; Ragan-Kelley et al., PLDI 2013).

#include <algorithm>
#include <string>
#include <vector>

#include "passes/copier.h"
#include "passes/inline_cost.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Builder;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr std::string_view kStage = "inline_arrays";
constexpr size_t kMostOps = 128;      // of an iteration that reads, afterwards
constexpr size_t kMostOpsAdded = 32;  // to what both nests do in an iteration: some array's trip to memory and back
constexpr size_t kMostConsidered = 1000;

bool is_costly(Opcode code) {
  return (code >= Opcode::cbrt_ && code <= Opcode::lgamma_) || code == Opcode::pow_ || code == Opcode::atan2_ ||
         code == Opcode::hypot_ || code == Opcode::div_ || code == Opcode::sqrt_ || code == Opcode::floordiv_ ||
         code == Opcode::mod_;
}

/// The array, the store that fills it, and the loops around that, outermost first.
struct Producer {
  Op* alloc = nullptr;
  Op* store = nullptr;
  std::vector<Op*> loops;       // loops[d] counts dimension order[d] of the array
  std::vector<size_t> loop_of;  // by dimension
  std::vector<Op*> expression;  // what the stored value is computed by, in order
  std::vector<Op*> loads;       // of the array
};

class Inliner {
 public:
  explicit Inliner(ir::Graph& graph) : graph_(graph) {}

  /// An array whose nest another array's row stands in shows its form once that row is gone.
  bool run() {
    bool changed = false;
    while (sweep()) changed = true;
    return changed;
  }

 private:
  bool sweep() {
    std::vector<Op*> allocs;
    ir::walk(*graph_.body, [&](Op& op) {
      if (op.code == Opcode::alloc_ && !op.escapes) allocs.push_back(&op);
    });
    bool changed = false;
    for (Op* alloc : allocs) {
      Producer p;
      p.alloc = alloc;
      if (!find(p) || !is_cheap(p) || !is_undisturbed(p)) continue;
      remark(graph_, ir::Severity::note, kStage, p.store->loc,
             "the array of " + line_of(graph_, p.store->loc) + " is computed where it is read");
      for (Op* load : p.loads) replace(p, *load);
      remove(p);
      changed = true;
    }
    return changed;
  }

  /// One store, in a nest of its own that counts through all elements; every other use is a load behind the nest.
  bool find(Producer& p) {
    const Value* array = p.alloc->result();
    bool good = true;
    ir::walk(*graph_.body, [&](Op& op) {
      const bool uses = std::find(op.operands.begin(), op.operands.end(), array) != op.operands.end();
      if (!uses) return;
      if (op.code == Opcode::store_ && op.view() == array && !p.store) {
        p.store = &op;
      } else if (op.code == Opcode::load_) {
        p.loads.push_back(&op);
      } else {
        good = false;
      }
    });
    if (!good || !p.store || p.loads.empty()) return false;
    const ir::Access& access = *p.store->access;
    const size_t rank = access.offset.size();
    for (Op* at = p.store->parent->owner; at && at->parent != p.alloc->parent; at = at->parent->owner) {
      p.loops.insert(p.loops.begin(), at);
    }
    Op* outer = p.loops.empty() ? p.store->parent->owner : p.loops[0]->parent->owner;
    if (!outer || outer->parent != p.alloc->parent) return false;
    p.loops.insert(p.loops.begin(), outer);
    if (p.loops.size() != rank) return false;
    for (const Op* loop : p.loops) {
      if (!is_for(*loop) || carried_count(*loop) || constant(*loop->operands[0]) != 0) return false;
      if (constant(*loop->operands[2]) != 1 || !exits_of(*loop).breaks.empty()) return false;
    }
    p.loop_of.assign(rank, rank);
    for (size_t d = 0; d < rank; ++d) {
      const Affine index = row(*p.store, d);
      for (size_t l = 0; l < rank; ++l) {
        if (index.constant == 0 && index.terms.size() == 1 && index.coef(*induction(*p.loops[l])) == 1)
          p.loop_of[d] = l;
      }
      if (p.loop_of[d] == rank || std::count(p.loop_of.begin(), p.loop_of.end(), p.loop_of[d]) != 1) return false;
      // All elements: the loop counts to the extent.
      if (p.loops[p.loop_of[d]]->operands[1] != p.alloc->operands[d]) return false;
    }
    return collect(p);
  }

  /// The ops of the nest that the stored value needs: pure ones and loads, nothing else is in the nest.
  bool collect(Producer& p) {
    bool good = true;
    std::vector<Op*> all;
    ir::walk(body_of(*p.loops[0]), [&](Op& op) {
      const Effect effect = ir::info(op.code).effect;
      if (effect == Effect::pure || effect == Effect::load) all.push_back(&op);
      const bool known = effect == Effect::pure || effect == Effect::load || op.code == Opcode::poll_ ||
                         op.code == Opcode::yield_ || &op == p.store ||
                         std::find(p.loops.begin(), p.loops.end(), &op) != p.loops.end();
      good &= known;
    });
    if (!good) return false;
    std::vector<const Value*> wanted = {p.store->operands[0]};
    for (size_t k = all.size(); k-- > 0;) {
      if (std::find(wanted.begin(), wanted.end(), all[k]->result()) == wanted.end()) continue;
      wanted.insert(wanted.end(), all[k]->operands.begin(), all[k]->operands.end());
      p.expression.insert(p.expression.begin(), all[k]);
    }
    return true;
  }

  static bool is_cheap(const Producer& p) {
    if (p.expression.size() > kMostOps ||
        std::any_of(p.expression.begin(), p.expression.end(), [](const Op* op) { return is_costly(op->code); })) {
      return false;
    }
    std::vector<const Block*> readers;
    for (const Op* load : p.loads) {
      if (std::find(readers.begin(), readers.end(), load->parent) == readers.end()) readers.push_back(load->parent);
    }
    size_t considered = 0;
    for (const Block* block : readers) {
      for (const Op* op = block->first; op; op = op->next) ++considered;
    }
    if (considered > kMostConsidered) return false;
    Recipe recipe{p.alloc->result(), p.store->operands[0], {}, {p.expression.begin(), p.expression.end()}};
    for (size_t loop : p.loop_of) recipe.index.push_back(induction(*p.loops[loop]));
    const Work work = work_of(recipe, readers);
    return work.fused <= kMostOps && work.fused <= work.producer + work.consumer + kMostOpsAdded;
  }

  /// Behind the nest nothing writes what the expression reads before the last copy of it has run; no copy runs more
  /// often than the array has elements, and each has the same permission to fuse multiplications and additions.
  bool is_undisturbed(const Producer& p) {
    const Block& block = *p.alloc->parent;
    const Op* nest = p.loops[0];
    const Op* last = nullptr;
    for (Op* load : p.loads) {
      Op* at = ancestor_in(block, *load);
      if (!at || !comes_before(*nest, *at)) return false;
      if (!last || comes_before(*last, *at)) last = at;
      size_t depth = 0;
      for (const Op* loop = load->parent->owner; loop && loop != block.owner; loop = loop->parent->owner)
        depth += is_loop(*loop);
      if (depth > p.loops.size()) return false;
      const Op* inner = ir::enclosing_loop(*load->parent);
      if (!inner || !inner->loop || inner->loop->annotated != p.loops.back()->loop->annotated) return false;
    }
    for (const Op* op = nest->next; op; op = op->next) {
      if (disturbs(p, *op)) return false;
      if (op == last) break;
    }
    return true;
  }

  static bool comes_before(const Op& a, const Op& b) {
    for (const Op* at = a.next; at; at = at->next) {
      if (at == &b) return true;
    }
    return false;
  }

  bool disturbs(const Producer& p, const Op& op) {
    bool found = false;
    const auto visit = [&](const Op& inner) {
      const Effect effect = ir::info(inner.code).effect;
      if (effect != Effect::store && effect != Effect::atomic) return;
      for (const Op* load : p.expression) {
        if (!is_access(*load)) continue;
        const bool fresh = ir::alloc_of(*load->view()) || ir::alloc_of(*inner.view());
        found |= load->view() == inner.view() || (graph_.may_alias && !fresh);
      }
    };
    visit(op);
    for (Block* inner : op.blocks) ir::walk(*inner, [&](Op& nested) { visit(nested); });
    return found;
  }

  void replace(const Producer& p, Op& load) {
    Builder b(graph_);
    b.set_loc(load.loc);
    b.set_before(&load);
    Copier copier(graph_);
    for (size_t d = 0; d < p.loop_of.size(); ++d) copier.map(induction(*p.loops[p.loop_of[d]]), emit(b, row(load, d)));
    for (const Op* op : p.expression) {
      Op* copy = copier.copy(*op);
      copy->result()->name.clear();  // there may be many of them
      load.parent->insert_before(&load, copy);
    }
    ir::replace_uses(graph_, load.result(), copier.of(p.store->operands[0]));
    load.parent->remove(&load);
  }

  static void remove(const Producer& p) {
    p.loops[0]->parent->remove(p.loops[0]);
    p.alloc->parent->remove(p.alloc);
  }

  ir::Graph& graph_;
};

}  // namespace

bool inline_arrays(ir::Graph& graph) { return Inliner(graph).run(); }

}  // namespace appy::passes
