#include "ir/verify.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "ir/op_printer.h"
#include "ir/typing.h"

namespace appy::ir {

namespace {

constexpr int any = -1;
constexpr std::array kInfoCount = {
#define X(name, exception, ninfo) ninfo,
#include "ir/checks.def"
#undef X
};

bool is_leader(Combiner c) {
  return c == Combiner::pymin_ || c == Combiner::pymax_ || c == Combiner::minimum_ || c == Combiner::maximum_;
}

std::vector<Type> types_of(std::span<Value* const> values) {
  std::vector<Type> types;
  for (const Value* v : values) types.push_back(v->type);
  return types;
}

std::string text_of(const std::vector<Type>& types) {
  std::string text = "(";
  for (const Type& t : types) text += (text.size() > 1 ? ", " : "") + to_string(t);
  return text + ")";
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), printer_(graph), visible_(graph.value_count()) {
    defined_.resize(graph.value_count());
    read_.resize(graph.value_count());
  }

  std::string run() {
    for (size_t i = 0; i < graph_.locs.size(); ++i) {
      if (graph_.locs[i].inlined_at >= graph_.locs.size()) fault("location " + std::to_string(i) + ": inlined nowhere");
    }
    const Op* end = graph_.body->last;
    if (end && end->code == Opcode::yield_ && !has_null(*end)) {
      results_ = types_of(end->operands);
      if (!graph_.result_names.empty() && graph_.result_names.size() != results_.size()) {
        fault("region: " + std::to_string(graph_.result_names.size()) + " result names for " +
              std::to_string(results_.size()) + " results");
      }
    }
    for (const Value* param : graph_.body->args) {
      if (param->range != Range{} && (param->type.is_view() || !is_int(param->type.dtype))) {
        fault("region: only an integer has a range: " + printer_.name(*param));
      }
    }
    size_t words = 0;
    for (const Value* param : graph_.body->args) words += words_of(param->type);
    if (!graph_.given.empty() && graph_.given.size() != words) fault("region: is given another number of words");
    block(*graph_.body, nullptr);
    return std::move(faults_);
  }

 private:
  void fault(const std::string& line) { faults_ += line + "\n"; }

  void fault(const Op& op, const std::string& what) {
    const std::string text = has_null(op) ? std::string(info(op.code).name) : printer_.line(op);
    fault(text + ": " + what);
  }

  static bool has_null(const Op& op) {
    const auto null = [](const Value* v) { return !v; };
    return std::any_of(op.operands.begin(), op.operands.end(), null) ||
           std::any_of(op.results.begin(), op.results.end(), null);
  }

  void define(const Value& value, const Op* op, const Block* block, size_t index) {
    const std::string who = "value " + printer_.name(value);
    if (value.op != op || value.block != block || value.index != index) fault(who + ": does not know its definition");
    if (value.id >= visible_.size() || defined_[value.id]) return fault(who + ": is defined twice");
    defined_[value.id] = true;
    visible_[value.id] = &value;
    scope_.push_back(value.id);
  }

  void block(const Block& block, const Op* owner) {
    const size_t outer = scope_.size();
    const std::string where = owner ? "block of " + std::string(info(owner->code).name) : std::string("region");
    if (block.owner != owner || block.graph != &graph_) fault(where + ": wrong owner");
    for (size_t i = 0; i < block.args.size(); ++i) {
      define(*block.args[i], nullptr, &block, i);
      if (owner && block.args[i]->type.is_view()) fault(where + ": only the region has views as arguments");
    }
    const Op* last = nullptr;
    for (const Op* op = block.first; op; op = op->next) {
      if (op->parent != &block || op->prev != last || op->graph != &graph_) fault(where + ": broken links between ops");
      if (last && is_terminator(last->code)) fault(*last, "stands before the end of its block");
      this->op(*op);
      last = op;
    }
    if (last != block.last) fault(where + ": broken links between ops");
    if (!last) {
      fault(where + ": is empty, expected a terminator");
    } else if (!is_terminator(last->code)) {
      fault(*last, "ends its block, expected a terminator");
    }
    for (; scope_.size() > outer; scope_.pop_back()) visible_[scope_.back()] = nullptr;
  }

