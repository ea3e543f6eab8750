// What values are in a few runs of the region, in the middle of the iterations of all loops. What is not so there can't
// be proven, and nobody has to look for a proof: most searches that would find none end before they begin.

#include <array>

#include "ir/eval.h"
#include "passes/range_impl.h"

namespace appy::passes {

using ir::Opcode;
using ir::Value;
using ir::Word;

namespace {

/// What all extents and integers are in a run; 0: what they are at the entry that the graph is given.
constexpr std::array<int64_t, kRuns> kSizes{0, 1003};

Wide number_of(const Value& v, Word word) {
  return ir::is_signed(v.type.dtype) ? static_cast<Wide>(static_cast<int64_t>(word)) : static_cast<Wide>(word);
}

}  // namespace

Ranges::Impl::Sample Ranges::Impl::sampled_size(const Value& argument, size_t word) const {
  Sample out;
  for (size_t run = 0; run < kRuns; ++run) {
    if (kSizes[run] != 0) {
      out.set(run, static_cast<Word>(std::clamp<Wide>(kSizes[run], argument.range.lo, argument.range.hi)));
    } else if (!graph_.given.empty()) {
      out.set(run, graph_.given[ir::first_word(graph_, argument.index) + word]);
    }
  }
  return out;
}

Ranges::Impl::Sample Ranges::Impl::sampled_argument(const Value& argument) {
  const ir::Op* owner = argument.block->owner;
  if (!owner) return argument.type.dtype == ir::DType::bool_ ? Sample{} : sampled_size(argument, 0);
  if (owner->code != Opcode::for_ || argument.index != 0) return {};
  std::array<Sample, 3> bounds;
  for (size_t k = 0; k < bounds.size(); ++k) bounds[k] = sampled(*owner->operands[k]);
  Sample out;
  for (size_t run = 0; run < kRuns; ++run) {
    if (!bounds[0].has(run) || !bounds[1].has(run) || !bounds[2].has(run)) continue;
    const Wide lower = number_of(argument, bounds[0].words[run]), upper = number_of(argument, bounds[1].words[run]),
               step = number_of(argument, bounds[2].words[run]);
    if (step == 0 || (step > 0 ? lower >= upper : lower <= upper)) continue;
    const Wide last = (upper - lower - (step > 0 ? 1 : -1)) / step;
    // Of a triangle both the loop before the diagonal and the one behind it have iterations then.
    out.set(run, static_cast<Word>(lower + (last + 1) / 2 * step));
  }
  return out;
}

Ranges::Impl::Sample Ranges::Impl::sampled_result(const Value& v) {
  const ir::Op& op = *v.op;
  Sample out;
  if (op.code == Opcode::const_) {
    for (size_t run = 0; run < kRuns; ++run) out.set(run, op.imm);
    return out;
  }
  if (op.code == Opcode::dim_) {
    const Value& view = *op.operands[0];
    const auto dim = static_cast<size_t>(op.dim);
    return view.op ? sampled(*view.op->operands[dim]) : sampled_size(view, 1 + dim);
  }
  std::array<Sample, 3> operands;
  const size_t count = op.operands.size();
  if (!ir::is_pure(op.code) || count > operands.size()) return out;
  for (size_t k = 0; k < count; ++k) {
    operands[k] = sampled(*op.operands[k]);
    if (operands[k].known == 0) return out;
  }
  const ir::DType from = ir::operand_type(op);
  for (size_t run = 0; run < kRuns; ++run) {
    std::array<Word, 3> words{};
    bool known = true;
    for (size_t k = 0; k < count; ++k) {
      known &= operands[k].has(run);
      words[k] = operands[k].words[run];
    }
    if (known) out.set(run, ir::evaluate_op(op.code, v.type.dtype, from, std::span(words).first(count)));
  }
  return out;
}

Ranges::Impl::Sample Ranges::Impl::sampled(const Value& v) {
  if (!integral(v)) return {};
  if (const Sample* known = sampled_.find(v)) return *known;
  const Sample found = v.op ? sampled_result(v) : sampled_argument(v);
  return sampled_[v] = found;
}

Ranges::Impl::SampledSum Ranges::Impl::sampled(const Affine& sum) {
  SampledSum out;
  out.totals.fill(sum.constant);
  for (const auto& [atom, factor] : sum.terms) {
    const Sample at = sampled(*atom);
    out.known &= at.known;
    if (out.known == 0) break;
    for (size_t run = 0; run < kRuns; ++run) out.totals[run] += factor * number_of(*atom, at.words[run]);
  }
  return out;
}

/// What depends on elements of arrays may.
bool Ranges::Impl::may_hold(const FactOp& fact, size_t run) {
  const auto& operands = fact.op->operands;
  if (fact.op->code != Opcode::for_) {
    const Sample condition = sampled(*operands[0]);
    return !condition.has(run) || (condition.words[run] != 0) == fact.truth;
  }
  const bool known = sampled(*operands[0]).has(run) && sampled(*operands[1]).has(run) && sampled(*operands[2]).has(run);
  return !known || sampled(*fact.op->blocks[0]->args[0]).has(run);
}

bool Ranges::Impl::reaches(const ir::Op& where, size_t run) {
  for (Scope scope = scope_of(where); scope.facts; scope = scope.facts->around) {
    Reached& reached = scope.facts->reached[run];
    const FactOp& entry = scope.facts->entry;
    if (!reached.entered) reached.entered = !entry.op || may_hold(entry, run);
    // Those behind the place may name what a client has replaced.
    while (*reached.entered && !reached.stopped && reached.holding < scope.count) {
      reached.stopped = !may_hold(scope.facts->ops[reached.holding], run);
      reached.holding += !reached.stopped;
    }
    if (reached.holding < scope.count || !*reached.entered) return false;
  }
  const auto contradicts = [&](const Affine& fact) { return sampled(fact).is_above(0, run); };
  return std::none_of(extra_.begin(), extra_.end(), contradicts);
}

bool Ranges::Impl::refuted(const Affine& sum, const ir::Op& where, Wide goal) {
  const SampledSum at = sampled(sum);
  for (size_t run = 0; run < kRuns; ++run) {
    if (at.is_above(goal, run) && reaches(where, run)) return true;
  }
  return false;
}

}  // namespace appy::passes
