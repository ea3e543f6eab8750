// Finds races in a graph whose loops are given to workers and lanes: the evaluator runs it in order, and of any two
// touches of one element without a barrier between them it is asked whether the same lane of the same worker makes
// both. There are as many workers and lanes as there is work; iterations of one loop are taken to keep their promise.
// Loops that may be repeated are, or some of them, or none: each group of workers then runs all of their iterations.
#pragma once

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ir/eval.h"
#include "ir/ir.h"
#include "ir/text.h"
#include "passes/loops.h"
#include "passes_compare.h"

namespace appy::passes {

class Races final : public ir::EvalObserver {
 public:
  /// Which loops that may be repeated are short enough for it.
  enum class Repeats : uint8_t { none, all, every_other, others };

  explicit Races(const ir::Graph& graph, Repeats repeats = Repeats::none) : graph_(graph) {
    ir::walk(*graph.body, [&](const ir::Op& op) {
      if (op.mapping != Mapping::repeated || !is_loop(op)) return;
      const bool even = loops_++ % 2 == 0;
      if (repeats == Repeats::all || repeats == (even ? Repeats::every_other : Repeats::others)) repeated_.insert(&op);
    });
  }

  /// Loops that may be repeated.
  size_t loops() const { return loops_; }

  /// The first race, or "".
  const std::string& found() const { return found_; }

  void iteration(const ir::Op& loop, uint64_t k, uint64_t trips) override {
    if (path_.empty() || path_.back().loop != &loop) path_.push_back({&loop, 0, 0, ++executions_});
    path_.back().k = k;
    path_.back().trips = trips;
  }

  void left(const ir::Op& loop) override {
    if (!path_.empty() && path_.back().loop == &loop) path_.pop_back();
    if (repeated_.count(&loop)) return;
    apart_ |= loop.mapping == Mapping::repeated;
    if (loop.results.empty()) return;
    if (loop.mapping == Mapping::lanes || (loop.mapping == Mapping::single && worker().inside)) {
      ++met_by_[worker().number];
    } else if (loop.mapping != Mapping::none) {
      all_met();
    }
  }

  void barrier(const ir::Op& op) override {
    const Worker w = worker();
    if (op.mapping == Mapping::workers || (op.mapping == Mapping::repeated && apart_)) {
      all_met();
    } else if (op.mapping == Mapping::repeated) {
      ++groups_met_, ++met_;
    } else if (w.inside) {
      ++met_by_[w.number];
    } else {
      ++met_;
    }
  }

  void access(const ir::Op& op, const char* base, const char* at) override {
    if (!found_.empty()) return;
    const ir::Op* alloc = ir::alloc_of(*op.view());
    Touch t = who(op);
    Key key{alloc, alloc ? at - base : reinterpret_cast<intptr_t>(at)};
    if (alloc) {
      Mapping owner = Mapping::none;
      for (const Step& s : path_) {
        if (!is_private(*op.view(), *s.loop) || s.loop->mapping == Mapping::none) continue;
        if (s.loop->mapping == Mapping::threads || s.loop->mapping == Mapping::lanes) return;
        if (is_worker(s.loop->mapping)) owner = Mapping::workers;
      }
      // Each worker has one, which it uses again: as if one worker ran it all.
      if (owner == Mapping::workers) {
        t.number = {0};
        t.met = 0;
        for (const auto& [number, met] : met_by_) t.met += met;
        for (auto& [piece, k] : t.pieces) {
          if (is_private(*op.view(), *piece_of_[piece])) k = {};
        }
      }
    }
    std::vector<Touch>& touches = touches_[key];
    std::erase_if(touches, [&](const Touch& earlier) { return earlier.epoch != epoch_; });
    for (const Touch& earlier : touches) {
      if (clash(earlier, t)) {
        found_ = ir::print(graph_) + "has a race: " + std::string(ir::info(earlier.op->code).name) + " and then " +
                 std::string(ir::info(op.code).name) + " of " + op.view()->name;
        return;
      }
    }
    if (touches.size() < 64) touches.push_back(std::move(t));
  }

 private:
  using Mapping = ir::Mapping;
  using Number = std::vector<uint64_t>;
  using Key = std::pair<const ir::Op*, intptr_t>;
  enum class Who : uint8_t { everyone, first, thread, worker, group };
  static constexpr uint64_t kAll = UINT64_MAX;

  struct Step {
    const ir::Op* loop;
    uint64_t k, trips, execution;
  };
  struct Worker {
    bool inside = false;
    Number number;
  };
  struct Touch {
    const ir::Op* op = nullptr;
    Who who = Who::everyone;
    Number number;                                    // of the thread or worker
    uint64_t lane = kAll;                             // of the worker
    uint64_t epoch = 0;                               // barriers of all passed
    uint64_t met = 0;                                 // barriers of this worker's lanes passed
    uint64_t groups_met = 0;                          // barriers of each group passed
    std::vector<std::pair<uint64_t, Number>> pieces;  // executions of distributed loops around it, and which iteration
  };

  static bool is_worker(Mapping m) { return m == Mapping::workers || m == Mapping::columns; }

