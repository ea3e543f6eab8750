// The inside of Ranges, shared by range.cpp (differences, questions), range_facts.cpp (conditions) and range_values.cpp
// (intervals).
#pragma once

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "passes/interval.h"
#include "passes/range.h"

namespace appy::passes {

/// A set of values, as the bits that their ids hash to: may hold more than was put in.
using Atoms = uint64_t;
constexpr Atoms kAnyAtom = ~Atoms{0};
inline Atoms atoms_of(const ir::Value& v) { return Atoms{1} << (v.id & 63); }
inline Atoms atoms_of(const Affine& sum) {
  Atoms atoms = 0;
  for (const auto& [atom, factor] : sum.terms) atoms |= atoms_of(*atom);
  return atoms;
}

/// The same for all sums of the same terms, whatever their constants.
inline uint64_t hash_of_terms(const Affine& sum) {
  uint64_t hash = 0;
  for (const auto& [atom, factor] : sum.terms) {
    hash = (hash ^ atom->id) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 32) ^ static_cast<uint64_t>(factor)) * 0xd6e8feb86659fd93u;
  }
  return hash ^ (hash >> 32);
}

inline bool integral(const ir::Value& v) { return !v.type.is_view() && !ir::is_real(v.type.dtype); }
inline bool falls_through(const ir::Block& arm) { return arm.last && arm.last->code == ir::Opcode::yield_; }

inline Affine number(Wide v) {
  Affine out;
  out.constant = v;
  return out;
}
/// a - b + c, an element of what is <= 0.
inline Affine difference(const Affine& a, const Affine& b, Wide c) {
  Affine out = a;
  out.add(b, -1);
  out.constant += c;
  return out;
}

/// Runs of the region for which values are looked up before something is proven.
constexpr size_t kRuns = 2;

/// Coefficients of affine sums stay below it.
constexpr Wide kMaxCoef = Wide{1} << 48;

/// One T for each of a few values of the graph. As most have none, it does not make one for each.
template <class T>
class ByValue {
 public:
  explicit ByValue(const ir::Graph& graph) : graph_(graph) {}

  /// Null where it has none.
  T* find(const ir::Value& v) { return v.id < places_.size() && places_[v.id] ? &all_[places_[v.id] - 1] : nullptr; }
  T& operator[](const ir::Value& v) {
    if (places_.size() <= v.id) places_.resize(graph_.value_count());
    uint32_t& place = places_[v.id];
    if (place == 0) {
      all_.emplace_back();
      place = static_cast<uint32_t>(all_.size());
    }
    return all_[place - 1];
  }
  void clear() {
    places_.clear();
    all_.clear();
  }

 private:
  const ir::Graph& graph_;
  std::vector<uint32_t> places_;  // by the value's id: 1 + the index in all_, or 0
  std::vector<T> all_;
};

class Ranges::Impl {
 public:
  explicit Impl(const ir::Graph& graph) : graph_(graph) {}

  // range_values.cpp

  /// Bounds at the definition, and therefore wherever the value is visible.
  Interval base(const ir::Value&);
  /// base, narrowed by each fact that holds at `where` and names the value.
  Interval refined(const ir::Value&, const ir::Op& where);
  /// Bounds of the number of iterations of a `for`, from the intervals of its bounds.
  Interval trips(const ir::Op& loop);

  // range.cpp

  /// Without `where`: from what holds at the definitions alone.
  Affine affine(const ir::Value&, const ir::Op* where, int depth = 24);
  /// Begins to look for a bound that takes at most so many sums.
  void begin_search(int most) {
    budget_ = most;
    searched_.clear();
    case_ = 0;
  }
  /// An upper bound of the sum at `where`; stops as soon as one not above `goal` is found.
  Wide upper(const Affine&, const ir::Op& where, Wide goal, int depth);
  bool nonpositive(const Affine&, const ir::Op& where, int budget = kBudget);
  std::optional<bool> decide(const ir::Value&, const ir::Op& where, int depth = 8);
  bool in_bounds(const ir::Op& access, const ir::Op& where);
  Affine extent(const ir::Value& view, int dim, const ir::Op& where);
  void moved(const ir::Op&);
  /// The graph may have changed: each question of a client begins so.
  Impl& anew() {
    work_ = std::min(work_, most_work() / 2);
    scoped_ = nullptr;
    return *this;
  }

