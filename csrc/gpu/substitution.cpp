// Tiles of substitutions: a loop in order by one block, each iteration of which makes values of its own row, and then
// changes all rows behind it by them.
//
//   for i in tile: x = f(s[i], ...); x[i] = x; for j in range(i + 1, end of tile): s[j] = g(s[j], x, l[j, i], ...)
//
// One warp runs it. A lane has a row, or a few: it keeps what changes of them in registers, and whose turn it is tells
// the others its values by a shuffle. Nothing of the chain from iteration to iteration goes through memory, and no sum
// changes its order.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/recurrence.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// Rows that a lane has at most.
constexpr int64_t kMostRows = 4;

const Value& variable_of(const Op& loop) { return *loop.blocks[0]->args[0]; }

using Ops = std::vector<const Op*>;

bool contains(const Ops& ops, const Op* op) { return std::find(ops.begin(), ops.end(), op) != ops.end(); }

}  // namespace

/// The parts of the loop. A state is an element of each row that rows before change.
struct Substitution {
  const Op *loop = nullptr, *later = nullptr;  // over the tile's rows, and over the rows behind one
  int64_t rows = 0;                            // of a lane
  Ops states, updates;                         // loads and stores in `later`
  Ops stores;                                  // in `later`, of what updates store too
  Ops own, head, tell;                         // of a row: before the loop; from its states; its stores
  Ops ahead, step;  // of a row and an earlier one: from memory; from states and what was told
  std::vector<const Value*> kept, told, near;  // of a row beside the states, for later rows, of two rows
  std::vector<const Value*> divisors;          // of those that are kept
};

namespace {

class Finder {
 public:
  Finder(const ir::Graph& graph, const Op& loop) : graph_(graph), loop_(loop), ranges_(graph) {}

  std::optional<Substitution> run() {
    s_.loop = &loop_;
    const auto trips = passes::most_trips(ranges_, loop_);
    if (graph_.may_alias || !loop_.results.empty() || !trips || passes::constant(*loop_.operands[2]) != 1) return {};
    s_.rows = (*trips + 31) / 32;
    if (s_.rows > kMostRows || !find_later() || !find_states() || !divide_head() || !divide_later()) return {};
    collect(s_.kept, s_.own, {&s_.head, &s_.tell, &s_.step});
    collect(s_.told, s_.head, {&s_.ahead, &s_.step});
    for (const Value* v : s_.kept) {
      if (is_used(*v, s_.step)) s_.told.push_back(v);
    }
    collect(s_.near, s_.ahead, {&s_.step});
    find_divisors();
    for (const Op* op : s_.updates) {
      const Value* v = op->operands[0];
      if (!contains(s_.step, v->op)) return {};
    }
    return std::move(s_);
  }

 private:
  const ir::Block& body() const { return *loop_.blocks[0]; }
  const ir::Block& later_body() const { return *s_.later->blocks[0]; }

  bool find_later() {
    for (const Op* op = body().first; op != body().last; op = op->next) {
      const bool plain = ir::is_pure(op->code) || op->code == Opcode::load_ || op->code == Opcode::store_ ||
                         (op->code == Opcode::barrier_ && op->mapping == Mapping::lanes);
      if (op->code == Opcode::for_ && op->mapping == Mapping::lanes && op->results.empty() && !s_.later) {
        s_.later = op;
      } else if (!plain || (s_.later && op->code != Opcode::barrier_ && !ir::is_pure(op->code))) {
        return false;
      }
      if (passes::is_access(*op)) accesses_.push_back(op);
    }
    if (!s_.later || body().last->code != Opcode::yield_) return false;
    for (const Op* op = later_body().first; op != later_body().last; op = op->next) {
      if (!ir::is_pure(op->code) && op->code != Opcode::load_ && op->code != Opcode::store_) return false;
      if (passes::is_access(*op)) accesses_.push_back(op);
    }
    passes::Affine begin = ranges_.affine(*s_.later->operands[0], *s_.later);
    begin.add(variable_of(loop_), -1);
    return later_body().last->code == Opcode::yield_ && begin.is_constant() && begin.constant == 1 &&
           s_.later->operands[1] == loop_.operands[1] && passes::constant(*s_.later->operands[2]) == 1;
  }

