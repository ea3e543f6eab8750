// Loops: in order, by one thread, or distributed; and the partial results of those that are.
#include "passes/loops.h"

#include <algorithm>
#include <utility>

#include "gpu/expressions.h"
#include "gpu/writer.h"

namespace appy::gpu {

using ir::Combiner;
using ir::DType;
using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool has_checks(const Op& loop) {
  bool found = false;
  ir::walk(*loop.blocks[0], [&](const Op& op) { found |= op.code == Opcode::check_; });
  return found;
}

/// The loop is a `while`, or holds one: it may never end.
bool may_be_endless(const Op& loop) {
  bool found = loop.code == Opcode::while_;
  ir::walk(*loop.blocks[0], [&](const Op& op) { found |= op.code == Opcode::while_; });
  return found;
}

size_t carried_at(const Op& loop, size_t k) { return (loop.code == Opcode::for_ ? 3 : 0) + k; }
const Value& argument_of(const Op& loop, size_t k) {
  return *loop.blocks[0]->args[(loop.code == Opcode::for_ ? 1 : 0) + k];
}
const Value& variable_of(const Op& loop) { return *loop.blocks[0]->args[0]; }

/// The condition that b's follower replaces a's.
std::string takes(const Op& loop, size_t k) {
  const ir::Carried& c = loop.loop->carried[k];
  const auto leader = static_cast<size_t>(c.leader);
  const Combiner by = loop.loop->carried[leader].combiner;
  const auto tie = static_cast<size_t>(loop.loop->carried[leader].tie);
  const bool least = by == Combiner::pymin_ || by == Combiner::minimum_;
  const bool nan_wins =
      (by == Combiner::minimum_ || by == Combiner::maximum_) && ir::is_real(loop.results[leader]->type.dtype);
  const std::string a = "a.v" + std::to_string(leader), b = "b.v" + std::to_string(leader);
  std::string better = b + (least ? " < " : " > ") + a, equal = a + " == " + b;
  if (nan_wins) {
    better = "(" + better + " || (" + b + " != " + b + " && " + a + " == " + a + "))";
    equal = "(" + equal + " || (" + a + " != " + a + " && " + b + " != " + b + "))";
  }
  const std::string x = "a.v" + std::to_string(tie), y = "b.v" + std::to_string(tie);
  return better + " || (" + equal + " && " + y + (c.combiner == Combiner::follow_first_ ? " < " : " > ") + x + ")";
}

}  // namespace

bool keeps_last(const Op& loop) {
  for (const ir::Carried& c : loop.loop->carried) {
    if (c.combiner == Combiner::last_) return true;
  }
  return false;
}

void Writer::loop(const Op& op) {
  if (is_given(op)) return given_sums(op);
  if (tile_size(op) != TileSize::none) return tiles(op);
  if (op.mapping == Mapping::none) return in_order(op);
  if (op.mapping == Mapping::single) return single(op);
  distributed(op);
}

void Writer::declare_carried(const Op& op, bool from_neutral) {
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Value& v = argument_of(op, k);
    const DType t = v.type.dtype;
    const bool counts = from_neutral && ir::counts_each_update(op.loop->carried[k].combiner);
    put(std::string(type_of(t)) + " " + names_.of(v) + " = " +
        (counts ? literal(t, ir::neutral(op.loop->carried[k].combiner, t))
                : argument(*op.operands[carried_at(op, k)])) +
        ";");
  }
}

bool Writer::may_die(const Op& loop) const { return has_checks(loop) || (awaited_ && may_be_endless(loop)); }

void Writer::leave_if_dead(const Op& inner) {
  if (level_ != Level::all && !loops_.empty() && may_die(inner)) put("if (" + dead_ + ") break;");
}

/// Behind a barrier of all threads: in a loop of theirs it may be the last one.
void Writer::leave_if_told() {
  if (loops_.empty()) return;
  code_.leaves = true;
  put("if (team.leaves) return;");
}

