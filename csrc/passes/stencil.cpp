#include "passes/stencil.h"

#include <algorithm>
#include <set>

#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

bool dce(ir::Graph&);

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kFarthest = 64;  // rows that a point may reach
constexpr int64_t kSteepest = 64;  // rows an iteration
constexpr size_t kMostPhases = 24;

class Reader {
 public:
  Reader(Op& loop, std::string& why) : loop_(loop), body_(body_of(loop)), why_(why), ranges_(*loop.graph) {}

  std::optional<Stencil> read() {
    if (!is_for(loop_) || has_permission(loop_) || !left_by_yield_only(loop_)) return std::nullopt;
    const auto step = constant(*loop_.operands[2]);
    if (!step || *step == 0 || loop_.graph->may_alias) return std::nullopt;
    for (const Op* at = enclosing_loop(*loop_.parent); at; at = enclosing_loop(*at->parent)) {
      if (has_permission(*at)) return std::nullopt;
    }
    stencil_.loop = &loop_;
    if (!collect() || !looks_like_one()) return std::nullopt;
    if (!choose_dimensions() || !read_phases() || !find_slopes()) return std::nullopt;
    stencil_.planes = read_lines() && find_line_slope();
    return std::move(stencil_);
  }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  /// The body as phases, and what computes for them.
  bool collect() {
    ir::walk(body_, [&](const Op& op) {
      if (op.code == Opcode::store_) written_.insert(op.view());
    });
    std::vector<Op*> element;         // what computes the next single element
    std::set<const Value*> its, all;  // values of that one, and of those before
    for (Op* op = body_.first; op; op = op->next) {
      if (op->code == Opcode::poll_ || op == body_.last) continue;
      if (op->code != Opcode::store_ && !is_for(*op) && !only_computes(*op)) return false;
      if (!is_for(*op) && is_of_element(*op, its)) {
        if (op->code == Opcode::if_) return false;
        element.push_back(op);
        if (op->result()) its.insert(op->result());
      }
      if (only_computes(*op)) continue;
      if (is_for(*op) && !is_plain(*op)) return false;
      if (is_for(*op) && !element.empty()) return refuse("an element at " + line(*element[0]) + " is read by a loop");
      if (element.empty() || element.back() != op) element.push_back(op);
      Phase phase;
      phase.ops = std::move(element);
      stencil_.phases.push_back(std::move(phase));
      element.clear();
      all.merge(its);
      its.clear();
    }
    if (stencil_.phases.empty() || stencil_.phases.size() > kMostPhases) return false;
    if (!element.empty()) return refuse("an element is read at " + line(*element[0]));
    return uses_only_own(all) && computes_with_nothing_handed_on();
  }

  /// It uses some of an element's values, or accesses what is written.
  bool is_of_element(const Op& op, const std::set<const Value*>& its) const {
    bool any = false;
    const auto look = [&](const Op& each) {
      any |= is_access(each) && written_.contains(each.view());
      for (const Value* v : each.operands) any |= its.contains(v);
    };
    look(op);
    for (Block* arm : op.blocks) ir::walk(*arm, look);
    return any;
  }

  /// What computes one element is used for that element.
  bool uses_only_own(const std::set<const Value*>& values) {
    std::set<const Op*> owners;
    for (const Phase& phase : stencil_.phases) owners.insert(phase.ops.begin(), phase.ops.end());
    std::unordered_map<const Value*, const Phase*> owner;
    for (const Phase& phase : stencil_.phases) {
      for (const Op* op : phase.ops) {
        for (const Value* v : op->results) owner[v] = &phase;
      }
    }
    bool own = true;
    ir::walk(body_, [&](const Op& op) {
      for (const Value* v : op.operands) {
        if (!values.contains(v)) continue;
        const auto& ops = owner.at(v)->ops;
        own &= std::find(ops.begin(), ops.end(), &op) != ops.end();
      }
    });
    return own || refuse("an element is read for several statements");
  }