  bool is_later(const Op& op) const { return op.parent == &later_body(); }

  /// Each row has elements of its own: a subscript is a multiple of the variable and what is the same all the time.
  bool is_own(const Op& access) const {
    const Value& row = variable_of(is_later(access) ? *s_.later : loop_);
    bool known = true, own = false;
    for (const Value* term : access.terms()) known &= term == &row || ir::defined_outside(*term, body());
    for (size_t d = 0; d < access.access->offset.size(); ++d) own |= passes::row(access, d).coef(row) != 0;
    return known && own;
  }

  /// The same element of a row, in the loop and in the one over later rows.
  bool same(const Op& a, const Op& b) const {
    const Value &i = variable_of(loop_), &j = variable_of(*s_.later);
    for (size_t d = 0; d < a.access->offset.size(); ++d) {
      passes::Affine x = passes::row(a, d), y = passes::row(b, d);
      for (passes::Affine* sum : {&x, &y}) {
        const passes::Wide step = sum->coef(j);
        sum->add(j, -step);
        sum->add(i, step);
      }
      x.add(y, -1);
      if (!x.is_constant() || x.constant != 0) return false;
    }
    return true;
  }

  /// The sum where the loops' variables make it least or greatest: those of the two loops here, and of loops around
  /// them whose iterations workers have.
  passes::Affine extreme(passes::Affine sum, bool least) {
    for (const Op* at = s_.later; at; at = at->parent->owner) {
      const bool within = at == s_.later || at == &loop_ || at->mapping == Mapping::workers;
      if (!within || at->code != Opcode::for_ || passes::constant(*at->operands[2]) != 1) break;
      const passes::Wide step = sum.coef(variable_of(*at));
      if (step == 0) continue;
      const bool first = (step > 0) == least;
      passes::Affine bound = ranges_.affine(*at->operands[first ? 0 : 1], *at);
      bound.constant -= first ? 0 : 1;
      sum.add(variable_of(*at), -step);
      sum.add(bound, step);
    }
    return sum;
  }

  /// In some dimension the one is below all that the other touches, whichever turns they belong to.
  bool never_meet(const Op& a, const Op& b) {
    const auto is_fixed = [&](const passes::Affine& sum) {
      return std::all_of(sum.terms.begin(), sum.terms.end(),
                         [&](const auto& term) { return ir::defined_outside(*term.first, body()); });
    };
    for (size_t d = 0; d < a.access->offset.size(); ++d) {
      for (const auto& [low, high] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        passes::Affine apart = extreme(passes::row(*low, d), false);
        const passes::Affine least = extreme(passes::row(*high, d), true);
        if (!is_fixed(apart) || !is_fixed(least)) continue;
        apart.add(least, -1);
        if (apart.is_constant() && apart.constant < 0) return true;
      }
    }
    return false;
  }

  /// Whatever is written belongs to a row; what rows change of each other is loaded first and stored last.
  bool find_states() {
    for (const Op* store : accesses_) {
      if (store->code != Opcode::store_) continue;
      if (!is_own(*store)) return false;
      const Op* state = nullptr;
      for (const Op* other : accesses_) {
        if (other == store || other->view() != store->view()) continue;
        if (!is_later(*store) && never_meet(*store, *other)) continue;
        if (other->code != Opcode::load_ || !is_own(*other) || !same(*store, *other)) return false;
        if (!is_later(*store) && is_later(*other)) return false;
        if (!is_later(*other)) continue;
        if (state) return false;
        state = other;
      }
      if (!is_later(*store)) continue;
      if (state) {
        s_.states.push_back(state);
        s_.updates.push_back(store);
      } else {
        for (const Op* load : accesses_) {
          if (load->view() == store->view() && load->code == Opcode::load_) return false;
        }
        s_.stores.push_back(store);
      }
    }
    const auto is_update = [&](const Op* store) {
      return std::any_of(s_.updates.begin(), s_.updates.end(),
                         [&](const Op* update) { return update->operands[0] == store->operands[0]; });
    };
    return !s_.states.empty() && std::all_of(s_.stores.begin(), s_.stores.end(), is_update);
  }