void Writer::in_order(const Op& op) {
  if (op.code == Opcode::for_ && (substitution(op) || in_chains(op))) return;
  declare_carried(op, false);
  const std::vector<const Value*> divisors =
      level_ == Level::thread ? declare_divisors(op) : std::vector<const Value*>();
  if (op.code == Opcode::while_) {
    open("for (;;)");
    if (awaited_) {
      code_.leaves = true;
      put("if ((" + dead_ + " = is_to_leave(team, control))) break;");
    }
  } else {
    const std::string i = names_.of(variable_of(op));
    const Op* step = op.operands[2]->op;
    const bool one = step && step->code == Opcode::const_ && step->imm == 1;
    if (one) {
      open("for (i64 " + i + " = " + argument(*op.operands[0]) + "; " + i + " < " + argument(*op.operands[1]) + "; ++" +
           i + ")");
    } else {
      const std::string n = declare_trips(op), k = names_.fresh("", "k");
      open("for (i64 " + k + " = 0; " + k + " < " + n + "; ++" + k + ")");
      put("const i64 " + i + " = " + variable_at(op, k) + ";");
    }
  }
  loops_.push_back(&op);
  block(*op.blocks[0]);
  loops_.pop_back();
  close();
  for (const Value* v : divisors) divisors_.erase(v);
  for (size_t k = 0; k < op.results.size(); ++k) names_.bind(*op.results[k], names_.of(argument_of(op, k)));
  leave_if_dead(op);
}

void Writer::single(const Op& op) {
  const Level level = level_;
  const bool outer_awaited = std::exchange(awaited_, awaited_ || level == Level::all);
  const bool checked = may_die(op), tells = checked || !op.results.empty();
  const std::string outer_dead = dead_;
  const auto outer_loops = std::move(loops_);
  loops_.clear();
  if (checked) {
    dead_ = names_.fresh("", "dead");
    put("bool " + dead_ + " = false;");
  }
  declare_carried(op, false);
  // The loop itself declares its carried values once more, inside.
  std::vector<std::string> outside;
  for (size_t k = 0; k < op.results.size(); ++k) {
    outside.push_back(names_.of(argument_of(op, k)));
    names_.bind(argument_of(op, k), names_.fresh(argument_of(op, k).name));
  }
  open(level == Level::all ? "if (team.thread == 0)" : "if (team.lane == 0)");
  level_ = Level::thread;
  const ir::Op* outermost = std::exchange(outermost_, level == Level::all ? nullptr : outermost_);
  in_order(op);
  outermost_ = outermost;
  for (size_t k = 0; k < op.results.size(); ++k) put(outside[k] + " = " + names_.of(*op.results[k]) + ";");
  close();
  level_ = level;
  awaited_ = outer_awaited;
  if (tells) {
    const std::string type = names_.fresh("", "Told"), told = names_.fresh("", "told");
    std::string fields, values;
    for (size_t k = 0; k < op.results.size(); ++k) {
      fields += "  " + std::string(type_of(op.results[k]->type.dtype)) + " v" + std::to_string(k) + ";\n";
      values += (k ? ", " : "") + outside[k];
    }
    if (checked) {
      fields += "  bool dead;\n";
      values += (values.empty() ? "" : ", ") + dead_;
    }
    structs_ += "struct " + type + " {\n" + fields + "};\n\n";
    const size_t bytes = 8 * (op.results.size() + 1);
    code_.shared_bytes = std::max(code_.shared_bytes, bytes);
    if (level == Level::all) {
      code_.partial_bytes = std::max(code_.partial_bytes, bytes);
      code_.meets = true;
      put("const " + type + " " + told + " = tell_all(" + type + "{" + values + "}, team, control);");
    } else {
      put("const " + type + " " + told + " = tell_lanes<kLanes>(" + type + "{" + values + "});");
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      put(outside[k] + " = " + told + ".v" + std::to_string(k) + ";");
      names_.bind(*op.results[k], outside[k]);
    }
    if (checked && level == Level::all) put("if (" + told + ".dead) return;");
    if (checked && level == Level::worker) {
      open("if (" + told + ".dead)");
      if (!outer_dead.empty()) put(outer_dead + " = true;");
      put("break;");
      close();
    }
  }
  dead_ = outer_dead;
  loops_ = outer_loops;
}

std::string Writer::declare_trips(const Op& loop) {
  const std::string n = names_.fresh("", "n");
  put("const i64 " + n + " = trips(" + argument(*loop.operands[0]) + ", " + argument(*loop.operands[1]) + ", " +
      argument(*loop.operands[2]) + ");");
  return n;
}

