// Stencils over boxes: each thread goes in order along the dimension around its rows, and what it has loaded or
// computed there stays in its registers as long as later steps need it (predictive commoning).
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/affine.h"
#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

/// What is kept from step to step, in registers of 32 bits: a thread has 128, as many as a quarter of the threads that
/// fit may have.
constexpr int kMostKept = 64;

/// The loops of a nest that a thread goes along, has neighbouring rows of, and has one iteration of.
struct Loops {
  explicit Loops(const std::vector<const Op*>& nest)
      : steps(*nest[nest.size() - 3]), rows(*nest[nest.size() - 2]), along(*nest.back()) {}
  const Op &steps, &rows, &along;
};

const Value& variable_of(const Op& loop) { return *loop.blocks[0]->args[0]; }

/// The operations of a step, each in all of the rows before the next one.
class Step {
 public:
  /// An operation in one of the rows; row -1 is for all of them.
  struct Instance {
    const Op* op;
    int row;
  };

  Step(const Loops& loops, int rows) : loops_(loops), rows_(rows) {
    const auto add = [&](const Op& loop, const Op* end, int first, int last) {
      for (const Op* op = loop.blocks[0]->first; op != end && !ir::is_terminator(op->code); op = op->next) {
        row_of_[op] = first;
        for (int row = first; row <= last; ++row) {
          if (op->code != Opcode::const_) instances_.push_back({op, row});
        }
      }
    };
    add(loops.steps, &loops.rows, -1, -1);
    add(loops.rows, &loops.along, 0, rows - 1);
    add(loops.along, nullptr, 0, rows - 1);
    find_kept();
  }

  const std::vector<Instance>& instances() const { return instances_; }
  /// Instances with one number have one value in each step.
  int number(const Instance& of) { return number(*of.op, of.row, 0); }
  /// What is kept: its number, and that of what the step before has for it.
  const std::map<int, int>& kept() const { return kept_; }
  /// What a step computes where others are kept.
  const std::set<int>& wanted() const { return wanted_; }
  /// What has to be computed for what is kept before the first step.
  std::set<int> begins() {
    std::set<int> all, none;
    for (const auto& [number, from] : kept_) find_wanted(number, {}, all, none);
    return all;
  }
  /// Those that are kept, each before what it is taken from.
  std::vector<int> in_order() const {
    std::vector<std::pair<int, int>> by_depth;
    for (const auto& [number, from] : kept_) {
      int depth = 0;
      for (auto at = kept_.find(from); at != kept_.end(); at = kept_.find(at->second)) ++depth;
      by_depth.emplace_back(-depth, number);
    }
    std::sort(by_depth.begin(), by_depth.end());
    std::vector<int> out;
    for (const auto& [depth, number] : by_depth) out.push_back(number);
    return out;
  }
  const Instance& first_of(int number) const { return first_.at(number); }
  /// Elements that a step loads, and that it would load if nothing were kept.
  int loads() const { return loads_of(wanted_); }
  int loads_alone() {
    std::set<int> all, none;
    for (const int root : roots_) find_wanted(root, {}, all, none);
    return loads_of(all);
  }
  /// Registers of 32 bits.
  int registers() const {
    int registers = 0;
    for (const auto& [number, from] : kept_)
      registers += ir::size_of(first_.at(number).op->result()->type.dtype) > 4 ? 2 : 1;
    return registers;
  }

 private:
  using Key = std::vector<int64_t>;
  struct Place {
    const Op* op;
    int row, shift;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Hash {
    static size_t mixed(uint64_t h, uint64_t word) { return (h ^ word) * 0x100000001b3u; }  // FNV-1a, by words
    size_t operator()(const Key& key) const {
      uint64_t h = 0xcbf29ce484222325u;
      for (const int64_t word : key) h = mixed(h, static_cast<uint64_t>(word));
      return h ^ h >> 32;
    }
    size_t operator()(const Place& p) const {
      const uint64_t h =
          mixed(mixed(reinterpret_cast<uintptr_t>(p.op), static_cast<uint64_t>(p.row)), static_cast<uint64_t>(p.shift));
      return h ^ h >> 32;
    }
  };
  int id(Key key) { return ids_.try_emplace(std::move(key), static_cast<int>(ids_.size())).first->second; }

