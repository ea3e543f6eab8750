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

Word Ranges::Impl::sampled_extent(const Value& array, size_t dim, size_t run) const {
  if (kSizes[run] == 0) return graph_.given[ir::first_word(graph_, array.index) + 1 + dim];
  return static_cast<Word>(kSizes[run]);
}

std::optional<Word> Ranges::Impl::sampled_argument(const Value& argument, size_t run) {
  const ir::Op* owner = argument.block->owner;
  if (!owner) {
    if (kSizes[run] == 0) return graph_.given[ir::first_word(graph_, argument.index)];
    if (argument.type.dtype == ir::DType::bool_) return {};
    const Interval promised = base(argument);
    return static_cast<Word>(std::clamp<Wide>(kSizes[run], promised.lo, promised.hi));
  }
  if (owner->code != Opcode::for_ || argument.index != 0) return {};
  std::array<Wide, 3> bounds{};
  for (size_t k = 0; k < bounds.size(); ++k) {
    const std::optional<Word> bound = sampled(*owner->operands[k], run);
    if (!bound) return {};
    bounds[k] = number_of(*owner->operands[k], *bound);
  }
  const auto [lower, upper, step] = bounds;
  if (step == 0 || (step > 0 ? lower >= upper : lower <= upper)) return {};
  const Wide last = (upper - lower - (step > 0 ? 1 : -1)) / step;
  // Of a triangle both the loop before the diagonal and the one behind it have iterations then.
  return static_cast<Word>(lower + (last + 1) / 2 * step);
}

std::optional<Word> Ranges::Impl::sampled(const Value& v, size_t run) {
  if (!integral(v)) return {};
  const uint32_t bit = uint32_t{1} << run;
  if (const Sampled* at = sampled_.find(v); at && (at->looked & bit)) {
    return at->known & bit ? std::optional(at->words[run]) : std::nullopt;
  }
  std::optional<Word> found;
  if (!v.op) {
    found = sampled_argument(v, run);
  } else if (v.op->code == Opcode::const_) {
    found = v.op->imm;
  } else if (v.op->code == Opcode::dim_) {
    const Value& view = *v.op->operands[0];
    const auto dim = static_cast<size_t>(v.op->dim);
    found = view.op ? sampled(*view.op->operands[dim], run) : sampled_extent(view, dim, run);
  } else if (std::array<Word, 3> words{}; ir::is_pure(v.op->code) && v.op->operands.size() <= words.size()) {
    const auto& operands = v.op->operands;
    size_t count = 0;
    for (; count < operands.size(); ++count) {
      const std::optional<Word> operand = sampled(*operands[count], run);
      if (!operand) break;
      words[count] = *operand;
    }
    if (count == operands.size()) {
      const ir::DType from = operands[v.op->code == Opcode::select_ ? 1 : 0]->type.dtype;
      found = ir::evaluate_op(v.op->code, v.type.dtype, from, std::span(words).first(count));
    }
  }
  Sampled& at = sampled_[v];
  at.looked |= bit;
  if (found) at.known |= bit, at.words[run] = *found;
  return found;
}

std::optional<Wide> Ranges::Impl::sampled(const Affine& sum, size_t run) {
  Wide total = sum.constant;
  for (const auto& [atom, factor] : sum.terms) {
    const std::optional<Word> word = sampled(*atom, run);
    if (!word) return {};
    total += factor * number_of(*atom, *word);
  }
  return total;
}

/// What depends on elements of arrays may.
bool Ranges::Impl::may_hold(const FactOp& fact, size_t run) {
  const auto& operands = fact.op->operands;
  if (fact.op->code != Opcode::for_) {
    const std::optional<Word> condition = sampled(*operands[0], run);
    return !condition || (*condition != 0) == fact.truth;
  }
  const bool known = sampled(*operands[0], run) && sampled(*operands[1], run) && sampled(*operands[2], run);
  return !known || sampled(*fact.op->blocks[0]->args[0], run);
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
  const auto contradicts = [&](const Affine& fact) { return sampled(fact, run).value_or(0) > 0; };
  return std::none_of(extra_.begin(), extra_.end(), contradicts);
}

bool Ranges::Impl::refuted(const Affine& sum, const ir::Op& where, Wide goal) {
  for (size_t run = graph_.given.empty() ? 1 : 0; run < kRuns; ++run) {
    const std::optional<Wide> total = sampled(sum, run);
    if (total && *total > goal && reaches(where, run)) return true;
  }
  return false;
}

}  // namespace appy::passes