std::string Writer::variable_at(const Op& loop, const std::string& index) {
  const std::string lower = argument(*loop.operands[0]), step = argument(*loop.operands[2]);
  const std::string scaled = step == "1ll" ? index : index + " * " + step;
  return lower == "0ll" ? scaled : lower + " + " + scaled;
}

void Writer::declare_variable(const Op& loop, const std::string& index) {
  put("const i64 " + names_.of(variable_of(loop)) + " = " + variable_at(loop, index) + ";");
}

/// The indices of loops whose iterations were numbered together, the last one fastest.
std::vector<std::string> Writer::declare_indices(const std::string& index, std::span<const std::string> trips) {
  std::vector<std::string> indices(trips.size());
  std::string rest = index;
  for (size_t k = trips.size(); k-- > 1;) {
    const std::string above = names_.fresh("", "q");
    put("const i64 " + above + " = quotient(" + rest + ", " + trips[k] + ");");
    indices[k] = names_.fresh("", "k");
    put("const i64 " + indices[k] + " = " + rest + " - " + above + " * " + trips[k] + ";");
    rest = above;
  }
  indices[0] = rest;
  return indices;
}

/// A loop's body, where `inner`, if any, is written by somebody else.
void Writer::body(const Op& loop, const Op* inner, const std::function<void()>& write_inner) {
  for (const Op* op = loop.blocks[0]->first; op; op = op->next) {
    op == inner ? write_inner() : statement(*op);
  }
}

std::string Writer::partial_type(const Op& loop) {
  const std::string type = names_.fresh("", "Partial");
  std::string fields, combine;
  for (size_t k = 0; k < loop.results.size(); ++k) {
    const DType t = loop.results[k]->type.dtype;
    const ir::Carried& c = loop.loop->carried[k];
    const std::string v = "v" + std::to_string(k), a = "a." + v, b = "b." + v;
    fields += "  " + std::string(type_of(t)) + " " + v + ";\n";
    std::string value;
    // A minimum that others follow moves with them: of equal zeros the sign is that of the one that won.
    const bool moves =
        (c.combiner == Combiner::pymin_ || c.combiner == Combiner::pymax_) && c.tie >= 0 && ir::is_real(t);
    if (c.combiner == Combiner::last_) {
      value = "b.at > a.at ? " + b + " : " + a;
    } else if (ir::is_follower(c.combiner) || moves) {
      value = takes(loop, moves ? static_cast<size_t>(c.tie) : k) + " ? " + b + " : " + a;
    } else {
      value = expression(opcode_of(c.combiner), t, {a, b});
    }
    combine += "    r." + v + " = " + value + ";\n";
  }
  if (keeps_last(loop)) {
    fields += "  i64 at;\n";
    combine += "    r.at = a.at > b.at ? a.at : b.at;\n";
  }
  structs_ += "struct " + type + " {\n" + fields + "  static __device__ " + type + " combine(const " + type +
              "& a, const " + type + "& b) {\n    " + type + " r;\n" + combine + "    return r;\n  }\n};\n\n";
  const size_t partials = columns_ ? static_cast<size_t>(options_.shape.block) : 32;
  code_.shared_bytes = std::max(code_.shared_bytes, 8 * (loop.results.size() + 1) * partials);
  return type;
}

std::string Writer::partial_of(const Op& loop, bool from_neutral) {
  std::string values;
  for (size_t k = 0; k < loop.results.size(); ++k) {
    const Combiner c = loop.loop->carried[k].combiner;
    const DType t = loop.results[k]->type.dtype;
    std::string value = names_.of(argument_of(loop, k));
    if (from_neutral) {
      value = ir::counts_each_update(c) ? literal(t, ir::neutral(c, t)) : argument(*loop.operands[carried_at(loop, k)]);
    }
    values += (k ? ", " : "") + value;
  }
  if (keeps_last(loop)) values += from_neutral ? ", -1" : ", " + at_;
  return "{" + values + "}";
}