  void op(const Op& op) {
    if (has_null(op)) return fault(op, "null value");
    if (op.loc >= graph_.locs.size()) fault(op, "unknown location");
    const size_t state = first_state(op);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value* v = op.operands[i];
      if (v->id >= visible_.size() || visible_[v->id] != v) {
        fault(op, printer_.name(*v) + " is not visible here");
      } else if (i < state) {
        read_[v->id] = true;
      }
    }
    if (const std::string what = attributes(op); !what.empty()) {
      fault(op, what);
    } else if (const std::string wrong = types(op); !wrong.empty()) {
      fault(op, wrong);
    }
    if (const std::string wrong = mapping(op); !wrong.empty()) fault(op, wrong);
    const bool loop = op.code == Opcode::for_ || op.code == Opcode::while_;
    if (loop) loops_.push_back(&op);
    for (const Block* inner : op.blocks) block(*inner, &op);
    if (loop) loops_.pop_back();
    if (op.code == Opcode::for_) unread_last(op);
    for (size_t i = 0; i < op.results.size(); ++i) define(*op.results[i], &op, nullptr, i);
  }

  /// Who runs the code that the op stands in: the mapping of the nearest loop that has one.
  Mapping around() const {
    for (size_t k = loops_.size(); k-- > 0;) {
      if (loops_[k]->mapping != Mapping::none) return loops_[k]->mapping;
    }
    return Mapping::none;
  }

  std::string mapping(const Op& op) const {
    if (op.mapping == Mapping::none || op.code == Opcode::barrier_) return "";
    if (op.code != Opcode::for_ && (op.code != Opcode::while_ || op.mapping != Mapping::single)) {
      return "only a loop is mapped, and a while to single alone";
    }
    const Mapping outside = around();
    bool fits = outside == Mapping::none || outside == Mapping::workers;
    if (op.mapping == Mapping::threads) fits = outside == Mapping::none || outside == Mapping::threads;
    if (op.mapping == Mapping::lanes) fits = outside == Mapping::workers || outside == Mapping::columns;
    if (op.mapping == Mapping::columns || op.mapping == Mapping::repeated) fits = outside == Mapping::none;
    return fits ? "" : "mapped to " + std::string(name_of(op.mapping)) + " inside " + std::string(name_of(outside));
  }

  std::string barrier_place(const Op& op) const {
    const Mapping outside = around();
    if (outside == Mapping::none ||
        ((outside == Mapping::workers || outside == Mapping::columns) && op.mapping == Mapping::lanes))
      return "";
    return "not all of those that wait come here: inside " + std::string(name_of(outside));
  }

  static std::string attributes(const Op& op) {
    const Effect effect = info(op.code).effect;
    const bool memory = effect == Effect::load || effect == Effect::store || effect == Effect::atomic;
    if (memory != (op.access != nullptr)) return memory ? "has no access" : "has an access";
    const bool check = op.code == Opcode::check_;
    if (check != (op.check != nullptr)) return check ? "has no Check" : "has a Check";
    const bool loop = op.code == Opcode::for_;
    if (loop != (op.loop != nullptr)) return loop ? "has no Loop" : "has a Loop";
    const size_t blocks = op.code == Opcode::if_ ? 2 : loop || op.code == Opcode::while_ ? 1 : 0;
    if (op.blocks.size() != blocks) return "expected " + std::to_string(blocks) + " blocks";
    const bool structured = blocks != 0;
    const size_t results = info(op.code).rule == Rule::none ? 0 : 1;
    if (!structured && op.results.size() != results) return "expected " + std::to_string(results) + " results";
    const bool alloc = op.code == Opcode::alloc_;
    for (const Value* r : op.results) {
      if (r->type.is_view() != alloc) return alloc ? "expected a view as result" : "only an alloc gives a view";
    }
    if (op.escapes && !alloc) return "only an alloc escapes";
    if (op.lead != 0 && !alloc) return "only an alloc has a lead";
    return "";
  }

  std::string types(const Op& op) {
    switch (op.code) {
      case Opcode::const_:
        if (op.operands.empty() && canonical(op.results[0]->type.dtype, op.imm) != op.imm) {
          return "the word is not one of its type";
        }
        break;
      case Opcode::load_:
      case Opcode::store_:
      case Opcode::atomic_:
        return access(op);
      case Opcode::alloc_:
        return alloc(op);
      case Opcode::check_:
        return check(op);
      case Opcode::poll_:
        return state(op.operands);
      case Opcode::barrier_:
        if (op.mapping != Mapping::workers && op.mapping != Mapping::lanes && op.mapping != Mapping::repeated) {
          return "its scope is workers, lanes or repeated";
        }
        return barrier_place(op);
      case Opcode::for_:
        return for_loop(op);
      case Opcode::while_:
        return carried(op, 0, 0);
      case Opcode::if_:
        if (op.operands.size() != 1 || op.operands[0]->type != scalar(DType::bool_)) return "expected one bool operand";
        if (!op.blocks[0]->args.empty() || !op.blocks[1]->args.empty()) return "arms have no arguments";
        return "";
      case Opcode::yield_:
      case Opcode::continue_:
      case Opcode::break_:
        return terminator(op);
      default:
        break;
    }
    std::string what = type_fault(op.code, op.results[0]->type.dtype, op.operands);
    if (what.empty() && op.code == Opcode::dim_ && (op.dim < 0 || op.dim >= op.operands[0]->type.rank)) {
      what = "no such dimension";
    }
    return what;
  }

