#include "passes/product.h"

#include <algorithm>
#include <set>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Of a row or a column and of the carried values: more do not fit into the registers of a thread.
constexpr size_t kMost = 2;

Side operator|(Side a, Side b) { return static_cast<Side>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b)); }

/// What lanes of a worker wait for has no place in tiles, which have barriers of their own.
bool is_ignored(const Op& op) { return op.code == Opcode::barrier_ && op.mapping == Mapping::lanes; }

class Matcher {
 public:
  explicit Matcher(const Op& outermost) : outermost_(outermost) { p_.sides.resize(outermost.graph->value_count()); }

  std::optional<Product> run() {
    if (outermost_.graph->may_alias || !find_nest() || !find_stores()) return {};
    if (!find_sides() || !bounds_fit() || !find_values()) return {};
    find_terms();
    return std::move(p_);
  }

 private:
  bool find_nest() {
    for (const Op* loop = &outermost_; loop;) {
      if (!is_for(*loop) || !loop->results.empty() || !left_by_yield_only(*loop)) return false;
      p_.nest.push_back(loop);
      const Op* inner = nullptr;
      for (const Op* op = body_of(*loop).first; op; op = op->next) {
        if (!is_for(*op)) continue;
        if (inner) return false;
        inner = op;
      }
      if (!inner) return false;
      if (!inner->results.empty()) {
        p_.steps = inner;
        break;
      }
      for (const Op* op = body_of(*loop).first; op; op = op->next) {
        if (op != inner && op->code != Opcode::yield_ && !is_ignored(*op) && !only_computes(*op)) return false;
      }
      loop = inner;
    }
    if (p_.nest.size() < 2 || p_.steps->results.size() > kMost || !left_by_yield_only(*p_.steps)) return false;
    const bool simple = std::all_of(
        p_.steps->loop->carried.begin(), p_.steps->loop->carried.end(),
        [](const ir::Carried& c) { return c.combiner != ir::Combiner::last_ && c.leader < 0 && c.tie < 0; });
    for (const Op* op = body_of(*p_.steps).first; op; op = op->next) {
      if (op->code != Opcode::yield_ && (!only_computes(*op) || !op->blocks.empty())) return false;
    }
    return simple;
  }

  /// Each iteration stores elements of its own, and those alone does it load of what the nest stores.
  bool find_stores() {
    std::set<const Value*> written;
    std::vector<const Op*> stores;
    bool fits = true;
    ir::walk(body_of(p_.columns()), [&](const Op& op) {
      fits &= only_computes(op) || op.code == Opcode::store_ || op.code == Opcode::if_ || op.code == Opcode::yield_ ||
              &op == p_.steps || is_ignored(op);
      if (op.code != Opcode::store_) return;
      stores.push_back(&op);
      written.insert(op.view());
    });
    if (!fits || stores.empty()) return false;
    for (const Op* store : stores) {
      for (const Op* loop : p_.nest) {
        if (!tells_apart(*store, *loop)) return false;
      }
    }
    ir::walk(body_of(outermost_), [&](const Op& op) {
      if (!is_access(op) || !written.count(op.view())) return;
      fits &= !is_inside(op, body_of(*p_.steps)) && is_inside(op, body_of(p_.columns())) &&
              std::all_of(stores.begin(), stores.end(),
                          [&](const Op* store) { return store->view() != op.view() || same_element(*store, op); });
    });
    return fits && !loads_what_it_stored();
  }

  /// Before the steps: a tile's sums begin before anything of it is stored.
  bool loads_what_it_stored() const {
    std::set<const Value*> stored;
    bool found = false;
    const auto note = [&](const Op& op) {
      found |= op.code == Opcode::load_ && stored.count(op.view()) != 0;
      if (op.code == Opcode::store_) stored.insert(op.view());
    };
    for (const Op* op = body_of(p_.columns()).first; op != p_.steps; op = op->next) {
      note(*op);
      for (Block* inner : op->blocks) ir::walk(*inner, note);
    }
    return found;
  }

  /// In some dimension the subscript is a multiple of the loop's variable and else what does not vary in the nest.
  bool tells_apart(const Op& store, const Op& loop) const {
    for (size_t d = 0; d < store.access->offset.size(); ++d) {
      Affine subscript = row(store, d);
      const Wide coef = subscript.coef(*induction(loop));
      if (coef == 0) continue;
      subscript.add(*induction(loop), -coef);
      if (std::all_of(subscript.terms.begin(), subscript.terms.end(),
                      [&](const auto& term) { return ir::defined_outside(*term.first, body_of(outermost_)); })) {
        return true;
      }
    }
    return false;
  }

  Side& at(const Value& v) { return p_.sides[v.id]; }

  /// What the op depends on, with all that is inside it; its results as well.
  Side give_side(const Op& op) {
    Side side = of_operands(op);
    for (const Block* inner : op.blocks) {
      for (const Op* at = inner->first; at; at = at->next) side = side | give_side(*at);
    }
    for (const Value* r : op.results) at(*r) = side;
    return side;
  }

  Side of_operands(const Op& op) {
    Side side = Side::neither;
    for (const Value* v : op.operands) side = side | at(*v);
    return side;
  }

  bool find_sides() {
    at(*induction(p_.rows())) = Side::row;
    at(*induction(p_.columns())) = Side::column;
    for (const Op* loop : p_.nest) {
      for (const Op* op = body_of(*loop).first; op; op = op->next) {
        if (is_for(*op) && op != p_.steps) break;  // the next of the nest; behind it there is nothing of use
        if (op == p_.steps) {
          if (!sides_of_steps()) return false;
        } else {
          give_side(*op);
        }
      }
    }
    return true;
  }

