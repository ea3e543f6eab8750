#include "ir/formula.h"

#include "ir/eval.h"

namespace appy::ir {
namespace {

/// The first argument word of a parameter; nothing for any other value.
std::optional<Word> word_of(const Value& v, const Graph& graph) {
  return v.op || v.block->owner ? std::nullopt : std::optional<Word>(first_word(graph, v.index));
}

}  // namespace

std::optional<Formula::Step> Formula::leaf(const Value* v, const Graph& graph) const {
  Step step;
  const Op* op = v->op;
  if (op && op->code == Opcode::const_) {
    step.number = op->imm;
    return step;
  }
  step.kind = Step::Kind::argument;
  const bool is_dim = op && op->code == Opcode::dim_;
  if (op && !is_dim) return {};
  const std::optional<Word> word = word_of(is_dim ? *op->operands[0] : *v, graph);
  if (!word) return {};
  step.number = *word + (is_dim ? 1 + static_cast<Word>(op->dim) : 0);
  return step;
}

bool Formula::append(const Value* v, const Graph& graph, Known& known) {
  if (known.contains(v)) return true;
  if (v->type.is_view() || is_real(v->type.dtype)) return false;
  std::optional<Step> step = leaf(v, graph);
  if (!step) {
    const Op* op = v->op;
    if (!op || !is_pure(op->code) || op->operands.empty() || op->operands.size() > most_operands) return false;
    step.emplace();
    for (const Value* operand : op->operands) {
      if (!append(operand, graph, known)) return false;
      step->from[step->operands++] = known.at(operand);
    }
    step->kind = Step::Kind::op;
    step->code = op->code;
    step->result = v->type.dtype;
    step->operand = operand_type(*op);
  }
  if (steps_.size() == most_steps) return false;
  known[v] = static_cast<uint16_t>(steps_.size());
  steps_.push_back(*step);
  return true;
}

std::optional<Formula> Formula::of(const Value* v, const Graph& graph) {
  Formula out;
  Known known;
  if (!out.append(v, graph, known)) return {};
  return out;
}

int64_t Formula::operator()(const Word* args) const {
  std::array<Word, most_steps> values;
  for (size_t n = 0; n < steps_.size(); ++n) {
    const Step& step = steps_[n];
    if (step.kind == Step::Kind::constant) {
      values[n] = step.number;
    } else if (step.kind == Step::Kind::argument) {
      values[n] = args[step.number];
    } else {
      std::array<Word, most_operands> operands = {};
      for (size_t k = 0; k < step.operands; ++k) operands[k] = values[step.from[k]];
      values[n] = evaluate_op(step.code, step.result, step.operand, {operands.data(), step.operands});
    }
  }
  return static_cast<int64_t>(values[steps_.size() - 1]);
}

}  // namespace appy::ir