  std::string alloc(const Op& op) {
    const Type made = op.results[0]->type;
    if (!can_alloc(made.layout)) return "the array's layout is c or f";
    if (op.operands.size() != static_cast<size_t>(made.rank)) return "expected one extent a dimension";
    for (const Value* extent : op.operands) {
      if (extent->type != scalar(DType::i64_)) return "an extent must be i64";
    }
    if (op.escapes && op.parent->owner) return "an array that escapes is made in the region's own block";
    if (op.lead != 0 && op.escapes) return "an array that escapes has no lead";
    if (op.lead < 0 || op.lead * size_of(made.dtype) >= kCacheLine) return "its lead is not within a line of the cache";
    if (op.slot < 0 || op.slot >= graph_.slot_count()) return "has no slot";
    if (!slots_.insert(op.slot).second) return "another alloc has its slot";
    return "";
  }

  static std::string access(const Op& op) {
    const size_t fixed = op.code == Opcode::load_ ? 1 : 2;
    const Access& access = *op.access;
    if (access.terms < 0 || op.operands.size() != fixed + static_cast<size_t>(access.terms)) {
      return "expected " + std::to_string(fixed) + " operands and " + std::to_string(access.terms) + " terms";
    }
    const Type view = op.view()->type;
    if (!view.is_view()) return "expected a view";
    const auto rank = static_cast<size_t>(view.rank);
    if (access.offset.size() != rank || access.coef.size() != rank) {
      return "expected " + std::to_string(rank) + " subscripts";
    }
    for (const auto& row : access.coef) {
      if (row.size() != static_cast<size_t>(access.terms)) return "expected one coefficient a term";
    }
    for (size_t k = fixed; k < op.operands.size(); ++k) {
      if (op.operands[k]->type != scalar(DType::i64_)) return "a term must be i64";
    }
    const Type value = op.code == Opcode::load_ ? op.results[0]->type : op.operands[0]->type;
    if (value != scalar(view.dtype)) return "expected the element type " + std::string(name_of(view.dtype));
    if (op.code != Opcode::atomic_) return "";
    const Combiner c = op.combiner;
    if (c == Combiner::recur_ || c == Combiner::last_ || is_follower(c)) {
      return "no update: " + std::string(name_of(c));
    }
    if (!accepts(c, view.dtype)) return "cannot update " + std::string(name_of(view.dtype));
    return "";
  }

  std::string state(std::span<Value* const> values) const {
    if (values.empty()) return "";
    const std::vector<Type> types = types_of(values);
    if (types != results_) return "expected state of types " + text_of(results_) + ", got " + text_of(types);
    return "";
  }

  std::string check(const Op& op) const {
    const Check& check = *op.check;
    if (op.operands.empty() || op.operands[0]->type != scalar(DType::bool_)) return "the condition must be bool";
    if (check.ninfo < 0 || op.operands.size() < 1 + static_cast<size_t>(check.ninfo)) return "too few operands";
    const int wanted = kInfoCount[static_cast<size_t>(check.kind)];
    const bool declines = check.declines || check.kind == CheckKind::decline_;
    if (check.ninfo > kMaxInfo) return "too many info words";
    if (wanted != any && check.ninfo != wanted && !(declines && check.ninfo == 0)) {
      return "expected " + std::to_string(wanted) + " info words";
    }
    const std::span<Value* const> rest = std::span<Value* const>(op.operands).subspan(1);
    const auto ninfo = static_cast<size_t>(check.ninfo);
    for (const Value* v : rest.first(ninfo)) {
      if (v->type.is_view()) return "an info word is a scalar";
    }
    const std::span<Value* const> values = rest.subspan(ninfo);
    if (!check.has_state && !values.empty()) return "operands after the info words need has_state";
    if (check.has_state && values.empty() && !results_.empty()) {
      return "expected state of types " + text_of(results_) + ", got ()";
    }
    return state(values);
  }