  /// What was found out about places, where an op has another one now.
  void forget_places() {
    undecided_.clear();
    refined_.clear();
    sampled_.clear();
  }

  // range_sample.cpp

  /// Is the sum above the goal there in one of a few runs? Then no search will show that it is not.
  bool refuted(const Affine&, const ir::Op& where, Wide goal);

  static constexpr int kDepth = 5;
  static constexpr int kBudget = 100, kGlance = 12;

 private:
  /// What holds after a check or an `if` with one arm that does not fall through, in an arm, or in a loop's body.
  struct FactOp {
    const ir::Op* op = nullptr;
    bool truth = true;  // of operand 0, unless op is a `for`
    bool built = false;
    Atoms atoms = kAnyAtom;    // that the sums name
    std::vector<Affine> sums;  // each <= 0
  };
  struct BlockFacts;
  /// The innermost block around a place, and how many of its facts hold there.
  struct Scope {
    BlockFacts* facts = nullptr;
    uint32_t count = 0;
    friend bool operator==(const Scope&, const Scope&) = default;
  };
  /// How far a run comes in a block, as far as anybody has asked.
  struct Reached {
    std::optional<bool> entered;
    uint32_t holding = 0;  // fact ops, from the first one on, that hold
    bool stopped = false;  // the next one does not
  };
  struct BlockFacts {
    std::vector<FactOp> ops;
    std::vector<std::pair<const ir::Op*, uint32_t>> before;  // number of fact ops before each op, by the op's address
    FactOp entry;                                            // what holds at the block's start
    Scope around;                                            // of the op that has the block
    std::array<Reached, kRuns> reached;                      // by run
  };
  /// The terminators that end an iteration of a loop, and those that leave it.
  struct LoopEnds {
    std::vector<const ir::Op*> back;
    std::vector<const ir::Op*> leave;
  };

  BlockFacts& facts_of(const ir::Block&);
  const LoopEnds& ends_of(const ir::Op& loop);
  Scope scope_of(const ir::Op& where);
  /// Calls f(sum) for each sum <= 0 that holds at `where` and may name one of the atoms, innermost first, until f
  /// returns true.
  template <class F>
  void each_fact(const ir::Op& where, Atoms atoms, F f);
  template <class F>
  bool each_sum(FactOp&, Atoms atoms, F f);
  std::vector<Affine> sums_of(const FactOp&);
  std::optional<bool> decide_op(const ir::Op& condition, const ir::Op& where, int depth);
  /// What checks in front of a loop that counts upward test, unless it has no iteration.
  void tested_unless_empty(const ir::Op& loop, std::vector<Affine>& out);
  /// The sums that follow from a condition's truth.
  void condition_sums(const ir::Value& condition, bool truth, std::vector<Affine>&, int depth);
  /// Bounds by the atom's own definition: loop variables, min, max, mod, floor division, shifts, wrap.
  void defining_sums(const ir::Value& atom, const ir::Op& where, int depth, std::vector<Affine>&);
  /// A carried value that grows by a bounded amount in each iteration, against the loop variable.
  void counter_sums(const ir::Op& loop, const ir::Value& counter, const ir::Op& where, std::vector<Affine>& out);
  std::optional<Wide> split_upper(const Affine&, const ir::Value& atom, const ir::Op& where, Wide goal, int depth);
  /// The search was at this sum before, or at one that is easier to bound. Facts lead to one sum in many orders.
  bool searched_before(const Affine&, int depth);

  /// What a value is in each run, as far as that is known.
  struct Sample {
    uint32_t known = 0;  // bits, by run
    std::array<ir::Word, kRuns> words{};
    bool has(size_t run) const { return known >> run & 1; }
    void set(size_t run, ir::Word word) { known |= uint32_t{1} << run, words[run] = word; }
  };
  Sample sampled(const ir::Value&);
  Sample sampled_result(const ir::Value&);
  Sample sampled_argument(const ir::Value&);
  /// Of the array or integer: the word of its argument, as in runtime/kernel.h.
  Sample sampled_size(const ir::Value& argument, size_t word) const;
  /// What a sum is in each run.
  struct SampledSum {
    uint32_t known = (uint32_t{1} << kRuns) - 1;
    std::array<Wide, kRuns> totals;
    bool is_above(Wide goal, size_t run) const { return (known >> run & 1) && totals[run] > goal; }
  };
  SampledSum sampled(const Affine&);
  bool may_hold(const FactOp&, size_t run);
  bool reaches(const ir::Op& where, size_t run);