  /// The loops of a nest are numbered together; their first trip count decides nothing.
  static void add(Number& number, const Step& s) {
    // The threads of a column are no worker's elsewhere.
    if (s.loop->mapping == Mapping::columns) number.push_back(s.execution);
    if (!number.empty()) number.push_back(s.trips);
    number.push_back(s.k);
  }

  void all_met() { ++epoch_, apart_ = false; }

  Worker worker() const {
    Worker w;
    for (const Step& s : path_) {
      if (!is_worker(s.loop->mapping)) continue;
      w.inside = true;
      add(w.number, s);
    }
    return w;
  }

  /// The loop is one of a nest and not its innermost.
  static bool is_outer(const ir::Op& loop) {
    for (const ir::Op* op = loop.blocks[0]->first; op; op = op->next) {
      if (op->mapping == loop.mapping && is_loop(*op)) return true;
    }
    return false;
  }

  Touch who(const ir::Op& op) {
    Touch t;
    t.op = &op;
    t.epoch = epoch_;
    t.groups_met = groups_met_;
    const bool elected = op.code != ir::Opcode::load_;
    bool single = false, outer = false;
    for (const Step& s : path_) {
      const Mapping m = s.loop->mapping;
      single |= m == Mapping::single;
      if (is_worker(m) || m == Mapping::threads || m == Mapping::repeated) {
        t.who = is_worker(m) ? Who::worker : repeated_.count(s.loop) ? Who::group : Who::thread;
        add(t.number, s);
        outer = is_outer(*s.loop);
      }
      if (m == Mapping::lanes) t.lane = s.k;
      if (m == Mapping::none || m == Mapping::single) continue;
      t.pieces.push_back({s.execution, {s.k}});
      piece_of_[s.execution] = s.loop;
    }
    if (outer) {
      t.who = Who::everyone;
    } else if (t.who == Who::everyone) {
      if (elected || single) t.who = Who::first;
    } else if (t.who == Who::worker) {
      if (t.lane == kAll && (elected || single)) t.lane = 0;
      const auto at = met_by_.find(t.number);
      t.met = met_ + (at == met_by_.end() ? 0 : at->second);
    }
    return t;
  }

  static bool clash(const Touch& a, const Touch& b) {
    using ir::Opcode;
    if (a.op->code == Opcode::load_ && b.op->code == Opcode::load_) return false;
    if (a.op->code == Opcode::atomic_ && b.op->code == Opcode::atomic_ && a.op->combiner == b.op->combiner) {
      return false;
    }
    for (const auto& [execution, k] : a.pieces) {
      for (const auto& [other, l] : b.pieces) {
        if (execution == other && k != l) return false;  // the loop's promise
      }
    }
    if (a.who == Who::group || b.who == Who::group) {
      // What all groups wrote each of them may read, behind its own barrier or where it was the same lane.
      if (a.who != Who::group || a.op->code == Opcode::load_ || b.op->code != Opcode::load_) return true;
      const bool same_lane = (b.who == Who::group || b.who == Who::thread) && a.number == b.number;
      return a.groups_met == b.groups_met && !same_lane;
    }
    if (a.who != b.who || a.who == Who::everyone) return true;
    if (a.who == Who::first) return false;
    if (a.number != b.number) return true;
    return a.who == Who::worker && a.met == b.met && (a.lane != b.lane || a.lane == kAll);
  }

  const ir::Graph& graph_;
  std::vector<Step> path_;
  uint64_t executions_ = 0, epoch_ = 0, met_ = 0, groups_met_ = 0;
  size_t loops_ = 0;
  std::set<const ir::Op*> repeated_;
  bool apart_ = false;  // loops that may be repeated were not, since all met
  std::map<Number, uint64_t> met_by_;
  std::map<uint64_t, const ir::Op*> piece_of_;
  std::map<Key, std::vector<Touch>> touches_;
  std::string found_;
};

/// The first race that one of the generated inputs shows, or "".
inline std::string race(const ir::Graph& graph, int inputs, size_t fuel) {
  for (int trial = 0; trial < inputs; ++trial) {
    for (const auto repeats :
         {Races::Repeats::none, Races::Repeats::all, Races::Repeats::every_other, Races::Repeats::others}) {
      Inputs made(graph, trial);
      Races races(graph, repeats);
      if (races.loops() == 0 && repeats != Races::Repeats::none) break;
      try {
        ir::evaluate(graph, made.args(), fuel, &races);
      } catch (const std::logic_error&) {
        continue;
      }
      if (!races.found().empty()) return races.found();
    }
  }
  return "";
}

inline std::vector<ir::Op*> barriers_of(const ir::Graph& graph) {
  std::vector<ir::Op*> found;
  ir::walk(*graph.body, [&](ir::Op& op) {
    if (op.code == ir::Opcode::barrier_) found.push_back(&op);
  });
  return found;
}

/// Barriers without each of which `race_of` finds none, by number.
template <class F>
std::vector<size_t> unneeded_barriers(const ir::Graph& graph, F&& race_of) {
  std::vector<size_t> found;
  for (size_t k = 0; k < barriers_of(graph).size(); ++k) {
    const auto mutant = ir::clone(graph);
    ir::Op* const barrier = barriers_of(*mutant)[k];
    barrier->parent->remove(barrier);
    if (race_of(*mutant).empty()) found.push_back(k);
  }
  return found;
}

}  // namespace appy::passes
