#include "gpu/tuning.h"

#include <algorithm>
#include <cstdio>

namespace appy::gpu {

namespace {

/// A worker is the whole block.
constexpr int kAllLanes = 1024;

}  // namespace

Tuning::Tuning(const HostPart& part, const Properties& device) {
  const auto has = [&](ir::Mapping mapping) {
    return std::any_of(part.nests.begin(), part.nests.end(), [&](const NestSize& n) { return n.mapping == mapping; });
  };
  axes_.push_back({&Wish::block, {0}});  // the shape of the trip counts
  if (has(ir::Mapping::workers)) axes_.push_back({&Wish::lanes, {2, 4, 8, 16, 32, kAllLanes}});
  if (has(ir::Mapping::columns)) axes_.push_back({&Wish::columns, {8, 16, 32}});
  axes_.push_back({&Wish::block, {128, 256, 512, 1024}});
  std::erase_if(axes_.back().values, [&](int threads) { return threads > device.max_threads_per_block; });
  if (has(ir::Mapping::threads)) axes_.push_back({&Wish::unroll, {1, 2, 4}});
  const bool boxes = std::any_of(part.nests.begin(), part.nests.end(), [](const NestSize& n) {
    return n.mapping == ir::Mapping::threads && n.trips.size() > 2;
  });
  if (boxes) axes_.push_back({&Wish::march, {1, 2}});
  axes_.push_back({&Wish::per_multiprocessor, {1, 2, 4, 8, 16, 32}});
}

bool Tuning::is_new(const KernelShape& shape, int64_t blocks) {
  if (done() || looked_at_) return true;
  const std::pair<KernelShape, int64_t> key(shape, blocks);
  if (std::find(seen_.begin(), seen_.end(), key) != seen_.end()) {
    advance();
    return false;
  }
  seen_.push_back(key);
  looked_at_ = true;
  return true;
}

void Tuning::add(double seconds) {
  if (done()) return;
  ++measured_;
  if (launched_++ == 0) return;
  fastest_ = launched_ == 2 ? seconds : std::min(fastest_, seconds);
  if (launched_ < launches) return;
  if (!first_) first_ = fastest_;
  if (!best_seconds_ || fastest_ < *best_seconds_) {
    best_seconds_ = fastest_;
    best_ = candidate_;
  }
  advance();
}

void Tuning::refuse() {
  if (!done()) advance();
}

void Tuning::choose(const Wish& wish) {
  best_ = wish;
  axis_ = axes_.size();
}

/// To the next value of the axis, or the next axis, from the best one so far.
void Tuning::advance() {
  launched_ = 0;
  looked_at_ = false;
  if (++value_ >= axes_[axis_].values.size()) {
    ++axis_;
    value_ = 0;
  }
  if (done()) return;
  candidate_ = best_;
  candidate_.*axes_[axis_].member = axes_[axis_].values[value_];
}

std::pair<int, int> Tuning::progress() const {
  int left = 0;
  for (size_t k = axis_; k < axes_.size(); ++k) {
    left += launches * static_cast<int>(axes_[k].values.size() - (k == axis_ ? value_ : 0));
  }
  return {measured_, measured_ + left - launched_};
}

std::string Tuning::summary() const {
  char text[160];
  const std::string chosen = best_.text();
  if (!done()) {
    const auto [now, all] = progress();
    std::snprintf(text, sizeof text, "%d of at most %d launches measured", now, all);
  } else if (best_seconds_) {
    std::snprintf(text, sizeof text, "%s, %.1f us instead of %.1f us",
                  chosen.empty() ? "as chosen by trip counts" : chosen.c_str(), *best_seconds_ * 1e6, *first_ * 1e6);
  } else {
    std::snprintf(text, sizeof text, "%s, found before", chosen.empty() ? "as chosen by trip counts" : chosen.c_str());
  }
  return text;
}

}  // namespace appy::gpu