  int number(const Value& v, int row, int shift) {
    if (&v == &variable_of(loops_.steps)) return id({0, v.id, shift});
    if (&v == &variable_of(loops_.rows)) return id({0, v.id, row});
    const auto at = v.op ? row_of_.find(v.op) : row_of_.end();
    if (at == row_of_.end()) return id({1, v.id});
    return number(*v.op, at->second < 0 ? -1 : row, shift);
  }

  /// What an operation computes in a row: now, or with `shift` -1 in the step before, said from where this one is.
  int number(const Op& op, int row, int shift) {
    const auto [at, added] = numbers_.try_emplace({&op, row, shift}, -1);
    if (!added) return at->second;
    Key key;
    if (op.code == Opcode::load_ && !writes_.count(op.view())) {
      key = {2, op.view()->id};
      for (size_t d = 0; d < op.access->offset.size(); ++d) {
        const passes::Affine sum = passes::row(op, d);
        int64_t constant = static_cast<int64_t>(sum.constant);
        std::vector<std::pair<int, int64_t>> terms;
        for (const auto& [term, coef] : sum.terms) {
          const auto factor = static_cast<int64_t>(coef);
          if (term == &variable_of(loops_.steps)) {
            constant += factor * shift * *passes::constant(*loops_.steps.operands[2]);
            terms.emplace_back(id({1, term->id}), factor);
          } else if (term == &variable_of(loops_.rows)) {
            constant += factor * row * *passes::constant(*loops_.rows.operands[2]);
            terms.emplace_back(id({1, term->id}), factor);
          } else {
            terms.emplace_back(number(*term, row, shift), factor);
          }
        }
        std::sort(terms.begin(), terms.end());
        key.push_back(constant);
        key.push_back(static_cast<int64_t>(terms.size()));
        for (const auto& [term, factor] : terms) key.insert(key.end(), {term, factor});
      }
    } else if (ir::is_pure(op.code) && op.blocks.empty() && op.results.size() == 1 && op.code != Opcode::dim_) {
      key = {3, static_cast<int64_t>(op.code), static_cast<int64_t>(op.result()->type.dtype),
             static_cast<int64_t>(op.imm)};
      for (const Value* operand : op.operands) key.push_back(number(*operand, row, shift));
    } else {
      key = {4, static_cast<int64_t>(numbers_.size()), shift};
    }
    return numbers_[{&op, row, shift}] = id(std::move(key));
  }

  /// The numbers of what the first instance of a number uses that is computed in the step.
  const std::set<int>& uses(int number_of) {
    const auto [known, fresh] = uses_.try_emplace(number_of);
    std::set<int>& out = known->second;
    if (!fresh) return out;
    const Instance of = first_.at(number_of);
    const auto use = [&](const Op& op) {
      for (const Value* v : op.operands) {
        const auto at = v->op ? row_of_.find(v->op) : row_of_.end();
        if (at != row_of_.end() && v->op->code != Opcode::const_)
          out.insert(number(*v->op, at->second < 0 ? -1 : of.row, 0));
      }
    };
    use(*of.op);
    for (ir::Block* inner : of.op->blocks) ir::walk(*inner, use);
    return out;
  }

  /// What has to be computed for a number, but for what is kept, which is `met`.
  void find_wanted(int number, const std::map<int, int>& kept, std::set<int>& wanted, std::set<int>& met) {
    if (kept.count(number)) {
      met.insert(number);
      return;
    }
    if (!wanted.insert(number).second) return;
    for (const int used : uses(number)) find_wanted(used, kept, wanted, met);
  }

  void find_kept() {
    for (const Op* loop : {&loops_.steps, &loops_.rows, &loops_.along}) {
      ir::walk(*loop->blocks[0], [&](const Op& op) {
        if (op.code == Opcode::store_ || op.code == Opcode::atomic_) writes_.insert(op.view());
      });
    }
    for (const Instance& each : instances_) {
      first_.try_emplace(number(each), each);
      if (!ir::is_pure(each.op->code) && each.op->code != Opcode::load_) roots_.insert(number(each));
    }
    std::map<int, int> could;
    for (const Instance& each : instances_) {
      const int later = number(*each.op, each.row, -1);
      if (later != number(each) && first_.count(later)) could.try_emplace(later, number(each));
    }
    std::set<int> met;
    for (const int root : roots_) find_wanted(root, could, wanted_, met);
    while (!met.empty()) {
      const int number = met.extract(met.begin()).value();
      // The step before may have kept it as well.
      if (kept_.emplace(number, could.at(number)).second) find_wanted(could.at(number), could, wanted_, met);
    }
  }