  /// What the loop and its phases carry goes through them and decides nothing.
  bool computes_with_nothing_handed_on() {
    std::set<const Value*>& values = stencil_.handed_on;
    const auto carries = [&](const Op& op) { values.insert(body_of(op).args.begin() + 1, body_of(op).args.end()); };
    carries(loop_);
    for (const Phase& phase : stencil_.phases) {
      if (is_for(*phase.ops.back())) carries(*phase.ops.back());
    }
    const auto any = [&](const Op& op, size_t first, size_t end) {
      return std::any_of(op.operands.begin() + static_cast<ptrdiff_t>(first),
                         op.operands.begin() + static_cast<ptrdiff_t>(end),
                         [&](const Value* v) { return values.contains(v); });
    };
    for (size_t before = 0; before != values.size();) {
      before = values.size();
      bool decides = false;
      ir::walk(body_, [&](const Op& op) {
        const size_t count = op.operands.size();
        if (is_for(op)) {
          decides |= any(op, 0, 3);
          for (size_t k = 0; k < carried_count(op); ++k) {
            const Value* arg = body_of(op).args[first_carried(op) + k];
            const Value* next = body_of(op).last->operands[k];
            if (!any(op, 3 + k, 4 + k) && !values.contains(next) && !values.contains(arg)) continue;
            values.insert(arg);
            values.insert(op.results[k]);
          }
        } else if (op.code == Opcode::if_) {
          decides |= any(op, 0, count);
          for (size_t k = 0; k < op.results.size(); ++k) {
            for (const Block* arm : op.blocks) {
              if (values.contains(arm->last->operands[k])) values.insert(op.results[k]);
            }
          }
        } else if (op.access) {
          decides |= any(op, 0, count);
        } else if (ir::is_pure(op.code) && any(op, 0, count)) {
          values.insert(op.result());
        }
      });
      if (decides) return refuse("a scalar goes from one iteration to the next");
    }
    // A condition is copied with all that is computed under it, or not at all.
    for (const Op* op = body_.first; op; op = op->next) {
      if (op->code != Opcode::if_) continue;
      const auto handed =
          std::count_if(op->results.begin(), op->results.end(), [&](const Value* v) { return values.contains(v); });
      if (handed != 0 && handed != std::ssize(op->results))
        return refuse("a scalar goes from one iteration to the next");
    }
    return true;
  }

  /// Nothing that may leave it, or that other iterations must see at once.
  static bool is_plain(const Op& loop) {
    bool plain = left_by_yield_only(loop);
    ir::walk(body_of(loop), [&](const Op& op) {
      const Effect effect = ir::info(op.code).effect;
      plain &= effect == Effect::pure || effect == Effect::load || effect == Effect::store ||
               op.code == Opcode::poll_ || op.code == Opcode::for_ || op.code == Opcode::if_ ||
               op.code == Opcode::yield_;
    });
    return plain;
  }

  /// Passes over the same memory again and again.
  bool looks_like_one() const {
    bool again = true;
    ir::walk(body_, [&](const Op& op) {
      if (!is_access(op) || !written_.contains(op.view())) return;
      for (size_t d = 0; d < op.access->offset.size(); ++d) again &= row(op, d).coef(*induction(loop_)) == 0;
    });
    return again && std::any_of(stencil_.phases.begin(), stencil_.phases.end(),
                                [](const Phase& p) { return has_permission(*p.ops.back()); });
  }

  static int depth_of(const Op& loop) {
    int deepest = 0;
    for (const Op* op = body_of(loop).first; op; op = op->next) {
      if (is_for(*op)) deepest = std::max(deepest, depth_of(*op));
    }
    return deepest + 1;
  }

  /// The accesses of written views in the phase.
  std::vector<Op*> accesses_of(const Phase& phase) const {
    std::vector<Op*> found;
    const auto note = [&](Op& op) {
      if (is_access(op) && written_.contains(op.view())) found.push_back(&op);
    };
    for (Op* op : phase.ops) {
      note(*op);
      for (Block* block : op->blocks) ir::walk(*block, note);
    }
    return found;
  }

