#include "runtime/formula.h"

#include <array>

#include "ir/eval.h"

namespace appy::runtime {
namespace {

using ir::Opcode;

/// The first argument word of a parameter; nothing for any other value.
std::optional<ir::Word> word_of(const ir::Value* v, const ir::Graph& graph) {
  ir::Word word = 0;
  for (const ir::Value* param : graph.body->args) {
    if (param == v) return word;
    word += ir::words_of(param->type);
  }
  return {};
}

}  // namespace

void Formula::push(Step::Kind kind, ir::Word number) {
  Step step;
  step.kind = kind;
  step.number = number;
  steps_.push_back(step);
}

bool Formula::append(const ir::Value* v, const ir::Graph& graph) {
  if (steps_.size() >= max_steps || v->type.is_view() || ir::is_real(v->type.dtype)) return false;
  const ir::Op* op = v->op;
  if (!op) {
    const std::optional<ir::Word> word = word_of(v, graph);
    if (word) push(Step::Kind::argument, *word);
    return word.has_value();
  }
  if (op->code == Opcode::const_) {
    push(Step::Kind::constant, op->imm);
    return true;
  }
  if (op->code == Opcode::dim_) {
    const std::optional<ir::Word> array = word_of(op->operands[0], graph);
    if (array) push(Step::Kind::argument, *array + 1 + static_cast<ir::Word>(op->dim));
    return array.has_value();
  }
  if (!ir::is_pure(op->code) || op->operands.empty()) return false;
  for (const ir::Value* operand : op->operands) {
    if (!append(operand, graph)) return false;
  }
  Step step;
  step.kind = Step::Kind::op;
  step.code = op->code;
  step.result = v->type.dtype;
  step.operand = op->operands[op->code == Opcode::select_ ? 1 : 0]->type.dtype;
  step.operands = op->operands.size();
  steps_.push_back(step);
  return true;
}

std::optional<Formula> Formula::of(const ir::Value* v, const ir::Graph& graph) {
  Formula out;
  if (!out.append(v, graph) || out.steps_.size() > max_steps) return {};
  return out;
}

int64_t Formula::operator()(const ir::Word* args) const {
  std::array<ir::Word, max_steps> stack;
  size_t depth = 0;
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::constant:
        stack[depth++] = step.number;
        break;
      case Step::Kind::argument:
        stack[depth++] = args[step.number];
        break;
      case Step::Kind::op:
        depth -= step.operands;
        stack[depth] = ir::evaluate_op(step.code, step.result, step.operand, {&stack[depth], step.operands});
        depth++;
        break;
    }
  }
  return static_cast<int64_t>(stack[0]);
}

}  // namespace appy::runtime