  /// The head loads a state: it stands for what the lane keeps.
  bool is_state(const Op& load) const {
    return std::any_of(s_.states.begin(), s_.states.end(),
                       [&](const Op* state) { return state->view() == load.view(); });
  }

  bool divide_head() {
    for (const Op* op = body().first; op != s_.later; op = op->next) {
      if (op->code == Opcode::barrier_ || op->code == Opcode::const_) continue;
      if (op->code == Opcode::store_) {
        s_.tell.push_back(op);
        continue;
      }
      const bool state = op->code == Opcode::load_ && is_state(*op);
      const bool from_states = std::any_of(op->operands.begin(), op->operands.end(),
                                           [&](const Value* v) { return contains(s_.head, v->op); });
      if (op->code == Opcode::load_ && !state && from_states) return false;
      (state || from_states ? s_.head : s_.own).push_back(op);
    }
    return true;
  }

  bool divide_later() {
    for (const Op* op = later_body().first; op != later_body().last; op = op->next) {
      if (op->code == Opcode::store_ || op->code == Opcode::const_ || contains(s_.states, op)) continue;
      const bool near = std::all_of(op->operands.begin(), op->operands.end(), [&](const Value* v) {
        return !contains(s_.states, v->op) && !contains(s_.step, v->op) &&
               (ir::defined_outside(*v, body()) || is_constant(*v) || v == &variable_of(loop_) ||
                v == &variable_of(*s_.later) || contains(s_.ahead, v->op));
      });
      (near ? s_.ahead : s_.step).push_back(op);
    }
    return true;
  }

  static bool is_constant(const Value& v) { return v.op && v.op->code == Opcode::const_; }

  static bool is_used(const Value& v, const Ops& by) {
    return std::any_of(by.begin(), by.end(), [&](const Op* op) {
      return std::find(op->operands.begin(), op->operands.end(), &v) != op->operands.end();
    });
  }

  static void collect(std::vector<const Value*>& into, const Ops& made, std::initializer_list<const Ops*> by) {
    for (const Op* op : made) {
      if (std::any_of(by.begin(), by.end(), [&](const Ops* ops) { return is_used(*op->result(), *ops); }))
        into.push_back(op->result());
    }
  }

  /// The reciprocal of what a row divides by does not wait for the rows before.
  void find_divisors() {
    for (const Value* v : s_.kept) {
      const bool divides = std::any_of(s_.head.begin(), s_.head.end(), [&](const Op* op) {
        return op->code == Opcode::div_ && op->operands[1] == v && ir::is_real(v->type.dtype);
      });
      if (divides) s_.divisors.push_back(v);
    }
  }

  const ir::Graph& graph_;
  const Op& loop_;
  passes::Ranges ranges_;
  Ops accesses_;
  Substitution s_;
};

}  // namespace