  void narrow(Interval&, const ir::Value&, const Affine& sum);
  Interval of_result(const ir::Value&);
  Interval of_argument(const ir::Value&);
  Interval loop_variable(const ir::Op& loop);
  Interval carried(const ir::Value& argument);
  Interval loop_result(const ir::Op& loop, size_t index);
  /// value - argument in one iteration (modulo 2^bits), if it is argument plus something.
  std::optional<Interval> increment(const ir::Value&, const ir::Value& argument, int depth);
  std::optional<Interval> step_of(const ir::Op& loop, size_t index, bool with_breaks, int depth);
  std::optional<Interval> accumulated(const ir::Op& loop, size_t index, bool after);
  void forget(size_t mark);
  /// Past this, intervals are no longer looked for.
  uint64_t most_work() const { return 60 * uint64_t{graph_.value_count()} + 5000; }

  const ir::Graph& graph_;
  struct Memo {
    bool known = false;
    Interval value;
  };
  /// What facts make of a value at a place, in a case of a search or in none (0).
  struct Refined {
    Scope here;
    uint64_t in_case = 0;
    Interval value;
  };
  /// Where a condition was last asked about in vain. The innermost block and the number of its facts stand for all that
  /// holds at a place.
  struct Undecided {
    Scope here;
    int depth = 0;
  };
  ByValue<Memo> memo_{graph_};
  ByValue<Undecided> undecided_{graph_};
  ByValue<Sample> sampled_{graph_};
  ByValue<Refined> refined_{graph_};
  const ir::Op* scoped_ = nullptr;  // the place that scope_ is of
  Scope scope_;
  std::vector<const ir::Value*> log_;  // whose intervals were found under an assumption, in order
  int assumptions_ = 0;                // > 0: some memo entry is a guess about a loop-carried value
  int depth_ = 0;
  uint64_t work_ = 0;
  struct Searched {
    uint64_t terms = 0;  // their hash, and the case's number
    Wide constant = 0;
    int depth = 0;
  };
  int budget_ = 0;                  // sums that the search may still look at
  std::vector<Searched> searched_;  // few: no more than the search looks at
  uint64_t case_ = 0, cases_ = 0;   // the case that is looked at, and how many there were in all searches
  std::vector<Affine> extra_;       // its facts
  bool use_extra_ = true;
  std::unordered_map<const ir::Block*, BlockFacts> facts_;
  std::unordered_map<const ir::Op*, LoopEnds> ends_;
  std::unordered_map<uint64_t, const ir::Value*> extents_;
  bool all_extents_ = false;
};

template <class F>
bool Ranges::Impl::each_sum(FactOp& fact, Atoms atoms, F f) {
  if (!fact.built) {
    std::vector<Affine> sums = sums_of(fact);
    if (assumptions_ > 0) {  // built on a guess: not kept
      for (const Affine& sum : sums) {
        if (f(sum)) return true;
      }
      return false;
    }
    fact.sums = std::move(sums);
    fact.atoms = 0;
    for (const Affine& sum : fact.sums) fact.atoms |= atoms_of(sum);
    fact.built = true;
  }
  if (!(fact.atoms & atoms)) return false;
  for (size_t i = 0; i < fact.sums.size(); ++i) {
    if (f(fact.sums[i])) return true;
  }
  return false;
}

template <class F>
void Ranges::Impl::each_fact(const ir::Op& where, Atoms atoms, F f) {
  if (use_extra_) {
    for (size_t i = extra_.size(); i-- > 0;) {
      const Affine sum = extra_[i];
      if (f(sum)) return;
    }
  }
  for (Scope scope = scope_of(where); scope.facts; scope = scope.facts->around) {
    for (uint32_t count = scope.count; count-- > 0;) {
      FactOp& fact = scope.facts->ops[count];
      if ((fact.atoms & atoms) && each_sum(fact, atoms, f)) return;
    }
    FactOp& entry = scope.facts->entry;
    if (entry.op && (entry.atoms & atoms) && each_sum(entry, atoms, f)) return;
  }
}

}  // namespace appy::passes
