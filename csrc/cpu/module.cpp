#include "cpu/module.h"

#include <algorithm>

#include "cpu/cpu.h"
#include "cpu/streams.h"
#include "passes/comparisons.h"

namespace appy::cpu {

Module::Module(const ir::Graph& graph, Isa isa, int64_t stream_bytes, const Traits& traits, Compiler& cc)
    : graph(graph),
      isa(isa),
      stream_bytes(stream_bytes),
      traits(traits),
      cc(cc),
      uses(graph.value_count()),
      user(graph.value_count()),
      accesses(accesses_of(graph)),
      param_word(graph.value_count(), -1) {
  int word = 0;
  auto place = [&](const ir::Value* v) {
    param_word[v->id] = word;
    word += static_cast<int>(ir::words_of(v->type));
  };
  for (const ir::Value* param : graph.body->args) place(param);
  words.params = static_cast<size_t>(word);
  int ordinal = 0;
  ir::walk(*graph.body, [&](ir::Op& op) {
    if (op.code == ir::Opcode::alloc_) place(op.result());
    if (op.code == ir::Opcode::check_) checks_.emplace_back(&op, ordinal++);
    for (const ir::Value* operand : op.operands) {
      ++uses[operand->id];
      user[operand->id] = &op;
    }
  });
  words.all = static_cast<size_t>(word);
  std::sort(checks_.begin(), checks_.end());
  find_choices();
  find_told();
}

void Module::find_choices() {
  chooses.resize(graph.value_count());
  std::vector<uint8_t> selects(graph.value_count());
  ir::walk(*graph.body, [&](const ir::Op& op) {
    const ir::Value* condition = op.code == ir::Opcode::select_ ? op.operands[0] : nullptr;
    if (!condition || !condition->op || condition->op->parent != op.parent || uses[condition->id] != 2) return;
    if (!passes::is_order(condition->op->code) || is_float(op.result()->type.dtype)) return;
    chooses[condition->id] = ++selects[condition->id] == 2;
  });
}

void Module::find_told() {
  told.resize(graph.value_count());
  std::vector<const ir::Op*> ops;
  ir::walk(*graph.body, [&](const ir::Op& op) { ops.push_back(&op); });
  std::vector<bool> needed(graph.value_count());
  for (size_t i = ops.size(); i-- > 0;) {  // users before what they use
    const ir::Op& op = *ops[i];
    const bool pure = ir::is_pure(op.code) && op.results.size() == 1 && op.blocks.empty();
    if (pure && !needed[op.result()->id] && op.code != ir::Opcode::const_) {
      told[op.result()->id] = uses[op.result()->id] > 0;
      continue;
    }
    for (size_t k = 0; k < ir::first_state(op); ++k) needed[op.operands[k]->id] = true;
  }
}

int Module::ordinal(const ir::Op& check) const {
  auto at = std::lower_bound(checks_.begin(), checks_.end(), std::pair<const ir::Op*, int>(&check, 0));
  return at != checks_.end() && at->first == &check ? at->second : -1;
}

std::string Module::where(const ir::Op& op) const {
  return op.loc ? "line " + std::to_string(graph.locs[op.loc].line) : std::string("loop");
}

}  // namespace appy::cpu