/// The loop's results from the combined partial ones.
void Writer::finish(const Op& loop, const std::string& type, const std::string& total) {
  const std::string all = names_.fresh("", "total");
  put("const " + type + " " + all + " = " + total + ";");
  for (size_t k = 0; k < loop.results.size(); ++k) {
    const Combiner c = loop.loop->carried[k].combiner;
    const DType t = loop.results[k]->type.dtype;
    const std::string v = all + ".v" + std::to_string(k), init = argument(*loop.operands[carried_at(loop, k)]);
    std::string value = v;
    if (ir::counts_each_update(c)) value = expression(opcode_of(c), t, {init, v});
    if (c == Combiner::last_) value = all + ".at >= 0 ? " + v + " : " + init;
    define(*loop.results[k], value);
  }
}

std::vector<const Op*> nest_of(const Op& op) {
  std::vector<const Op*> nest = {&op};
  while (nest.back()->results.empty()) {
    const Op* inner = nest.back()->blocks[0]->first;
    while (inner && inner->mapping != op.mapping) inner = inner->next;
    if (!inner || inner->code != Opcode::for_ || op.mapping == Mapping::lanes) break;
    nest.push_back(inner);
  }
  return nest;
}

bool are_alike(const std::vector<const Op*>& a, const std::vector<const Op*>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Op* x, const Op* y) { return passes::count_alike(*x, *y); });
}

void Writer::distributed(const Op& op) {
  const std::vector<const Op*> nest = nest_of(op);
  const Level level = level_;
  const std::string outer_dead = dead_, outer_at = at_;
  const auto outer_loops = std::move(loops_);
  const Op* outermost = outermost_;
  loops_.clear();
  if (!outermost_) outermost_ = &op;
  if (has_checks(op)) {
    dead_ = names_.fresh("", "dead");
    put("bool " + dead_ + " = false;");
  }
  std::string type;
  if (!op.results.empty()) {
    type = partial_type(op);
    if (keeps_last(op)) {
      at_ = names_.fresh("", "at");
      put("i64 " + at_ + " = -1;");
    }
    declare_carried(op, true);
  }
  const std::string alone = op.mapping == Mapping::repeated ? names_.fresh("", "alone") : "";
  if (op.mapping == Mapping::lanes) {
    along_lanes(op);
  } else if (op.mapping == Mapping::repeated) {
    along_repeated(op, alone);
  } else if (op.mapping == Mapping::columns) {
    along_columns(op);
  } else if (op.mapping == Mapping::workers) {
    along_workers(nest);
  } else {
    along_threads(nest);
  }
  level_ = level;
  if (!op.results.empty()) {
    const std::string partial = names_.fresh("", "partial");
    put(type + " " + partial + " = " + partial_of(op, false) + ";");
    if (op.mapping == Mapping::lanes) {
      finish(op, type, (columns_ ? "reduce_columns<kBlock, kColumns>(" : "reduce_lanes<kLanes>(") + partial + ")");
    } else {
      const std::string none = type + partial_of(op, true);
      if (op.mapping == Mapping::workers) put("if (team.lane != 0) " + partial + " = " + none + ";");
      code_.meets = true;
      code_.partial_bytes = std::max(code_.partial_bytes, 8 * (op.results.size() + 1));
      const std::string all = std::string("reduce_all<kBlock") + (outer_loops.empty() ? ">(" : ", true>(") + partial +
                              ", " + none + ", team, control)";
      finish(op, type, alone.empty() ? all : alone + " ? reduce_lanes<kBlock>(" + partial + ") : " + all);
      if (code_.checks) put("if (failed(team, control)) return;");
    }
  }
  dead_ = outer_dead;
  at_ = outer_at;
  loops_ = outer_loops;
  outermost_ = outermost;
  if (!op.results.empty() && op.mapping != Mapping::lanes) leave_if_told();
}

/// Does it run once, in a version of loops, for what runs again and again beside it? What tiles load and store is
/// little to what is done with it, and most of what the compiler would have to do.
bool Writer::is_beside_steps(const Op& op) const {
  if (!is_version_) return false;
  for (const Op* at = op.parent->first; at; at = at->next) {
    if (at->code != Opcode::for_ || at->mapping != Mapping::none) continue;
    bool repeats = false;
    ir::walk(*at->blocks[0], [&](const Op& inner) { repeats |= inner.mapping != Mapping::none; });
    if (repeats) return true;
  }
  return false;
}