bool Writer::substitution(const Op& loop) {
  if (level_ != Level::worker || options_.shape.block % 32 != 0) return false;
  if (!one_block_ && (columns_ || options_.shape.lanes != 32)) return false;
  const auto found = Finder(graph_, loop).run();
  if (!found) return false;
  const Substitution& s = *found;
  code_.in_turn |= one_block_;
  const auto outer_loops = std::exchange(loops_, {});
  level_ = Level::thread;
  apart_ = true;
  std::vector<const Value*> row;
  for (const Op* state : s.states) row.push_back(state->result());
  row.insert(row.end(), s.kept.begin(), s.kept.end());
  std::string reciprocals;
  for (size_t k = 0; k < s.divisors.size(); ++k)
    reciprocals += "  Divisor<" + std::string(type_of(s.divisors[k]->type.dtype)) + "> by" + std::to_string(k) + ";\n";
  const std::string row_type = struct_of("Row", row, reciprocals), told_type = struct_of("Told", s.told),
                    near_type = struct_of("Near", s.near);
  const std::string first = names_.fresh("", "first"), head = names_.fresh("", "head"),
                    ahead = names_.fresh("", "ahead"), step = names_.fresh("", "step"), last = names_.fresh("", "last"),
                    r = names_.fresh("", "row"), t = names_.fresh("", "told"), n = names_.fresh("", "near");
  const std::string i = names_.of(variable_of(loop)), j = names_.of(variable_of(*s.later));
  const auto write = [&](const Ops& ops) {
    for (const Op* op : ops) statement(*op);
  };
  const auto declare = [&](const Value& v, const std::string& from, size_t k) {
    put("const " + std::string(type_of(v.type.dtype)) + " " + names_.of(v) + " = " + from + ".v" + std::to_string(k) +
        ";");
  };
  const auto give = [&](const std::vector<const Value*>& values, const std::vector<const Value*>& divisors = {}) {
    std::string list;
    for (const Value* v : values) list += (list.empty() ? "" : ", ") + argument(*v);
    for (const Value* v : divisors) list += ", divisor_of(" + argument(*v) + ")";
    put("return {" + list + "};");
    close(";");
  };
  /// What the head loads of states, and what the lane keeps beside them.
  const auto own_row = [&] {
    for (size_t k = 0; k < s.kept.size(); ++k) declare(*s.kept[k], r, s.states.size() + k);
    for (const Op* op : s.head) {
      const auto state = std::find_if(s.states.begin(), s.states.end(), [&](const Op* load) {
        return op->code == Opcode::load_ && load->view() == op->view();
      });
      if (state == s.states.end()) {
        statement(*op);
      } else {
        declare(*op->result(), r, static_cast<size_t>(state - s.states.begin()));
      }
    }
  };

  open("");
  open("const auto " + first + " = [&](i64 " + i + ") -> " + row_type);
  put("const i64 " + j + " = " + i + ";");
  write(s.states);
  write(s.own);
  give(row, s.divisors);
  const std::string quotients = names_.fresh("", "quotients");
  // Those of a lane's own row: what another row told is divided by as it is.
  const auto own_divisors = [&](const std::function<void()>& write_all) {
    for (size_t k = 0; k < s.divisors.size(); ++k)
      divisors_.emplace(s.divisors[k], r + ".by" + std::to_string(k) + ", " + quotients);
    write_all();
    for (const Value* v : s.divisors) divisors_.erase(v);
  };
  open("const auto " + head + " = [&](i64 " + i + ", const " + row_type + "& " + r + ", Quotients& " + quotients +
       ") -> " + told_type);
  own_divisors(own_row);
  give(s.told);
  open("const auto " + ahead + " = [&](i64 " + j + ", i64 " + i + ") -> " + near_type);
  write(s.ahead);
  give(s.near);
  open("const auto " + step + " = [&](i64 " + j + ", i64 " + i + ", const " + told_type + "& " + t + ", const " +
       near_type + "& " + n + ", " + row_type + "& " + r + ")");
  for (size_t k = 0; k < s.states.size(); ++k) declare(*s.states[k]->result(), r, k);
  for (size_t k = 0; k < s.told.size(); ++k) declare(*s.told[k], t, k);
  for (size_t k = 0; k < s.near.size(); ++k) declare(*s.near[k], n, k);
  write(s.step);
  for (size_t k = 0; k < s.updates.size(); ++k)
    put(r + ".v" + std::to_string(k) + " = " + argument(*s.updates[k]->operands[0]) + ";");
  close(";");
  open("const auto " + last + " = [&](i64 " + i + ", const " + row_type + "& " + r + ")");
  put("Quotients " + quotients + " = {false, false};");
  own_divisors(own_row);
  write(s.tell);
  open("if (" + i + " != " + argument(*loop.operands[0]) + ")");
  put("const i64 " + j + " = " + i + ";");
  std::vector<const Value*> declared;
  for (size_t k = 0; k < s.updates.size(); ++k) {
    const Value* v = s.updates[k]->operands[0];
    if (std::find(declared.begin(), declared.end(), v) != declared.end()) continue;
    declare(*v, r, k);
    declared.push_back(v);
  }
  write(s.updates);
  write(s.stores);
  close();
  close(";");
  put("substitute<kLanes, " + std::to_string(s.rows) + ", " + (s.divisors.empty() ? "false" : "true") + ", " +
      row_type + ", " + near_type + ">(" + argument(*loop.operands[0]) + ", " + argument(*loop.operands[1]) + ", " +
      first + ", " + head + ", " + ahead + ", " + step + ", " + last + ");");
  close();
  apart_ = false;
  level_ = Level::worker;
  loops_ = outer_loops;
  return true;
}

}  // namespace appy::gpu