  int loads_of(const std::set<int>& numbers) const {
    return static_cast<int>(std::count_if(numbers.begin(), numbers.end(),
                                          [&](int number) { return first_.at(number).op->code == Opcode::load_; }));
  }

  const Loops loops_;
  const int rows_;
  std::vector<Instance> instances_;
  std::map<const Op*, int> row_of_;  // -1: of the step, 0: of each row
  std::set<const Value*> writes_;
  std::unordered_map<Key, int, Hash> ids_;
  std::unordered_map<Place, int, Hash> numbers_;
  std::map<int, Instance> first_;
  std::map<int, std::set<int>> uses_;
  std::set<int> roots_, wanted_;
  std::map<int, int> kept_;
};

}  // namespace

/// What is known of a nest whose threads could go in order.
struct Writer::Marching {
  bool pays = false;
  int rows = 0;              // that a thread has
  std::optional<Step> step;  // where it pays
};

/// No two loads are of neighbours along the row.
bool Writer::has_columns_apart(const std::vector<const Op*>& nest) const {
  const Value& along = variable_of(*nest.back());
  std::map<std::pair<const Value*, size_t>, std::vector<passes::Affine>> subscripts;  // of an array, by dimension
  ir::walk(*nest.back()->blocks[0], [&](const Op& op) {
    if (op.code != Opcode::load_) return;
    for (size_t d = 0; d < op.access->offset.size(); ++d) subscripts[{op.view(), d}].push_back(passes::row(op, d));
  });
  return std::all_of(subscripts.begin(), subscripts.end(), [&](const auto& of) {
    const bool follows = std::any_of(of.second.begin(), of.second.end(),
                                     [&](const passes::Affine& one) { return one.coef(along) != 0; });
    return !follows || std::all_of(of.second.begin(), of.second.end(), [&](passes::Affine one) {
      one.add(of.second.front(), -1);
      return one.is_constant() && one.constant == 0;
    });
  });
}

/// One more where no loads are of neighbours along the row, since less of what a step loads is there then. H200, hdiff
/// 72.2 us with four rows, 69.3 with five; a step of heat_3d 9.5 with four, 10.3 with five.
int Writer::rows_of_march(const std::vector<const Op*>& nest) const {
  return options_.shape.unroll + holds_for_alike(nest, &Writer::has_columns_apart);
}

/// Is there a dimension around the rows of a plane, along which a third of what a step loads was there before?
bool Writer::can_march(const std::vector<const Op*>& nest) const { return marching(nest).pays; }

Writer::Marching& Writer::marching(const std::vector<const Op*>& nest) const {
  std::shared_ptr<Marching>& known = marches_[nest.front()];
  if (!known) {
    known = std::make_shared<Marching>();
    known->pays = pays_to_march(nest, *known);
  }
  return *known;
}

bool Writer::pays_to_march(const std::vector<const Op*>& nest, Marching& marching) const {
  if (nest.size() < 3 || graph_.may_alias || !nest.back()->results.empty() || neighbours(*nest.back()) > 1)
    return false;
  const Loops loops(nest);
  for (const Op* loop : {&loops.steps, &loops.rows}) {
    if (!passes::constant(*loop->operands[2])) return false;
  }
  for (size_t d = 0; d < nest.size(); ++d) {
    for (const Op* op = nest[d]->blocks[0]->first; op; op = op->next) {
      const bool inner = d + 1 < nest.size() && op == nest[d + 1];
      const bool reads = ir::is_pure(op->code) || op->code == Opcode::load_ || ir::is_terminator(op->code);
      if ((d + 1 < nest.size() && !inner && !reads) || neighbour(*op)) return false;
    }
  }
  marching.rows = rows_of_march(nest);
  Step& step = marching.step.emplace(loops, marching.rows);
  return step.registers() <= kMostKept && 3 * step.loads() <= 2 * step.loads_alone();
}