  /// Rows are counted by the dimension that the outermost loops of the deepest nests run along, and those of other
  /// views by the same one.
  bool choose_dimensions() {
    int deepest = 0;
    for (const Phase& phase : stencil_.phases) {
      if (is_for(*phase.ops.back())) deepest = std::max(deepest, depth_of(*phase.ops.back()));
    }
    size_t usual = 0;
    for (const Phase& phase : stencil_.phases) {
      if (!is_for(*phase.ops.back()) || depth_of(*phase.ops.back()) < deepest) continue;
      const Value& iv = *induction(*phase.ops.back());
      for (const Op* access : accesses_of(phase)) {
        for (size_t d = 0; d < access->access->offset.size() && !stencil_.dimension.contains(access->view()); ++d) {
          if (row(*access, d).coef(iv) == 0) continue;
          stencil_.dimension[access->view()] = usual = d;
        }
      }
    }
    for (const Value* view : written_) {
      if (!ir::defined_outside(*view, body_)) return refuse("each of its iterations makes an array");
      const auto last = static_cast<size_t>(view->type.rank) - 1;
      if (view->type.rank < 1) return refuse(name_of(*view) + " has no rows");
      stencil_.dimension.try_emplace(view, std::min(usual, last));
    }
    return true;
  }

  static std::string name_of(const Value& view) { return view.name.empty() ? "an array" : "'" + view.name + "'"; }

  bool read_phases() {
    stencil_.parallel = true;
    bool any = false;
    for (Phase& phase : stencil_.phases) {
      if (!read_phase(phase)) return false;
      if (!phase.loop) continue;
      any = true;
      const ir::Loop& loop = *phase.loop->loop;
      stencil_.parallel &= loop.parallel && loop.threads != 1;
      if (stencil_.threads == 0) stencil_.threads = loop.threads;
      if (stencil_.threads != loop.threads) return refuse("its loops want different numbers of threads");
    }
    return any || refuse("none of its loops runs over rows");
  }

  bool read_phase(Phase& phase) {
    const std::vector<Op*> accesses = accesses_of(phase);
    Op* loop = is_for(*phase.ops.back()) ? phase.ops.back() : nullptr;
    const auto row_of = [&](const Op& access) { return row(access, stencil_.dimension.at(access.view())); };
    const auto fixed_row_of = [&](const Op& access) {
      return row_at(ranges_, access, stencil_.dimension.at(access.view()), access);
    };
    if (loop) {
      const Value& iv = *induction(*loop);
      const bool runs_over_rows =
          std::any_of(accesses.begin(), accesses.end(), [&](const Op* op) { return row_of(*op).coef(iv) != 0; });
      if (runs_over_rows) {
        if (!has_permission(*loop)) return refuse("the loop at " + line(*loop) + " has no pragma");
        if (constant(*loop->operands[2]) != int64_t{1}) return refuse("the loop at " + line(*loop) + " has a step");
        if (!has_fixed_bounds(*loop)) return refuse("the bounds of the loop at " + line(*loop) + " change");
        phase.loop = loop;
      }
    }
    const auto first_store =
        std::find_if(accesses.begin(), accesses.end(), [](const Op* op) { return op->code == Opcode::store_; });
    if (first_store == accesses.end()) return refuse("a loop in it writes nothing");
    if (!phase.loop) {
      phase.row = fixed_row_of(**first_store);
      for (const auto& term : phase.row.terms) {
        if (!ir::defined_outside(*term.first, body_)) return refuse("rows at " + line(**first_store) + " change");
      }
    }
    for (Op* access : accesses) {
      Affine at = phase.loop ? row_of(*access) : fixed_row_of(*access);
      if (phase.loop) {
        at.add(*induction(*phase.loop), -1);
      } else {
        at.add(phase.row, -1);
      }
      if (!at.is_constant()) return refuse("rows at " + line(*access) + " are not those of its loop, or next to them");
      if (at.constant > kFarthest || at.constant < -kFarthest) return refuse("rows at " + line(*access) + " are far");
      phase.touches.push_back({access, static_cast<int64_t>(at.constant)});
    }
    // Points are numbered by what is stored.
    const int64_t stored = phase.touches[static_cast<size_t>(first_store - accesses.begin())].offset;
    if (phase.loop) phase.shift = -stored;
    for (Phase::Touch& touch : phase.touches) touch.offset -= stored;
    return true;
  }

