// Lanes for innermost loops for which no pragma asks: of a `parallel` loop iterations may run in any order, and of any
// other one they are proven to have no order (`independent_accesses`). A floating sum has one, where no pragma says
// otherwise, and elementary functions are those of the C library in such loops.
//
// Lanes pay where iterations lie beside each other in memory: gathers, divisions of ints, and a handful of iterations
// take as long in lanes as one by one. Such loops stay.

#include <optional>
#include <vector>

#include "passes/chain.h"
#include "passes/dependence.h"
#include "passes/loops.h"
#include "passes/range.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Carried;
using ir::Combiner;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

constexpr int64_t kFewest = 8;  // iterations: one vector of float64 with AVX-512

/// From one iteration to the next the access goes on by one element, or stays where it is.
bool goes_along(const Op& access, const Op& loop) {
  const ir::Type& view = access.view()->type;
  const bool known = view.layout == ir::Layout::c || view.layout == ir::Layout::inner || view.layout == ir::Layout::f;
  const size_t rank = access.access->offset.size();
  const size_t fastest = view.layout == ir::Layout::f ? 0 : rank - 1;
  for (size_t d = 0; d < rank; ++d) {
    for (const auto& [term, coefficient] : row(access, d).terms) {
      if (term != induction(loop)) {
        if (!ir::defined_outside(*term, body_of(loop))) return false;
      } else if (!known || d != fastest || (coefficient != 1 && coefficient != -1)) {
        return false;
      }
    }
  }
  return true;
}

bool pays_in_lanes(const Op& op, const Op& loop) {
  if (is_access(op)) return goes_along(op, loop);
  switch (op.code) {
    case Opcode::div_:
    case Opcode::sqrt_:
    case Opcode::floor_:
    case Opcode::ceil_:
    case Opcode::trunc_:
    case Opcode::rint_:
      return true;
    default:
      return !ir::is_pure(op.code) || is_cheap(op);
  }
}

/// How each carried value combines in any order, or nothing where one has an order.
std::optional<std::vector<Carried>> combined(const Uses& uses, Op& loop) {
  std::vector<Carried> all;
  for (size_t k = 0; k < carried_count(loop); ++k) {
    const Value& arg = *body_of(loop).args[first_carried(loop) + k];
    const bool read = is_used(uses, arg);
    const Chain chain(uses, loop, k);
    const bool reduces = chain.valid() && chain.merges().empty() && chain.compares().empty() &&
                         chain.combiner() != Combiner::recur_ && !ir::is_real(arg.type.dtype);
    if (read && !reduces) return {};
    all.push_back({read ? chain.combiner() : Combiner::last_});
  }
  return all;
}

class Vectorizer {
 public:
  explicit Vectorizer(ir::Graph& graph) : graph_(graph) {}

  bool run() {
    bool changed = false;
    for (Op* loop : for_loops(graph_)) changed |= widen(*loop);
    return changed;
  }

 private:
  bool widen(Op& loop) {
    if (loop.loop->simd || in_lanes(loop) || has_inner_loop(loop) || constant(*loop.operands[2]) != 1) return false;
    bool pays = true;
    ir::walk(body_of(loop), [&](const Op& op) { pays &= pays_in_lanes(op, loop); });
    if (!pays || !ordered_by_accesses_only(loop) || is_short(loop)) return false;
    if (loop.loop->parallel) {
      // A chunk says how many iterations a worker gets; each of them then ends in the middle of a vector.
      if (loop.loop->chunk != 0 || !ir::can_reorder(loop) || needs_order(loop)) return false;
    } else {
      const auto carried = independent_accesses(loop, &ranges()) ? combined(uses(), loop) : std::nullopt;
      if (!carried) return false;
      loop.loop->carried = *carried;
      remark(graph_, ir::Severity::note, "vectorize", loop.loc,
             "the loop at " + line_of(graph_, loop.loc) + " runs in lanes: none of its iterations needs another one");
    }
    loop.loop->simd = true;
    return true;
  }

  bool is_short(const Op& loop) {
    return ranges().most_trips(loop) < kFewest ||
           ranges().proves_le(*loop.operands[1], 1 - kFewest, *loop.operands[0], loop);
  }

  bool needs_order(const Op& loop) const {
    bool sums = false;
    for (const Value* result : loop.results) sums |= ir::is_real(result->type.dtype);
    return graph_.exact && sums;
  }

  Ranges& ranges() {
    if (!ranges_) ranges_.emplace(graph_);
    return *ranges_;
  }

  const Uses& uses() {
    if (!uses_) uses_.emplace(graph_);
    return *uses_;
  }

  ir::Graph& graph_;
  std::optional<Ranges> ranges_;
  std::optional<Uses> uses_;
};

}  // namespace

bool vectorize(ir::Graph& graph) { return graph.auto_simd && !graph.may_alias && Vectorizer(graph).run(); }

}  // namespace appy::passes