/// Is it one of the phases that a tile goes through step by step, in a version of loops? Lanes have a few iterations
/// each, from shared memory. H200, in boxes, the compiler's own four, two, and one iteration at a time:
/// fdtd_2d 6.6, 6.2 and 7.0 ms, and a third less time to compile with two; jacobi_2d 56.5, 56.4 and 58.6.
bool Writer::is_phase_of_tile(const Op& op) const {
  const Op* step = ir::enclosing_loop(*op.parent);
  const Op* tile = step ? ir::enclosing_loop(*step->parent) : nullptr;
  return is_version_ && tile && step->mapping == Mapping::none && tile->mapping == Mapping::workers;
}

void Writer::along_lanes(const Op& op) {
  level_ = Level::thread;
  const std::string n = declare_trips(op), k = names_.fresh("", "k");
  const std::vector<const Value*> divisors = declare_divisors(op);
  if (takes_all_rows(op)) {
    along_all_rows(op, n);
    for (const Value* v : divisors) divisors_.erase(v);
    return;
  }
  const bool wide = neighbours(op) > 1;
  if (wide) {
    const int deep = pieces_in_flight(op);
    in_pieces(op, "team.lane", "kLanes", n, deep, deep > 1);
    open("else");
  }
  copies_ = !columns_ && only_copies(op);  // which the thread does not wait for
  const bool changes = columns_ && passes::writes(op);
  const std::string mine = changes ? mine_ + " && " : "", step = columns_ ? "kBlock / kColumns" : "kLanes",
                    first = columns_ ? "threadIdx.x / kColumns" : "team.lane";
  const bool together = changes && can_interleave(op, nullptr);
  if (together) rows_together(op, k, n);
  const bool one_by_one = together || copies_ || copies_back(op) || is_beside_steps(op);
  open((!one_by_one && is_phase_of_tile(op) ? "_Pragma(\"unroll 2\") " : not_unrolled(one_by_one)) + "for (" +
       (together ? "" : "i64 " + k + " = " + first) + "; " + mine + k + " < " + n + "; " + k + " += " + step + ")");
  loops_.push_back(&op);
  declare_variable(op, k);
  if (keeps_last(op)) put(at_ + " = " + k + ";");
  block(*op.blocks[0]);
  copies_ = false;
  loops_.pop_back();
  close();
  if (wide) close();
  for (const Value* v : divisors) divisors_.erase(v);
}

void Writer::along_workers(const std::vector<const Op*>& nest) {
  if (nest.size() == 1 && passes::is_one_block(*nest[0])) {
    const std::string all = names_.fresh("", "all");
    put("const Team& " + all + " = team;");
    open("");
    put("constexpr int kLanes = kBlock;");
    put("const Team team = team_of_blocks<kBlock>(" + all + ");");
    one_block_ = true;
    workers(nest);
    one_block_ = false;
    close();
  } else {
    workers(nest);
  }
}

void Writer::workers(const std::vector<const Op*>& nest) {
  level_ = Level::worker;
  std::vector<std::string> trips;
  for (const Op* loop : nest) trips.push_back(declare_trips(*loop));
  std::string all = trips[0];
  for (size_t k = 1; k < trips.size(); ++k) all += " * " + trips[k];
  const std::string k = names_.fresh("", "w");
  open("for (i64 " + k + " = team.worker; " + k + " < " + all + "; " + k + " += team.workers)");
  loops_.push_back(nest.back());
  const std::vector<std::string> indices = declare_indices(k, trips);
  for (size_t d = 0; d < nest.size(); ++d) declare_variable(*nest[d], indices[d]);
  if (keeps_last(*nest[0])) put(at_ + " = " + k + ";");
  std::function<void(size_t)> write = [&](size_t depth) {
    body(*nest[depth], depth + 1 < nest.size() ? nest[depth + 1] : nullptr, [&] { write(depth + 1); });
  };
  write(0);
  loops_.pop_back();
  close();
}

/// One loop that each block runs for itself, where it is short, and all threads together otherwise.
void Writer::along_repeated(const Op& op, const std::string& alone) {
  level_ = Level::thread;
  const std::string n = declare_trips(op), k = names_.fresh("", "k");
  put("const bool " + alone + " = " + n + " <= 2 * kBlock;");
  open(not_unrolled(true) + "for (i64 " + k + " = " + alone + " ? (i64)threadIdx.x : team.thread; " + k + " < " + n +
       "; " + k + " += " + alone + " ? (i64)kBlock : team.threads)");
  loops_.push_back(&op);
  declare_variable(op, k);
  block(*op.blocks[0]);
  loops_.pop_back();
  close();
  bool stores = false;
  ir::walk(*op.blocks[0], [&](const Op& inner) { stores |= inner.code == Opcode::store_; });
  if (stores) put("team.apart |= !" + alone + ";");
}