  bool sides_of_steps() {
    for (size_t k = 0; k < p_.steps->results.size(); ++k) {
      at(*p_.steps->results[k]) = Side::both;
      at(*body_of(*p_.steps).args[1 + k]) = Side::both;
    }
    for (const Op* op = body_of(*p_.steps).first; op; op = op->next) {
      if (give_side(*op) == Side::both && op->code == Opcode::load_) return false;
    }
    return true;
  }

  bool bounds_fit() {
    for (const Op* loop : p_.nest) {
      for (size_t k = 0; k < 3; ++k) {
        if (ir::defined_outside(*loop->operands[k], body_of(outermost_))) continue;
        // How far the columns of a row go may depend on the row.
        const Op* upper = loop->operands[1]->op;
        if (loop != &p_.columns() || k != 1 || p_.nest.size() != 2 || !upper || !is_pure_of(*upper, p_.rows()))
          return false;
        p_.rectangular = false;
      }
    }
    return steps_fit();
  }

  /// Steps begin or end where the row, or the column, says: what one has at all, those that have most have.
  bool steps_fit() {
    const Side lower = at(*p_.steps->operands[0]), upper = at(*p_.steps->operands[1]);
    if (at(*p_.steps->operands[2]) != Side::neither) return false;
    p_.uneven = lower | upper;
    if (p_.uneven == Side::neither) return true;
    if (p_.uneven == Side::both || (lower != Side::neither && upper != Side::neither)) return false;
    const Op* bound = p_.steps->operands[lower == Side::neither ? 1 : 0]->op;
    const Op& loop = p_.uneven == Side::row ? p_.rows() : p_.columns();
    return p_.rectangular && constant(*p_.steps->operands[2]) == 1 && (!bound || is_pure_of(*bound, loop));
  }

  /// Computed from the loop's variable and from what is the same in all of the nest.
  bool is_pure_of(const Op& op, const Op& loop) const {
    if (ir::defined_outside(*op.result(), body_of(outermost_))) return true;
    return ir::is_pure(op.code) && std::all_of(op.operands.begin(), op.operands.end(), [&](const Value* v) {
             return v == induction(loop) ||
                    (v->op ? is_pure_of(*v->op, loop) : ir::defined_outside(*v, body_of(outermost_)));
           });
  }

  bool find_values() {
    const Block& body = body_of(*p_.steps);
    std::set<const Value*> seen;
    for (const Op* op = body.first; op; op = op->next) {
      if (op->code != Opcode::yield_ && of_operands(*op) != Side::both) continue;
      for (const Value* v : op->operands) {
        if (!seen.insert(v).second) continue;
        const bool inside = !ir::defined_outside(*v, body);
        switch (at(*v)) {
          case Side::both:
            if (!inside) return false;
            break;
          case Side::neither:
            // Of a step alone: it comes with what the row has.
            if (inside) p_.of_row.push_back(v);
            break;
          case Side::row:
            p_.of_row.push_back(v);
            break;
          case Side::column:
            p_.of_column.push_back(v);
            break;
        }
      }
    }
    const auto fits = [](const std::vector<const Value*>& values) { return !values.empty() && values.size() <= kMost; };
    return fits(p_.of_row) && fits(p_.of_column);
  }

  /// What a step adds, where that are products of what the row and the column have.
  void find_terms() {
    if (p_.steps->results.size() != 1 || p_.steps->loop->carried[0].combiner != ir::Combiner::sum_) return;
    std::vector<Factors> terms;
    int before = 0;
    if (!add_terms(*body_of(*p_.steps).last->operands[0], terms, before) || before != 1) return;
    if (terms.empty() || terms.size() != p_.of_row.size() || terms.size() != p_.of_column.size()) return;
    if (terms.size() == 2 && (terms[0].x == terms[1].x || terms[0].y == terms[1].y)) return;
    p_.terms = static_cast<uint8_t>(terms.size());
    p_.crossed = terms[0].x != terms[0].y;
  }

  /// Positions in of_row and of_column.
  struct Factors {
    size_t x, y;
  };

  bool add_terms(const Value& sum, std::vector<Factors>& terms, int& before) const {
    if (&sum == body_of(*p_.steps).args[1]) return ++before == 1;
    const Op* op = sum.op;
    if (!op || op->parent != &body_of(*p_.steps)) return false;
    if (op->code == Opcode::add_)
      return add_terms(*op->operands[0], terms, before) && add_terms(*op->operands[1], terms, before);
    if (op->code != Opcode::mul_ && op->code != Opcode::fma_) return false;
    const auto place = [](const std::vector<const Value*>& values, const Value* v) {
      return static_cast<size_t>(std::find(values.begin(), values.end(), v) - values.begin());
    };
    for (size_t side = 0; side < 2; ++side) {
      const Factors factors = {place(p_.of_row, op->operands[side]), place(p_.of_column, op->operands[1 - side])};
      if (factors.x >= p_.of_row.size() || factors.y >= p_.of_column.size() || terms.size() == kMost) continue;
      terms.push_back(factors);
      return op->code == Opcode::mul_ || add_terms(*op->operands[2], terms, before);
    }
    return false;
  }

  const Op& outermost_;
  Product p_;
};

}  // namespace

std::optional<Product> product_of(const Op& outermost) { return Matcher(outermost).run(); }

}  // namespace appy::passes