  bool has_fixed_bounds(const Op& loop) const {
    return ir::defined_outside(*loop.operands[0], body_) && ir::defined_outside(*loop.operands[1], body_);
  }

  std::string line(const Op& op) const { return line_of(*op.graph, op.loc); }

  /// Point x of phase `to` needs point x + distance of phase `from`, in the same iteration or in the one before.
  struct Need {
    size_t from, to;
    int64_t distance;
    bool earlier;
  };

  /// Of rows, or of lines.
  std::vector<Need> needs_of(int64_t Phase::Touch::*offset) const {
    std::vector<Need> needs;
    const auto& phases = stencil_.phases;
    for (size_t p = 0; p < phases.size(); ++p) {
      for (size_t q = 0; q < phases.size(); ++q) {
        for (const Phase::Touch& a : phases[p].touches) {
          for (const Phase::Touch& b : phases[q].touches) {
            if (a.access->view() != b.access->view()) continue;
            if (a.access->code == Opcode::load_ && b.access->code == Opcode::load_) continue;
            if (p == q && a.offset != b.offset && !phases[p].loop) continue;  // it has one point
            needs.push_back({p, q, b.*offset - a.*offset, p >= q});
          }
        }
      }
    }
    return needs;
  }

  bool find_slopes() {
    auto& phases = stencil_.phases;
    const std::vector<Need> needs = needs_of(&Phase::Touch::offset);
    for (const Need& need : needs) {
      if (need.from == need.to && need.distance != 0) {
        return refuse("iterations of the loop at " + line(*phases[need.to].ops.back()) + " need each other's rows");
      }
      stencil_.reach = std::max({stencil_.reach, need.distance, -need.distance});
    }
    for (int side : {1, -1}) {
      std::vector<int64_t> starts(phases.size());
      int64_t& slope = side > 0 ? stencil_.slope_right : stencil_.slope_left;
      if (!find_slope(needs, side, slope, starts)) return refuse("its rows need too many others");
      int64_t& most = side > 0 ? stencil_.most_right : stencil_.most_left;
      for (size_t p = 0; p < phases.size(); ++p) {
        (side > 0 ? phases[p].right : phases[p].left) = starts[p];
        most = std::max(most, starts[p]);
      }
    }
    return true;
  }

  /// Do all phases go over planes, each line by line?
  bool read_lines() {
    std::unordered_map<const Value*, size_t> dimension;
    return std::ranges::all_of(stencil_.phases, [&](Phase& p) { return p.loop && read_lines(p, dimension); });
  }

  bool read_lines(Phase& phase, std::unordered_map<const Value*, size_t>& dimension) const {
    const Block& body = body_of(*phase.loop);
    for (Op* op = body.first; op != body.last; op = op->next) {
      if (only_computes(*op) || op->code == Opcode::poll_) continue;
      if (!is_for(*op) || phase.lines) return false;
      phase.lines = op;
    }
    if (!phase.lines || !has_inner_loop(*phase.lines) || constant(*phase.lines->operands[2]) != int64_t{1})
      return false;
    if (!has_fixed_bounds(*phase.lines)) return false;
    const Value& iv = *induction(*phase.lines);
    std::optional<int64_t> stored;
    for (Phase::Touch& touch : phase.touches) {
      const Op& access = *touch.access;
      if (!is_inside(access, body_of(*phase.lines))) return false;
      for (size_t d = 0; d < access.access->offset.size() && !dimension.contains(access.view()); ++d) {
        if (row(access, d).coef(iv) != 0) dimension[access.view()] = d;
      }
      if (!dimension.contains(access.view())) return false;
      Affine at = row(access, dimension.at(access.view()));
      at.add(iv, -1);
      if (!at.is_constant() || at.constant > kFarthest || at.constant < -kFarthest) return false;
      touch.line = static_cast<int64_t>(at.constant);
      if (access.code == Opcode::store_ && !stored) stored = touch.line;
    }
    phase.line_shift = -*stored;
    for (Phase::Touch& touch : phase.touches) touch.line -= *stored;
    return true;
  }