void Writer::along_threads(const std::vector<const Op*>& nest) {
  level_ = Level::thread;
  const Op& last = *nest.back();
  if (nest.size() == 1) return along_line(last, declare_trips(last));
  const auto flat = flat_.find(&last);
  if (flat != flat_.end() && flat->second.empty()) return along_flat(nest);
  const bool beside_steps = is_beside_steps(*nest[0]);
  const bool by_rows = !beside_steps && holds_for_alike(nest, &Writer::can_take_rows);
  if (options_.shape.march && by_rows && holds_for_alike(nest, &Writer::can_march)) return along_march(nest);

  const size_t outer = nest.size() - 1;
  std::vector<std::string> trips;
  for (size_t d = 0; d < outer; ++d) trips.push_back(declare_trips(*nest[d]));
  const bool rectangular = is_rectangular(nest);
  std::string n = rectangular ? declare_trips(last) : "";
  if (flat != flat_.end()) flatten(flat->second, trips, n);
  const int neighbours = this->neighbours(last);
  const int rows_at_once = neighbours > 1 ? std::min(options_.shape.unroll, 2) : options_.shape.unroll;
  const std::string rows = trips.back();
  if (by_rows) {
    trips.back() = names_.fresh("", "n");
    put("const i64 " + trips.back() + " = (" + rows + " + " + std::to_string(rows_at_once - 1) + ") / " +
        std::to_string(rows_at_once) + ";");
  }
  const std::string plane = names_.fresh("", "plane"), y = names_.fresh("", "y"), x = names_.fresh("", "x");
  const std::string wide = std::to_string(neighbours), rest = std::to_string(neighbours - 1);
  const std::string count = neighbours == 1 ? n : "aligned_pieces ? (" + n + " + " + rest + ") / " + wide + " : " + n;
  put("const Plane " + plane + " = plane_of<kBlock>(team, " + (rectangular ? count : "32") + ");");
  std::string all = trips[0];
  for (size_t k = 1; k < trips.size(); ++k) all += " * " + trips[k];
  open("for (i64 " + y + " = " + plane + ".y; " + y + " < " + all + "; " + y + " += " + plane + ".y_step)");
  // A block has neighbours of the dimension around the rows: what they share lies in its cache.
  if (by_rows) std::rotate(trips.begin(), trips.end() - 1, trips.end());
  std::vector<std::string> indices = declare_indices(y, trips);
  if (by_rows) std::rotate(indices.begin(), indices.begin() + 1, indices.end());
  for (size_t d = 0; d < outer - by_rows; ++d) declare_variable(*nest[d], indices[d]);
  // Along a row: of several rows, or of the one whose code is being written.
  const auto across = [&](std::vector<Names::Scope>* rows) {
    if (!rectangular) n = declare_trips(last);
    if (neighbours > 1) {
      in_pieces(last, plane + ".x", plane + ".x_step", n, 1, by_rows, rows);
      open("else");
    }
    open(not_unrolled(by_rows || beside_steps || options_.shape.unroll == 1) + "for (i64 " + x + " = " + plane +
         ".x; " + x + " < " + n + "; " + x + " += " + plane + ".x_step)");
    loops_.push_back(&last);
    declare_variable(last, x);
    if (rows) {
      side_by_side(last, nullptr, *rows, [&](const Op& op) { statement(op); });
    } else {
      block(*last.blocks[0]);
    }
    loops_.pop_back();
    close();
    if (neighbours > 1) close();
    leave_if_dead(last);
  };
  std::function<void(size_t)> write = [&](size_t depth) {
    if (by_rows && depth + 1 == outer)
      return this->rows(*nest[depth], last, rows_at_once, rows, indices.back(), across);
    if (depth == outer) return across(nullptr);
    loops_.push_back(nest[depth]);
    body(*nest[depth], nest[depth + 1], [&] { write(depth + 1); });
    loops_.pop_back();
  };
  write(0);
  close();
}

}  // namespace appy::gpu
