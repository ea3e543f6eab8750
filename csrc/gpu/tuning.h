// The fastest shape of a kernel, from the times of real launches. One axis after the other: lanes or columns, threads
// of a block, iterations in flight, blocks of a multiprocessor; each candidate differs in one of them from the best one
// so far.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/shape.h"

namespace appy::gpu {

/// Where choices are kept for other processes, and who is told how far it is. All three may be called with or without
/// the GIL.
struct TuningStore {
  std::function<std::string(const std::string& key)> load;  // "" where there is nothing
  std::function<void(const std::string& key, const std::string& choice)> save;
  std::function<void(int done, int all)> progress;
};

class Tuning {
 public:
  static constexpr int launches = 3;  // of each candidate; the first one is not counted

  Tuning(const HostPart&, const Properties&);

  bool done() const { return axis_ >= axes_.size(); }
  /// What the next launch is to try, or what was chosen.
  const Wish& now() const { return done() ? best_ : candidate_; }
  /// Is now() a candidate that may be more than the device launches?
  bool is_trying() const { return !done() && candidate_ != Wish{}; }
  /// With now() a launch has this shape. If one of these was measured already: false, and now() is another one.
  bool is_new(const KernelShape&, int64_t blocks);
  /// So long took a launch with now().
  void add(double seconds);
  /// The device does not launch it.
  void refuse();
  /// What another process has found.
  void choose(const Wish&);

  /// Launches that were measured, and that will be.
  std::pair<int, int> progress() const;
  std::string summary() const;

 private:
  struct Axis {
    int Wish::*member;
    std::vector<int> values;
  };
  void advance();

  std::vector<Axis> axes_;
  size_t axis_ = 0, value_ = 0;
  Wish best_, candidate_;
  std::optional<double> first_, best_seconds_;  // first_: of the shape that trip counts choose
  double fastest_ = 0;                          // of the candidate's launches
  int launched_ = 0, measured_ = 0;
  bool looked_at_ = false;  // by is_new()
  std::vector<std::pair<KernelShape, int64_t>> seen_;
};

}  // namespace appy::gpu
