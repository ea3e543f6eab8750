#include "runtime/late.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/raise.h"
#include "runtime/specialization.h"
#include "support/ref.h"

namespace appy::runtime {

namespace {

int64_t nothing_failed = 0;

/// A failure whose region is gone.
struct Orphan {
  LateFailure failure;
  LateError error;
};

struct Watched {
  std::vector<const Specialization*> all;
  std::vector<Orphan> orphans;
};
Watched& watched() {
  static auto& one = *new Watched;  // outlives the interpreter, as it holds its objects
  return one;
}

bool same_stream(const LateFailure& a, const LateFailure& b) { return a.device == b.device && a.stream == b.stream; }

}  // namespace

volatile int64_t* detail::fault_flag = &nothing_failed;

void set_fault_flag(int64_t* word) { detail::fault_flag = word ? word : &nothing_failed; }

void watch(const Specialization* one) { watched().all.push_back(one); }

void forget(const Specialization* one) {
  Watched& w = watched();
  std::erase(w.all, one);
  one->kernel().drain();
  while (const std::optional<LateFailure> failure = one->kernel().late_failure()) {
    w.orphans.push_back({*failure, one->late_error(*failure)});
    one->kernel().forget_failures(failure->device, failure->stream);
  }
}

bool raise_late_failure(const Specialization* now, const Scope* scope) {
  Watched& w = watched();
  *detail::fault_flag = 0;  // first: what fails from now on sets it again
  std::optional<LateFailure> first;
  const Specialization* where = nullptr;
  const auto look = [&](const LateFailure& failure, const Specialization* of) {
    if (first && first->time <= failure.time) return;
    first = failure;
    where = of;
  };
  const auto look_at_all = [&] {
    first.reset();
    for (const Specialization* one : w.all) {
      if (const auto failure = one->kernel().late_failure()) look(*failure, one);
    }
    for (const Orphan& orphan : w.orphans) look(orphan.failure, nullptr);
  };
  look_at_all();
  if (!first) return false;
  if (where) {
    // What the stream was given since then may fail too, and is not wanted any more.
    where->kernel().drain();
    look_at_all();
  }
  std::optional<LateError> error;
  if (where) {
    error = where->late_error(*first);
  } else {
    const auto orphan = std::find_if(w.orphans.begin(), w.orphans.end(),
                                     [&](const Orphan& o) { return o.failure.time == first->time; });
    error = orphan->error;
  }
  if (where && where == now) {
    where->raise(first->failure, *scope);
  } else {
    raise(*error);
  }
  bool others = false;
  for (const Specialization* one : w.all) {
    one->kernel().forget_failures(first->device, first->stream);
    others |= one->kernel().late_failure().has_value();
  }
  std::erase_if(w.orphans, [&](const Orphan& o) { return same_stream(o.failure, *first); });
  if (others || !w.orphans.empty()) *detail::fault_flag = 1;
  return true;
}

}  // namespace appy::runtime