  static std::string carried(const Op& op, size_t bounds, size_t variables) {
    if (op.operands.size() < bounds) return "expected lower, upper and step";
    const std::vector<Type> inits = types_of(std::span<Value* const>(op.operands).subspan(bounds));
    const std::span<Value* const> args = op.blocks[0]->args;
    if (args.size() != variables + inits.size()) {
      return "expected " + std::to_string(variables + inits.size()) + " block arguments";
    }
    if (types_of(args.subspan(variables)) != inits) return "block arguments unlike the carried values";
    if (types_of(op.results) != inits) return "results unlike the carried values " + text_of(inits);
    return "";
  }

  static std::string for_loop(const Op& op) {
    if (std::string what = carried(op, 3, 1); !what.empty()) return what;
    for (size_t i = 0; i < 3; ++i) {
      if (op.operands[i]->type != scalar(DType::i64_)) return "bounds and step must be i64";
    }
    if (op.blocks[0]->args[0]->type != scalar(DType::i64_)) return "the loop variable must be i64";
    const Loop& loop = *op.loop;
    if (loop.chunk < 0 || loop.le < 0 || loop.threads < 0 || loop.collapse < 1) return "a negative loop attribute";
    if (loop.carried.size() != op.results.size()) return "expected one Carried a carried value";
    for (size_t k = 0; k < loop.carried.size(); ++k) {
      if (std::string what = combination(loop.carried, k, op.results); !what.empty()) {
        return "carried value " + std::to_string(k) + ": " + what;
      }
    }
    return "";
  }

  static std::string combination(const std::vector<Carried>& all, size_t k, std::span<Value* const> results) {
    const Carried& c = all[k];
    const auto valid = [&](int index) { return index >= 0 && static_cast<size_t>(index) < all.size(); };
    const std::string name(name_of(c.combiner));
    if (!accepts(c.combiner, results[k]->type.dtype)) {
      return name + " is not defined for " + std::string(name_of(results[k]->type.dtype));
    }
    if (is_follower(c.combiner)) {
      if (!valid(c.leader) || !is_leader(all[static_cast<size_t>(c.leader)].combiner)) {
        return name + " needs a leader that is a minimum or maximum";
      }
      if (!valid(all[static_cast<size_t>(c.leader)].tie)) return "its leader has no tie";
    } else if (c.leader != -1) {
      return name + " has no leader";
    }
    if (c.tie == -1) return "";
    if (!is_leader(c.combiner)) return name + " has no tie";
    if (!valid(c.tie)) return "tie is no carried index";
    const Carried& tie = all[static_cast<size_t>(c.tie)];
    if (!is_follower(tie.combiner) || tie.leader != static_cast<int>(k)) return "its tie must follow it";
    if (results[static_cast<size_t>(c.tie)]->type != scalar(DType::i64_)) return "its tie must be i64";
    return "";
  }

  std::string terminator(const Op& op) const {
    const Block& block = *op.parent;
    const std::vector<Type> got = types_of(op.operands);
    std::vector<Type> wanted;
    if (op.code != Opcode::yield_) {
      if (loops_.empty()) return "stands in no loop";
      wanted = types_of(loops_.back()->results);
    } else if (block.owner) {
      wanted = types_of(block.owner->results);
    } else {
      for (const Type& t : got) {
        if (t.is_view()) return "a result of the region must be a scalar";
      }
      return "";
    }
    if (got != wanted) return "expected values of types " + text_of(wanted) + ", got " + text_of(got);
    return "";
  }

  void unread_last(const Op& op) {
    if (!op.loop || op.blocks.empty()) return;
    const std::span<Value* const> args = op.blocks[0]->args;
    for (size_t k = 0; k < op.loop->carried.size() && k + 1 < args.size(); ++k) {
      if (op.loop->carried[k].combiner != Combiner::last_ || args[k + 1]->id >= read_.size()) continue;
      if (read_[args[k + 1]->id]) fault(op, "carried value " + std::to_string(k) + ": last is read in the body");
    }
  }

  const Graph& graph_;
  const OpPrinter printer_;
  std::vector<const Value*> visible_;  // by id; null where not defined or out of scope
  std::vector<bool> defined_;
  std::vector<bool> read_;  // used otherwise than as state
  std::vector<uint32_t> scope_;
  std::vector<const Op*> loops_;
  std::vector<Type> results_;
  std::set<int32_t> slots_;
  std::string faults_;
};

}  // namespace

std::string verify(const Graph& graph) { return Verifier(graph).run(); }

}  // namespace appy::ir