  bool find_line_slope() {
    const auto& phases = stencil_.phases;
    const std::vector<Need> needs = needs_of(&Phase::Touch::line);
    std::vector<int64_t> starts(phases.size());
    if (!find_slope(needs, 1, stencil_.line_slope, starts)) return false;
    for (size_t p = 0; p < phases.size(); ++p) stencil_.phases[p].line_right = starts[p];
    stencil_.most_line_right = *std::ranges::max_element(starts);
    return true;
  }

  /// The least slope that has starts, from the one given on; false where that is too steep.
  static bool find_slope(const std::vector<Need>& needs, int side, int64_t& slope, std::vector<int64_t>& starts) {
    while (!settle(needs, side, slope, starts)) {
      if (++slope > kSteepest) return false;
    }
    return true;
  }

  /// The least starts with starts[to] + (earlier ? slope : 0) - starts[from] >= the distance to this side; false where
  /// there are none (Bellman and Ford).
  static bool settle(const std::vector<Need>& needs, int side, int64_t slope, std::vector<int64_t>& starts) {
    std::fill(starts.begin(), starts.end(), 0);
    for (size_t round = 0; round <= starts.size(); ++round) {
      bool changed = false;
      for (const Need& need : needs) {
        const int64_t least = starts[need.from] + side * need.distance - (need.earlier ? slope : 0);
        if (starts[need.to] >= least) continue;
        starts[need.to] = least;
        changed = true;
      }
      if (!changed) return true;
    }
    return false;
  }

  Op& loop_;
  Block& body_;
  std::string& why_;
  Ranges ranges_;
  Stencil stencil_;
  std::set<const Value*> written_;
};

}  // namespace

std::optional<Stencil> read_stencil(Op& loop, std::string& why) { return Reader(loop, why).read(); }

bool tile_stencils(ir::Graph& graph, std::string_view stage, std::string_view how,
                   const std::function<std::string(const Stencil&)>& tile) {
  bool changed = false;
  for (Op* loop : for_loops(graph)) {
    std::string why;
    const std::optional<Stencil> stencil = read_stencil(*loop, why);
    if (stencil) why = tile(*stencil);
    changed |= stencil && why.empty();
    if (!stencil && why.empty()) continue;
    const std::string what =
        why.empty() ? " takes several iterations at a time, " + std::string(how) : " is not tiled: " + why;
    remark(graph, ir::Severity::note, stage, loop->loc, "the loop at " + line_of(graph, loop->loc) + what);
  }
  if (changed) dce(graph);
  return changed;
}

std::vector<Value*> handed_to_phases(const Stencil& stencil) {
  const Block& body = body_of(*stencil.loop);
  std::vector<Value*> found;
  const auto note = [&](const Op& op) {
    for (Value* v : op.operands) {
      const Block* home = v->op ? v->op->parent : v->block;
      if (home != &body || !stencil.handed_on.contains(v)) continue;
      if (std::find(found.begin(), found.end(), v) == found.end()) found.push_back(v);
    }
  };
  for (const Phase& phase : stencil.phases) {
    for (Op* op : phase.ops) {
      note(*op);
      for (Block* block : op->blocks) ir::walk(*block, note);
    }
  }
  return found;
}

void copy_shared(const Stencil& stencil, Copier& copier, Block& to) {
  std::set<const Op*> own;
  for (const Phase& phase : stencil.phases) own.insert(phase.ops.begin(), phase.ops.end());
  const Block& body = body_of(*stencil.loop);
  for (const Op* op = body.first; op != body.last; op = op->next) {
    if (!only_computes(*op) || op->results.empty() || own.contains(op)) continue;
    if (stencil.handed_on.contains(op->results[0])) continue;
    to.append(copier.copy(*op));
  }
}

}  // namespace appy::passes
