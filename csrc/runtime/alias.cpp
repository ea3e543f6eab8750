#include "runtime/alias.h"

#include <algorithm>
#include <array>

namespace appy::runtime {
namespace {

constexpr int max_terms = 24;
constexpr int work_limit = 1024;

struct Term {
  int64_t coefficient, bound;  // coefficient > 0; the variable runs over 0..bound
};

/// Is there an x with sum(coefficient * x) == target? Decided by depth-first search over the large coefficients; the
/// small ones, which together reach every value up to `dense_sum`, need no search.
class BoundedSum {
 public:
  void add(int64_t coefficient, int64_t bound) {
    if (bound <= 0 || coefficient == 0) return;
    for (int i = 0; i < count_; i++) {
      if (terms_[i].coefficient == coefficient) {
        terms_[i].bound += bound;
        return;
      }
    }
    if (count_ == max_terms)
      too_many_ = true;
    else
      terms_[count_++] = {coefficient, bound};
  }

  bool reaches(int64_t target) {
    if (too_many_) return true;
    std::sort(terms_.begin(), terms_.begin() + count_,
              [](const Term& a, const Term& b) { return a.coefficient < b.coefficient; });
    dense_ = 0;
    int64_t sum = 0;
    for (int i = 0; i < count_; i++) {
      if (dense_ == i && terms_[i].coefficient <= sum + 1) dense_ = i + 1;
      sum += terms_[i].coefficient * terms_[i].bound;
      sums_[i] = sum;
    }
    work_ = 0;
    return search(count_, target);
  }

 private:
  bool search(int count, int64_t target) {
    if (target < 0) return false;
    if (count == 0) return target == 0;
    if (target > sums_[count - 1]) return false;
    if (count <= dense_) return true;
    if (++work_ > work_limit) return true;
    auto [c, bound] = terms_[count - 1];
    int64_t rest = count > 1 ? sums_[count - 2] : 0;
    int64_t low = target > rest ? (target - rest + c - 1) / c : 0;
    int64_t high = std::min(bound, target / c);
    for (int64_t x = high; x >= low; x--)
      if (search(count - 1, target - c * x)) return true;
    return false;
  }

  std::array<Term, max_terms> terms_;
  std::array<int64_t, max_terms> sums_;
  int count_ = 0, dense_ = 0, work_ = 0;
  bool too_many_ = false;
};

struct Box {
  int64_t low, high;  // [low, high)
};

bool empty(const Extent& a) {
  for (int d = 0; d < a.rank; d++)
    if (a.shape[d] == 0) return true;
  return false;
}

Box box(const Extent& a) {
  auto base = reinterpret_cast<int64_t>(a.data);
  Box b{base, base + a.item_size};
  for (int d = 0; d < a.rank; d++) {
    int64_t span = (a.shape[d] - 1) * a.strides[d];
    (span < 0 ? b.low : b.high) += span;
  }
  return b;
}

}  // namespace

bool overlap(const Extent& a, const Extent& b) {
  if (empty(a) || empty(b)) return false;
  Box p = box(a), q = box(b);
  if (p.high <= q.low || q.high <= p.low) return false;
  // p.low + sum(|s| i) + u == q.high - 1 - sum(|t| j) - v, all variables counted from 0.
  BoundedSum sum;
  for (int d = 0; d < a.rank; d++) sum.add(std::abs(a.strides[d]), a.shape[d] - 1);
  for (int d = 0; d < b.rank; d++) sum.add(std::abs(b.strides[d]), b.shape[d] - 1);
  sum.add(1, a.item_size - 1);
  sum.add(1, b.item_size - 1);
  return sum.reaches(q.high - 1 - p.low);
}

bool overlaps_itself(const Extent& a) {
  if (empty(a)) return false;
  // Sorted by size, each stride must step over everything that the smaller ones reach. Sufficient, and what NumPy's own
  // views of fresh arrays satisfy.
  std::array<std::pair<int64_t, int64_t>, 64> dims;
  int count = 0;
  for (int d = 0; d < a.rank; d++)
    if (a.shape[d] > 1) dims[static_cast<size_t>(count++)] = {std::abs(a.strides[d]), a.shape[d]};
  std::sort(dims.begin(), dims.begin() + count);
  int64_t reach = a.item_size;
  for (int k = 0; k < count; k++) {
    auto [stride, extent] = dims[static_cast<size_t>(k)];
    if (stride < reach) return true;
    reach += stride * (extent - 1);
  }
  return false;
}

}  // namespace appy::runtime