/// A nest of the form of along_threads. All loops around the steps are numbered together with the groups of rows.
void Writer::along_march(const std::vector<const Op*>& nest) {
  const Loops loops(nest);
  const int count = marching(nest).rows;
  std::vector<std::string> trips;
  for (const Op* loop : nest) trips.push_back(declare_trips(*loop));
  const std::string n = trips[nest.size() - 1], rows = trips[nest.size() - 2], steps = trips[nest.size() - 3];
  trips.resize(nest.size() - 3);
  trips.push_back(names_.fresh("", "n"));
  put("const i64 " + trips.back() + " = (" + rows + " + " + std::to_string(count - 1) + ") / " + std::to_string(count) +
      ";");
  std::string all = trips[0];
  for (size_t d = 1; d < trips.size(); ++d) all += " * " + trips[d];
  const std::string march = names_.fresh("", "march"), y = names_.fresh("", "y"), x = names_.fresh("", "x"),
                    k = names_.fresh("", "k"), end = names_.fresh("", "end"), first = names_.fresh("", "first"),
                    r = names_.fresh("", "r");
  put("March " + march + " = march_of<kBlock>(" + n + ", " + all + ", " + steps + ");");
  open("while (" + march + ".at < " + march + ".end)");
  put("i64 " + k + ", " + end + ", " + x + ", " + y + ";");
  put("next_column<kBlock>(" + march + ", " + steps + ", " + k + ", " + end + ", " + x + ", " + y + ");");
  put("if (" + x + " >= " + n + " || " + y + " >= " + all + ") continue;");
  const std::vector<std::string> indices = declare_indices(y, trips);
  loops_.push_back(&loops.along);
  for (size_t d = 0; d + 3 < nest.size(); ++d) {
    declare_variable(*nest[d], indices[d]);
    for (const Op* op = nest[d]->blocks[0]->first; op != nest[d + 1]; op = op->next) statement(*op);
  }
  put("const i64 " + first + " = " + indices.back() + " * " + std::to_string(count) + ";");
  declare_variable(loops.along, x);
  open("if (" + first + " + " + std::to_string(count) + " <= " + rows + ")");
  march_rows(nest, first, k, end);
  close(" else {");
  ++depth_;
  open(not_unrolled(true) + "for (; " + k + " < " + end + "; ++" + k + ")");
  declare_variable(loops.steps, k);
  body(loops.steps, &loops.rows, [&] {
    open(not_unrolled(true) + "for (i64 " + r + " = " + first + "; " + r + " < " + rows + "; ++" + r + ")");
    declare_variable(loops.rows, r);
    body(loops.rows, &loops.along, [&] { block(*loops.along.blocks[0]); });
    close();
  });
  close();
  close();
  loops_.pop_back();
  close();
}

/// The steps `k` to `end` of a group of rows.
void Writer::march_rows(const std::vector<const Op*>& nest, const std::string& first, const std::string& k,
                        const std::string& end) {
  const Loops loops(nest);
  const int count = marching(nest).rows;
  Step& step = *marching(nest).step;
  code_.marches.push_back(
      {nest[0]->loc, count, step.loads(), step.loads_alone(), static_cast<int>(step.kept().size())});
  const std::vector<Names::Scope> rows = declare_copies(loops.rows, count, first, "");
  // Writes those of the numbers that have no name yet.
  const auto write = [&](const std::set<int>& wanted, std::map<int, std::string> named) {
    Names::Scope of_step;
    std::vector<Names::Scope> scopes = rows;
    for (const Step::Instance& each : step.instances()) {
      const Op& op = *each.op;
      const int number = step.number(each);
      Names::Scope& scope = each.row < 0 ? of_step : scopes[static_cast<size_t>(each.row)];
      const auto known = named.find(number);
      if (known == named.end() && !wanted.count(number)) continue;
      if (known != named.end()) {
        scope[op.result()] = known->second;
      } else {
        names_.enter(&scope);
        statement(op);
        if (op.results.size() == 1) named[number] = names_.of(*op.result());
        names_.enter(nullptr);
      }
      for (Names::Scope& other : scopes) {
        for (const Value* v : op.results) {
          if (each.row < 0) other[v] = of_step.at(v);
        }
      }
    }
    return named;
  };
  std::map<int, std::string> kept;
  for (const auto& [number, from] : step.kept()) {
    const Value& v = *step.first_of(number).op->result();
    kept[number] = names_.fresh("", "kept");
    put(std::string(type_of(v.type.dtype)) + " " + kept[number] + ";");
  }
  open("");
  declare_variable(loops.steps, k);
  std::map<int, std::string> named = write(step.begins(), {});
  for (const auto& [number, name] : kept) put(name + " = " + named.at(number) + ";");
  close();
  open(not_unrolled(true) + "for (; " + k + " < " + end + "; ++" + k + ")");
  declare_variable(loops.steps, k);
  named = write(step.wanted(), kept);
  for (const int number : step.in_order()) put(kept.at(number) + " = " + named.at(step.kept().at(number)) + ";");
  close();
}

}  // namespace appy::gpu
